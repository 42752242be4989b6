//! The rules that carry out a stateless service in a NIC's switch.
//!
//! ```text
//! group 0:  own MAC, VIP, port, whole ─► JUMP to the service's group
//! service:  0  TTL 0 and 1, tagged, impossible sources ─► JUMP to an empty group
//!           1… low bits of the source ─► MACs, TTL - 1, COUNT, out of the port
//! ```
//!
//! What no rule of a group of the switch takes reaches the port, and so the
//! workers, who do the same to it.
use std::net::IpAddr;

use dpdk::flow::{
    Action, EthFields, Field, Ipv4Fields, Ipv6Fields, Item, Match, PortFields, Rule, SetField,
    TableHash, Template, VlanFields,
};
use flow::PortId;
use l3::Interface;
use service::{Entry, Service};
use state::Snapshot;
use wire::{Mac, Transport};

use super::forward::{self, WHOLE};
use super::rewrite::Style;
use crate::FlowType;
use crate::groups::{self, GATE_PRIORITY, to_software};

/// Where an entry's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The next hop's Ethernet address.
    to: Mac,
    /// The interface's own.
    from: Mac,
    /// The port they leave by.
    port: PortId,
}

impl Target {
    /// Frames from `from` to `to`, out of `port`.
    pub(crate) const fn new(to: Mac, from: Mac, port: PortId) -> Self {
        Self { to, from, port }
    }
}

fn exactly<T>(spec: T, mask: T) -> Field<T> {
    Field { spec, mask }
}

/// Sends the service's packets that arrive at `interface` to its group.
pub(crate) fn gate(service: &Service, interface: &Interface, group: u32) -> Rule {
    let own = EthFields { dst: exactly(interface.mac, Mac([0xff; 6])), ..EthFields::default() };
    let mut pattern = vec![Item::Eth(Match::Fields(own))];
    if let Some(id) = interface.vlan {
        let tag = VlanFields { tci: exactly(id, 0xfff), ..VlanFields::default() };
        pattern.push(Item::Vlan(Match::Fields(tag)));
    }
    pattern.push(match service.vip() {
        IpAddr::V4(vip) => Item::Ipv4(Match::Fields(Ipv4Fields {
            dst: exactly(vip.to_bits(), u32::MAX),
            fragment: WHOLE,
            ..Ipv4Fields::default()
        })),
        IpAddr::V6(vip) => Item::Ipv6(Match::Fields(Ipv6Fields {
            dst: exactly(vip.to_bits(), u128::MAX),
            ..Ipv6Fields::default()
        })),
    });
    let ports = match service.port() {
        Some(port) => {
            Match::Fields(PortFields { dport: exactly(port, u16::MAX), ..PortFields::default() })
        }
        None => Match::Present,
    };
    pattern.push(match service.proto() {
        Transport::Tcp => Item::Tcp(ports),
        Transport::Udp => Item::Udp(ports),
    });
    Rule {
        attributes: groups::transfer(groups::ROOT, GATE_PRIORITY),
        pattern,
        actions: vec![Action::Jump(group)],
    }
}

/// Keeps from the entries what software must decide: packets that go no
/// further, and those from where no client is.
pub(crate) fn guards(
    snapshot: &Snapshot,
    service: &Service,
    vlan: Option<u16>,
    group: u32,
) -> Vec<Rule> {
    let v4 = service.vip().is_ipv4();
    let mut items = vec![forward::last_hop(!v4)];
    if vlan.is_none() {
        items.push(Item::Vlan(Match::Present));
    }
    if v4 {
        // Unspecified, loopback, link-local; groups and what is reserved behind them.
        let nets = [(0, 8), (0x7f00_0000, 8), (0xa9fe_0000, 16), (0xe000_0000, 3)];
        items.extend(nets.map(|(net, len)| from_v4(net, !(u32::MAX >> len))));
    } else {
        // Groups, link-local, IPv4-mapped, unspecified, loopback.
        let nets = [(0xff << 120, 8), (0xfe80 << 112, 10), (0xffff << 32, 96), (0, 128), (1, 128)];
        items.extend(nets.map(|(net, len)| from_v6(net, !u128::MAX.checked_shr(len).unwrap_or(0))));
    }
    items.extend(ours(snapshot, v4).into_iter().map(|own| match own {
        IpAddr::V4(own) => from_v4(own.to_bits(), u32::MAX),
        IpAddr::V6(own) => from_v6(own.to_bits(), u128::MAX),
    }));
    items.into_iter().map(|item| to_software(group, Some(item))).collect()
}

/// The load balancer's own addresses, and the network and broadcast addresses of its
/// networks, from which no client speaks.
fn ours(snapshot: &Snapshot, v4: bool) -> Vec<IpAddr> {
    let services = snapshot.services.services();
    let vips = services.iter().map(Service::vip);
    let pools = services.iter().filter_map(Service::pool).flat_map(|p| p.addresses()).copied();
    let interfaces = snapshot.interfaces.iter();
    let own = interfaces.flat_map(|(_, own)| &own.addresses).flat_map(|net| {
        let has_broadcast = net.addr().is_ipv4() && net.prefix_len() < 31;
        let ends = has_broadcast.then(|| [net.network(), net.broadcast()]);
        std::iter::once(net.addr()).chain(ends.into_iter().flatten())
    });
    let mut all: Vec<IpAddr> =
        vips.chain(pools).chain(own).filter(|own| own.is_ipv4() == v4).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn from_v4(net: u32, mask: u32) -> Item {
    Item::Ipv4(Match::Fields(Ipv4Fields { src: exactly(net, mask), ..Ipv4Fields::default() }))
}

fn from_v6(net: u128, mask: u128) -> Item {
    Item::Ipv6(Match::Fields(Ipv6Fields { src: exactly(net, mask), ..Ipv6Fields::default() }))
}

/// Sends the clients of `entry` to `target`.
pub(crate) fn entry(
    v4: bool,
    entry: &Entry,
    target: &Target,
    (group, priority): (u32, u32),
    style: Style,
) -> Rule {
    let net = if v4 {
        from_v4(entry.value, entry.mask())
    } else {
        from_v6(entry.value.into(), entry.mask().into())
    };
    let actions = actions(v4, target, style);
    let pattern = vec![Item::Eth(Match::Present), net];
    Rule { attributes: groups::transfer(group, priority), pattern, actions }
}

/// What is done to packets on their way to `target`.
pub(crate) fn actions(v4: bool, target: &Target, style: Style) -> Vec<Action> {
    let macs = [SetField::MacDst(target.to), SetField::MacSrc(target.from)];
    let mut actions = macs.map(|set| forward::write(set, style)).to_vec();
    actions.push(forward::decrement(!v4, style));
    actions.extend(forward::send(style, None, target.port.0));
    actions
}

/// The table of rules by index of a service in `group`, behind its guards: the
/// CRC-32 of addresses and ports finds the row, and each row has a target of its
/// own. `None`: the service is of neither family.
pub(crate) fn hash_table(
    service: &Service,
    group: u32,
    rows: u32,
    target: &Target,
) -> Option<Template> {
    let ipv6 = service.vip().is_ipv6();
    let key = FlowType { ipv6, proto: service.proto() }.example()?;
    let Rule { pattern, .. } = Rule::five_tuple(&key, Vec::new());
    let attributes = groups::transfer(group, groups::GUARD_PRIORITY + 1);
    let actions = actions(!ipv6, target, Style::BEST);
    Some(Template { attributes, pattern, actions, rules: rows, hash: Some(TableHash::Crc32) })
}
