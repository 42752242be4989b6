//! Which receive queues are asked in a round.
//!
//! Where a queue stands for a backend (HNLB section III), connections without
//! an entry in the NIC all come in by the default queue, and the others may
//! bring a packet or two each time they are asked. A burst of one costs several
//! times what a packet of a long burst costs. So while there is more to do than
//! can be done, queues that bring little are asked less often and bring more.

/// Rounds for which a queue may rest at a stretch: some 30 us at full load.
const REST: u8 = 7;
/// A queue brings little if it brings less than this part of what it could.
const LITTLE: usize = 8;

/// The queues of one worker, numbered from 0 in the order of a round.
#[derive(Debug)]
pub struct PollSchedule {
    /// For how many rounds each still rests.
    rests: Box<[u8]>,
    /// Whether a poll of this round has brought all that it could.
    full: bool,
    /// The same of the round before: then there is more to do than can be done.
    was_full: bool,
}

impl PollSchedule {
    /// Of `queues` queues.
    #[must_use]
    pub fn new(queues: usize) -> Self {
        Self { rests: vec![0; queues].into_boxed_slice(), full: false, was_full: false }
    }

    /// A round begins.
    #[inline]
    pub fn begin(&mut self) {
        self.was_full = std::mem::take(&mut self.full);
    }

    /// Whether the queue `at` is asked in this round; to be called once a round.
    #[inline]
    pub fn asks(&mut self, at: usize) -> bool {
        match self.rests.get_mut(at) {
            Some(rest) if self.was_full && *rest > 0 => {
                *rest -= 1;
                false
            }
            _ => true,
        }
    }

    /// The queue `at` has been asked and has brought `found` packets of at most
    /// `most`.
    #[inline]
    pub fn polled(&mut self, at: usize, found: usize, most: usize) {
        self.full |= found >= most;
        if let Some(rest) = self.rests.get_mut(at) {
            *rest = if found * LITTLE < most { REST } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 32;

    /// What a poll brings: mostly nothing or all that it can.
    fn found() -> impl Strategy<Value = usize> {
        prop_oneof![4 => Just(0), 4 => Just(MOST), 1 => 0..=MOST, 1 => Just(3), 1 => Just(4)]
    }

    proptest! {
        /// Whatever comes: nobody waits longer than said, nobody waits while
        /// there is time, and who brings much is asked in every round.
        #[test]
        fn who_brings_little_waits_a_while_when_there_is_much(
            rounds in proptest::collection::vec(proptest::array::uniform4(found()), 1..60),
        ) {
            let mut schedule = PollSchedule::new(4);
            let (mut waited, mut last, mut was_full) = ([0; 4], [MOST; 4], false);
            for found in rounds {
                schedule.begin();
                let mut full = false;
                for at in 0..4 {
                    if !schedule.asks(at) {
                        waited[at] += 1;
                        prop_assert!(was_full, "there was time");
                        prop_assert!(last[at] < MOST / 8, "it had brought {}", last[at]);
                        prop_assert!(waited[at] <= 7, "it waited {}", waited[at]);
                        continue;
                    }
                    let idle = last[at] < MOST / 8;
                    prop_assert!(!(was_full && idle && waited[at] < 7), "it need not be asked yet");
                    schedule.polled(at, found[at], MOST);
                    full |= found[at] == MOST;
                    (waited[at], last[at]) = (0, found[at]);
                }
                was_full = full;
            }
        }
    }
}
