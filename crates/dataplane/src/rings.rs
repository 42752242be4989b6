//! Reading from the rings between threads.

/// What is in `rings`, at most `most` from each, so that none waits long for
/// another.
pub(crate) fn drain<T>(
    rings: &mut [rtrb::Consumer<T>],
    most: usize,
) -> impl Iterator<Item = T> + '_ {
    rings.iter_mut().flat_map(move |ring| std::iter::from_fn(|| ring.pop().ok()).take(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_ring_waits_for_another_that_is_full() {
        let (mut one, from_one) = rtrb::RingBuffer::new(8);
        let (mut other, from_other) = rtrb::RingBuffer::new(8);
        (0..5).for_each(|n| one.push(n).unwrap());
        (10..12).for_each(|n| other.push(n).unwrap());
        let mut rings = [from_one, from_other];
        assert_eq!(drain(&mut rings, 3).collect::<Vec<_>>(), [0, 1, 2, 10, 11]);
        assert_eq!(drain(&mut rings, 3).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(drain(&mut rings, 3).count(), 0);
    }
}
