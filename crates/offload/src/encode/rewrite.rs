//! Rules that do all the work: they match a connection's packets, rewrite them
//! and send them out of the right port (encoding `rewrite`).
//!
//! They live in the switch's groups of our own. The root's one rule, the entry,
//! sends frames for our Ethernet address there; guards send those back that
//! only software may handle; what no rule matches falls back to the host.
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use dpdk::flow::{
    Action, Attributes, EthFields, Field, HopField, Ipv4Fields, Ipv6Fields, Item, Match, Modify,
    PortFields, Rule, SetField,
};
use service::Delivery;
use wire::{Encap, FlowKey, Mac, Rewrite, Transport};

use crate::FlowType;
use crate::encode::tunnel;
use crate::encode::tunnel::TunnelType;
use crate::environment::Way;

/// The group that connections' rules are in.
const OWN_GROUP: u32 = 101;
/// A group without rules: what is sent there misses, and reaches the host.
const HOST_GROUP: u32 = 102;
/// All groups that are ours; whatever is in them, we have made.
pub(crate) const GROUPS: RangeInclusive<u32> = OWN_GROUP..=HOST_GROUP;

/// Priority of the guards; the connections' is the next.
/// In the root, where the gates of stateless services come first: they match
/// packets that no connection has.
const ENTRY_PRIORITY: u32 = 1;
const GUARD_PRIORITY: u32 = 0;
const CONNECTION_PRIORITY: u32 = 1;

/// SYN, RST and FIN: packets with one of these are for software.
const EVENTS: u8 = 0x07;
/// More fragments, and the offset.
const FRAGMENT: u16 = 0x3fff;
/// The TTLs 0 and 1 have none of these bits.
const MORE_HOPS: u8 = 0xfe;
/// The longest timeout of AGE: 24 bits.
const LONGEST_AGE_S: u32 = (1 << 24) - 1;

/// In which words a driver takes such rules; [`probe`](crate::probe_card) finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Style {
    /// SET_* and DEC_TTL instead of MODIFY_FIELD.
    pub legacy: bool,
    /// PORT_ID instead of REPRESENTED_PORT.
    pub port_id: bool,
    /// Rules have AGE; else idleness is learnt from counters alone.
    pub age: bool,
    /// SYN, RST and FIN can be left to software; else an end of a connection is
    /// learnt by ageing.
    pub flags: bool,
    /// Fragments of IPv4 can be left to software.
    pub fragments: bool,
}

impl Style {
    /// All that there are, the best first.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..32u8).map(|bits| {
            let lacks = |bit: u8| bits & bit != 0;
            Self {
                fragments: !lacks(1),
                age: !lacks(2),
                port_id: lacks(4),
                legacy: lacks(8),
                flags: !lacks(16),
            }
        })
    }
}

/// How one port's card rewrites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteCard {
    /// Its driver's words.
    pub style: Style,
    /// By `PortId`: the number by which rules of this port name that port, if
    /// packets can be sent out of it.
    pub outputs: Vec<Option<u16>>,
    /// Flow types that it takes, by [`FlowType::index`].
    pub types: [bool; 4],
    /// Tunnels that it puts packets into, by [`TunnelType::index`], with rules
    /// made one by one. Where rules go through a queue the port is asked again.
    ///
    /// [`TunnelType::index`]: crate::TunnelType::index
    pub tunnels: [bool; TunnelType::COUNT],
}

/// Everything a connection's rule is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) key: &'a FlowKey,
    pub(crate) delivery: &'a Delivery,
    /// Of a delivery through a tunnel.
    pub(crate) tunnel: Option<&'a Encap>,
    pub(crate) way: &'a Way,
    /// Of the next hop.
    pub(crate) mac: Mac,
    /// The number of the port it goes out of.
    pub(crate) output: u16,
    pub(crate) timeout_ms: u32,
}

/// Which rules have the same items, masks and kinds of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// Made one by one.
    Plain,
    Entry,
    Guard(u8),
    /// By flow type and which addresses and ports are written.
    Connection {
        kind: usize,
        sides: u8,
    },
    /// Marks on a port that rewrites, by flow type.
    Marked {
        kind: usize,
    },
    /// By flow type and the length of the outer headers.
    Tunnel {
        kind: usize,
        length: u16,
    },
}

