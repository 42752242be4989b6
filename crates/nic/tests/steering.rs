//! The steering tables' decision equals a linear search, group by group,
//! through the accepted rules.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use common::{Masks, Packet, receive, rule};
use dpdk::flow::{Action, Attributes, FlowPort, Modify, RuleHandle, SetField};
use flow::CardProfile;
use nic::{DropReason, Nic, NicConfig, Reta};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

/// Every mask has a priority of its own in a group, so that the order of rules
/// that overlap is defined.
const MASKS: [Masks; 4] = [
    common::EXACT,
    Masks { src: 0, ..common::EXACT },
    Masks { sport: 0, src: 1, ..common::EXACT },
    Masks { src: 0, dst: 0xff00, sport: 0, dport: 0 },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Queue(u16),
    Drop,
    Jump(u32),
    Port(u16),
}

#[derive(Clone, Copy, Debug)]
struct Wish {
    transfer: bool,
    group: u32,
    mask: usize,
    packet: Packet,
    /// New destination: last byte of the address, and port.
    rewrite: Option<(u8, u16)>,
    mark: Option<u16>,
    to: To,
}

struct Accepted {
    wish: Wish,
    handle: Option<RuleHandle>,
    seen: u64,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Queue(u16),
    Default,
    Dropped(DropReason),
    Out(u16),
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn matches(wish: &Wish, packet: &Packet) -> bool {
    let (rule, masks) = (&wish.packet, &MASKS[wish.mask]);
    let same = |a: u128, b: u128, mask: u128| a & mask == b & mask;
    !packet.fragment
        && rule.src.is_ipv4() == packet.src.is_ipv4()
        && rule.proto == packet.proto
        && same(bits(rule.src.ip()), bits(packet.src.ip()), masks.src)
        && same(bits(rule.dst.ip()), bits(packet.dst.ip()), masks.dst)
        && same(rule.src.port().into(), packet.src.port().into(), masks.sport.into())
        && same(rule.dst.port().into(), packet.dst.port().into(), masks.dport.into())
}

fn destination(packet: &Packet, (host, port): (u8, u16)) -> SocketAddr {
    let ip = match packet.dst.ip() {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, host))
        }
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from(u128::from(ip) & !0xff | u128::from(host))),
    };
    SocketAddr::new(ip, port)
}

/// The reference: one domain.
fn walk(
    rules: &mut [Accepted],
    transfer: bool,
    packet: &mut Packet,
    mark: &mut Option<u32>,
) -> Result<To, bool> {
    let mut group = 0;
    for jumps in 0..32 {
        let here = rules.iter_mut().filter(|rule| {
            let wish = &rule.wish;
            (wish.transfer, wish.group) == (transfer, group) && matches(wish, packet)
        });
        let Some(hit) = here.min_by_key(|rule| rule.wish.mask) else { return Err(jumps == 0) };
        hit.seen += 1;
        *mark = hit.wish.mark.map(u32::from).or(*mark);
        if let Some(rewrite) = hit.wish.rewrite {
            packet.dst = destination(packet, rewrite);
        }
        match hit.wish.to {
            To::Jump(next) => group = next,
            to => return Ok(to),
        }
    }
    Err(false)
}

/// The reference: where `packet` goes, as what, with which mark.
fn expected(rules: &mut [Accepted], packet: &Packet) -> (End, Packet, Option<u32>) {
    let (mut packet, mut mark) = (*packet, None);
    let mut end = walk(rules, true, &mut packet, &mut mark);
    if end.is_err() {
        end = walk(rules, false, &mut packet, &mut mark);
    }
    let end = match end {
        Ok(To::Queue(queue)) => End::Queue(queue),
        Ok(To::Port(port)) => End::Out(port),
        Ok(To::Drop) => End::Dropped(DropReason::Rule),
        Ok(To::Jump(_)) | Err(false) => End::Dropped(DropReason::Unmatched),
        Err(true) => End::Default,
    };
    (end, packet, mark)
}

