use crate::PacketBuf;

/// Bytes in front of a new frame, as DPDK's default headroom.
const HEADROOM: usize = 128;

/// A frame in ordinary memory.
#[derive(Clone, Debug)]
pub struct HeapPacket {
    memory: Vec<u8>,
    start: usize,
    mark: u32,
    /// [`MARKED`] and [`VERIFIED`], in one word: the benchmark that counts
    /// instructions counts the moves of every field.
    said: u32,
}

/// What the NIC has said of a packet: the mark is one.
const MARKED: u32 = 1;
/// The IPv4 header checksum is right.
const VERIFIED: u32 = 2;

impl HeapPacket {
    /// A copy of `frame`, without a mark.
    #[must_use]
    pub fn new(frame: &[u8]) -> Self {
        let mut memory = vec![0; HEADROOM + frame.len()];
        memory[HEADROOM..].copy_from_slice(frame);
        Self { memory, start: HEADROOM, mark: 0, said: 0 }
    }

    /// The same frame with the mark of a matched rule.
    #[must_use]
    pub fn with_mark(mut self, mark: Option<u32>) -> Self {
        self.said = self.said & !MARKED | if mark.is_some() { MARKED } else { 0 };
        self.mark = mark.unwrap_or(0);
        self
    }

    /// The same frame as from a NIC that has found the IPv4 header checksum right.
    #[must_use]
    pub fn verified(mut self) -> Self {
        self.said |= VERIFIED;
        self
    }
}

impl PacketBuf for HeapPacket {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }

    #[inline]
    fn mark(&self) -> Option<u32> {
        (self.said & MARKED != 0).then_some(self.mark)
    }

    #[inline]
    fn has_verified_header(&self) -> bool {
        self.said & VERIFIED != 0
    }

    #[inline]
    fn prepend(&mut self, n: usize) -> bool {
        if n > self.start {
            return false;
        }
        self.start -= n;
        true
    }

    #[inline]
    fn cut_front(&mut self, n: usize) -> bool {
        if n > self.bytes().len() {
            return false;
        }
        self.start += n;
        true
    }

    #[inline]
    fn resize(&mut self, len: usize) -> bool {
        self.memory.resize(self.start + len, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_shrinks_at_both_ends() {
        let mut packet = HeapPacket::new(&[1, 2, 3]);
        assert!(packet.prepend(2));
        packet.bytes_mut()[..2].copy_from_slice(&[8, 9]);
        assert_eq!(packet.bytes(), [8, 9, 1, 2, 3]);
        assert!(packet.cut_front(3));
        assert_eq!(packet.bytes(), [2, 3]);
        assert!(packet.resize(1));
        assert_eq!(packet.bytes(), [2]);
        assert!(!packet.cut_front(2));
        assert!(!packet.prepend(HEADROOM + 10));
    }
}
