//! Rules for packets that the card sends out by itself.
use dpdk::flow::{
    Action, Attributes, EthFields, Field, HopField, Item, Match, Modify, NumberField, Rule,
    SetField,
};
use flow::Mode;
use std::net::IpAddr;
use wire::{Encap, FlowKey, Mac, Transport, Tunnel};

use super::packets::{
    self, NEW_MAC, NEW_PORT, NEW_V4, NEW_V6, NUMBER, VIP_V4, VIP_V6, flow, packet,
};
use crate::card::Facts;
use crate::report::Area;
use crate::trial::{Expected, Trial};

/// The root and the group that the rules are in.
const ROOT: u32 = 0;
const GROUP: u32 = 1;
const AGE_S: u32 = 60;

fn transfer(group: u32) -> Attributes {
    Attributes { group, priority: 1, transfer: true, ..Attributes::default() }
}

/// The rule that leads the frames for `station` to the others.
pub(crate) fn entry(station: Mac) -> Trial {
    let dst = Field { spec: station, mask: Mac::BROADCAST };
    let rule = Rule {
        attributes: transfer(ROOT),
        pattern: vec![Item::Eth(Match::Fields(EthFields { dst, ..EthFields::default() }))],
        actions: vec![Action::Jump(GROUP)],
    };
    let (name, needed_for) = ("JUMP to a group", "encoding rewrite");
    Trial { area: Area::Switch, name, needed_for, rule, packet: None }
}

/// By which action packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlet {
    /// `REPRESENTED_PORT`.
    Represented(u16),
    /// `PORT_ID`.
    Id(u16),
}

impl Outlet {
    fn action(self) -> Action {
        match self {
            Self::Represented(port) => Action::RepresentedPort(port),
            Self::Id(port) => Action::PortId(port),
        }
    }
}

/// A rule in the group with `actions`, and what the packet is then.
fn trial(
    facts: &Facts,
    flow: Option<FlowKey>,
    (name, needed_for): (&'static str, &'static str),
    actions: Vec<Action>,
    is_right: fn(&[u8]) -> bool,
) -> Option<Trial> {
    let flow = flow?;
    let mut rule = Rule::five_tuple(&flow, actions);
    rule.attributes = transfer(GROUP);
    let packet = packet(facts, &flow, None).map(|frame| (frame, Expected::Leaves(is_right)));
    Some(Trial { area: Area::Switch, name, needed_for, rule, packet })
}

/// The ways out of the card, the one that is not deprecated first.
pub(crate) fn outlets(facts: &Facts, port: u16) -> Vec<(Outlet, Trial)> {
    let ways = [(Outlet::Represented(port), "REPRESENTED_PORT"), (Outlet::Id(port), "PORT_ID")];
    let tcp = flow(Transport::Tcp, false);
    let asked = |(outlet, name): (Outlet, _)| {
        let words = (name, "encoding rewrite");
        Some((outlet, trial(facts, tcp, words, vec![outlet.action()], packets::whole)?))
    };
    ways.into_iter().filter_map(asked).collect()
}

/// What is tried: its name, what it is needed for, the actions, and what is then true.
type Kind = (&'static str, &'static str, Vec<Action>, fn(&[u8]) -> bool);

