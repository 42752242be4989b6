//! Stateless services: what the NIC does alone, software does byte for byte the
//! same, also while backends are drained and come back, and while cards refuse.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use config::Config;
use control::Drained;
use dpdk::flow::{FlowCall, FlowLayer, FlowPort};
use flow::{CardProfile, Encoding, PortId};
use nic::{Disposition, Fault, Nic, NicConfig, NicFlows};
use offload::StatelessRules;
use packet::PacketBuf;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use replay::{Options, Simulation};
use setup::{PortFacts, Seed};
use state::Shared;
use testkit::ConfigText;
use testkit::frames::{self, Link, Piece, Shape, Sum};
use wire::{Mac, Transport};

const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER: [u8; 6] = [2, 0, 0, 0, 9, 9];

/// Name, VIP, port, protocol, and the backends with their weights.
type Row = (&'static str, &'static str, Option<u16>, Transport, &'static [(&'static str, u16)]);

/// Clients and some backends on the first port, others on the second, one
/// service whose backends are in a VLAN.
fn network() -> Config {
    use Transport::{Tcp, Udp};
    let mut text = ConfigText::new()
        .port("p0", "")
        .port("p1", "")
        .interface("p0", &["10.71.0.1/24", "fd71::1/64"], "")
        .interface("p1", &["10.72.0.1/24", "fd72::1/64"], "")
        .interface("p1", &["10.73.0.1/24"], "vlan = 9")
        .gateways()
        .table("[workers]", "count = 1")
        .table("[offload]", "admission = \"all\"")
        .table("[fragments]", "timeout = \"20s\"");
    let services: [Row; 8] = [
        (
            "dns4",
            "10.71.0.100",
            Some(53),
            Udp,
            &[("10.72.0.11", 1), ("10.72.0.12", 2), ("10.71.0.13", 1)],
        ),
        ("dns6", "fd71::100", Some(53), Udp, &[("fd72::11", 1), ("fd71::12", 1), ("fd72::13", 1)]),
        ("any4", "10.71.0.101", None, Tcp, &[("10.72.0.11", 3), ("10.72.0.14", 1)]),
        ("any6", "fd71::101", None, Tcp, &[("fd72::11", 1), ("fd72::14", 0)]),
        ("hashed", "10.71.0.103", Some(53), Udp, &[("10.72.0.11", 1), ("10.71.0.13", 2)]),
        ("crc4", "10.71.0.104", Some(53), Udp, &[("10.72.0.11", 1), ("10.71.0.13", 2)]),
        ("crc6", "fd71::104", None, Tcp, &[("fd72::11", 3), ("fd71::12", 1)]),
        ("tagged", "10.71.0.102", Some(53), Udp, &[("10.73.0.11", 1), ("10.73.0.12", 1)]),
    ];
    for (name, vip, port, proto, backends) in services {
        let by = match name {
            "hashed" => "by = \"hash\"",
            "crc4" | "crc6" => "by = \"crc32\"",
            _ => "",
        };
        let more = format!("mode = \"dsr\"\nstateless = true\n{by}");
        text = text.service(name, vip, port, proto, &more);
        for (address, weight) in backends {
            text = text.backend(address, None, &format!("weight = {weight}"));
        }
    }
    text.service("web", "10.71.0.100", Some(80), Tcp, "")
        .backend("10.72.0.11", Some(8080), "")
        .parse()
}

const BACKENDS: [(&str, &str); 12] = [
    ("dns4", "10.72.0.11"),
    ("dns4", "10.72.0.12"),
    ("dns4", "10.71.0.13"),
    ("dns6", "fd72::11"),
    ("dns6", "fd71::12"),
    ("any4", "10.72.0.11"),
    ("any4", "10.72.0.14"),
    ("any6", "fd72::11"),
    ("tagged", "10.73.0.11"),
    ("hashed", "10.71.0.13"),
    ("crc4", "10.71.0.13"),
    ("crc6", "fd72::11"),
];