/// Few addresses and ports, so that rules and packets meet.
fn packets() -> impl Strategy<Value = Packet> {
    let end = || (0_u16..3, 0_u16..3);
    let proto = prop_oneof![4 => Just(6_u8), 3 => Just(17), 1 => Just(1)];
    (any::<bool>(), end(), end(), proto, prop::option::of(1_u16..4095), prop::bool::weighted(0.1))
        .prop_map(|(v6, (a, sport), (b, dport), proto, vlan, fragment)| {
            let ip = |host: u16, net: u16| match v6 {
                false => {
                    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | u32::from(net) << 8 | u32::from(host)))
                }
                true => IpAddr::V6(Ipv6Addr::from(u128::from(net) << 8 | u128::from(host))),
            };
            let src = SocketAddr::new(ip(a, 1), 1024 + sport);
            let dst = SocketAddr::new(ip(b, 2), 80 + dport);
            Packet { src, dst, proto, vlan, fragment }
        })
}

fn wishes() -> impl Strategy<Value = Wish> {
    let packet = packets().prop_filter("ports", |packet| matches!(packet.proto, 6 | 17));
    let to = prop_oneof![
        3 => (0_u16..8).prop_map(To::Queue),
        1 => Just(To::Drop),
        3 => (0_u32..4).prop_map(To::Jump),
        2 => (0_u16..2).prop_map(To::Port),
    ];
    let rewrite = prop::option::of((0_u8..3, 80_u16..83));
    let group = prop_oneof![3 => Just(0_u32), 1 => 1_u32..4];
    (any::<bool>(), group, 0..MASKS.len(), packet, rewrite, prop::option::of(0_u16..9), to)
        .prop_map(|(transfer, group, mask, packet, rewrite, mark, to)| Wish {
            transfer,
            group,
            mask,
            packet,
            rewrite,
            mark,
            to,
        })
}

fn actions(wish: &Wish) -> Vec<Action> {
    let mut actions = vec![Action::Count];
    if let Some(rewrite) = wish.rewrite {
        let dst = destination(&wish.packet, rewrite);
        // Only the host part is the same for all packets that match.
        let set = |field| Action::ModifyField(Modify::Set(field));
        actions.push(match dst.ip() {
            IpAddr::V4(ip) => set(SetField::Ipv4Dst(ip)),
            IpAddr::V6(ip) => set(SetField::Ipv6Dst(ip)),
        });
        let port = dst.port();
        actions.push(set(match wish.packet.proto {
            6 => SetField::TcpDport(port),
            _ => SetField::UdpDport(port),
        }));
    }
    actions.extend(wish.mark.map(|mark| Action::Mark(mark.into())));
    actions.push(match wish.to {
        To::Queue(queue) => Action::Queue(queue),
        To::Drop => Action::Drop,
        To::Jump(group) => Action::Jump(group),
        To::Port(port) => Action::RepresentedPort(port),
    });
    actions
}

fn create(nic: &Nic, wish: &Wish) -> Option<Accepted> {
    let attributes = Attributes {
        group: wish.group,
        priority: wish.mask as u32,
        ingress: !wish.transfer,
        transfer: wish.transfer,
        egress: false,
    };
    let mut rule = rule(&wish.packet, MASKS[wish.mask], actions(wish));
    rule.attributes = attributes;
    let mut flows = nic.flows();
    let valid = flows.validate(&rule);
    let created = flows.create(&rule);
    assert!(created.is_err() || valid.is_ok(), "what is created has validated");
    created.ok().map(|handle| Accepted { wish: *wish, handle: Some(handle), seen: 0 })
}

