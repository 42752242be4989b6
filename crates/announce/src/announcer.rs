//! The decision: which VIPs are announced.
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What is known of a VIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether a service at the VIP has a backend that gets new connections and whose
    /// next hop has answered.
    pub serves: bool,
    /// Whether each checked backend of the VIP's services has been probed.
    pub probed: bool,
}

/// Why a VIP is announced, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Routers are told of it.
    Announced,
    /// The load balancer has been told to withdraw all VIPs.
    Withdrawn,
    /// No backend of it gets new connections.
    NoBackend,
    /// Some of its backends have not been probed yet.
    Unprobed,
    /// It has been able to serve for less than the configured time.
    Settling,
}

impl Verdict {
    /// The verdict in a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Announced => "announced",
            Self::Withdrawn => "withdrawn",
            Self::NoBackend => "no backend",
            Self::Unprobed => "not probed",
            Self::Settling => "settling",
        }
    }
}

/// Decides which VIPs are announced.
///
/// A VIP is announced once it has been able to serve, with all its backends probed, for
/// as long as the settling time, and until no backend of it serves any more: a backend
/// that joins later and has not been probed takes no VIP away.
#[derive(Clone, Debug)]
pub struct Announcer {
    settle_ms: u64,
    withdrawn: bool,
    /// Since when each VIP has been able to serve.
    since_ms: BTreeMap<IpAddr, u64>,
    verdicts: BTreeMap<IpAddr, Verdict>,
}

impl Announcer {
    /// Nothing is announced yet. A VIP settles for `settle_ms`.
    #[must_use]
    pub const fn new(settle_ms: u64) -> Self {
        Self { settle_ms, withdrawn: false, since_ms: BTreeMap::new(), verdicts: BTreeMap::new() }
    }

    /// Withdraws all VIPs, or has them announced again.
    pub const fn withdraw(&mut self, withdrawn: bool) {
        self.withdrawn = withdrawn;
    }

    /// Whether all VIPs are withdrawn.
    #[must_use]
    pub const fn is_withdrawn(&self) -> bool {
        self.withdrawn
    }

    /// Decides anew for `vips`, all there are. Time never goes back.
    pub fn decide(&mut self, vips: &BTreeMap<IpAddr, Standing>, now_ms: u64) {
        let before = std::mem::take(&mut self.verdicts);
        self.since_ms.retain(|vip, _| vips.get(vip).is_some_and(|own| own.serves));
        for (vip, standing) in vips {
            let stays = before.get(vip) == Some(&Verdict::Announced);
            let verdict = self.judge(*vip, *standing, stays, now_ms);
            self.verdicts.insert(*vip, verdict);
        }
    }

    fn judge(&mut self, vip: IpAddr, standing: Standing, stays: bool, now_ms: u64) -> Verdict {
        if !standing.serves {
            return Verdict::NoBackend;
        }
        if !standing.probed && !stays {
            self.since_ms.remove(&vip);
            return Verdict::Unprobed;
        }
        let since_ms = *self.since_ms.entry(vip).or_insert(now_ms);
        if self.withdrawn {
            return Verdict::Withdrawn;
        }
        if now_ms.saturating_sub(since_ms) < self.settle_ms {
            return Verdict::Settling;
        }
        Verdict::Announced
    }

    /// The last decision.
    #[must_use]
    pub const fn verdicts(&self) -> &BTreeMap<IpAddr, Verdict> {
        &self.verdicts
    }

    /// The VIPs that are to be announced.
    #[must_use]
    pub fn announced(&self) -> BTreeSet<IpAddr> {
        let own = self.verdicts.iter().filter(|(_, own)| **own == Verdict::Announced);
        own.map(|(vip, _)| *vip).collect()
    }
}