/// Simulations given the same frames.
struct Fleet {
    members: Vec<(&'static str, Simulation)>,
    now_ms: u64,
}

impl Fleet {
    fn new() -> Self {
        let config = network();
        let member = |(name, nic, encoding, capacity)| {
            let options = Options { nic, encoding, capacity, ..Options::default() };
            (name, Simulation::new(&config, &options).unwrap())
        };
        use {CardProfile::*, Encoding::*};
        let members = [
            ("software", None, Off, None),
            ("x550", Some(X550), Mark, None),
            ("connectx", Some(ConnectX), Mark, None),
            ("connectx, rewrite", Some(ConnectX), Rewrite, None),
            ("bluefield3", Some(BlueField3), Off, None),
            ("bluefield3 with faults", Some(BlueField3), Mark, Some(80)),
        ];
        let mut fleet = Self { members: members.map(member).into(), now_ms: 1 };
        fleet.keep();
        fleet
    }

    fn keep(&mut self) {
        for (_, simulation) in &mut self.members {
            simulation.keep(self.now_ms);
        }
    }

    /// What comes out must be the same.
    fn arrive(&mut self, port: PortId, frame: &[u8]) -> usize {
        let mut first: Option<Vec<(PortId, Vec<u8>)>> = None;
        for (name, simulation) in &mut self.members {
            assert!(simulation.arrive(port, frame, self.now_ms * 1_000_000), "{name}");
            simulation.poll(self.now_ms);
            let sent = simulation.take_sent().into_iter();
            let sent: Vec<_> = sent.map(|s| (s.port, s.packet.bytes().to_vec())).collect();
            match &first {
                None => first = Some(sent),
                Some(first) => {
                    assert_eq!(*first, sent, "{name} differs for {frame:02x?} on {port:?}")
                }
            }
        }
        first.unwrap_or_default().len()
    }

    fn steer(&mut self, service: &str, backend: &str, drain: bool) {
        for (_, simulation) in &mut self.members {
            // A backend that is drained, or serves, already stays so.
            let _ = simulation.steer(&drained(service, backend), drain);
        }
        // Else hardware still does for a moment what was right before.
        self.keep();
    }
}

fn drained(service: &str, backend: &str) -> Drained {
    Drained { service: service.to_owned(), backend: backend.parse().unwrap() }
}

fn source(rng: &mut StdRng, v6: bool) -> IpAddr {
    let odd4 = [
        "0.1.2.3",
        "127.0.0.1",
        "224.0.0.5",
        "239.9.9.9",
        "255.255.255.255",
        "10.71.0.1",
        "10.71.0.100",
        "240.0.0.1",
        "10.73.0.1",
    ];
    let odd6 = ["::", "::1", "ff02::1", "fd71::100", "fd72::1", "fe80::1"];
    if rng.random_ratio(1, 8) {
        let odd: &[&str] = if v6 { &odd6 } else { &odd4 };
        return odd[rng.random_range(0..odd.len())].parse().unwrap();
    }
    if v6 {
        Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(rng.random::<u64>())).into()
    } else {
        Ipv4Addr::from_bits(0xc633_6400 & 0xffff_0000 | u32::from(rng.random::<u16>())).into()
    }
}