fn agree(nic: &Nic, rules: &mut [Accepted], packet: &Packet) {
    let (end, packet_out, mark) = expected(rules, packet);
    let got = receive(nic, packet);
    let got_end = match (got.dropped, got.forward, got.matched) {
        (Some(reason), _, _) => End::Dropped(reason),
        (None, Some(port), _) => End::Out(port),
        (None, None, false) => End::Default,
        (None, None, true) => End::Queue(got.queue),
    };
    assert_eq!((got_end, got.mark), (end, mark), "{packet:?}");
    let undecided = matches!(end, End::Default | End::Dropped(DropReason::Unmatched));
    assert_eq!(got.matched, !undecided, "a JUMP alone is no match: {packet:?}");
    let mut frame = packet.frame();
    got.edits.apply(&mut frame);
    let (ip, ports) = (if packet.vlan.is_some() { 18 } else { 14 }, packet_out.dst.port());
    let at = ip + if packet.dst.is_ipv4() { 16 } else { 24 };
    let dst: Vec<u8> = match packet_out.dst.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    assert_eq!(&frame[at..at + dst.len()], dst);
    if !packet.fragment && matches!(packet.proto, 6 | 17) {
        assert_eq!(frame[at + dst.len() + 2..][..2], ports.to_be_bytes());
    }
}

fn run(steps: &[(Wish, Option<prop::sample::Index>)], packets: &[Packet]) -> nic::NicStats {
    let config = NicConfig {
        reta: Reta::Queues(3),
        switch: vec![0, 1],
        ..NicConfig::new(CardProfile::ConnectX, 8)
    };
    let nic = Nic::new(&config).unwrap();
    let mut rules: Vec<Accepted> = vec![];
    for (wish, destroy) in steps {
        rules.extend(create(&nic, wish));
        if let (Some(index), false) = (destroy, rules.is_empty()) {
            let mut gone = rules.swap_remove(index.index(rules.len()));
            nic.flows().destroy(gone.handle.take().unwrap()).unwrap();
        }
        for packet in packets.iter().chain([&wish.packet]) {
            agree(&nic, &mut rules, packet);
        }
        assert_eq!(nic.stats().rules, rules.len());
    }
    for rule in &rules {
        let counters = nic.flows().query(rule.handle.as_ref().unwrap()).unwrap();
        assert_eq!(counters.packets, rule.seen, "{:?}", rule.wish);
    }
    let stats = nic.stats();
    assert_eq!(stats.received, stats.matched + stats.missed);
    assert_eq!(
        stats.per_queue.iter().sum::<u64>() + stats.dropped + stats.forwarded + stats.unmatched,
        stats.received
    );
    stats
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_tables_agree_with_a_linear_search(
        steps in prop::collection::vec((wishes(), prop::option::weighted(0.2, any::<prop::sample::Index>())), 1..40),
        packets in prop::collection::vec(packets(), 20),
    ) {
        run(&steps, &packets);
    }

    #[test]
    fn any_bytes_are_delivered(frame in prop::collection::vec(any::<u8>(), 0..120), wish in wishes()) {
        let config = NicConfig { switch: vec![0, 1], ..NicConfig::new(CardProfile::ConnectX, 8) };
        let nic = Nic::new(&config).unwrap();
        create(&nic, &wish);
        let mut out = [nic::Disposition::default()];
        prop_assert_eq!(nic.receive_burst([frame.as_slice()], 0, &mut out), 1);
        prop_assert!(out[0].queue == 0 && !out[0].matched && out[0].dropped.is_none());
    }
}

/// The generators reach every outcome often enough to mean something.
#[test]
fn rules_and_packets_of_the_generators_meet() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let all: Vec<Packet> =
        (0..100).map(|_| packets().new_tree(&mut runner).unwrap().current()).collect();
    let steps: Vec<_> =
        (0..60).map(|_| (wishes().new_tree(&mut runner).unwrap().current(), None)).collect();
    let stats = run(&steps, &all);
    for count in [stats.matched, stats.missed, stats.dropped, stats.forwarded, stats.unmatched] {
        assert!(count > 50, "{stats:?}");
    }
}
