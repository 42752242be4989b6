//! Flow types, and which of them a card has refused.
use std::fmt;

use dpdk::flow::FlowError;
use wire::{FlowKey, Transport};

use crate::backoff::{Backoff, Waits};

/// A family and a transport: cards take or refuse rules by these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowType {
    /// IPv6 rather than IPv4.
    pub ipv6: bool,
    /// TCP or UDP.
    pub proto: Transport,
}

impl FlowType {
    /// All of them, in the order of [`index`](Self::index).
    pub const ALL: [Self; 4] = [
        Self { ipv6: false, proto: Transport::Tcp },
        Self { ipv6: false, proto: Transport::Udp },
        Self { ipv6: true, proto: Transport::Tcp },
        Self { ipv6: true, proto: Transport::Udp },
    ];

    /// The type of `flow`.
    #[must_use]
    pub const fn of(flow: &FlowKey) -> Self {
        Self { ipv6: matches!(flow, FlowKey::V6(_)), proto: flow.proto() }
    }

    /// Its place in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self.ipv6 as usize * 2 + matches!(self.proto, Transport::Udp) as usize
    }
}

impl fmt::Display for FlowType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {}", self.proto, if self.ipv6 { "IPv6" } else { "IPv4" })
    }
}

/// A refused flow type is tried again after 1 s, since the refusal may have had
/// another cause, then ever more seldom up to an hour.
const ASK_AGAIN: Waits = Waits { first_ms: 1_000, longest_ms: 3_600_000 };

/// Which flow types one port refuses, so that the card is not asked for each
/// of a hundred thousand connections.
#[derive(Debug)]
pub(crate) struct Unsupported {
    types: [Backoff; 4],
}

impl Default for Unsupported {
    fn default() -> Self {
        Self { types: [Backoff::new(ASK_AGAIN); 4] }
    }
}

impl Unsupported {
    /// Whether `error` says that the card can't do it, rather than not now.
    #[must_use]
    pub(crate) fn is_meant_by(error: &FlowError) -> bool {
        matches!(error.errno, FlowError::NOT_SUPPORTED | FlowError::INVALID)
    }

    /// Whether the card may be asked for a rule of type `kind` at `now_ms`.
    #[must_use]
    pub(crate) fn may_ask(&self, kind: FlowType, now_ms: u64) -> bool {
        self.types.get(kind.index()).is_some_and(|backoff| backoff.may_try(now_ms))
    }

    /// The card refused a rule of type `kind` as one it can't do.
    pub(crate) fn refused(&mut self, kind: FlowType, now_ms: u64) {
        if let Some(backoff) = self.types.get_mut(kind.index()) {
            backoff.failed(now_ms);
        }
    }

    /// The card took a rule of type `kind`.
    pub(crate) fn taken(&mut self, kind: FlowType) {
        if let Some(backoff) = self.types.get_mut(kind.index()) {
            backoff.worked();
        }
    }

    /// The types refused at present.
    pub(crate) fn iter(&self) -> impl Iterator<Item = FlowType> {
        let pairs = FlowType::ALL.into_iter().zip(&self.types);
        pairs.filter(|(_, backoff)| backoff.is_failing()).map(|(kind, _)| kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_its_own_place() {
        for (at, kind) in FlowType::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), at);
        }
        let flow = |src: &str, dst: &str| {
            FlowKey::new(Transport::Udp, src.parse().unwrap(), dst.parse().unwrap()).unwrap()
        };
        assert_eq!(FlowType::of(&flow("1.1.1.1:1", "2.2.2.2:2")).to_string(), "udp over IPv4");
        assert_eq!(FlowType::of(&flow("[::1]:1", "[::2]:2")).to_string(), "udp over IPv6");
    }

    #[test]
    fn a_refused_type_is_asked_seldom_and_the_others_as_before() {
        let mut unsupported = Unsupported::default();
        let [tcp4, _, tcp6, _] = FlowType::ALL;
        let mut asked = 0;
        for now in 0..100_000 {
            if unsupported.may_ask(tcp6, now) {
                asked += 1;
                unsupported.refused(tcp6, now);
            }
            assert!(unsupported.may_ask(tcp4, now));
        }
        assert_eq!(asked, 7, "at 0, 1, 3, 7, 15, 31 and 63 s");
        assert_eq!(unsupported.iter().collect::<Vec<_>>(), [tcp6]);
        unsupported.taken(tcp6);
        assert_eq!(unsupported.iter().count(), 0);
    }
}