/// Frames of one datagram to one of the VIPs.
fn datagram(rng: &mut StdRng) -> Vec<Vec<u8>> {
    let v6 = rng.random_ratio(1, 3);
    let vips: &[&str] = if v6 {
        &["fd71::100", "fd71::101", "fd71::104"]
    } else {
        &["10.71.0.100", "10.71.0.101", "10.71.0.102", "10.71.0.103", "10.71.0.104"]
    };
    let vip: IpAddr = vips[rng.random_range(0..vips.len())].parse().unwrap();
    let proto = if rng.random_ratio(1, 3) { Transport::Tcp } else { Transport::Udp };
    let dport = if rng.random_ratio(1, 8) { rng.random() } else { 53 };
    let src = SocketAddr::new(source(rng, v6), rng.random_range(1..u16::MAX));
    let other = rng.random_ratio(1, 20);
    let dst = if other { [2, 0, 0, 0, 0, 2] } else { OWN };
    let vlan = [None, None, None, None, None, Some(0), Some(9), Some(77)][rng.random_range(0..8)];
    let link = Link { src: PEER, dst, vlan };
    let shape = Shape {
        ttl: if rng.random_ratio(1, 6) { rng.random_range(0..3) } else { 64 },
        options: if rng.random_ratio(1, 12) { rng.random_range(1..=10) } else { 0 },
        extensions: if v6 && rng.random_ratio(1, 8) { vec![frames::extension(2)] } else { vec![] },
        dont_fragment: rng.random(),
        padding: if rng.random_ratio(1, 8) { rng.random_range(1..80) } else { 0 },
    };
    let payload = vec![0xab; rng.random_range(0..120)];
    let sum = if rng.random_ratio(1, 30) { Sum::Wrong } else { Sum::Right };
    let flags = rng.random::<u8>() & 0x17;
    let bytes = frames::transport(proto, src, SocketAddr::new(vip, dport), flags, &payload, sum);
    let ends = [src.ip(), vip];
    let mut all = vec![];
    if rng.random_ratio(1, 12) {
        let id = rng.random();
        for offset in (0..bytes.len()).step_by(64) {
            let part = &bytes[offset..bytes.len().min(offset + 64)];
            let piece = Piece { offset, more: offset + 64 < bytes.len(), id };
            all.push(frames::ip(link, ends, proto.number(), part, &shape, Some(piece)));
        }
        let at = rng.random_range(0..all.len());
        all.swap(0, at);
    } else {
        all.push(frames::ip(link, ends, proto.number(), &bytes, &shape, None));
    }
    for frame in &mut all {
        if rng.random_ratio(1, 15) {
            let bit = rng.random_range(0..frame.len().min(80) * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
        }
    }
    all
}

#[test]
fn hardware_and_software_do_the_same() {
    let (mut sent, mut in_hardware) = (0, 0);
    for seed in 0..8 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut fleet = Fleet::new();
        for _ in 0..2500 {
            let port = PortId(rng.random_range(0..2));
            for frame in datagram(&mut rng) {
                sent += fleet.arrive(port, &frame);
            }
            if rng.random_ratio(1, 20) {
                fleet.now_ms += rng.random_range(1..700);
                fleet.keep();
            }
            if rng.random_ratio(1, 60) {
                let (service, backend) = BACKENDS[rng.random_range(0..BACKENDS.len())];
                fleet.steer(service, backend, rng.random());
            }
            if rng.random_ratio(1, 100) {
                let (_, faulty) = fleet.members.last().unwrap();
                for nic in [PortId(0), PortId(1)].map(|port| faulty.nic(port).unwrap()) {
                    nic.clear_faults();
                    let faults = [
                        Fault::RefuseShare { per_mille: 300, seed },
                        Fault::RefuseCreates { count: 30 },
                        Fault::LateCreate { ns: 40_000_000 },
                        Fault::FullAt { at: rng.random_range(0..60) },
                    ];
                    nic.order_fault(faults[rng.random_range(0..4)]);
                }
            }
        }
        for (name, simulation) in &mut fleet.members {
            let forwarded: u64 = [PortId(0), PortId(1)]
                .iter()
                .filter_map(|port| Some(simulation.nic(*port)?.stats().forwarded))
                .sum();
            let seen = simulation.counters();
            println!(
                "{name}: {forwarded} in hardware, {} by address in software",
                seen["by_address"]
            );
            match *name {
                "software" | "x550" => assert_eq!(forwarded, 0),
                _ => assert!(forwarded > 100, "{name} has forwarded {forwarded}"),
            }
            if *name == "bluefield3" {
                in_hardware += forwarded;
                let counted: u64 = (0..20)
                    .map(|id| simulation.rules().stateless.sent_to(flow::BackendId(id)).packets)
                    .sum();
                assert!(counted <= forwarded && counted > 0);
            }
            let nic = simulation.nic(PortId(0)).cloned();
            nic.iter().for_each(Nic::clear_faults);
            simulation.nic(PortId(1)).into_iter().for_each(Nic::clear_faults);
            assert_eq!(simulation.shutdown(), 0);
            assert_eq!(nic.map_or(0, |nic| nic.stats().rules), 0, "{name}: rules are left");
            assert_eq!(seen["stateless"], 0);
        }
    }
    // What is sent are answers to refused packets, too.
    assert!(in_hardware * 5 > sent as u64, "{in_hardware} of {sent}");
}

