//! Which marks of a port are free, in use, or still in quarantine.
use std::collections::VecDeque;

/// Marks are Flow Director soft ids, which are 16 bits wide.
const MARKS_OF_SOFT_ID: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    InUse,
    Quarantined,
}

/// The marks of one port. Mark 0 is never given out: it is what a card reports
/// that has nothing to report. A mark whose rule is gone is quarantined until
/// no packet can still carry it; then it may be given out again, and those
/// that have been free for longest go first.
#[derive(Debug)]
pub(super) struct Marks {
    states: Vec<State>,
    free: VecDeque<u32>,
    quarantined: usize,
}

impl Marks {
    /// The marks below `size`, of which a soft id can hold the first 65,536.
    #[must_use]
    pub(super) fn new(size: usize) -> Self {
        let size = size.min(MARKS_OF_SOFT_ID);
        let free = (1..size as u32).collect();
        Self { states: vec![State::Free; size], free, quarantined: 0 }
    }

    /// Takes a free mark; `None` if all are in use or quarantined.
    pub(super) fn take(&mut self) -> Option<u32> {
        let mark = self.free.pop_front()?;
        self.change(mark, State::Free, State::InUse);
        Some(mark)
    }

    /// The rule of `mark` is gone, packets that carry it may not be. `false`
    /// if the mark was not in use.
    pub(super) fn quarantine(&mut self, mark: u32) -> bool {
        let changed = self.change(mark, State::InUse, State::Quarantined);
        self.quarantined += usize::from(changed);
        changed
    }

    /// No packet carries `mark` any more. `false` if it was not quarantined.
    pub(super) fn release(&mut self, mark: u32) -> bool {
        let changed = self.change(mark, State::Quarantined, State::Free);
        if changed {
            self.quarantined -= 1;
            self.free.push_back(mark);
        }
        changed
    }

    /// The rule of `mark` was never installed, so no packet ever carried it.
    /// `false` if it was not in use.
    pub(super) fn give_back(&mut self, mark: u32) -> bool {
        let changed = self.change(mark, State::InUse, State::Free);
        if changed {
            self.free.push_front(mark);
        }
        changed
    }

    /// Marks whose rule is gone but which a packet may still carry.
    #[must_use]
    pub(super) fn quarantined(&self) -> usize {
        self.quarantined
    }

    /// Marks that there are.
    #[must_use]
    pub(super) fn size(&self) -> usize {
        self.states.len().saturating_sub(1)
    }

    /// Marks of rules.
    #[must_use]
    pub(super) fn in_use(&self) -> usize {
        self.states.len().saturating_sub(1) - self.free.len() - self.quarantined
    }

    fn change(&mut self, mark: u32, from: State, to: State) -> bool {
        match self.states.get_mut(mark as usize) {
            Some(state) if *state == from && mark != 0 => {
                *state = to;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mark_zero_and_marks_beyond_a_soft_id_are_never_given_out() {
        let mut marks = Marks::new(1 << 20);
        let taken: BTreeSet<u32> = std::iter::from_fn(|| marks.take()).collect();
        assert_eq!(taken.len(), 65_535);
        assert_eq!((taken.first(), taken.last()), (Some(&1), Some(&65_535)));
        assert!(Marks::new(0).take().is_none() && Marks::new(1).take().is_none());
    }

    #[test]
    fn a_quarantined_mark_is_not_given_out_and_is_released_once() {
        let mut marks = Marks::new(2);
        let mark = marks.take().unwrap();
        assert!(!marks.release(mark), "a mark in use can't be released");
        assert!(marks.quarantine(mark) && !marks.quarantine(mark));
        assert!(marks.take().is_none());
        assert!(marks.release(mark) && !marks.release(mark));
        assert_eq!(marks.take(), Some(mark));
    }

    proptest! {
        #[test]
        fn every_mark_is_in_exactly_one_state(steps in prop::collection::vec((0u8..4, 0u32..20), 1..200)) {
            let mut marks = Marks::new(16);
            let (mut used, mut quarantined) = (BTreeSet::new(), BTreeSet::new());
            for (step, mark) in steps {
                match step {
                    0 => match marks.take() {
                        Some(mark) => {
                            prop_assert!((1..16).contains(&mark) && !quarantined.contains(&mark));
                            prop_assert!(used.insert(mark));
                        }
                        None => prop_assert_eq!(used.len() + quarantined.len(), 15),
                    },
                    1 => {
                        let was = used.remove(&mark);
                        prop_assert_eq!(marks.quarantine(mark), was);
                        if was { quarantined.insert(mark); }
                    }
                    2 => prop_assert_eq!(marks.release(mark), quarantined.remove(&mark)),
                    _ => prop_assert_eq!(marks.give_back(mark), used.remove(&mark)),
                }
                prop_assert_eq!(marks.in_use(), used.len());
                prop_assert_eq!(marks.quarantined(), quarantined.len());
                prop_assert_eq!(marks.free.len(), 15 - used.len() - quarantined.len());
            }
        }
    }
}
