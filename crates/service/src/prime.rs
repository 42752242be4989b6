//! Primality, for the sizes of Maglev tables.

/// Whether `number` is a prime; by trial division, so for small numbers.
pub(crate) fn is_prime(number: u32) -> bool {
    if number < 4 {
        return number >= 2;
    }
    if number % 2 == 0 {
        return false;
    }
    (3..)
        .step_by(2)
        .take_while(|d| u64::from(*d) * u64::from(*d) <= u64::from(number))
        .all(|d: u32| number % d != 0)
}

/// The smallest prime that is at least `number`, if there is one of 32 bits.
pub(crate) fn next_prime(number: u32) -> Option<u32> {
    (number..=u32::MAX).find(|n| is_prime(*n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_those_of_the_sieve() {
        let mut sieve = vec![true; 5000];
        sieve[0] = false;
        sieve[1] = false;
        for n in 2..sieve.len() {
            if sieve[n] {
                (2 * n..sieve.len()).step_by(n).for_each(|m| sieve[m] = false);
            }
        }
        for (number, expected) in sieve.iter().enumerate() {
            assert_eq!(is_prime(number as u32), *expected, "{number}");
        }
        assert!(is_prime(65537) && is_prime(4_294_967_291) && !is_prime(u32::MAX));
        assert_eq!(next_prime(65536), Some(65537));
        assert_eq!(next_prime(4_294_967_292), None);
    }
}
