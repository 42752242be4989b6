//! Memory for request headers: a bounded number of blocks, made once.

/// Bytes of a block. It takes the first flight of a client, ten segments of 1,460
/// bytes (RFC 6928), and what the agent adds to a header.
pub(crate) const BLOCK: usize = 16 * 1024;

/// Bytes of a client's that the agent takes into a block before a backend has
/// acknowledged any.
pub(crate) const FIRST_FLIGHT: usize = 14_600;

/// A piece of memory of the pool's.
#[derive(Debug)]
pub(crate) struct Block(Vec<u8>);

impl Block {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Appends as much of `bytes` as keeps it within `limit`, and says how much.
    pub(crate) fn take(&mut self, bytes: &[u8], limit: usize) -> usize {
        let room = limit.min(BLOCK).saturating_sub(self.0.len());
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        self.0.extend_from_slice(taken);
        taken.len()
    }

    /// Removes the first `n` bytes.
    pub(crate) fn cut_front(&mut self, n: usize) {
        self.0.drain(..n.min(self.0.len()));
    }

    /// Leaves the first `n` bytes.
    pub(crate) fn shorten(&mut self, n: usize) {
        self.0.truncate(n);
    }

    /// Appends all of `bytes`. `None`: there is no room.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<()> {
        (self.take(bytes, BLOCK) == bytes.len()).then_some(())
    }
}

/// The blocks that nobody has.
#[derive(Debug)]
pub(crate) struct Blocks {
    free: Vec<Block>,
    total: usize,
}

impl Blocks {
    pub(crate) fn new(count: usize) -> Self {
        let free = (0..count).map(|_| Block(Vec::with_capacity(BLOCK))).collect();
        Self { free, total: count }
    }

    /// An empty block.
    pub(crate) fn get(&mut self) -> Option<Block> {
        self.free.pop()
    }

    /// Takes a block back.
    pub(crate) fn put(&mut self, mut block: Block) {
        block.0.clear();
        self.free.push(block);
    }

    /// Blocks in use.
    pub(crate) fn used(&self) -> usize {
        self.total - self.free.len()
    }
}
