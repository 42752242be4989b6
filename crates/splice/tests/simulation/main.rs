//! TCP end points that are not ours (smoltcp) speak HTTP through the agent, over links
//! that lose, repeat, delay and reorder: streams arrive as they were sent.
#![allow(clippy::unwrap_used, reason = "tests may")]
mod host;
mod link;
mod talk;
mod world;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::link::Faults;
use crate::talk::Talk;
use crate::world::{Network, Options};

/// Runs of each test.
const SEEDS: u64 = 300;

/// Runs one seed; what went wrong, if anything.
fn run(seed: u64) -> Result<(), String> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let faults = Faults {
        lost: rng.random_range(0..120),
        repeated: rng.random_range(0..60),
        delay_ms: rng.random_range(0..40),
    };
    let talk = Talk::random(&mut rng);
    let options = Options {
        cookies_alone: rng.random_bool(0.3),
        refusing: rng.random_bool(0.2),
        mss: if rng.random_bool(0.2) { 600 } else { 1460 },
        isn: rng.random(),
    };
    Network::new(seed, faults, options, talk).run().map_err(|why| format!("seed {seed}: {why}"))
}

#[test]
fn streams_arrive_as_they_were_sent_whatever_the_link_does() {
    let wrong: Vec<String> = (0..SEEDS).filter_map(|seed| run(seed).err()).collect();
    assert!(wrong.is_empty(), "{} of {SEEDS}: {:#?}", wrong.len(), &wrong[..wrong.len().min(8)]);
}
