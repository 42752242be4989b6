//! The clocks of backends as their clients see them, so that a SYN-ACK of the agent's can
//! carry a number that the backend's clock goes on from, and need not be translated.
//!
//! Linux adds to its clock a number that depends on both addresses (`net.ipv4.tcp_timestamps`
//! 1), or none (2). In both cases a client finds a backend's clock where its last connection
//! has left it, and further on. The agent does not know the backend when it answers the SYN,
//! so it keeps for each client and service the number that is behind all of the backends'.
//! Clients take any number that is ahead (RFC 7323, section 5.3).
use std::net::IpAddr;

use flow::ServiceId;
use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use std::hash::BuildHasher;

use crate::edits::before;

/// Clients that are remembered; one takes the place of another.
const PLACES: usize = 4096;

/// How far a backend's clock may be ahead of what the client was told.
const AHEAD: u32 = 1 << 30;

/// So long a clock is remembered: one that ticks every millisecond is not too far ahead then.
const KNOWN_MS: u64 = 5 * 24 * 3_600_000;

#[derive(Clone, Copy, Debug)]
struct Known {
    client: IpAddr,
    service: ServiceId,
    value: u32,
    since_ms: u64,
}

/// What is remembered of clocks.
#[derive(Debug)]
pub(crate) struct KnownClocks {
    places: Box<[Option<Known>]>,
    hash: SeedableRandomState,
}

impl KnownClocks {
    /// Nothing. `seed` keys its hash.
    pub(crate) fn new(seed: u64) -> Self {
        let hash = SeedableRandomState::with_seed(seed, SharedSeed::global_random());
        Self { places: vec![None; PLACES].into(), hash }
    }

    /// A number behind the clocks of the service's backends as `client` sees them.
    pub(crate) fn behind(&self, client: IpAddr, service: ServiceId, now_ms: u64) -> Option<u32> {
        let known = (*self.places.get(self.place(client, service))?)?;
        let is_own = (known.client, known.service) == (client, service);
        (is_own && now_ms < known.since_ms.saturating_add(KNOWN_MS)).then_some(known.value)
    }

    /// A backend of the service has told `client` that its clock is at `value`.
    pub(crate) fn see(&mut self, client: IpAddr, service: ServiceId, value: u32, now_ms: u64) {
        let old = self.behind(client, service, now_ms);
        if old.is_some_and(|old| is_ahead(value, old)) {
            return;
        }
        let place = self.place(client, service);
        if let Some(place) = self.places.get_mut(place) {
            *place = Some(Known { client, service, value, since_ms: now_ms });
        }
    }

    fn place(&self, client: IpAddr, service: ServiceId) -> usize {
        self.hash.hash_one((client, service)) as usize % PLACES
    }
}

/// Whether a clock at `value` is ahead of `old`, and not too far.
pub(crate) const fn is_ahead(value: u32, old: u32) -> bool {
    !before(value, old) && value.wrapping_sub(old) < AHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_all_backends_is_remembered_for_some_days() {
        let mut clocks = KnownClocks::new(1);
        let [client, other] = ["10.0.0.1", "10.0.0.2"].map(|own| own.parse().unwrap());
        let service = ServiceId(3);
        assert_eq!(clocks.behind(client, service, 0), None);
        clocks.see(client, service, 5_000, 10);
        clocks.see(client, service, 9_000, 20);
        assert_eq!(clocks.behind(client, service, 30), Some(5_000));
        clocks.see(client, service, u32::MAX, 40);
        assert_eq!(clocks.behind(client, service, 50), Some(u32::MAX));
        assert_eq!(clocks.behind(client, ServiceId(4), 50), None);
        assert_eq!(clocks.behind(other, service, 50), None);
        assert_eq!(clocks.behind(client, service, 40 + KNOWN_MS), None);
        // A backend that was started anew is elsewhere.
        clocks.see(client, service, 2 * AHEAD, 60);
        assert_eq!(clocks.behind(client, service, 60), Some(2 * AHEAD));
    }
}
