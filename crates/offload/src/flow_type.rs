//! Flow types, and which of them a card has refused.
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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

    /// A flow between addresses that no packet has.
    pub(crate) fn example(self) -> Option<FlowKey> {
        let address = |last: u16| {
            if self.ipv6 {
                IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last))
            } else {
                IpAddr::V4(Ipv4Addr::new(192, 0, 2, last as u8))
            }
        };
        FlowKey::new(self.proto, SocketAddr::new(address(1), 9), SocketAddr::new(address(2), 9))
    }
}

impl fmt::Display for FlowType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {}", self.proto, if self.ipv6 { "IPv6" } else { "IPv4" })
    }
}

/// A refused flow type is tried again after 1 s, since the refusal may have had
/// another cause, then at growing intervals of up to an hour.
const ASK_AGAIN: Waits = Waits::new(1_000, 3_600_000);

/// Refusals in a row that it takes to believe that a card can't do what it has
/// done before. Drivers say EINVAL for many things.
const DOUBTS: u32 = 8;

/// The answers of one port about one flow type.
#[derive(Clone, Copy, Debug)]
struct Verdict {
    was_taken: bool,
    refusals: u32,
    again: Backoff,
}

/// Which flow types one port refuses, so that the card is not asked for each
/// of a hundred thousand connections.
#[derive(Debug)]
pub(crate) struct Unsupported {
    types: [Verdict; 4],
}

impl Default for Unsupported {
    fn default() -> Self {
        let verdict = Verdict { was_taken: false, refusals: 0, again: Backoff::new(ASK_AGAIN) };
        Self { types: [verdict; 4] }
    }
}

impl Unsupported {
    /// Whether the card may be asked for a rule of type `kind` at `now_ms`.
    #[must_use]
    pub(crate) fn may_ask(&self, kind: FlowType, now_ms: u64) -> bool {
        self.types.get(kind.index()).is_some_and(|verdict| verdict.again.may_try(now_ms))
    }

    /// The card refused a rule of type `kind` with `error`. Returns whether that
    /// means that the card can't do the type, rather than not this rule or not now.
    pub(crate) fn refused(&mut self, kind: FlowType, error: &FlowError, now_ms: u64) -> bool {
        let Some(verdict) = self.types.get_mut(kind.index()) else { return true };
        if !matches!(error.errno, FlowError::NOT_SUPPORTED | FlowError::INVALID) {
            return false;
        }
        verdict.refusals += 1;
        let believed = !verdict.was_taken || verdict.refusals >= DOUBTS;
        if believed {
            verdict.again.failed(now_ms);
        }
        believed
    }

    /// The card took a rule of type `kind`.
    pub(crate) fn taken(&mut self, kind: FlowType) {
        if let Some(verdict) = self.types.get_mut(kind.index()) {
            *verdict = Verdict { was_taken: true, refusals: 0, again: Backoff::new(ASK_AGAIN) };
        }
    }

    /// The types refused at present.
    pub(crate) fn iter(&self) -> impl Iterator<Item = FlowType> {
        let pairs = FlowType::ALL.into_iter().zip(&self.types);
        pairs.filter(|(_, verdict)| verdict.again.is_failing()).map(|(kind, _)| kind)
    }
}

#[cfg(test)]
mod tests {
    use dpdk::flow::FlowErrorKind;

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

    fn refusal(errno: i32) -> FlowError {
        FlowError { kind: FlowErrorKind::Unspecified, errno, message: String::new() }
    }

    #[test]
    fn a_refused_type_is_asked_seldom_and_the_others_as_before() {
        let mut unsupported = Unsupported::default();
        let [tcp4, _, tcp6, _] = FlowType::ALL;
        let mut asked = 0;
        for now in 0..100_000 {
            if unsupported.may_ask(tcp6, now) {
                asked += 1;
                assert!(unsupported.refused(tcp6, &refusal(FlowError::NOT_SUPPORTED), now));
            }
            assert!(unsupported.may_ask(tcp4, now));
        }
        assert_eq!(asked, 7, "at 0, 1, 3, 7, 15, 31 and 63 s");
        assert_eq!(unsupported.iter().collect::<Vec<_>>(), [tcp6]);
        unsupported.taken(tcp6);
        assert_eq!(unsupported.iter().count(), 0);
    }

    #[test]
    fn a_type_once_taken_is_refused_only_after_several_refusals_in_a_row() {
        let mut unsupported = Unsupported::default();
        let [tcp4, ..] = FlowType::ALL;
        let invalid = refusal(FlowError::INVALID);
        for _ in 0..3 {
            unsupported.taken(tcp4);
            (1..DOUBTS).for_each(|_| assert!(!unsupported.refused(tcp4, &invalid, 0)));
            assert!(unsupported.may_ask(tcp4, 0));
        }
        assert!(unsupported.refused(tcp4, &invalid, 0));
        assert!(!unsupported.may_ask(tcp4, 0));
        assert!(!unsupported.refused(tcp4, &refusal(5), 0), "an I/O error is no verdict");
    }
}
