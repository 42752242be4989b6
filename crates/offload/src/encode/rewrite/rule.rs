//! The rule that does all the work for one direction of a connection.
use std::net::{Ipv4Addr, Ipv6Addr};

use dpdk::flow::{
    Action, Field, HopField, Ipv4Fields, Item, Match, Modify, PortFields, Rule, SetField,
};
use service::Delivery;
use wire::{Encap, FlowKey, Mac, Rewrite, Transport};

use super::Style;
use crate::FlowType;
use crate::encode::{Shape, tunnel};
use crate::environment::NextHop;
use crate::groups::{self, CONNECTION_PRIORITY, CONNECTIONS};

/// SYN, RST and FIN: packets with one of these are for software.
const EVENTS: u8 = 0x07;
/// More fragments, and the offset.
const FRAGMENT: u16 = 0x3fff;
/// The longest timeout of AGE: 24 bits.
const LONGEST_AGE_S: u32 = (1 << 24) - 1;

/// Everything a connection's rule is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct RewriteRule<'a> {
    pub(super) key: &'a FlowKey,
    pub(super) delivery: &'a Delivery,
    /// Of a delivery through a tunnel.
    pub(super) tunnel: Option<&'a Encap>,
    pub(super) next_hop: &'a NextHop,
    /// Of the next hop.
    pub(super) mac: Mac,
    /// The number of the port it goes out of.
    pub(super) output: u16,
    pub(super) timeout_ms: u32,
}

/// A connection's rule and its shape; `None`: rules can't do that to packets.
pub(super) fn connection(made_of: &RewriteRule<'_>, style: Style) -> Option<(Rule, Shape)> {
    let kind = FlowType::of(made_of.key).index();
    let mut rule = Rule::five_tuple(made_of.key, Vec::new());
    rule.attributes = groups::transfer(CONNECTIONS, CONNECTION_PRIORITY);
    rule.pattern.iter_mut().for_each(|item| narrow(item, style));
    let (source, to) = (made_of.next_hop.source, made_of.mac);
    let shape = match (made_of.delivery, made_of.tunnel) {
        (Delivery::Tunnel(_), None) => return None,
        (Delivery::Tunnel(_), Some(encap)) => {
            rule.pattern.iter_mut().for_each(tunnel::without_class);
            // The inner packet is changed before it gets another in front.
            rule.actions.push(decrement(made_of.key, style));
            rule.actions.extend(tunnel::enter(encap, made_of.key, source, to));
            Shape::Tunnel { kind, length: encap.overhead() }
        }
        (delivery, _) => {
            let sets = match delivery {
                Delivery::Rewrite(rewrite) => endpoints(rewrite, made_of.key.proto()),
                _ => Vec::new(),
            };
            let sides = sets.iter().fold(0, |sides, set| sides | side_bit(set));
            let macs = [SetField::MacSrc(source), SetField::MacDst(to)];
            rule.actions = sets.iter().chain(&macs).map(|set| write(*set, style)).collect();
            rule.actions.push(decrement(made_of.key, style));
            Shape::Rewrite { kind, sides }
        }
    };
    rule.actions.push(Action::Count);
    if style.age {
        let timeout_s = made_of.timeout_ms.div_ceil(1000).clamp(1, LONGEST_AGE_S);
        rule.actions.push(Action::Age { timeout_s });
    }
    rule.actions.push(if style.port_id {
        Action::PortId(made_of.output)
    } else {
        Action::RepresentedPort(made_of.output)
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
