//! What a faulty link does to the frames of one direction; without devices or a clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// How bad a link is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faults {
    /// Of a thousand frames so many get lost, come twice, or come late.
    pub(crate) lost: u32,
    /// See [`Self::lost`].
    pub(crate) repeated: u32,
    /// See [`Self::lost`].
    pub(crate) late: u32,
    /// How long every frame is on its way, and how much longer a late one, in
    /// microseconds. A late one comes behind those that were sent in that time.
    pub(crate) delay_us: u64,
    /// See [`Self::delay_us`].
    pub(crate) late_us: u64,
}

/// What was done to frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Frames that went in.
    pub(crate) sent: u64,
    /// Those that got lost.
    pub(crate) lost: u64,
    /// Those that came twice.
    pub(crate) repeated: u64,
    /// Those that came late.
    pub(crate) late: u64,
}

/// A frame on its way, by the time when it arrives and by its number.
type OnTheWay = Reverse<(u64, u64, Vec<u8>)>;

/// The frames of one direction that are on their way.
pub(crate) struct Queue {
    faults: Faults,
    rng: SmallRng,
    frames: BinaryHeap<OnTheWay>,
    tally: Tally,
}

impl Queue {
    pub(crate) fn new(faults: Faults, seed: u64) -> Self {
        let rng = SmallRng::seed_from_u64(seed);
        Self { faults, rng, frames: BinaryHeap::new(), tally: Tally::default() }
    }

    /// A frame is sent.
    pub(crate) fn take(&mut self, frame: &[u8], now_us: u64) {
        self.tally.sent += 1;
        if self.happens(self.faults.lost) {
            self.tally.lost += 1;
            return;
        }
        let twice = self.happens(self.faults.repeated);
        self.tally.repeated += u64::from(twice);
        for copy in 0..=u64::from(twice) {
            let late = self.happens(self.faults.late);
            self.tally.late += u64::from(late);
            let more = if late { self.faults.late_us } else { 0 };
            let arrives = now_us + self.faults.delay_us + more;
            self.frames.push(Reverse((arrives, 2 * self.tally.sent + copy, frame.to_vec())));
        }
    }

    /// The next frame that has arrived.
    pub(crate) fn due(&mut self, now_us: u64) -> Option<Vec<u8>> {
        let Reverse((at, ..)) = self.frames.peek()?;
        if *at > now_us {
            return None;
        }
        self.frames.pop().map(|Reverse((.., frame))| frame)
    }

    /// When the next frame arrives.
    pub(crate) fn next(&self) -> Option<u64> {
        self.frames.peek().map(|Reverse((at, ..))| *at)
    }

    pub(crate) const fn tally(&self) -> Tally {
        self.tally
    }

    fn happens(&mut self, per_mille: u32) -> bool {
        self.rng.random_ratio(per_mille.min(1000), 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: Faults = Faults { lost: 100, repeated: 50, late: 200, delay_us: 10, late_us: 35 };

    /// One frame every 10 us; the numbers of those that arrive, in their order.
    fn arrived(faults: Faults, seed: u64) -> (Vec<u32>, Tally) {
        let (mut queue, mut found) = (Queue::new(faults, seed), Vec::new());
        for number in 0..10_000_u32 {
            queue.take(&number.to_be_bytes(), u64::from(number) * 10);
            found.extend(std::iter::from_fn(|| queue.due(u64::from(number) * 10)));
        }
        found.extend(std::iter::from_fn(|| queue.due(u64::MAX)));
        let number = |frame: Vec<u8>| u32::from_be_bytes(frame.try_into().unwrap());
        (found.into_iter().map(number).collect(), queue.tally())
    }

    #[test]
    fn every_frame_arrives_unless_it_is_lost() {
        let (found, tally) = arrived(BAD, 7);
        let (mut all, mut twice) = (found.clone(), 0);
        all.sort_unstable();
        twice += all.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
        all.dedup();
        assert_eq!((tally.sent, tally.repeated), (10_000, twice));
        assert_eq!(all.len() as u64, tally.sent - tally.lost);
        assert!(!found.is_sorted(), "late frames come behind others");
        for (count, share) in [(tally.lost, 100), (tally.repeated, 45), (tally.late, 189)] {
            assert!(count.abs_diff(share * 10) < 300, "{tally:?}");
        }
    }

    #[test]
    fn a_seed_says_what_happens_and_a_good_link_does_nothing() {
        assert_eq!(arrived(BAD, 7), arrived(BAD, 7));
        assert_ne!(arrived(BAD, 7).0, arrived(BAD, 8).0);
        let good = Faults { lost: 0, repeated: 0, late: 0, ..BAD };
        assert!(arrived(good, 7).0.iter().copied().eq(0..10_000));
    }
}
