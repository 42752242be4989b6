//! The directions that wait for a rule of one port, first come first served.
use std::collections::VecDeque;

use super::Owner;
use crate::connection::LineEnd;

/// Items that one call of [`Line::tidy`] looks at. Each call comes with one
/// item that may be added, so that items that have left are never many.
const TIDIED: usize = 4;

/// A port's line. An item counts only if its connection says that it is waiting
/// there: to leave the line, one needn't be found in it.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The first in line, seen to wait when they were last looked at.
    seen: VecDeque<Owner>,
    /// Those behind them.
    owners: VecDeque<Owner>,
}

impl Line {
    /// Items, those included that have left.
    pub(super) fn len(&self) -> usize {
        self.seen.len() + self.owners.len()
    }

    /// Puts `owner` in line.
    pub(super) fn push(&mut self, owner: Owner, end: LineEnd) {
        match end {
            LineEnd::Front => self.seen.push_front(owner),
            LineEnd::Back => self.owners.push_back(owner),
        }
    }

    /// Takes the first out of the line.
    pub(super) fn pop(&mut self) -> Option<Owner> {
        self.seen.pop_front().or_else(|| self.owners.pop_front())
    }

    /// Looks at a few items, by turns, and removes those that have left.
    pub(super) fn tidy(&mut self, waits: impl Fn(Owner) -> bool) {
        if self.owners.is_empty() {
            std::mem::swap(&mut self.seen, &mut self.owners);
        }
        let some = self.owners.len().min(TIDIED);
        self.seen.extend(self.owners.drain(..some).filter(|owner| waits(*owner)));
    }
}

#[cfg(test)]
mod tests {
    use conntrack::ConnId;
    use flow::Direction;
    use proptest::prelude::*;

    use super::*;

    fn owner(number: u32) -> Owner {
        (ConnId::from_raw(number), Direction::Forward)
    }

    proptest! {
        #[test]
        fn tidying_changes_neither_the_order_nor_who_waits(
            steps in prop::collection::vec((0u8..4, 0usize..32), 0..300),
        ) {
            let mut line = Line::default();
            // The waiting directions, first to last; a direction that is not among
            // them has left.
            let (mut model, mut next) = (VecDeque::new(), 0);
            for (step, at) in steps {
                match step {
                    0 => {
                        next += 1;
                        line.push(owner(next), LineEnd::Back);
                        model.push_back(owner(next));
                    }
                    1 if !model.is_empty() => drop(model.remove(at % model.len())),
                    2 => line.tidy(|owner| model.contains(&owner)),
                    _ => {
                        let first = std::iter::from_fn(|| line.pop()).find(|o| model.contains(o));
                        prop_assert_eq!(first, model.pop_front());
                        if let (Some(first), true) = (first, at % 2 == 0) {
                            line.push(first, LineEnd::Front);
                            model.push_front(first);
                        }
                    }
                }
            }
            (0..=line.len()).for_each(|_| line.tidy(|owner| model.contains(&owner)));
            prop_assert_eq!(line.len(), model.len());
        }
    }
}
