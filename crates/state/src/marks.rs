//! The mark table: a mark names one direction of one connection.
use std::sync::atomic::{AtomicU64, Ordering};

use conntrack::ConnId;
use flow::Direction;

/// What a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The connection.
    pub conn: ConnId,
    /// The direction of its packets that carry the mark.
    pub direction: Direction,
}

/// Marks of one port, from 0 to the number of rules the NIC can hold. One slot
/// is one atomic word, so a worker sees all of an assignment or nothing.
#[derive(Debug)]
pub struct MarkTable {
    slots: Box<[AtomicU64]>,
}

const USED: u64 = 1 << 63;
const REPLY: u64 = 1 << 62;

impl MarkTable {
    /// A table of `size` unused marks.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self { slots: (0..size).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Number of marks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.slots.len()
    }

    /// What `mark` stands for now; `None` for a mark that is not in use: the
    /// packet is then looked up in software.
    #[inline]
    #[must_use]
    pub fn get(&self, mark: u32) -> Option<Marked> {
        let word = self.slots.get(mark as usize)?.load(Ordering::Acquire);
        if word & USED == 0 {
            return None;
        }
        let direction = if word & REPLY == 0 { Direction::Forward } else { Direction::Reply };
        Some(Marked { conn: ConnId::from_raw(word as u32), direction })
    }

    /// Assigns `mark`, before its rule is created. `false` if there is no such mark.
    pub fn set(&self, mark: u32, to: Marked) -> bool {
        let reply = if to.direction == Direction::Reply { REPLY } else { 0 };
        self.store(mark, USED | reply | u64::from(to.conn.raw()))
    }

    /// Takes `mark` out of use, once its rule is gone.
    pub fn clear(&self, mark: u32) -> bool {
        self.store(mark, 0)
    }

    fn store(&self, mark: u32, word: u64) -> bool {
        let Some(slot) = self.slots.get(mark as usize) else { return false };
        slot.store(word, Ordering::Release);
        true
    }
}
