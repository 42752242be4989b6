//! Which connections are in a table.
use traffic::Rng;

use super::subject::{BLOCK, Subject};

/// Parts with numbers of their own, one per thread that changes the table.
const PARTS: usize = 4;
/// The bits that say the part.
const SHIFT: u32 = 28;

/// The connections of one part: the numbers from `first` to before `end`.
/// New ones come at the end, old ones go from the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    first: u32,
    end: u32,
}

impl Part {
    /// The next `count` numbers, now in.
    pub(super) fn grow(&mut self, count: u32) -> std::ops::Range<u32> {
        let start = self.end;
        self.end += count;
        start..self.end
    }

    /// The oldest `count` numbers, now out.
    pub(super) fn shrink(&mut self, count: u32) -> std::ops::Range<u32> {
        let start = self.first;
        self.first += count.min(self.end - self.first);
        start..self.first
    }

    fn len(self) -> u32 {
        self.end - self.first
    }
}

/// The connections in a table, in parts of about the same size.
#[derive(Clone, Debug)]
pub(super) struct Population {
    pub(super) parts: Vec<Part>,
}

impl Population {
    pub(super) fn new(threads: usize) -> Self {
        let part = |n| {
            let start = (n as u32) << SHIFT;
            Part { first: start, end: start }
        };
        Self { parts: (0..threads.clamp(1, PARTS)).map(part).collect() }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> u32 {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Inserts or removes until `subject` has `wanted`; how many were refused.
    pub(super) fn reach(&mut self, subject: &dyn Subject, wanted: u32) -> u64 {
        let (parts, mut refused) = (self.parts.len() as u32, 0);
        for (part, at) in self.parts.iter_mut().zip(0..) {
            let share = wanted / parts + u32::from(at < wanted % parts);
            let more: Vec<u32> = part.grow(share.saturating_sub(part.len())).collect();
            for block in more.chunks(BLOCK) {
                refused += u64::from(subject.insert(block, true).failed);
            }
            let less: Vec<u32> = part.shrink(part.len().saturating_sub(share)).collect();
            subject.remove(&less);
        }
        subject.settle();
        refused
    }

    /// Any connection of `parts`.
    pub(super) fn any(parts: &[Part], draw: &mut Rng) -> u32 {
        let at = draw.below(parts.len() as u64) as usize;
        let part = parts.get(at).copied().unwrap_or_default();
        part.first + draw.below(part.len().into()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::super::hnlb::Hnlb;
    use super::*;

    #[test]
    fn what_is_said_to_be_in_the_table_is() {
        let subject = Hnlb::new(1000).unwrap();
        let mut population = Population::new(2);
        for wanted in [500, 905, 3, 1000] {
            assert_eq!(population.reach(&subject, wanted), 0);
            assert_eq!(population.len(), wanted);
            let mut draw = Rng::new(7);
            for _ in 0..50 {
                let block: Vec<u32> =
                    (0..64).map(|_| Population::any(&population.parts, &mut draw)).collect();
                assert_eq!(subject.lookup(&block).failed, 0);
                assert_eq!(subject.lookup_bulk(&block).failed, 0);
            }
        }
        assert_eq!(subject.lookup(&[u32::MAX >> 4]).failed, 1, "a number that isn't in");
    }
}
