//! A link that loses, repeats, delays and reorders packets.
use std::collections::BTreeMap;

use rand::Rng;
use rand::rngs::SmallRng;

/// How often of a thousand times something happens to a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) lost: u32,
    pub(crate) repeated: u32,
    /// A packet's delay is random up to this: so they overtake each other.
    pub(crate) delay_ms: u64,
}

/// One direction of a link.
#[derive(Default)]
pub(crate) struct Link {
    under_way: BTreeMap<(u64, u64), Vec<u8>>,
    count: u64,
}

impl Link {
    pub(crate) fn send(&mut self, packet: Vec<u8>, now: u64, faults: &Faults, rng: &mut SmallRng) {
        if rng.random_range(0..1000) < faults.lost {
            return;
        }
        let copies = 1 + u32::from(rng.random_range(0..1000) < faults.repeated);
        for _ in 0..copies {
            self.count += 1;
            let at = now + 1 + rng.random_range(0..=faults.delay_ms);
            self.under_way.insert((at, self.count), packet.clone());
        }
    }

    pub(crate) fn arrived(&mut self, now: u64) -> Option<Vec<u8>> {
        let first = self.under_way.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }
}
