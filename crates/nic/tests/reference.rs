//! The NIC's decision equals a linear search through the accepted rules.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use common::{Masks, Packet, nic, receive, rule};
use dpdk::flow::{Action, FlowPort, RuleHandle};
use flow::CardProfile;
use nic::{DropReason, Nic, NicConfig, Reta};
use proptest::prelude::*;
use wire::toeplitz::{MICROSOFT_KEY, Toeplitz};

#[derive(Clone, Copy, Debug)]
struct Wish {
    packet: Packet,
    masks: Masks,
    queue: Option<u16>,
    mark: Option<u16>,
}

/// What the reference knows of an accepted rule.
struct Accepted {
    wish: Wish,
    handle: Option<RuleHandle>,
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn same(a: u128, b: u128, mask: u128) -> bool {
    a & mask == b & mask
}

fn matches(profile: CardProfile, wish: &Wish, packet: &Packet) -> bool {
    let (rule, masks) = (&wish.packet, &wish.masks);
    let any_protocol = profile == CardProfile::X550 && masks.sport == 0 && masks.dport == 0;
    !packet.fragment
        && rule.src.is_ipv4() == packet.src.is_ipv4()
        && (any_protocol || rule.proto == packet.proto)
        && same(bits(rule.src.ip()), bits(packet.src.ip()), masks.src)
        && same(bits(rule.dst.ip()), bits(packet.dst.ip()), masks.dst)
        && (any_protocol
            || same(rule.src.port().into(), packet.src.port().into(), masks.sport.into()))
        && (any_protocol
            || same(rule.dst.port().into(), packet.dst.port().into(), masks.dport.into()))
}

/// Where RSS sends a packet, by the hash function that the vectors check.
fn rss_queue(packet: &Packet) -> u16 {
    let mut input = vec![];
    for address in [packet.src.ip(), packet.dst.ip()] {
        match address {
            IpAddr::V4(address) => input.extend(address.octets()),
            IpAddr::V6(address) => input.extend(address.octets()),
        }
    }
    if !packet.fragment && matches!(packet.proto, 6 | 17) {
        input.extend(packet.src.port().to_be_bytes());
        input.extend(packet.dst.port().to_be_bytes());
    }
    static TOEPLITZ: Toeplitz = Toeplitz::new(&MICROSOFT_KEY);
    (TOEPLITZ.hash(&input) % 128 % 3) as u16
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
                true => IpAddr::V6(Ipv6Addr::from(u128::from(net) << 64 | u128::from(host))),
            };
            let src = SocketAddr::new(ip(a, 1), 1024 + sport);
            let dst = SocketAddr::new(ip(b, 2), 80 + dport);
            Packet { src, dst, proto, vlan, fragment }
        })
}

fn wishes() -> impl Strategy<Value = Wish> {
    let mask =
        |ones: u128| prop_oneof![3 => Just(ones), 1 => Just(0), 1 => Just(ones & 0xffff_fffe)];
    let masks = (mask(u128::MAX), mask(u128::MAX), mask(0xffff), mask(0xffff));
    let exact = prop::bool::weighted(0.6);
    let packet = packets().prop_filter("ports", |packet| matches!(packet.proto, 6 | 17));
    let mark = prop::option::of(0_u16..20);
    (packet, masks, exact, prop::option::weighted(0.9, 0_u16..8), mark).prop_map(
        |(packet, (src, dst, sport, dport), exact, queue, mark)| {
            let masks = Masks { src, dst, sport: sport as u16, dport: dport as u16 };
            Wish { packet, masks: if exact { common::EXACT } else { masks }, queue, mark }
        },
    )
}

fn create(nic: &Nic, wish: &Wish) -> Option<Accepted> {
    let target = wish.queue.map_or(Action::Drop, Action::Queue);
    let mut actions = vec![target];
    actions.extend(wish.mark.map(|mark| Action::Mark(mark.into())));
    let rule = rule(&wish.packet, wish.masks, actions);
    let mut flows = nic.flows();
    let valid = flows.validate(&rule);
    let created = flows.create(&rule);
    assert!(created.is_err() || valid.is_ok(), "what is created has validated");
    created.ok().map(|handle| Accepted { wish: *wish, handle: Some(handle) })
}

