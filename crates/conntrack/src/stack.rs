//! Records that are not in use: a stack of numbers, linked through the records.
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The end of a list.
pub(crate) const NIL: u32 = u32::MAX;

/// A lock-free stack. The upper half of its word counts what was taken off, so that
/// a pop that was overtaken by a pop and a push of the same number notices (ABA).
#[derive(Debug)]
pub(crate) struct Stack {
    head: AtomicU64,
}

/// A list of records taken off a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// The word after `before` when something is taken off.
const fn word(before: u64, first: u32) -> u64 {
    ((before >> 32) + 1) << 32 | first as u64
}

impl Stack {
    pub(crate) fn new() -> Self {
        Self { head: AtomicU64::new(u64::from(NIL)) }
    }

    /// Puts a chain on top. `link` gives a record's link.
    #[inline]
    pub(crate) fn push<'a>(&self, chain: Chain, link: impl Fn(u32) -> Option<&'a AtomicU32>) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if let Some(next) = link(chain.last) {
                next.store(head as u32, Ordering::Relaxed);
            }
            let new = head >> 32 << 32 | u64::from(chain.first);
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// How many pops took a record, modulo 2^32, if [`Self::take`] was not called.
    pub(crate) fn pops(&self) -> u32 {
        (self.head.load(Ordering::Relaxed) >> 32) as u32
    }

    /// The record that the next pop most likely takes.
    #[inline]
    pub(crate) fn top(&self) -> Option<u32> {
        let top = self.head.load(Ordering::Relaxed) as u32;
        (top != NIL).then_some(top)
    }

    /// Takes the top record.
    #[inline]
    pub(crate) fn pop<'a>(&self, link: impl Fn(u32) -> Option<&'a AtomicU32>) -> Option<u32> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let next = link(head as u32)?.load(Ordering::Relaxed);
            let new = word(head, next);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(head as u32),
                Err(now) => head = now,
            }
        }
    }

    /// Takes everything; the top record, or [`NIL`].
    pub(crate) fn take(&self) -> u32 {
        let mut head = self.head.load(Ordering::Acquire);
        while head as u32 != NIL {
            let new = word(head, NIL);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return head as u32,
                Err(now) => head = now,
            }
        }
        NIL
    }
}
