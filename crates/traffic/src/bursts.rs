//! Elephants that send in microbursts and are replaced all at once.
use crate::error::positive;
use crate::{Rng, TrafficError, Uniform};

/// Packets of a burst.
const BURST: u32 = 32;
/// Between two packets of a burst: 700 bytes on a link of 10 Gbit/s.
const SPACING: f64 = 560e-9;
/// How long elephants live, in nanoseconds.
const STEP_NS: u64 = 250_000_000;

/// Times in nanoseconds and flows of one link: a burst comes after a random pause, each
/// of one flow.
#[derive(Debug, Clone)]
pub(crate) struct Bursts {
    /// The first flow, and the flows that all links have together.
    first: u32,
    all: u32,
    flows: Uniform,
    rng: Rng,
    pause: f64,
    now: f64,
    flow: u32,
    left: u32,
}

impl Bursts {
    /// The bursts of link `link`, which has `flows` of `all` flows at a time, at `rate`
    /// packets a second.
    pub(crate) fn new(
        link: u32,
        flows: u32,
        all: u32,
        rate: f64,
        rng: &mut Rng,
    ) -> Result<Self, TrafficError> {
        let pause = f64::from(BURST) / rate - f64::from(BURST - 1) * SPACING;
        positive("pause between bursts", pause)?;
        Ok(Self {
            first: link * flows,
            all,
            flows: Uniform::new(flows, rng.next_u64())?,
            rng: rng.split(),
            pause,
            now: 0.0,
            flow: 0,
            left: 0,
        })
    }
}

impl Iterator for Bursts {
    type Item = (u64, u32);

    fn next(&mut self) -> Option<(u64, u32)> {
        if self.left == 0 {
            self.now += self.rng.exponential(self.pause);
            self.left = BURST;
            let step = ((self.now * 1e9) as u64 / STEP_NS) as u32;
            self.flow = self.flows.next()? + self.first + step.wrapping_mul(self.all);
        } else {
            self.now += SPACING;
        }
        self.left -= 1;
        Some(((self.now * 1e9) as u64, self.flow))
    }
}
