//! The rules of services without connections do the same in the kernel and in the emulated
//! card, while they change. Run by `BPF_PROG_TEST_RUN`; skipped where that isn't permitted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use dpdk::flow::{
    Action, Attributes, EthFields, Field, FlowPort, HopField, Ipv4Fields, Ipv6Fields, Item, Match,
    Modify, PortFields, Rule, RuleHandle, SetField,
};
use flow::CardProfile;
use nic::{Disposition, Nic, NicConfig};
use packet::{HeapPacket, PacketBuf};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testkit::segments::{OWN, PEER, Segment, frame};
use wire::{Mac, Transport};
use xdp::{KernelFlows, Outcome, Output, Program, Settings};

/// The numbers of the port where packets arrive, which is the loopback interface, and of
/// another.
const PORTS: [u16; 2] = [0, 1];
/// Rules of a service overlap on two levels while they are exchanged.
const LEVELS: [u32; 2] = [1, 2];

fn kernel() -> Option<KernelFlows> {
    let (mac, capacity, actions, seed) = (Mac(OWN), 512, 512, 0x5eed);
    let settings = Settings { mac, capacity, actions, seed, always_redirects: false };
    let outputs: HashMap<_, _> = PORTS
        .into_iter()
        .zip([1, 7])
        .map(|(port, interface)| (port, Output { interface, mtu: 1500 }))
        .collect();
    match Program::load(&settings) {
        Ok(program) => Some(KernelFlows::new(program, outputs, || 0, &[]).unwrap()),
        Err(error) if error.is_permission() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A service without connections.
struct Service {
    vip: IpAddr,
    port: Option<u16>,
    protocol: Transport,
    group: u32,
}

fn services() -> [Service; 4] {
    let [v4, w4] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
    let v6 = IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
    let of = |vip, port, protocol, group| Service { vip, port, protocol, group };
    [
        of(v4, Some(53), Transport::Udp, 4),
        of(v4, None, Transport::Tcp, 5),
        of(v6, Some(53), Transport::Udp, 6),
        of(w4, None, Transport::Udp, 7),
    ]
}

fn transfer(group: u32, priority: u32) -> Attributes {
    Attributes { group, priority, transfer: true, ..Attributes::default() }
}

fn field<T>(spec: T, mask: T) -> Field<T> {
    Field { spec, mask }
}

fn gate(service: &Service) -> Rule {
    let dst = field(Mac(OWN), Mac::BROADCAST);
    let net = match service.vip {
        IpAddr::V4(vip) => Item::Ipv4(Match::Fields(Ipv4Fields {
            dst: field(vip.to_bits(), u32::MAX),
            fragment: field(0, 0x3fff),
            ..Ipv4Fields::default()
        })),
        IpAddr::V6(vip) => Item::Ipv6(Match::Fields(Ipv6Fields {
            dst: field(vip.to_bits(), u128::MAX),
            ..Ipv6Fields::default()
        })),
    };
    let ports = service.port.map_or(Match::Present, |port| {
        Match::Fields(PortFields { dport: field(port, u16::MAX), ..PortFields::default() })
    });
    let transport = match service.protocol {
        Transport::Tcp => Item::Tcp(ports),
        Transport::Udp => Item::Udp(ports),
    };
    Rule {
        attributes: transfer(0, 0),
        pattern: vec![
            Item::Eth(Match::Fields(EthFields { dst, ..EthFields::default() })),
            net,
            transport,
        ],
        actions: vec![Action::Jump(service.group)],
    }
}

/// Matches sources by value and mask.
fn from(v6: bool, value: u128, mask: u128) -> Item {
    if v6 {
        Item::Ipv6(Match::Fields(Ipv6Fields { src: field(value, mask), ..Ipv6Fields::default() }))
    } else {
        let src = field(value as u32, mask as u32);
        Item::Ipv4(Match::Fields(Ipv4Fields { src, ..Ipv4Fields::default() }))
    }
}

/// Sources that no client has: networks and single addresses.
fn impossible(v6: bool) -> Vec<(u128, u128)> {
    if v6 {
        let nets = [(0xff_u128 << 120, 0xff << 120), (0xfe80 << 112, 0xffc0 << 112)];
        let single = [1, 0x2001_0db8 << 96 | 0x77].map(|address| (address, u128::MAX));
        nets.into_iter().chain(single).collect()
    } else {
        let nets = [(0, 0xff00_0000), (0x7f00_0000, 0xff00_0000), (0xe000_0000, 0xe000_0000)];
        let single = [0x0a00_0001, 0x0a00_0002, 0xc000_02fe];
        nets.into_iter().chain(single.map(|address| (address, u32::MAX.into()))).collect()
    }
}

fn guards(service: &Service) -> Vec<Rule> {
    let v6 = service.vip.is_ipv6();
    let last_hop = if v6 {
        Item::Ipv6(Match::Fields(Ipv6Fields { hop_limit: field(0, 0xfe), ..Ipv6Fields::default() }))
    } else {
        Item::Ipv4(Match::Fields(Ipv4Fields { ttl: field(0, 0xfe), ..Ipv4Fields::default() }))
    };
    let sources = impossible(v6).into_iter().map(|(value, mask)| from(v6, value, mask));
    let items = [last_hop, Item::Vlan(Match::Present)].into_iter().chain(sources);
    let of = |item| Rule {
        attributes: transfer(service.group, 0),
        pattern: vec![Item::Eth(Match::Present), item],
        actions: vec![Action::Jump(2)],
    };
    items.map(of).collect()
}

/// Sends clients with these lowest bits anywhere.
fn clients(rng: &mut StdRng, service: &Service, (value, bits): (u32, u32), level: u32) -> Rule {
    let v6 = service.vip.is_ipv6();
    let hops = if v6 { HopField::Ipv6HopLimit } else { HopField::Ipv4Ttl };
    let set = |field| Action::ModifyField(Modify::Set(field));
    Rule {
        attributes: transfer(service.group, level),
        pattern: vec![Item::Eth(Match::Present), from(v6, value.into(), (1_u128 << bits) - 1)],
        actions: vec![
            set(SetField::MacDst(Mac(rng.random()))),
            set(SetField::MacSrc(Mac(rng.random()))),
            Action::ModifyField(Modify::Add(hops, u8::MAX)),
            Action::Count,
            Action::RepresentedPort(PORTS[usize::from(rng.random::<bool>())]),
        ],
    }
}

/// Blocks of the lowest bits that cover all addresses, each once.
fn blocks(rng: &mut StdRng) -> Vec<(u32, u32)> {
    let mut done = Vec::new();
    let mut open = vec![(0, 0)];
    while let Some((value, bits)) = open.pop() {
        if bits < 14 && rng.random_ratio(3, 3 + bits) {
            open.extend([(value, bits + 1), (value | 1 << bits, bits + 1)]);
        } else {
            done.push((value, bits));
        }
    }
    done
}

/// A packet to the service or to what is beside it.
fn packet(rng: &mut StdRng, service: &Service) -> Vec<u8> {
    let v6 = service.vip.is_ipv6();
    let random: u128 = rng.random();
    let source = match rng.random_range(0..8) {
        0 => {
            let all = impossible(v6);
            let (value, mask) = all[rng.random_range(0..all.len())];
            value & mask | random & !mask
        }
        // The neighbours of single addresses share their classes.
        1 => impossible(v6).last().unwrap().0 ^ 1 << 20,
        _ => random,
    };
    let source: IpAddr =
        if v6 { Ipv6Addr::from(source).into() } else { Ipv4Addr::from(source as u32).into() };
    let port = if rng.random_ratio(1, 4) { rng.random() } else { service.port.unwrap_or(9) };
    let protocol = match rng.random_ratio(1, 8) {
        true => Transport::Tcp,
        false => service.protocol,
    };
    let segments = [Segment::Ack, Segment::Syn, Segment::Fin, Segment::Rst];
    let segment = segments[rng.random_range(0..4)];
    let source = SocketAddr::new(source, rng.random());
    let payload: Vec<u8> = (0..rng.random_range(0..64)).map(|_| rng.random()).collect();
    let to = SocketAddr::new(service.vip, port);
    let mut bytes = frame(protocol, source, to, segment, &payload);
    match rng.random_range(0..12) {
        0 => bytes[..6].copy_from_slice(&PEER),
        1 => bytes[if v6 { 21 } else { 22 }] = rng.random_range(0..4),
        2 if !v6 => bytes[20..22].copy_from_slice(&[rng.random_range(0..64), 0]),
        3 => bytes.extend([0; 9]),
        _ => {}
    }
    bytes
}

struct Both {
    kernel: KernelFlows,
    card: Nic,
}

/// The same rule in the kernel and in the card.
type Handles = [RuleHandle; 2];

impl Both {
    fn create(&mut self, rule: &Rule) -> Handles {
        [self.kernel.create(rule).unwrap(), self.card.flows().create(rule).unwrap()]
    }

    fn destroy(&mut self, [one, other]: Handles) {
        self.kernel.destroy(one).unwrap();
        self.card.flows().destroy(other).unwrap();
    }

    /// Whether the packet was sent on, by both.
    fn compare(&self, before: &[u8]) -> bool {
        let ran = self.kernel.run(before).unwrap();
        let mut decided = [Disposition::default()];
        self.card.receive_burst([before], 0, &mut decided);
        let [decided] = decided;
        let Some(port) = decided.forward else {
            assert_eq!((ran.outcome, &*ran.frame), (Outcome::Up, before), "{before:02x?}");
            return false;
        };
        let out = if port == PORTS[0] { Outcome::Back } else { Outcome::Out };
        let mut after = HeapPacket::new(before);
        assert!(decided.change(&mut after));
        assert_eq!((ran.outcome, &*ran.frame), (out, PacketBuf::bytes(&after)), "{before:02x?}");
        true
    }
}

#[test]
fn the_kernel_serves_clients_as_the_emulated_card_does() {
    let Some(kernel) = kernel() else { return };
    let config = NicConfig { switch: PORTS.to_vec(), ..NicConfig::new(CardProfile::ConnectX, 1) };
    let mut both = Both { kernel, card: Nic::new(&config).unwrap() };
    let mut rng = StdRng::seed_from_u64(21);
    let services = services();
    // The fixed rules, and those of the clients by service and block.
    let mut fixed = Vec::new();
    let mut rules: Vec<(usize, (u32, u32), usize, Handles)> = Vec::new();
    for (number, service) in services.iter().enumerate() {
        for block in blocks(&mut rng) {
            let rule = clients(&mut rng, service, block, LEVELS[0]);
            rules.push((number, block, 0, both.create(&rule)));
        }
        for rule in guards(service).iter().chain([&gate(service)]) {
            fixed.push(both.create(rule));
        }
    }
    let (mut sent, packets) = (0, 40_000);
    for number in 0..packets {
        sent += u32::from(both.compare(&packet(&mut rng, &services[number % 4])));
        if number % 16 == 0 {
            // Other targets: the new rule is made before the old one is destroyed.
            let (of, block, level, old) = rules.swap_remove(rng.random_range(0..rules.len()));
            let rule = clients(&mut rng, &services[of], block, LEVELS[1 - level]);
            let new = both.create(&rule);
            both.compare(&packet(&mut rng, &services[of]));
            both.destroy(old);
            rules.push((of, block, 1 - level, new));
        }
    }
    assert!(sent > packets as u32 / 3, "{sent} sent on");
    let mut counted = 0;
    for (.., [kernel, card]) in &rules {
        let card = both.card.flows().query(card).unwrap();
        assert_eq!(both.kernel.query(kernel).unwrap(), card);
        counted += card.packets;
    }
    assert!(counted > 0);
    for handles in fixed.into_iter().chain(rules.into_iter().map(|(.., handles)| handles)) {
        both.destroy(handles);
    }
    for number in 0..1000 {
        assert!(!both.compare(&packet(&mut rng, &services[number % 4])), "nothing is left");
    }
}