/// By a hash: what the NIC's own Toeplitz hash says, and evenly.
#[test]
fn a_hash_spreads_clients_whose_low_bits_are_alike() {
    let facts = vec![PortFacts { mac: Mac(OWN), queues: 1, ring: 64 }; 2];
    let shared = setup::shared(&network(), &facts, false, Seed([3; 32])).unwrap();
    let snapshot = shared.snapshot();
    let toeplitz = wire::Toeplitz::new(&wire::toeplitz::MICROSOFT_KEY);
    let backends = |vip: &str| {
        let vip: Ipv4Addr = vip.parse().unwrap();
        let mut found = std::collections::BTreeMap::new();
        for client in 0..3000_u32 {
            // All end in .7, and speak from one port.
            let src = Ipv4Addr::from_bits(0x0a00_0007 | client << 8);
            let key = wire::FlowKey::new(
                Transport::Udp,
                SocketAddr::new(src.into(), 53),
                SocketAddr::new(vip.into(), 53),
            );
            let key = key.unwrap();
            let service = snapshot.services.lookup(&key).unwrap();
            let backend = service.hashed(&key).unwrap();
            if service.name() == "hashed" {
                let input = [&src.octets()[..], &vip.octets(), &[0, 53, 0, 53]].concat();
                let classes = service.classes().unwrap();
                assert_eq!(classes.of_bits(toeplitz.hash(&input)), Some(backend));
            }
            *found.entry(snapshot.services.backend(backend).unwrap().address).or_insert(0) += 1;
        }
        found
    };
    assert_eq!(backends("10.71.0.100").len(), 1, "by address they are one client");
    let hashed = backends("10.71.0.103");
    let second = hashed[&IpAddr::from([10, 71, 0, 13])];
    // Of weight 2 in 3; 26 is the standard deviation of fair dice.
    assert!(hashed.len() == 2 && (second - 2000_i32).abs() < 200, "{hashed:?}");
}

/// A card whose rules are looked at whenever one has come or gone.
struct Watched<'a> {
    flows: NicFlows,
    look: &'a mut dyn FnMut(),
}

impl FlowLayer for Watched<'_> {
    fn inner(&mut self) -> &mut dyn FlowPort {
        &mut self.flows
    }

    fn after(&mut self, call: FlowCall) {
        if matches!(call, FlowCall::Create | FlowCall::Destroy) {
            (self.look)();
        }
    }
}

/// The Ethernet address that the NIC sends the client's packet to, if it does.
fn next(nic: &Nic, client: u32) -> Option<Mac> {
    let src = SocketAddr::new(Ipv4Addr::from_bits(0xc633_0000 | client).into(), 4000);
    let dst: SocketAddr = "10.71.0.100:53".parse().unwrap();
    let bytes = frames::transport(Transport::Udp, src, dst, 0, b"query", Sum::Right);
    let link = Link { src: PEER, dst: OWN, vlan: None };
    let shape = Shape { ttl: 64, ..Shape::default() };
    let mut frame = frames::ip(link, [src.ip(), dst.ip()], 17, &bytes, &shape, None);
    let mut out = [Disposition::default()];
    nic.receive_burst([frame.as_slice()], 0, &mut out);
    assert_eq!(out[0].dropped, None);
    out[0].forward?;
    out[0].edits.apply(&mut frame);
    wire::ethernet::macs(&frame).map(|(to, _)| to)
}

const CLIENTS: u32 = 1 << 8;

