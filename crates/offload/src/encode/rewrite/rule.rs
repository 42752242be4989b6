//! The rule that does all the work for one direction of a connection.
use std::net::{Ipv4Addr, Ipv6Addr};

use dpdk::flow::{
    Action, Field, Ipv4Fields, Item, Match, Modify, NumberField, PortFields, Rule, SetField,
};
use service::Delivery;
use wire::{Encap, FlowKey, Mac, Rewrite, Transport};

use super::Style;
use crate::FlowType;
use crate::encode::forward::{self, WHOLE};
use crate::encode::{Shape, tunnel};
use crate::environment::NextHop;
use crate::groups::{self, CONNECTION_PRIORITY, CONNECTIONS};

/// SYN, RST and FIN: packets with one of these are for software.
const EVENTS: u8 = 0x07;
/// Of a spliced connection, those without ACK too, and with a sign of congestion (ECE or
/// CWR), which both sides may understand or one of them.
const SPLICED: Field<u8> = Field { spec: 0x10, mask: EVENTS | 0x10 | 0xc0 };

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
    /// What is added to the numbers of TCP, of a spliced connection.
    pub(super) added: Option<[u32; 2]>,
}

/// A connection's rule and its shape; `None`: rules can't do that to packets.
pub(super) fn connection(made_of: &RewriteRule<'_>, style: Style) -> Option<(Rule, Shape)> {
    let kind = FlowType::of(made_of.key).index();
    let mut rule = Rule::five_tuple(made_of.key, Vec::new());
    rule.attributes = groups::transfer(CONNECTIONS, CONNECTION_PRIORITY);
    let spliced = made_of.added.is_some();
    if spliced && !(style.flags && style.fragments) {
        return None;
    }
    rule.pattern.iter_mut().for_each(|item| narrow(item, style, spliced));
    let (source, to) = (made_of.next_hop.source, made_of.mac);
    let ipv6 = matches!(made_of.key, FlowKey::V6(_));
    let shape = match (made_of.delivery, made_of.tunnel) {
        (Delivery::Tunnel(_), None) => return None,
        (Delivery::Tunnel(_), Some(encap)) => {
            rule.pattern.iter_mut().for_each(tunnel::without_class);
            // The inner packet is changed before it gets another in front.
            rule.actions.push(forward::decrement(ipv6, style));
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
            let sets = sets.into_iter().chain(macs);
            rule.actions = sets.map(|set| forward::write(set, style)).collect();
            rule.actions.push(forward::decrement(ipv6, style));
            rule.actions.extend(made_of.added.into_iter().flat_map(numbers));
            Shape::Rewrite { kind, sides, spliced }
        }
    };
    rule.actions.extend(forward::send(style, Some(made_of.timeout_ms), made_of.output));
    Some((rule, shape))
}

/// Leaves events and fragments to software, as far as the driver can say that.
fn narrow(item: &mut Item, style: Style, spliced: bool) {
    match item {
        Item::Tcp(Match::Fields(PortFields { tcp_flags, .. })) if spliced => *tcp_flags = SPLICED,
        Item::Tcp(Match::Fields(PortFields { tcp_flags, .. })) if style.flags => {
            *tcp_flags = Field { spec: 0, mask: EVENTS };
        }
        Item::Ipv4(Match::Fields(Ipv4Fields { fragment, .. })) if style.fragments => {
            *fragment = WHOLE;
        }
        _ => {}
    }
}

/// Adds to the numbers of TCP. Both actions are always there, so that all such rules have
/// one form.
fn numbers([sequence, acknowledgement]: [u32; 2]) -> [Action; 2] {
    [(NumberField::TcpSequence, sequence), (NumberField::TcpAcknowledgement, acknowledgement)]
        .map(|(field, by)| Action::ModifyField(Modify::AddNumber(field, by)))
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
