//! Those that wait for a rule of one port, first come first served.
use std::collections::VecDeque;

use super::Owner;
use crate::connection::LineEnd;

/// The line is tidied up no more often.
const TIDY_MS: u64 = 1_000;

/// A port's line. An item counts only if its connection says that it is waiting
/// there: to leave the line, one needn't be found in it.
#[derive(Debug, Default)]
pub(super) struct Line {
    owners: VecDeque<Owner>,
    tidied_ms: u64,
}

impl Line {
    /// Items, those included that have left.
    pub(super) fn len(&self) -> usize {
        self.owners.len()
    }

    /// Puts `owner` in line.
    pub(super) fn push(&mut self, owner: Owner, end: LineEnd) {
        match end {
            LineEnd::Front => self.owners.push_front(owner),
            LineEnd::Back => self.owners.push_back(owner),
        }
    }

    /// Takes the first out of the line.
    pub(super) fn pop(&mut self) -> Option<Owner> {
        self.owners.pop_front()
    }

    /// Removes those that have left, at most once a second: it looks at all.
    pub(super) fn tidy(&mut self, waits: impl Fn(Owner) -> bool, now_ms: u64) {
        if now_ms >= self.tidied_ms.saturating_add(TIDY_MS) {
            self.tidied_ms = now_ms;
            self.owners.retain(|owner| waits(*owner));
        }
    }
}