/// Changes of fields, counters and ages.
pub(crate) fn fields(facts: &Facts, outlet: Outlet) -> Vec<Trial> {
    let set = |field| Action::ModifyField(Modify::Set(field));
    let add = |field, by| Action::ModifyField(Modify::AddNumber(field, by));
    let hops = |field| Action::ModifyField(Modify::Add(field, u8::MAX));
    let rewrite = "encoding rewrite";
    let tcp4: Vec<Kind> = vec![
        (
            "MODIFY_FIELD MACs",
            rewrite,
            vec![set(SetField::MacSrc(NEW_MAC)), set(SetField::MacDst(NEW_MAC))],
            packets::new_macs,
        ),
        (
            "MODIFY_FIELD IPv4 destination",
            "encoding rewrite, nat",
            vec![set(SetField::Ipv4Dst(NEW_V4))],
            packets::new_destination,
        ),
        (
            "MODIFY_FIELD IPv4 source",
            "encoding rewrite, answers and fullnat",
            vec![set(SetField::Ipv4Src(NEW_V4))],
            packets::new_source,
        ),
        (
            "MODIFY_FIELD TCP ports",
            "encoding rewrite, nat",
            vec![set(SetField::TcpSport(NEW_PORT)), set(SetField::TcpDport(NEW_PORT))],
            packets::new_ports,
        ),
        ("MODIFY_FIELD TTL", rewrite, vec![hops(HopField::Ipv4Ttl)], packets::fewer_hops_v4),
        (
            "MODIFY_FIELD TCP sequence number",
            "HTTP in the card",
            vec![add(NumberField::TcpSequence, NUMBER)],
            packets::new_sequence,
        ),
        (
            "MODIFY_FIELD TCP acknowledgement",
            "HTTP in the card",
            vec![add(NumberField::TcpAcknowledgement, NUMBER)],
            packets::new_acknowledgement,
        ),
        (
            "SET_MAC_SRC, SET_MAC_DST",
            "encoding rewrite, older drivers",
            vec![Action::SetMacSrc(NEW_MAC), Action::SetMacDst(NEW_MAC)],
            packets::new_macs,
        ),
        (
            "SET_IPV4_DST",
            "encoding rewrite, older drivers",
            vec![Action::SetIpv4Dst(NEW_V4)],
            packets::new_destination,
        ),
        (
            "SET_IPV4_SRC",
            "encoding rewrite, older drivers",
            vec![Action::SetIpv4Src(NEW_V4)],
            packets::new_source,
        ),
        (
            "SET_TP_SRC, SET_TP_DST",
            "encoding rewrite, older drivers",
            vec![Action::SetTpSrc(NEW_PORT), Action::SetTpDst(NEW_PORT)],
            packets::new_ports,
        ),
        (
            "DEC_TTL",
            "encoding rewrite, older drivers",
            vec![Action::DecTtl],
            packets::fewer_hops_v4,
        ),
        ("COUNT", "which connections live", vec![Action::Count], packets::whole),
        ("AGE", "idle connections", vec![Action::Age { timeout_s: AGE_S }], packets::whole),
    ];
    let tcp6: Vec<Kind> = vec![
        (
            "MODIFY_FIELD IPv6 destination",
            "encoding rewrite, nat",
            vec![set(SetField::Ipv6Dst(NEW_V6))],
            packets::new_destination,
        ),
        (
            "MODIFY_FIELD hop limit",
            rewrite,
            vec![hops(HopField::Ipv6HopLimit)],
            packets::fewer_hops_v6,
        ),
        (
            "SET_IPV6_DST",
            "encoding rewrite, older drivers",
            vec![Action::SetIpv6Dst(NEW_V6)],
            packets::new_destination,
        ),
    ];
    let udp4: Vec<Kind> = vec![(
        "MODIFY_FIELD UDP ports",
        "encoding rewrite, nat",
        vec![set(SetField::UdpSport(NEW_PORT)), set(SetField::UdpDport(NEW_PORT))],
        packets::new_ports,
    )];
    let all = [
        (flow(Transport::Tcp, false), tcp4),
        (flow(Transport::Tcp, true), tcp6),
        (flow(Transport::Udp, false), udp4),
    ];
    let mut trials = Vec::new();
    for (flow, kinds) in all {
        for (name, needed_for, mut actions, is_right) in kinds {
            actions.push(outlet.action());
            trials.extend(trial(facts, flow, (name, needed_for), actions, is_right));
        }
    }
    trials
}

/// The tunnels that HNLB uses.
pub(crate) fn tunnels(facts: &Facts, outlet: Outlet) -> Vec<Trial> {
    let kinds = [
        ("ipip over IPv4", Mode::Ipip, false),
        ("gre over IPv4", Mode::Gre, false),
        ("gue over IPv4", Mode::Gue, false),
        ("geneve over IPv4", Mode::Geneve, false),
        ("ipip over IPv6", Mode::Ipip, true),
        ("gre over IPv6", Mode::Gre, true),
        ("gue over IPv6", Mode::Gue, true),
        ("geneve over IPv6", Mode::Geneve, true),
    ];
    let tcp = flow(Transport::Tcp, false);
    let tried = |(name, mode, ipv6): (&'static str, Mode, bool)| {
        let (from, to): (IpAddr, IpAddr) = match ipv6 {
            false => (VIP_V4.into(), NEW_V4.into()),
            true => (VIP_V6.into(), NEW_V6.into()),
        };
        let tunnel = Tunnel::of(mode, None)?;
        let mut actions = enter(&Encap::new(tunnel, from, to, 64)?, &tcp?).to_vec();
        actions.push(outlet.action());
        let words = (name, "encoding rewrite, tunnels");
        let asked = trial(facts, tcp, words, actions, packets::tunnelled)?;
        Some(Trial { area: Area::Tunnel, ..asked })
    };
    kinds.into_iter().filter_map(tried).collect()
}

/// The Ethernet header goes, and another comes with the outer headers behind it.
fn enter(encap: &Encap, flow: &FlowKey) -> [Action; 2] {
    let kind: u16 = if encap.is_ipv6() { 0x86dd } else { 0x0800 };
    let outer = encap.of_flow(flow);
    let headers = [&NEW_MAC.0[..], &NEW_MAC.0[..], &kind.to_be_bytes(), &outer].concat();
    [Action::RawDecap(vec![0; 14]), Action::RawEncap(headers)]
}