fn agree(profile: CardProfile, nic: &Nic, rules: &[Accepted], packet: &Packet) {
    let hits: Vec<_> = rules.iter().filter(|rule| matches(profile, &rule.wish, packet)).collect();
    assert!(hits.len() < 2, "one mask a flow type: no two rules match one packet");
    let got = receive(nic, packet);
    assert_eq!(got.matched, !hits.is_empty(), "{packet:?}");
    let Some(hit) = hits.first() else {
        assert_eq!((got.queue, got.mark, got.dropped), (rss_queue(packet), None, None));
        return;
    };
    let silent = if profile == CardProfile::X550 { Some(0) } else { None };
    assert_eq!(got.mark, hit.wish.mark.map(u32::from).or(silent));
    match hit.wish.queue {
        Some(queue) => assert_eq!((got.queue, got.dropped), (queue, None)),
        None => assert_eq!(got.dropped, Some(DropReason::Rule)),
    }
}

fn run(
    profile: CardProfile,
    steps: &[(Wish, Option<prop::sample::Index>)],
    packets: &[Packet],
) -> usize {
    let config = NicConfig { reta: Reta::Queues(3), ..NicConfig::new(profile, 8) };
    let nic = Nic::new(&config).unwrap();
    let mut rules: Vec<Accepted> = vec![];
    for (wish, destroy) in steps {
        rules.extend(create(&nic, wish));
        if let (Some(index), false) = (destroy, rules.is_empty()) {
            let mut gone = rules.swap_remove(index.index(rules.len()));
            nic.flows().destroy(gone.handle.take().unwrap()).unwrap();
        }
        for packet in packets.iter().chain([&wish.packet]) {
            agree(profile, &nic, &rules, packet);
        }
        assert_eq!(nic.stats().rules, rules.len());
    }
    let stats = nic.stats();
    assert_eq!(stats.received, stats.matched + stats.missed);
    assert_eq!(stats.per_queue.iter().sum::<u64>() + stats.dropped, stats.received);
    stats.matched as usize
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn x550_agrees_with_a_linear_search(
        steps in prop::collection::vec((wishes(), prop::option::weighted(0.3, any::<prop::sample::Index>())), 1..30),
        packets in prop::collection::vec(packets(), 20),
    ) {
        run(CardProfile::X550, &steps, &packets);
    }

    #[test]
    fn e810_agrees_with_a_linear_search(
        steps in prop::collection::vec((wishes(), prop::option::weighted(0.3, any::<prop::sample::Index>())), 1..30),
        packets in prop::collection::vec(packets(), 20),
    ) {
        run(CardProfile::E810, &steps, &packets);
    }

    /// Bytes that are no packet go to the first default queue and nothing panics.
    #[test]
    fn any_bytes_are_delivered(frame in prop::collection::vec(any::<u8>(), 0..120)) {
        let nic = nic(CardProfile::E810, 4);
        let mut out = [nic::Disposition::default()];
        prop_assert_eq!(nic.receive_burst([frame.as_slice()], 0, &mut out), 1);
        prop_assert!(out[0].queue == 0 && !out[0].matched && out[0].dropped.is_none());
    }
}

/// The generators reach both outcomes often enough to mean something.
#[test]
fn rules_and_packets_of_the_generators_meet() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let all: Vec<Packet> =
        (0..100).map(|_| packets().new_tree(&mut runner).unwrap().current()).collect();
    let steps: Vec<_> =
        (0..60).map(|_| (wishes().new_tree(&mut runner).unwrap().current(), None)).collect();
    for profile in [CardProfile::X550, CardProfile::E810] {
        let matched = run(profile, &steps, &all);
        assert!((100..5000).contains(&matched), "{profile}: {matched}");
    }
}

use proptest::strategy::ValueTree;