/// While rules are exchanged every client's packet goes to the old backend, the
/// new one, or software; and when it is done none goes to software.
#[test]
fn rules_are_made_before_others_are_broken() {
    let config = network();
    let facts = vec![PortFacts { mac: Mac(OWN), queues: 1, ring: 64 }; 2];
    let (shared, mut control) = setup::start(&config, &facts, false, Seed([3; 32])).unwrap();
    let shared: Arc<Shared> = Arc::new(shared);
    let mut steer =
        |service, backend, drain| control.steer(&shared, &drained(service, backend), drain);
    for (host, address) in (1..).zip(["10.72.0.11", "10.72.0.12", "10.71.0.13"]) {
        let hop = shared.hop_to(address.parse().unwrap(), 0).unwrap();
        let found = shared.neighbours().get(hop).unwrap();
        shared.neighbours().learn(found.interface, found.addr, Mac([2, 0, 0, 0, 1, host]), 0);
    }
    let nic_config = NicConfig { switch: vec![0, 1], ..NicConfig::new(CardProfile::ConnectX, 1) };
    let nic = Nic::new(&nic_config).unwrap();
    let mut rules = StatelessRules::new(Arc::clone(&shared));
    let mut rng = StdRng::seed_from_u64(5);
    rules.tick(1, &mut [&mut nic.flows()]);
    let all = |nic: &Nic| (0..CLIENTS).map(|client| next(nic, client)).collect::<Vec<_>>();
    let mut before = all(&nic);
    assert!(
        before.iter().all(Option::is_some),
        "hardware has every client: {:?}",
        rules.stats().ports(flow::ServiceId(0))
    );
    let (first, mut moved, mut looks) = (before.clone(), 0, 0);
    for step in 2..60 {
        let (service, backend) = BACKENDS[rng.random_range(0..3)];
        let Ok(change) = steer(service, backend, rng.random()) else { continue };
        let mut seen: Vec<Vec<Option<Mac>>> = Vec::new();
        let mut look = || seen.push(all(&nic));
        let mut watched = Watched { flows: nic.flows(), look: &mut look };
        rules.tick(step, &mut [&mut watched]);
        let after = all(&nic);
        let software = after.iter().filter(|to| to.is_none()).count();
        let nobody =
            shared.snapshot().services.services()[0].classes().unwrap().entries().count() == 0;
        assert_eq!(software, if nobody { CLIENTS as usize } else { 0 });
        for (client, (old, new)) in before.iter().zip(&after).enumerate() {
            for to in seen.iter().map(|all| all[client]) {
                assert!(to == *old || to == *new, "client {client}: {to:?}, {old:?} to {new:?}");
            }
        }
        looks += seen.len();
        moved += u32::from(before != after && change.moved > 0.0);
        before = after;
    }
    assert!(moved > 10 && looks > 60, "{moved} changes in {looks} looks");
    // A card that would not destroy a rule is asked again.
    let (service, backend) = BACKENDS[1];
    let _ = steer(service, backend, false);
    rules.tick(90, &mut [&mut nic.flows()]);
    let _ = steer(service, backend, true);
    nic.order_fault(Fault::RefuseDestroys { count: 3 });
    for step in 91..95 {
        rules.tick(step, &mut [&mut nic.flows()]);
    }
    assert!(all(&nic).iter().all(|to| *to != Some(Mac([2, 0, 0, 0, 1, 2]))));
    nic.clear_faults();
    for (service, backend) in &BACKENDS[..3] {
        let _ = steer(service, backend, false);
    }
    rules.tick(100, &mut [&mut nic.flows()]);
    assert_eq!(all(&nic), first, "everybody is where they were");
    assert_eq!(rules.shutdown(&mut [&mut nic.flows()]), 0);
    assert_eq!(nic.stats().rules, 0);
}

