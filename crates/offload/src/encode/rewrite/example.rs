//! Rules for packets that nobody sends: a card that takes them takes such rules for
//! others.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use dpdk::flow::Rule;
use flow::{BackendId, PortId};
use service::Delivery;
use wire::{Encap, FlowKey, Mac, Rewrite, Transport};

use super::Style;
use super::rule::{RewriteRule, connection};
use crate::environment::NextHop;
use crate::{FlowType, TunnelType};

/// A locally administered address that no interface has.
const NOBODY: Mac = Mac([2, 0, 0, 0, 0, 0]);

/// A rule that puts packets that nobody sends into a tunnel.
pub(crate) fn tunnel_example(
    style: Style,
    outputs: &[Option<u16>],
    kind: TunnelType,
) -> Option<Rule> {
    let output = outputs.iter().flatten().next().copied()?;
    let key = FlowType::ALL.first()?.example()?;
    let tunnel = kind.example()?;
    let delivery = Delivery::Tunnel(BackendId(0));
    example_rule(&key, (&delivery, Some(&tunnel)), None, style, output)
}

/// A rule for packets that nobody sends.
pub(crate) fn rewrite_example(style: Style, kind: FlowType, output: u16) -> Option<Rule> {
    example(style, kind, output, None)
}

/// A rule for packets that nobody sends of a spliced connection.
pub(crate) fn spliced_example(style: Style, outputs: &[Option<u16>]) -> Option<Rule> {
    let output = outputs.iter().flatten().next().copied()?;
    let kind = FlowType::ALL.into_iter().find(|kind| kind.proto == Transport::Tcp)?;
    example(style, kind, output, Some([1, 1]))
}

fn example(style: Style, kind: FlowType, output: u16, added: Option<[u32; 2]>) -> Option<Rule> {
    let key = kind.example()?;
    let address = |last: u8| match kind.ipv6 {
        true => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into())),
        false => IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)),
    };
    let new = |last| SocketAddr::new(address(last), 9);
    let delivery = Delivery::Rewrite(Rewrite::both((key.src(), key.dst()), (new(3), new(4)))?);
    example_rule(&key, (&delivery, None), added, style, output)
}

/// The rule that rewrites the destination of `key`'s packets to `to` and sends them out
/// of the port `output` to the Ethernet address `next_hop`.
pub(crate) fn rewrite_of(
    key: &FlowKey,
    to: SocketAddr,
    style: Style,
    (output, next_hop): (u16, Mac),
) -> Option<Rule> {
    let delivery = Delivery::Rewrite(Rewrite::destination(key.dst(), to)?);
    rule_to(key, (&delivery, None), None, style, (output, next_hop))
}

fn example_rule(
    key: &FlowKey,
    (delivery, tunnel): (&Delivery, Option<&Encap>),
    added: Option<[u32; 2]>,
    style: Style,
    output: u16,
) -> Option<Rule> {
    rule_to(key, (delivery, tunnel), added, style, (output, NOBODY))
}

fn rule_to(
    key: &FlowKey,
    (delivery, tunnel): (&Delivery, Option<&Encap>),
    added: Option<[u32; 2]>,
    style: Style,
    (output, mac): (u16, Mac),
) -> Option<Rule> {
    let next_hop =
        NextHop { port: PortId(0), vlan: None, source: NOBODY, mac: Some(mac), mtu: 1500 };
    let made_of = RewriteRule {
        key,
        delivery,
        tunnel,
        next_hop: &next_hop,
        mac,
        output,
        timeout_ms: 60_000,
        added,
    };
    connection(&made_of, style).map(|(rule, _)| rule)
}