fn attributes(group: u32, priority: u32) -> Attributes {
    Attributes { group, priority, transfer: true, ..Attributes::default() }
}

/// The rule of the root that sends frames for `station` to our group. It counts
/// them.
pub(crate) fn entry(station: Mac) -> Rule {
    let dst = Field { spec: station, mask: Mac::BROADCAST };
    Rule {
        attributes: attributes(0, ENTRY_PRIORITY),
        pattern: vec![Item::Eth(Match::Fields(EthFields { dst, ..EthFields::default() }))],
        actions: vec![Action::Count, Action::Jump(OWN_GROUP)],
    }
}

/// What is for software whatever rule matches it: frames with a tag, packets
/// that must not go any further.
pub(crate) fn guards() -> [Rule; 3] {
    let ttl = Field { spec: 0, mask: MORE_HOPS };
    let v4 = Ipv4Fields { ttl, ..Ipv4Fields::default() };
    let v6 = Ipv6Fields { hop_limit: ttl, ..Ipv6Fields::default() };
    [Item::Vlan(Match::Present), Item::Ipv4(Match::Fields(v4)), Item::Ipv6(Match::Fields(v6))].map(
        |item| Rule {
            attributes: attributes(OWN_GROUP, GUARD_PRIORITY),
            pattern: vec![Item::Eth(Match::Present), item],
            actions: vec![Action::Jump(HOST_GROUP)],
        },
    )
}

/// A connection's rule and its shape; `None`: rules can't do that to packets.
pub(crate) fn connection(plan: &Plan<'_>, style: Style) -> Option<(Rule, Shape)> {
    let kind = FlowType::of(plan.key).index();
    let mut rule = Rule::five_tuple(plan.key, Vec::new());
    rule.attributes = attributes(OWN_GROUP, CONNECTION_PRIORITY);
    rule.pattern.iter_mut().for_each(|item| narrow(item, style));
    let (source, to) = (plan.way.source, plan.mac);
    let shape = match (plan.delivery, plan.tunnel) {
        (Delivery::Tunnel(_), None) => return None,
        (Delivery::Tunnel(_), Some(encap)) => {
            rule.pattern.iter_mut().for_each(tunnel::without_class);
            // The inner packet is changed before it gets another in front.
            rule.actions.push(decrement(plan.key, style));
            rule.actions.extend(tunnel::enter(encap, plan.key, source, to));
            Shape::Tunnel { kind, length: encap.overhead() }
        }
        (delivery, _) => {
            let sets = match delivery {
                Delivery::Rewrite(rewrite) => endpoints(rewrite, plan.key.proto()),
                _ => Vec::new(),
            };
            let sides = sets.iter().fold(0, |sides, set| sides | side_bit(set));
            let macs = [SetField::MacSrc(source), SetField::MacDst(to)];
            rule.actions = sets.iter().chain(&macs).map(|set| write(*set, style)).collect();
            rule.actions.push(decrement(plan.key, style));
            Shape::Connection { kind, sides }
        }
    };
    rule.actions.push(Action::Count);
    if style.age {
        let timeout_s = plan.timeout_ms.div_ceil(1000).clamp(1, LONGEST_AGE_S);
        rule.actions.push(Action::Age { timeout_s });
    }
    rule.actions.push(if style.port_id {
        Action::PortId(plan.output)
    } else {
        Action::RepresentedPort(plan.output)
    });
    Some((rule, shape))
}

/// Leaves events and fragments to software, as far as the driver can say that.
fn narrow(item: &mut Item, style: Style) {
    match item {
        Item::Tcp(Match::Fields(PortFields { tcp_flags, .. })) if style.flags => {
            *tcp_flags = Field { spec: 0, mask: EVENTS };
        }
        Item::Ipv4(Match::Fields(Ipv4Fields { fragment, .. })) if style.fragments => {
            *fragment = Field { spec: 0, mask: FRAGMENT };
        }
        _ => {}
    }
}