/// `count` services of one backend each, at one VIP, from port 1000 on.
fn many(count: u16) -> Config {
    let mut text = ConfigText::new()
        .port("p0", "")
        .interface("p0", &["10.71.0.1/24"], "")
        .table("[workers]", "count = 1");
    for port in 1000..1000 + count {
        let (name, more) = (format!("dns{port}"), "mode = \"dsr\"\nstateless = true");
        text = text.service(&name, "10.71.0.100", Some(port), Transport::Udp, more);
        text = text.backend("10.71.0.11", None, "");
    }
    text.parse()
}

/// The services that the card carries out, and why it doesn't the others.
fn carried(simulation: &Simulation) -> (Vec<String>, Vec<String>) {
    let shared = simulation.shared().snapshot();
    let stats = simulation.rules().stateless;
    let (mut carried, mut reasons) = (Vec::new(), Vec::new());
    for service in shared.services.services() {
        for (_, state) in stats.ports(service.id()) {
            match state {
                Ok(()) => carried.push(service.name().to_owned()),
                Err(reason) => reasons.push(reason.clone()),
            }
        }
    }
    (carried, reasons)
}

#[test]
fn a_service_has_a_group_of_its_own_as_long_as_the_card_has_some() {
    let options = Options {
        nic: Some(CardProfile::BlueField3),
        encoding: Encoding::Off,
        ..Options::default()
    };
    let mut simulation = Simulation::new(&many(14), &options).unwrap();
    simulation.keep(1);
    let (first, reasons) = carried(&simulation);
    assert_eq!(first.len(), 12, "15 groups, of which 3 are not for services: {reasons:?}");
    assert_eq!(reasons, ["the card has groups up to 15, and none is free"; 2]);
    // What leaves the configuration leaves the card, and its groups are free.
    simulation.reload(&many(11), 2).unwrap();
    simulation.keep(3);
    simulation.keep(1500);
    assert_eq!(carried(&simulation), (first[..11].to_vec(), vec![]));
    let (nic, held) = (simulation.nic(PortId(0)).unwrap(), simulation.rules().stateless.held);
    assert_eq!(held.len(), 11);
    let each = (simulation.rules().stateless.rules - 1) / 11;
    assert_eq!(nic.stats().rules, 11 * each + 1, "the seat and nothing of those that left");
    simulation.reload(&many(14), 1501).unwrap();
    simulation.keep(1502);
    assert_eq!(carried(&simulation).0.len(), 12);
    assert_eq!(simulation.shutdown(), 0);
}

/// One service that is balanced by the hash of the card's tables, and two backends.
fn by_crc32() -> Config {
    ConfigText::new()
        .port("p0", "")
        .interface("p0", &["10.71.0.1/24"], "")
        .table("[workers]", "count = 1")
        .service(
            "dns",
            "10.71.0.100",
            Some(53),
            Transport::Udp,
            "mode = \"dsr\"\nstateless = true\nby = \"crc32\"",
        )
        .backend("10.71.0.11", None, "")
        .backend("10.71.0.12", None, "weight = 3")
        .parse()
}

fn query(flow: u16) -> (wire::FlowKey, Vec<u8>) {
    // Clients that are one by their addresses' low bits.
    let client = Ipv4Addr::from_bits(0x0a00_0007 | u32::from(flow) << 8);
    let src = SocketAddr::new(client.into(), 4000);
    let dst: SocketAddr = "10.71.0.100:53".parse().unwrap();
    let bytes = frames::transport(Transport::Udp, src, dst, 0, b"query", Sum::Right);
    let link = Link { src: PEER, dst: OWN, vlan: None };
    let shape = Shape { ttl: 64, ..Shape::default() };
    let frame = frames::ip(link, [src.ip(), dst.ip()], 17, &bytes, &shape, None);
    (wire::FlowKey::new(Transport::Udp, src, dst).unwrap(), frame)
}

