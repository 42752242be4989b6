//! Changes that are accepted and take effect later.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What will happen to a rule's filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// It begins to match.
    Activate,
    /// It ceases to match.
    Deactivate,
}

/// Changes in the order of their time.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    changes: BinaryHeap<Reverse<(u64, u64, Change)>>,
}

impl Pending {
    /// `change` of rule `id` is due at `at_ns`.
    pub(crate) fn push(&mut self, at_ns: u64, id: u64, change: Change) {
        self.changes.push(Reverse((at_ns, id, change)));
    }

    /// The next change that is due by `now_ns`.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<(u64, Change)> {
        let Reverse((at, id, change)) = *self.changes.peek()?;
        if at > now_ns {
            return None;
        }
        self.changes.pop();
        Some((id, change))
    }

    /// Forgets all changes.
    pub(crate) fn clear(&mut self) {
        self.changes.clear();
    }
}