/// What is written of addresses and ports.
fn endpoints(rewrite: &Rewrite, proto: Transport) -> Vec<SetField> {
    let mut sets = Vec::new();
    let (port_side, ports) = match rewrite {
        Rewrite::V4(plan) => {
            let [a, b, c, d, e, f, g, h] = plan.addresses;
            if plan.side.source() {
                sets.push(SetField::Ipv4Src(Ipv4Addr::new(a, b, c, d)));
            }
            if plan.side.destination() {
                sets.push(SetField::Ipv4Dst(Ipv4Addr::new(e, f, g, h)));
            }
            (plan.port_side, plan.ports)
        }
        Rewrite::V6(plan) => {
            let (src, dst) = plan.addresses.split_at(16);
            let address = |bytes: &[u8]| <[u8; 16]>::try_from(bytes).map(Ipv6Addr::from).ok();
            let sides = [(plan.side.source(), src), (plan.side.destination(), dst)];
            for (set, (wanted, bytes)) in [SetField::Ipv6Src, SetField::Ipv6Dst].iter().zip(sides) {
                sets.extend(address(bytes).filter(|_| wanted).map(set));
            }
            (plan.port_side, plan.ports)
        }
    };
    let [a, b, c, d] = ports;
    let (sport, dport) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    if port_side.is_some_and(wire::Side::source) {
        sets.push(match proto {
            Transport::Tcp => SetField::TcpSport(sport),
            Transport::Udp => SetField::UdpSport(sport),
        });
    }
    if port_side.is_some_and(wire::Side::destination) {
        sets.push(match proto {
            Transport::Tcp => SetField::TcpDport(dport),
            Transport::Udp => SetField::UdpDport(dport),
        });
    }
    sets
}

fn side_bit(set: &SetField) -> u8 {
    match set {
        SetField::Ipv4Src(_) | SetField::Ipv6Src(_) => 1,
        SetField::Ipv4Dst(_) | SetField::Ipv6Dst(_) => 2,
        SetField::TcpSport(_) | SetField::UdpSport(_) => 4,
        SetField::TcpDport(_) | SetField::UdpDport(_) => 8,
        SetField::MacSrc(_) | SetField::MacDst(_) => 0,
    }
}

fn write(set: SetField, style: Style) -> Action {
    if !style.legacy {
        return Action::ModifyField(Modify::Set(set));
    }
    match set {
        SetField::MacSrc(mac) => Action::SetMacSrc(mac),
        SetField::MacDst(mac) => Action::SetMacDst(mac),
        SetField::Ipv4Src(addr) => Action::SetIpv4Src(addr),
        SetField::Ipv4Dst(addr) => Action::SetIpv4Dst(addr),
        SetField::Ipv6Src(addr) => Action::SetIpv6Src(addr),
        SetField::Ipv6Dst(addr) => Action::SetIpv6Dst(addr),
        SetField::TcpSport(port) | SetField::UdpSport(port) => Action::SetTpSrc(port),
        SetField::TcpDport(port) | SetField::UdpDport(port) => Action::SetTpDst(port),
    }
}

/// One off the TTL. mlx5 subtracts by adding: its fields wrap round.
fn decrement(key: &FlowKey, style: Style) -> Action {
    if style.legacy {
        return Action::DecTtl;
    }
    let field = match key {
        FlowKey::V4(_) => HopField::Ipv4Ttl,
        FlowKey::V6(_) => HopField::Ipv6HopLimit,
    };
    Action::ModifyField(Modify::Add(field, u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_style_is_the_first_and_none_comes_twice() {
        let all: Vec<Style> = Style::all().collect();
        let best = Style { legacy: false, port_id: false, age: true, flags: true, fragments: true };
        assert_eq!(all.first(), Some(&best));
        for (at, style) in all.iter().enumerate() {
            assert!(!all.iter().skip(at + 1).any(|other| other == style));
        }
    }

    #[test]
    fn the_groups_are_ours_and_the_root_is_not() {
        assert!(!GROUPS.contains(&0));
        for guard in guards() {
            assert!(GROUPS.contains(&guard.attributes.group));
            assert!(guard.attributes.priority < CONNECTION_PRIORITY);
        }
    }
}
