//! Which addresses are on-link or routed.
use std::net::IpAddr;

use crate::Config;

/// How an address is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It is in the prefix of an interface.
    OnLink,
    /// A route leads to it.
    Routed,
    /// Not at all.
    Nowhere,
}

impl Config {
    /// How `address` is reached.
    pub(crate) fn reach(&self, address: IpAddr) -> Reach {
        let mut prefixes = self.interfaces.iter().flat_map(|interface| &interface.addresses);
        if prefixes.any(|prefix| prefix.contains(&address)) {
            Reach::OnLink
        } else if self.routes.iter().any(|route| route.prefix.contains(&address)) {
            Reach::Routed
        } else {
            Reach::Nowhere
        }
    }

    /// Whether an interface has `address` as its own.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        let mut own = self.interfaces.iter().flat_map(|interface| &interface.addresses);
        own.any(|own| own.addr() == address)
    }

    /// Whether packets to `address` are for the load balancer itself: an interface
    /// or a service has it.
    pub(crate) fn is_ours(&self, address: IpAddr) -> bool {
        self.is_own(address) || self.services.iter().any(|service| service.vip == address)
    }

    /// Why `address` cannot be reached and what would be right; `None` if it can.
    pub(crate) fn unreachable(&self, address: IpAddr) -> Option<String> {
        (self.reach(address) == Reach::Nowhere).then(|| {
            format!("{address} is neither on-link at an interface nor covered by a route; add an address of its network to an [[interface]], or a [[route]] that covers it")
        })
    }
}
