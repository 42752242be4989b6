//! The same rules in the kernel and in the emulated card do the same to packets. Run by
//! `BPF_PROG_TEST_RUN`; skipped where that isn't permitted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

use dpdk::flow::{
    Action, Attributes, EthFields, Field, FlowError, FlowPort, HopField, Item, Match, Modify, Rule,
    RuleHandle, SetField,
};
use flow::{CardProfile, Encoding, EncodingChoice};
use nic::{Disposition, Nic, NicConfig};
use offload::{ProbeInput, Style, probe_card};
use packet::{HeapPacket, PacketBuf};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testkit::segments::{OWN, PEER, Segment, frame};
use wire::{Encap, FlowKey, Fragment, Headers, Mac, Net, TcpFlags, Transport, Tunnel};
use xdp::{KernelFlows, Outcome, Output, Program, Settings};

const MTU: u16 = 1400;
/// The numbers of the port where packets arrive, which is the loopback interface, and of
/// another.
const PORTS: [u16; 2] = [3, 5];

/// The time of the ageing test, in nanoseconds.
static NOW: AtomicU64 = AtomicU64::new(0);

fn kernel(capacity: u32) -> Option<KernelFlows> {
    let (mac, actions, seed, always_redirects) = (Mac(OWN), capacity, 0x5eed, false);
    let settings = Settings { mac, capacity, actions, seed, always_redirects };
    let outputs = PORTS.into_iter().zip([1, 7]);
    let outputs: HashMap<_, _> =
        outputs.map(|(port, interface)| (port, Output { interface, mtu: MTU })).collect();
    match Program::load(&settings) {
        Ok(program) => {
            Some(KernelFlows::new(program, outputs, || NOW.load(Ordering::Relaxed), &[]).unwrap())
        }
        Err(error) if error.is_permission() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn transfer(group: u32, priority: u32) -> Attributes {
    Attributes { group, priority, transfer: true, ..Attributes::default() }
}

/// The rule that leads frames for our address to the connections' rules.
fn entry() -> Rule {
    let dst = Field { spec: Mac(OWN), mask: Mac::BROADCAST };
    Rule {
        attributes: transfer(0, 1),
        pattern: vec![Item::Eth(Match::Fields(EthFields { dst, ..EthFields::default() }))],
        actions: vec![Action::Count, Action::Jump(1)],
    }
}

fn address(rng: &mut StdRng, v6: bool) -> SocketAddr {
    let ip: IpAddr = if v6 {
        Ipv6Addr::from(rng.random::<u128>()).into()
    } else {
        rng.random::<[u8; 4]>().into()
    };
    SocketAddr::new(ip, rng.random())
}

fn flow(rng: &mut StdRng) -> FlowKey {
    let v6 = rng.random();
    let proto = if rng.random() { Transport::Tcp } else { Transport::Udp };
    FlowKey::new(proto, address(rng, v6), address(rng, v6)).unwrap()
}

/// A rule as the encoding `rewrite` makes them, which writes what `rng` says.
fn rule(rng: &mut StdRng, flow: &FlowKey) -> Rule {
    let tunnel = rng.random_ratio(1, 3);
    rule_of(rng, flow, tunnel)
}

fn rule_of(rng: &mut StdRng, flow: &FlowKey, tunnel: bool) -> Rule {
    let mut actions = if tunnel { Vec::new() } else { rewrite(rng, flow) };
    let hops =
        if matches!(flow, FlowKey::V6(_)) { HopField::Ipv6HopLimit } else { HopField::Ipv4Ttl };
    actions.push(Action::ModifyField(Modify::Add(hops, u8::MAX)));
    if tunnel {
        actions.extend(enter(rng, flow));
    }
    let output = PORTS[usize::from(rng.random::<bool>())];
    actions.extend([Action::Count, Action::Age { timeout_s: 10 }, Action::RepresentedPort(output)]);
    let mut rule = Rule { attributes: transfer(1, 1), ..Rule::five_tuple(flow, actions) };
    for item in &mut rule.pattern {
        match item {
            Item::Tcp(Match::Fields(fields)) => fields.tcp_flags = Field { spec: 0, mask: 7 },
            Item::Ipv4(Match::Fields(fields)) => {
                fields.fragment = Field { spec: 0, mask: 0x3fff };
                fields.tos = Field { spec: 0, mask: if tunnel { 0xff } else { 0 } };
            }
            Item::Ipv6(Match::Fields(fields)) if tunnel => {
                fields.vtc_flow = Field { spec: 0, mask: 0x0ff0_0000 };
            }
            _ => {}
        }
    }
    rule
}

/// Any tunnel.
fn enter(rng: &mut StdRng, flow: &FlowKey) -> [Action; 2] {
    let tunnel = Tunnel::ALL[rng.random_range(0..Tunnel::ALL.len())];
    let v6 = rng.random();
    let [src, dst] = std::array::from_fn(|_| address(rng, v6).ip());
    let outer = Encap::new(tunnel, src, dst, rng.random()).unwrap().of_flow(flow);
    let kind = if v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
    let headers = [&rng.random::<[u8; 12]>()[..], &kind, &outer].concat();
    [Action::RawDecap(vec![0; 14]), Action::RawEncap(headers)]
}

/// New addresses and ports.
fn rewrite(rng: &mut StdRng, flow: &FlowKey) -> Vec<Action> {
    let mut sets = Vec::new();
    for source in [true, false] {
        if rng.random_ratio(1, 3) {
            continue;
        }
        let new = address(rng, matches!(flow, FlowKey::V6(_)));
        sets.push(match (new.ip(), source) {
            (IpAddr::V4(new), true) => SetField::Ipv4Src(new),
            (IpAddr::V4(new), false) => SetField::Ipv4Dst(new),
            (IpAddr::V6(new), true) => SetField::Ipv6Src(new),
            (IpAddr::V6(new), false) => SetField::Ipv6Dst(new),
        });
        if rng.random() {
            sets.push(match (flow.proto(), source) {
                (Transport::Tcp, true) => SetField::TcpSport(new.port()),
                (Transport::Tcp, false) => SetField::TcpDport(new.port()),
                (Transport::Udp, true) => SetField::UdpSport(new.port()),
                (Transport::Udp, false) => SetField::UdpDport(new.port()),
            });
        }
    }
    sets.extend([SetField::MacSrc(Mac(rng.random())), SetField::MacDst(Mac(rng.random()))]);
    sets.into_iter().map(|set| Action::ModifyField(Modify::Set(set))).collect()
}

/// A packet of the connection, most often an ordinary one; never one that the guards of a
/// real card keep from its rules.
fn packet(rng: &mut StdRng, flow: &FlowKey) -> Vec<u8> {
    let length =
        if rng.random_ratio(1, 8) { rng.random_range(1300..1450) } else { rng.random_range(0..80) };
    let payload: Vec<u8> = (0..length).map(|_| rng.random()).collect();
    let segments = [Segment::Syn, Segment::SynAck, Segment::Fin, Segment::Rst];
    let segment =
        if rng.random_ratio(1, 8) { segments[rng.random_range(0..4)] } else { Segment::Ack };
    let mut bytes = frame(flow.proto(), flow.src(), flow.dst(), segment, &payload);
    match rng.random_range(0..8) {
        0 => bytes.truncate(rng.random_range(14..=bytes.len())),
        1 => bytes.extend((0..rng.random_range(1..20)).map(|_| rng.random::<u8>())),
        2 if matches!(flow, FlowKey::V4(_)) => {
            let fragment: [u8; 2] = [rng.random_range(0..64), 0];
            bytes[20..22].copy_from_slice(&fragment);
        }
        3 => bytes[..6].copy_from_slice(&PEER),
        4 => bytes[15] = 0x10,
        _ => {}
    }
    bytes
}

/// Whether the program may leave to software what a card forwards: headers that it doesn't
/// read, lengths that a card doesn't check.
fn may_go_up(frame: &[u8], rule: &Rule) -> bool {
    let Ok(headers) = Headers::parse(frame) else { return true };
    let plain = match headers.net {
        Net::Ipv4 => 20,
        Net::Ipv6 => 40,
        Net::Arp | Net::Other(_) => return true,
    };
    headers.l4 - headers.l3 != plain
        || headers.end - headers.l3 + overhead(rule) > MTU
        || headers.fragment != Fragment::Whole
        || headers.tcp_flags.any(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST)
}

/// Bytes that the rule's packets grow by.
fn overhead(rule: &Rule) -> u16 {
    let headers = rule.actions.iter().find_map(|action| match action {
        Action::RawEncap(headers) => Some(headers.len() - 14),
        _ => None,
    });
    headers.unwrap_or(0) as u16
}

/// The bytes behind the datagram.
fn padding(frame: &[u8]) -> usize {
    Headers::parse(frame).map_or(0, |headers| frame.len() - usize::from(headers.end))
}

#[test]
fn the_kernel_does_what_the_emulated_card_does_with_the_same_rules() {
    let Some(mut kernel) = kernel(512) else { return };
    let config = NicConfig { switch: PORTS.to_vec(), ..NicConfig::new(CardProfile::ConnectX, 1) };
    let card = Nic::new(&config).unwrap();
    let mut rng = StdRng::seed_from_u64(18);
    let flows: Vec<_> = (0..256).map(|_| flow(&mut rng)).collect();
    // The card has no rules for the shortest outer headers.
    let mut taken = |flow| loop {
        let rule = rule(&mut rng, flow);
        if card.flows().validate(&rule).is_ok() {
            return rule;
        }
    };
    let rules: Vec<Rule> = flows.iter().map(&mut taken).collect();
    let mut handles: Vec<[RuleHandle; 2]> = Vec::new();
    for rule in std::iter::once(&entry()).chain(&rules) {
        handles.push([kernel.create(rule).unwrap(), card.flows().create(rule).unwrap()]);
    }
    let packets = std::env::var("XDP_PACKETS").map_or(50_000, |packets| packets.parse().unwrap());
    let (mut forwarded, mut up) = (0, 0);
    for number in 0..packets {
        let at = rng.random_range(0..flows.len());
        let (flow, rule) = (flows[at], &rules[at]);
        let before = packet(&mut rng, &flow);
        let ran = kernel.run(&before).unwrap();
        let mut decided = [Disposition::default()];
        card.receive_burst([&*before], 0, &mut decided);
        let [decided] = decided;
        if ran.outcome == Outcome::Up {
            assert_eq!(ran.frame, before, "packet {number}");
            assert!(
                decided.forward.is_none() || may_go_up(&before, rule),
                "packet {number}: {before:02x?}"
            );
            up += 1;
            continue;
        }
        let port = if ran.outcome == Outcome::Back { PORTS[0] } else { PORTS[1] };
        assert_eq!(decided.forward, Some(port), "packet {number}: {before:02x?}");
        let mut after = HeapPacket::new(&before);
        assert!(decided.change(&mut after));
        let mut after = PacketBuf::bytes(&after);
        if overhead(rule) > 0 {
            // As software, and other than the card, the program leaves the padding outside.
            after = &after[..after.len() - padding(&before)];
        }
        assert_eq!(ran.frame, after, "packet {number}: {before:02x?}");
        forwarded += 1;
    }
    assert!(forwarded > packets / 3 && up > packets / 6, "{forwarded} forwarded, {up} up");
    // The entry has counted what all connections' rules have.
    let entry = kernel.query(&handles[0][0]).unwrap().packets;
    assert_eq!(entry, forwarded);
    for [handle, _] in handles.drain(1..2) {
        kernel.destroy(handle).unwrap();
    }
    assert_eq!(kernel.query(&handles[0][0]).unwrap().packets, forwarded, "nothing is forgotten");
}

#[test]
fn the_probe_finds_a_card_that_rewrites() {
    let Some(mut kernel) = kernel(64) else { return };
    let outputs = [Some(PORTS[0]), None, Some(9), Some(PORTS[1])];
    let input = ProbeInput { queues: 1, mark_arrives: None, outputs: &outputs };
    let probe = probe_card(&mut kernel, &input, EncodingChoice::Auto);
    assert_eq!(probe.encoding, Encoding::Rewrite, "{:#?}", probe.reasons);
    let card = probe.rewrite.as_ref().unwrap();
    // Port 9 isn't XDP's.
    assert_eq!(card.outputs, [Some(PORTS[0]), None, None, Some(PORTS[1])]);
    let Style { legacy, port_id, age, flags, fragments } = card.style;
    assert_eq!((legacy, port_id, age, flags, fragments), (false, false, true, true, true));
    assert_eq!(card.types, [true; 4]);
    assert!(probe.rewrite.unwrap().tunnels.iter().all(|taken| *taken));
    assert!(probe.left.is_empty(), "nothing of the probe stays");
}

#[test]
fn refusals_say_what_is_wrong() {
    let Some(mut kernel) = kernel(8) else { return };
    let mut rng = StdRng::seed_from_u64(19);
    let same = flow(&mut rng);
    let first = rule(&mut rng, &same);
    let handle = kernel.create(&first).unwrap();
    assert_eq!(kernel.create(&first).unwrap_err().errno, FlowError::EXISTS);
    let mut full = None;
    for _ in 0..100 {
        let flow = flow(&mut rng);
        if let Err(error) = kernel.create(&rule(&mut rng, &flow)) {
            full = Some(error);
            break;
        }
    }
    assert!(full.unwrap().is_full());
    assert!(kernel.query(&handle).is_ok(), "a full table keeps what it has");
    type Change = fn(&mut Rule);
    let wrong: [(&str, Change); 7] = [
        ("rules of the switch", |rule| rule.attributes.transfer = false),
        ("no such group", |rule| rule.attributes.group = 2),
        ("whole packets", |rule| {
            if let Item::Ipv4(Match::Fields(fields)) = &mut rule.pattern[1] {
                fields.fragment = Field::default();
            }
        }),
        ("5-tuples", |rule| _ = rule.pattern.pop()),
        ("port 4", |rule| {
            _ = rule.actions.splice(rule.actions.len() - 1.., [Action::RepresentedPort(4)])
        }),
        ("one off their TTL", |rule| {
            rule.actions.retain(|action| !matches!(action, Action::ModifyField(Modify::Add(..))));
        }),
        ("no such action", |rule| rule.actions.push(Action::Drop)),
    ];
    let [a, b] = ["10.0.0.1:5", "10.0.0.2:6"].map(|end| end.parse().unwrap());
    let v4 = FlowKey::new(Transport::Udp, a, b).unwrap();
    for (words, change) in wrong {
        let mut rule = rule_of(&mut rng, &v4, false);
        change(&mut rule);
        let error = kernel.validate(&rule).unwrap_err();
        assert!(error.message.contains(words), "{words}: {error}");
        assert_eq!(error.errno, FlowError::NOT_SUPPORTED);
    }
}

#[test]
fn rules_without_packets_are_idle_after_their_timeout() {
    let Some(mut kernel) = kernel(8) else { return };
    let mut rng = StdRng::seed_from_u64(20);
    let flows = [flow(&mut rng), flow(&mut rng)];
    NOW.store(0, Ordering::Relaxed);
    let handles = flows.map(|flow| kernel.create(&rule(&mut rng, &flow)).unwrap());
    let at = |kernel: &mut KernelFlows, seconds: u64| {
        NOW.store(seconds * 1_000_000_000, Ordering::Relaxed);
        kernel.query_age().unwrap()
    };
    assert!(at(&mut kernel, 9).is_empty());
    let bytes = frame(flows[1].proto(), flows[1].src(), flows[1].dst(), Segment::Ack, b"x");
    assert_ne!(kernel.run(&bytes).unwrap().outcome, Outcome::Up);
    assert_eq!(at(&mut kernel, 11), [handles[0].port_value()]);
    assert_eq!(at(&mut kernel, 20), [handles[0].port_value()], "the other had a packet");
    assert_eq!(at(&mut kernel, 21).len(), 2);
    for handle in handles {
        kernel.destroy(handle).unwrap();
    }
    assert!(at(&mut kernel, 99).is_empty());
}
