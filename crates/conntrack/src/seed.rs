//! From the table's seed to the hash keys.

/// A stream of random words drawn from a 32-byte seed: the ChaCha20 key stream
/// (RFC 8439 section 2.3) with the number of the stream as its nonce.
pub(crate) struct KeyStream {
    initial: [u32; 16],
    block: [u32; 16],
    used: usize,
}

impl KeyStream {
    /// The stream number `stream` of `seed`, from its block number `first`.
    pub(crate) fn new(seed: &[u8; 32], stream: [u32; 3], first: u32) -> Self {
        let mut initial = [0; 16];
        initial[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
        for (word, bytes) in initial[4..12].iter_mut().zip(seed.chunks_exact(4)) {
            let mut le = [0; 4];
            le.copy_from_slice(bytes);
            *word = u32::from_le_bytes(le);
        }
        initial[12] = first;
        initial[13..].copy_from_slice(&stream);
        Self { initial, block: [0; 16], used: 16 }
    }

    fn word(&mut self) -> u32 {
        if self.used >= self.block.len() {
            self.block = chacha20(&self.initial);
            self.initial[12] = self.initial[12].wrapping_add(1);
            self.used = 0;
        }
        let word = self.block.get(self.used).copied().unwrap_or_default();
        self.used += 1;
        word
    }
}

impl Iterator for KeyStream {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let low = u64::from(self.word());
        Some(low | u64::from(self.word()) << 32)
    }
}

fn chacha20(initial: &[u32; 16]) -> [u32; 16] {
    let mut state = *initial;
    for _ in 0..10 {
        quarter(&mut state, [0, 4, 8, 12]);
        quarter(&mut state, [1, 5, 9, 13]);
        quarter(&mut state, [2, 6, 10, 14]);
        quarter(&mut state, [3, 7, 11, 15]);
        quarter(&mut state, [0, 5, 10, 15]);
        quarter(&mut state, [1, 6, 11, 12]);
        quarter(&mut state, [2, 7, 8, 13]);
        quarter(&mut state, [3, 4, 9, 14]);
    }
    for (word, start) in state.iter_mut().zip(initial) {
        *word = word.wrapping_add(*start);
    }
    state
}

fn quarter(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    let mut step = |x: usize, y: usize, z: usize, turn: u32| {
        state[x] = state[x].wrapping_add(state[y]);
        state[z] = (state[z] ^ state[x]).rotate_left(turn);
    };
    step(a, b, d, 16);
    step(c, d, b, 12);
    step(a, b, d, 8);
    step(c, d, b, 7);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// RFC 8439 section 2.3.2.
    #[test]
    fn the_block_function_is_chacha20() {
        let mut seed = [0; 32];
        seed.iter_mut().zip(0..).for_each(|(byte, i)| *byte = i);
        let mut stream = KeyStream::new(&seed, [0x0900_0000, 0x4a00_0000, 0], 1);
        assert_eq!(stream.next(), Some(0x1559_3bd1_e4e7_f110));
        assert_eq!(stream.nth(6), Some(0x4e3c_50a2_e883_d0cb));
    }
}
