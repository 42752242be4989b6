//! Numbers of 16 bits that are lent: given back, a number is given out again
//! under another generation.
use std::collections::VecDeque;

/// The numbers below 65,535. The lowest that was never lent is lent first unless
/// one has been given back; of those the one that was given back first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    /// By number: how often it has been lent.
    generations: Vec<u32>,
    /// Those that were given back, the earliest first.
    free: VecDeque<u16>,
}

impl Slots {
    /// A number that is not lent, and its generation; `None` if all are lent.
    pub(crate) fn take(&mut self) -> Option<(u16, u32)> {
        let number = match self.free.pop_front() {
            Some(number) => number,
            None => {
                let next = u16::try_from(self.generations.len()).ok();
                let next = next.filter(|next| *next < u16::MAX)?;
                self.generations.push(0);
                next
            }
        };
        let generation = self.generations.get_mut(usize::from(number))?;
        *generation = generation.wrapping_add(1);
        Some((number, *generation))
    }

    /// `number` may be lent again. Nothing happens if it isn't lent.
    pub(crate) fn give_back(&mut self, number: u16) {
        if usize::from(number) < self.generations.len() && !self.free.contains(&number) {
            self.free.push_back(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_again_only_after_it_was_given_back() {
        let mut slots = Slots::default();
        assert_eq!(
            [slots.take(), slots.take(), slots.take()],
            [Some((0, 1)), Some((1, 1)), Some((2, 1))]
        );
        slots.give_back(1);
        slots.give_back(1);
        slots.give_back(0);
        slots.give_back(9);
        assert_eq!(
            [slots.take(), slots.take(), slots.take()],
            [Some((1, 2)), Some((0, 2)), Some((3, 1))]
        );
    }

    #[test]
    fn numbers_run_out() {
        let mut slots = Slots::default();
        let all: Vec<u16> = std::iter::from_fn(|| slots.take()).map(|(number, _)| number).collect();
        assert!(all.iter().copied().eq(0..u16::MAX));
        slots.give_back(77);
        assert_eq!((slots.take(), slots.take()), (Some((77, 2)), None));
    }
}