/// What XenoFlow leaves to future work: the card balances by a hash.
#[test]
fn the_card_balances_by_its_hash_and_as_software_does() {
    let nic = Some(CardProfile::BlueField3);
    let options = Options { nic, encoding: Encoding::Off, ..Options::default() };
    let mut simulation = Simulation::new(&by_crc32(), &options).unwrap();
    simulation.keep(1);
    let (carried, reasons) = carried(&simulation);
    assert_eq!((carried.len(), reasons), (1, vec![]));
    let mut now_ms = 2;
    for (away, least) in [(None, 400), (Some("10.71.0.12"), 1000), (None, 400)] {
        for (backend, drain) in away.map_or([("10.71.0.12", false)], |one| [(one, true)]) {
            let _ = simulation.steer(&drained("dns", backend), drain);
        }
        now_ms += 2;
        simulation.keep(now_ms);
        simulation.keep(now_ms + 1);
        let before = simulation.nic(PortId(0)).unwrap().stats().forwarded;
        let mut first = 0;
        for flow in 0..1000 {
            let (key, frame) = query(flow);
            assert!(simulation.arrive(PortId(0), &frame, now_ms * 1_000_000));
            let snapshot = simulation.shared().snapshot();
            let backend = snapshot.services.lookup(&key).unwrap().hashed(&key).unwrap();
            let address = snapshot.services.backend(backend).unwrap().address;
            let hop = simulation.shared().hop_to(address, now_ms).unwrap();
            let mac = simulation.shared().neighbours().get(hop).unwrap().mac.unwrap();
            let sent = simulation.take_sent();
            let (to, _) = wire::ethernet::macs(sent[0].packet.bytes()).unwrap();
            assert_eq!((sent.len(), to), (1, mac), "flow {flow}");
            first += u32::from(address == IpAddr::from([10, 71, 0, 11]));
        }
        let in_card = simulation.nic(PortId(0)).unwrap().stats().forwarded - before;
        assert_eq!(in_card, 1000, "no worker has seen a packet");
        // A quarter of the classes, or all of them.
        assert!(if least == 1000 { first == 1000 } else { (200..300).contains(&first) }, "{first}");
    }
    assert_eq!(simulation.shutdown(), 0);
    assert_eq!(simulation.nic(PortId(0)).unwrap().stats().rules, 0);
}

/// A card that would answer by another hash than software does.
struct OtherHash(NicFlows);

impl FlowLayer for OtherHash {
    fn inner(&mut self) -> &mut dyn FlowPort {
        &mut self.0
    }

    fn hash(&self, hash: u32) -> u32 {
        hash.swap_bytes()
    }
}

#[test]
fn a_card_without_softwares_hash_leaves_the_service_to_software() {
    let config = by_crc32();
    let facts = vec![PortFacts { mac: Mac(OWN), queues: 1, ring: 64 }];
    let reason = |flows: &mut dyn FlowPort| {
        let shared: Arc<Shared> =
            Arc::new(setup::shared(&config, &facts, false, Seed([3; 32])).unwrap());
        for (host, address) in (1..).zip(["10.71.0.11", "10.71.0.12"]) {
            let hop = shared.hop_to(address.parse().unwrap(), 0).unwrap();
            let found = shared.neighbours().get(hop).unwrap();
            shared.neighbours().learn(found.interface, found.addr, Mac([2, 0, 0, 0, 1, host]), 0);
        }
        let mut rules = StatelessRules::new(Arc::clone(&shared));
        rules.tick(1, &mut [flows]);
        let id = shared.snapshot().services.services()[0].id();
        let stats = rules.stats();
        assert_eq!(stats.rules, 0, "without rows there is no gate");
        stats.ports(id)[0].1.clone().unwrap_err()
    };
    let flows = |profile, switch: &[u16]| {
        let config = NicConfig { switch: switch.to_vec(), ..NicConfig::new(profile, 1) };
        Nic::new(&config).unwrap().flows()
    };
    let other = reason(&mut OtherHash(flows(CardProfile::BlueField3, &[0])));
    assert!(other.starts_with("the card's hash is not the CRC-32"), "{other}");
    let old = reason(&mut flows(CardProfile::ConnectX, &[0]));
    assert!(old.starts_with("rules by index need DPDK 23.03"), "{old}");
    let _ = reason(&mut flows(CardProfile::E810, &[]));
}
