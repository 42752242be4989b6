//! rte_flow rules as entries of the match table.
//!
//! The program does one thing to packets, so a rule is taken only if it says just that:
//! exact 5-tuple without fragments, SYN, FIN and RST; new addresses, ports and Ethernet
//! addresses, or an outer header; one off the TTL; out of a port.
mod actions;
mod stateless;
mod tunnel;

use std::net::{IpAddr, SocketAddr};

use dpdk::flow::{
    Action, EthFields, FlowError, FlowErrorKind, Ipv4Fields, Ipv6Fields, Item, Match, PortFields,
    Rule,
};
use wire::{FlowKey, Mac, Transport};

use self::actions::connection;
use crate::Change;
use crate::stateless::Sources;

/// The group that has the connections' rules. Other groups stay empty: a jump to one
/// leaves the packet to software.
const CONNECTIONS: u32 = 1;

/// A group that stays empty.
const EMPTY: u32 = 2;
/// A group that nothing leads to.
const SEAT: u32 = 3;

/// SYN, RST and FIN.
const EVENTS: u8 = 0x07;
/// MF and the fragment offset.
const FRAGMENT: u16 = 0x3fff;
/// Packets with a TTL of 0 or 1 have none of these bits.
const BEYOND_LAST_HOP: u8 = 0xfe;

/// The traffic class in an IPv6 header's first four bytes.
const TRAFFIC_CLASS: u32 = 0x0ff0_0000;

/// The traffic classes of the packets that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Any,
    Zero,
}

impl Class {
    /// By the field's value and mask, where `whole` is the mask of the whole class.
    fn matched<T: PartialEq + Default>((spec, mask): (T, T), whole: T) -> Option<Self> {
        match spec == T::default() {
            true if mask == T::default() => Some(Self::Any),
            true if mask == whole => Some(Self::Zero),
            _ => None,
        }
    }
}

/// A rule in the program's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lowered {
    /// Frames for an address are looked up: the program does so for the port's own, and
    /// lets frames for all others up.
    Entry,
    /// Packets that go up whatever matches them: the program does so by itself.
    Guard,
    /// A direction of a connection is rewritten and sent on.
    Connection(Connection),
    /// Packets to a service without connections are looked up in the group.
    Gate { mac: Mac, vip: IpAddr, port: Option<u16>, protocol: Transport, group: u32 },
    /// Packets of the group from a source go up.
    Source { group: u32, source: IpAddr },
    /// Packets of the group from these sources go up.
    Sources { group: u32, sources: Sources },
    /// Packets of the group from clients with these lowest bits are sent on.
    Masked(Masked),
}

/// Clients of a service without connections and what happens to their packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Masked {
    pub(crate) group: u32,
    /// Lowest bits of the client's address, and how many of them count.
    pub(crate) value: u32,
    pub(crate) bits: u32,
    pub(crate) priority: u32,
    /// Any connection with these; its key says the family only.
    pub(crate) sent: Connection,
}

/// A direction of a connection and what happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) key: FlowKey,
    pub(crate) change: Change,
    pub(crate) source: Mac,
    pub(crate) destination: Mac,
    /// The number of the port that packets leave by.
    pub(crate) output: u16,
    /// After how long without a packet it is idle.
    pub(crate) timeout_s: Option<u32>,
}

/// `rule` in the program's terms.
///
/// # Errors
/// The program can't do that.
pub(crate) fn lower(rule: &Rule) -> Result<Lowered, FlowError> {
    if !rule.attributes.transfer {
        return refuse(FlowErrorKind::Attribute, "the kernel takes rules of the switch only");
    }
    match (rule.attributes.group, &rule.actions[..]) {
        (0, [Action::Jump(group)]) => stateless::gate(&rule.pattern, *group),
        (SEAT, [Action::Jump(EMPTY)]) => seat(&rule.pattern),
        (group, [Action::Jump(EMPTY)]) if group > SEAT => stateless::guard(&rule.pattern, group),
        (group, actions) if group > SEAT => {
            stateless::masked(&rule.pattern, (group, rule.attributes.priority), actions)
        }
        (0, [Action::Count, Action::Jump(CONNECTIONS)]) => entry(&rule.pattern),
        (CONNECTIONS, [Action::Jump(group)]) if *group > CONNECTIONS => guard(&rule.pattern),
        (CONNECTIONS, actions) => {
            let (key, class) = key(&rule.pattern)?;
            connection(key, class, actions).map(Lowered::Connection)
        }
        _ => refuse(FlowErrorKind::Attribute, "the kernel has no such group of rules"),
    }
}

/// What isn't supported, and why.
pub(crate) fn refuse<T>(kind: FlowErrorKind, message: &str) -> Result<T, FlowError> {
    Err(FlowError { kind, errno: FlowError::NOT_SUPPORTED, message: message.to_owned() })
}

