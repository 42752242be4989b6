//! Memory for headers: a bounded number of blocks of two sizes, made once.
//!
//! Most headers are short, and so is what a slow client has sent of one: thousands of them
//! leave the large blocks to others.

/// Bytes of a large block. It takes the first flight of a client, ten segments of 1,460
/// bytes (RFC 6928), and what the agent adds to a header.
pub(crate) const BLOCK: usize = 16 * 1024;

/// Bytes of a small block.
pub(crate) const SMALL: usize = 512;

/// Bytes of a client's that the agent takes into a block before a backend has
/// acknowledged any.
pub(crate) const FIRST_FLIGHT: usize = 14_600;

/// A piece of memory of the pool's.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    is_large: bool,
}

impl Block {
    fn new(is_large: bool) -> Self {
        let room = if is_large { BLOCK } else { SMALL };
        Self { bytes: Vec::with_capacity(room), is_large }
    }

    pub(crate) const fn is_large(&self) -> bool {
        self.is_large
    }

    const fn room(&self) -> usize {
        if self.is_large { BLOCK } else { SMALL }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends as much of `bytes` as keeps it within `limit`, and says how much.
    pub(crate) fn take(&mut self, bytes: &[u8], limit: usize) -> usize {
        let room = limit.min(self.room()).saturating_sub(self.len());
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        self.bytes.extend_from_slice(taken);
        taken.len()
    }

    /// Removes the first `n` bytes.
    pub(crate) fn cut_front(&mut self, n: usize) {
        self.bytes.drain(..n.min(self.len()));
    }

    /// Leaves the first `n` bytes.
    pub(crate) fn shorten(&mut self, n: usize) {
        self.bytes.truncate(n);
    }

    /// Appends all of `bytes`. `None`: there is no room.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<()> {
        (self.take(bytes, BLOCK) == bytes.len()).then_some(())
    }
}

/// The blocks that nobody has.
#[derive(Debug)]
pub(crate) struct Blocks {
    large: Vec<Block>,
    small: Vec<Block>,
    /// How many there are of each.
    total: [usize; 2],
}

impl Blocks {
    /// So many large and so many small ones.
    pub(crate) fn new(large: usize, small: usize) -> Self {
        let of = |count, is_large| (0..count).map(|_| Block::new(is_large)).collect();
        Self { large: of(large, true), small: of(small, false), total: [large, small] }
    }

    /// An empty block for anything.
    pub(crate) fn get(&mut self) -> Option<Block> {
        self.large.pop()
    }

    /// An empty block for `length` bytes, of the small ones if they do.
    pub(crate) fn get_for(&mut self, length: usize) -> Option<Block> {
        let small = if length <= SMALL { self.small.pop() } else { None };
        small.or_else(|| self.get())
    }

    /// Takes a block back.
    pub(crate) fn put(&mut self, mut block: Block) {
        block.bytes.clear();
        if block.is_large { self.large.push(block) } else { self.small.push(block) }
    }

    /// The same bytes in a small block, if that is enough for them.
    pub(crate) fn shrink(&mut self, block: Block) -> Block {
        if !block.is_large || block.len() > SMALL {
            return block;
        }
        let Some(mut small) = self.small.pop() else { return block };
        small.bytes.extend_from_slice(&block.bytes);
        self.put(block);
        small
    }

    /// The same bytes in a large block. `None`: there is none, and the bytes are where
    /// they were.
    pub(crate) fn grow(&mut self, block: &mut Block) -> Option<()> {
        if block.is_large {
            return Some(());
        }
        let mut large = self.get()?;
        large.bytes.extend_from_slice(&block.bytes);
        self.put(std::mem::replace(block, large));
        Some(())
    }

    /// Large blocks that nobody has.
    pub(crate) fn free(&self) -> usize {
        self.large.len()
    }

    /// Large and small blocks in use.
    pub(crate) fn used(&self) -> [usize; 2] {
        let [large, small] = self.total;
        [large - self.large.len(), small - self.small.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_move_between_sizes_and_no_block_gets_lost() {
        let mut blocks = Blocks::new(1, 1);
        let mut block = blocks.get_for(3).unwrap();
        assert_eq!((block.take(b"abc", BLOCK), blocks.used()), (3, [0, 1]));
        blocks.grow(&mut block).unwrap();
        block.push(&[b'd'; SMALL]).unwrap();
        assert_eq!((block.len(), blocks.used()), (3 + SMALL, [1, 0]));
        let mut block = blocks.shrink(block);
        assert!(block.is_large());
        block.shorten(3);
        let mut block = blocks.shrink(block);
        assert_eq!((block.bytes(), blocks.used()), (&b"abc"[..], [0, 1]));
        assert_eq!(block.take(&[b'e'; SMALL], BLOCK), SMALL - 3);
        // Without a small block a large one is as good.
        let other = blocks.get_for(3).unwrap();
        assert!(other.is_large() && blocks.grow(&mut block).is_none());
        blocks.put(other);
        blocks.put(block);
        assert_eq!(blocks.used(), [0, 0]);
    }
}
