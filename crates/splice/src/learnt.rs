//! What the agent promises clients before it knows their backend: what the service's
//! backends have granted so far (message M1).
use std::collections::HashMap;

use flow::ServiceId;

use crate::options::Offer;

/// The scale that is granted before any backend has been seen, and with cookies.
pub(crate) const SCALE: u8 = 7;

/// Timestamps and ECN are asked of a backend only if the client has them, so nothing is
/// learnt while they are not promised: after this time they are promised anew.
const AGAIN_MS: u64 = 600_000;

/// What backends of one service have granted.
#[derive(Clone, Copy, Debug)]
struct Granted {
    /// The least that any of them has named.
    mss: Option<u16>,
    /// The last backend's scale, so that windows need no translation.
    scale: Option<u8>,
    sack: bool,
    timestamps_from_ms: u64,
    ecn_from_ms: u64,
}

impl Default for Granted {
    fn default() -> Self {
        Self { mss: None, scale: Some(SCALE), sack: true, timestamps_from_ms: 0, ecn_from_ms: 0 }
    }
}

/// What backends have granted, by service.
#[derive(Debug, Default)]
pub(crate) struct Learnt(HashMap<ServiceId, Granted>);

impl Learnt {
    /// What a client that offers `offer` is granted; `link` is the longest segment that
    /// the path takes.
    pub(crate) fn grant(&self, service: ServiceId, offer: &Offer, link: u16, now_ms: u64) -> Offer {
        let known = self.0.get(&service).copied().unwrap_or_default();
        Offer {
            mss: Some(known.mss.unwrap_or(link).min(link)),
            scale: known.scale.filter(|_| offer.scale.is_some()),
            sack: known.sack && offer.sack,
            timestamps: offer.timestamps && now_ms >= known.timestamps_from_ms,
            ecn: offer.ecn && now_ms >= known.ecn_from_ms,
        }
    }

    /// A backend of `service` was asked for `asked`, and has granted `granted`.
    pub(crate) fn learn(
        &mut self,
        service: ServiceId,
        asked: &Offer,
        granted: &Offer,
        now_ms: u64,
    ) {
        let known = self.0.entry(service).or_default();
        let mss = granted.longest();
        known.mss = Some(known.mss.map_or(mss, |least| least.min(mss)));
        if asked.scale.is_some() {
            known.scale = granted.scale;
        }
        if asked.sack {
            known.sack = granted.sack;
        }
        if asked.timestamps && !granted.timestamps {
            known.timestamps_from_ms = now_ms + AGAIN_MS;
        }
        if asked.ecn && !granted.ecn {
            known.ecn_from_ms = now_ms + AGAIN_MS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_backend_lacks_is_not_promised_for_a_while() {
        let (mut learnt, service) = (Learnt::default(), ServiceId(1));
        let all =
            Offer { mss: Some(1460), scale: Some(3), sack: true, timestamps: true, ecn: true };
        let first = learnt.grant(service, &all, 1440, 5);
        assert_eq!(first, Offer { mss: Some(1440), scale: Some(SCALE), ..all });
        let little = Offer { mss: Some(600), ..Offer::default() };
        learnt.learn(service, &all, &little, 5);
        assert_eq!(learnt.grant(service, &all, 1440, 6), little);
        let later = learnt.grant(service, &all, 1440, 5 + AGAIN_MS);
        assert!(later.timestamps && later.ecn);
        assert_eq!(learnt.grant(ServiceId(2), &all, 1440, 6), first);
    }
}