fn seat(pattern: &[Item]) -> Result<Lowered, FlowError> {
    match pattern {
        [Item::Eth(Match::Present)] => Ok(Lowered::Guard),
        _ => refuse(FlowErrorKind::Item, "no packet comes to this group"),
    }
}

fn entry(pattern: &[Item]) -> Result<Lowered, FlowError> {
    match pattern {
        [Item::Eth(Match::Fields(EthFields { dst, src, ethertype }))]
            if dst.mask == Mac::BROADCAST && src.mask == Mac::default() && ethertype.mask == 0 =>
        {
            Ok(Lowered::Entry)
        }
        _ => refuse(FlowErrorKind::Item, "rules are reached by the Ethernet destination only"),
    }
}

fn guard(pattern: &[Item]) -> Result<Lowered, FlowError> {
    let is_done = match pattern {
        [Item::Eth(Match::Present), Item::Vlan(Match::Present)] => true,
        [Item::Eth(Match::Present), Item::Ipv4(Match::Fields(fields))] => {
            let Ipv4Fields { ttl, .. } = *fields;
            let only = *fields == Ipv4Fields { ttl, ..Ipv4Fields::default() };
            only && (ttl.spec, ttl.mask) == (0, BEYOND_LAST_HOP)
        }
        [Item::Eth(Match::Present), Item::Ipv6(Match::Fields(fields))] => {
            let Ipv6Fields { hop_limit, .. } = *fields;
            let only = *fields == Ipv6Fields { hop_limit, ..Ipv6Fields::default() };
            only && (hop_limit.spec, hop_limit.mask) == (0, BEYOND_LAST_HOP)
        }
        _ => false,
    };
    if is_done {
        return Ok(Lowered::Guard);
    }
    refuse(FlowErrorKind::Item, "the program leaves no such packets to software")
}

/// The 5-tuple that `pattern` matches and which traffic classes, if it matches nothing
/// else.
fn key(pattern: &[Item]) -> Result<(FlowKey, Class), FlowError> {
    let [Item::Eth(Match::Present), net, transport] = pattern else {
        return refuse(FlowErrorKind::Item, "the program matches 5-tuples only");
    };
    let (src, dst, class) = addresses(net)?;
    let (proto, ports) = match transport {
        Item::Tcp(Match::Fields(ports)) if ports.tcp_flags.mask == EVENTS => {
            (Transport::Tcp, ports)
        }
        Item::Udp(Match::Fields(ports)) => (Transport::Udp, ports),
        _ => {
            let words = "TCP without SYN, FIN and RST, and UDP are matched, nothing else";
            return refuse(FlowErrorKind::Item, words);
        }
    };
    let PortFields { sport, dport, tcp_flags } = ports;
    if (sport.mask, dport.mask, tcp_flags.spec) != (u16::MAX, u16::MAX, 0) {
        return refuse(FlowErrorKind::Item, "both ports must be matched, and no TCP flag be set");
    }
    let (src, dst) = (SocketAddr::new(src, sport.spec), SocketAddr::new(dst, dport.spec));
    match FlowKey::new(proto, src, dst) {
        Some(key) => Ok((key, class)),
        None => refuse(FlowErrorKind::Item, "the addresses are of different families"),
    }
}

/// Source and destination, if all bits of them are matched, and nothing else that the
/// program doesn't do by itself.
fn addresses(net: &Item) -> Result<(IpAddr, IpAddr, Class), FlowError> {
    match net {
        Item::Ipv4(Match::Fields(fields)) => {
            let Ipv4Fields { src, dst, fragment, tos, .. } = *fields;
            let whole = (fragment.spec, fragment.mask) == (0, FRAGMENT);
            let exact = (src.mask, dst.mask) == (u32::MAX, u32::MAX);
            let read = Ipv4Fields { src, dst, fragment, tos, ..Ipv4Fields::default() };
            let class = Class::matched((tos.spec, tos.mask), u8::MAX);
            if let (true, true, Some(class)) = (whole, exact && *fields == read, class) {
                return Ok((IpAddr::V4(src.spec.into()), IpAddr::V4(dst.spec.into()), class));
            }
        }
        Item::Ipv6(Match::Fields(fields)) => {
            let Ipv6Fields { src, dst, vtc_flow, .. } = *fields;
            let exact = (src.mask, dst.mask) == (u128::MAX, u128::MAX);
            let read = Ipv6Fields { src, dst, vtc_flow, ..Ipv6Fields::default() };
            let class = Class::matched((vtc_flow.spec, vtc_flow.mask), TRAFFIC_CLASS);
            if let (true, Some(class)) = (exact && *fields == read, class) {
                return Ok((IpAddr::V6(src.spec.into()), IpAddr::V6(dst.spec.into()), class));
            }
        }
        _ => {}
    }
    refuse(FlowErrorKind::Item, "both addresses must be matched, and whole packets only")
}
