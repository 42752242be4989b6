//! Encoding `rewrite`: long connections pass through the NIC, and no worker
//! sees them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub, dead_code)]

mod support;

use std::net::SocketAddr;

use nic::ProfileKind;
use offload::Encoding;
use packet::PacketBuf;
use pipeline::PortId;
use replay::{Options, Simulation};
use support::{Segment, config, frame, seen};
use wire::Transport;

const TABLES: &str = "
[conntrack]
tcp_established = \"2s\"
udp = \"2s\"
[offload]
admission = \"all\"
";

struct Run {
    simulation: Simulation,
    now_us: u64,
}

impl Run {
    fn new(profile: ProfileKind) -> Self {
        let options =
            Options { nic: Some(profile), encoding: Encoding::Rewrite, ..Options::default() };
        let config = config("round-robin", 1, TABLES);
        Self { simulation: Simulation::new(&config, &options).unwrap(), now_us: 0 }
    }

    /// A segment comes; where what comes of it goes.
    fn segment(&mut self, src: SocketAddr, dst: SocketAddr, segment: Segment) -> SocketAddr {
        let bytes = frame(Transport::Tcp, src, dst, segment, b"x");
        assert!(self.simulation.arrive(PortId(0), &bytes, self.now_us * 1000));
        self.simulation.poll(self.now_us / 1000);
        let sent = self.simulation.take_sent();
        assert_eq!(sent.len(), 1, "{:?}", self.simulation.counters());
        seen(sent[0].packet.bytes()).unwrap().dst
    }

    fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_us += 1000;
            self.simulation.keep(self.now_us / 1000);
            self.simulation.poll(self.now_us / 1000);
        }
    }

    /// A connection with its handshake done and its rules in the card.
    fn connect(&mut self, client: SocketAddr, vip: SocketAddr) -> SocketAddr {
        let backend = self.segment(client, vip, Segment::Syn);
        assert_eq!(self.segment(backend, client, Segment::SynAck), client);
        assert_eq!(self.segment(client, vip, Segment::Ack), backend);
        self.pass(5);
        backend
    }

    fn received(&self) -> u64 {
        self.simulation.counters()["received"]
    }
}

/// A load balancer with backends behind a second port, in `mode`, of the VIP's
/// family and across; and one without a NIC.
fn with_tunnels(mode: &str, inside_mtu: u16) -> [Simulation; 2] {
    let mut text = format!(
        r#"
[[port]]
name = "outside"
device = "net_null0"
[[port]]
name = "inside"
device = "net_null1"
mtu = {inside_mtu}
[[interface]]
port = "outside"
addresses = ["10.71.0.1/24", "fd71::1/64"]
[[interface]]
port = "inside"
addresses = ["10.72.0.1/24", "fd72::1/64"]
[[route]]
prefix = "0.0.0.0/0"
via = "10.71.0.254"
[[route]]
prefix = "::/0"
via = "fd71::fe"
[workers]
count = 1
{TABLES}
"#
    );
    for (name, vip, port, backend) in [
        ("four", "10.71.0.100", 80, "10.72.0.11"),
        ("six", "fd71::100", 80, "fd72::11"),
        ("four-six", "10.71.0.100", 81, "fd72::12"),
        ("six-four", "fd71::100", 81, "10.72.0.12"),
    ] {
        // Only tunnels cross families.
        if mode == "dsr" && port == 81 {
            continue;
        }
        text += &format!(
            "[[service]]\nname = \"{name}\"\nvip = \"{vip}\"\nport = {port}\nprotocol = \"tcp\"\n\
             mode = \"{mode}\"\n[[service.backend]]\naddress = \"{backend}\"\n"
        );
    }
    let config = config::Config::parse(&text, "tunnels.toml").unwrap_or_else(|e| panic!("{e}"));
    let hardware = Options {
        nic: Some(ProfileKind::ConnectX),
        encoding: Encoding::Rewrite,
        ..Options::default()
    };
    [hardware, Options::default()].map(|options| Simulation::new(&config, &options).unwrap())
}

/// The frame comes to both; what both send.
fn both(pair: &mut [Simulation; 2], frame: &[u8], now_us: u64) -> Vec<u8> {
    let [hardware, software] = pair.each_mut().map(|one| {
        assert!(one.arrive(PortId(0), frame, now_us * 1000));
        one.poll(now_us / 1000);
        let sent = one.take_sent();
        assert_eq!(sent.len(), 1, "{:?}", one.counters());
        (sent[0].port, sent[0].packet.bytes().to_vec())
    });
    assert_eq!(hardware, software);
    hardware.1
}

fn keep(pair: &mut [Simulation; 2], now_us: &mut u64) {
    *now_us += 1000;
    pair.iter_mut().for_each(|one| one.keep(*now_us / 1000));
}

/// Clients and VIPs of the services of [`with_tunnels`].
fn tunnel_ends() -> Vec<(SocketAddr, SocketAddr)> {
    let ends = |port: u16| {
        [("198.51.100.5:4000", "10.71.0.100"), ("[2001:db8::5]:4000", "fd71::100")].map(
            |(client, vip)| (client.parse().unwrap(), SocketAddr::new(vip.parse().unwrap(), port)),
        )
    };
    [80, 81].into_iter().flat_map(ends).collect()
}

fn segment(ends: (SocketAddr, SocketAddr), segment: Segment, payload: usize) -> Vec<u8> {
    frame(Transport::Tcp, ends.0, ends.1, segment, &vec![7; payload])
}

#[test]
fn a_long_connection_through_a_tunnel_never_reaches_the_worker() {
    for mode in ["dsr", "ipip", "gue", "gre"] {
        let mut pair = with_tunnels(mode, 1600);
        let mut now_us = 0;
        let all = tunnel_ends();
        let ends = if mode == "dsr" { &all[..2] } else { &all[..] };
        for ends in ends {
            for kind in [Segment::Syn, Segment::Ack, Segment::Ack] {
                both(&mut pair, &segment(*ends, kind, 0), now_us);
            }
        }
        (0..5).for_each(|_| keep(&mut pair, &mut now_us));
        let seen = pair[0].counters()["received"];
        for n in 0..4000 {
            let payload = n * 7 % 1400;
            both(&mut pair, &segment(ends[n % ends.len()], Segment::Ack, payload), now_us);
            keep(&mut pair, &mut now_us);
        }
        let stats = pair[0].offload_stats();
        assert_eq!(pair[0].counters()["received"], seen, "{mode}: {stats:#?}");
        assert_eq!(stats.now().rules_forward, ends.len());
        let tunnelled = pair[0].nic(PortId(0)).unwrap().stats().tunnelled;
        assert_eq!(tunnelled, if mode == "dsr" { 0 } else { 4000 });
        // What the outer header takes from the packet, and events, are software's.
        for (change, events) in [([0x03, 0x30], 1), ([0xb8, 0x80], 1), ([0, 0], 0)] {
            let seen = pair[0].counters()["received"];
            for ends in ends {
                let mut bytes = segment(*ends, Segment::Ack, 9);
                if ends.0.is_ipv4() {
                    bytes[15] = change[0];
                    let sum = etherparse::Ipv4HeaderSlice::from_slice(&bytes[14..]).unwrap();
                    let sum = sum.to_header().calc_header_checksum();
                    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
                } else {
                    bytes[15] |= change[1];
                }
                both(&mut pair, &bytes, now_us);
            }
            let worker = if mode == "dsr" { 0 } else { events };
            assert_eq!(pair[0].counters()["received"] - seen, worker * ends.len() as u64);
        }
    }
}

#[test]
fn packets_too_long_for_a_tunnel_get_their_answer() {
    for (mode, inside_mtu, forwarded) in [("ipip", 1540, true), ("gue", 1540, false)] {
        let mut pair = with_tunnels(mode, inside_mtu);
        let (ends, mut now_us) = (tunnel_ends()[2], 0);
        for kind in [Segment::Syn, Segment::Ack, Segment::Ack] {
            both(&mut pair, &segment(ends, kind, 0), now_us);
        }
        (0..5).for_each(|_| keep(&mut pair, &mut now_us));
        let seen = pair[0].counters()["received"];
        let mut longest = segment(ends, Segment::Ack, 1460);
        longest[20] |= 0x40;
        let sum = etherparse::Ipv4HeaderSlice::from_slice(&longest[14..]).unwrap();
        let sum = sum.to_header().calc_header_checksum();
        longest[24..26].copy_from_slice(&sum.to_be_bytes());
        both(&mut pair, &longest, now_us);
        let counters = pair[0].counters();
        assert_eq!(counters["received"] == seen, forwarded, "{mode}");
        assert_eq!(counters["packet_too_big"], u64::from(!forwarded), "{mode}");
        let refused = pair[0].offload_stats().done().refused;
        assert_eq!(refused.mtu, u64::from(!forwarded), "{refused:?}");
    }
}

fn ends() -> (SocketAddr, SocketAddr) {
    ("198.51.100.5:4000".parse().unwrap(), "10.71.0.100:80".parse().unwrap())
}

#[test]
fn a_long_connection_never_reaches_the_worker() {
    for profile in [ProfileKind::ConnectX, ProfileKind::BlueField3] {
        let mut run = Run::new(profile);
        let (client, vip) = ends();
        let backend = run.connect(client, vip);
        let before = run.received();
        for n in 0..20_000 {
            if n % 2 == 0 {
                assert_eq!(run.segment(client, vip, Segment::Ack), backend);
            } else {
                assert_eq!(run.segment(backend, client, Segment::Ack), client);
            }
            run.pass(1);
        }
        let stats = run.simulation.offload_stats();
        assert_eq!(run.received(), before, "{stats:#?}");
        assert_eq!(stats.now().rules_forward + stats.now().rules_reply, 2);
        assert!(stats.done().forwarded_packets >= 19_800, "{stats:#?}");
    }
}

#[test]
fn the_worker_sees_what_only_software_can_handle() {
    let mut run = Run::new(ProfileKind::ConnectX);
    let (client, vip) = ends();
    let backend = run.connect(client, vip);
    let seen = run.received();
    // The last hop: software answers that its time is over.
    let mut last = frame(Transport::Tcp, client, vip, Segment::Ack, b"x");
    last[22] = 1;
    let sum = 0x10000 - 0x3f00;
    let old = u32::from(u16::from_be_bytes([last[24], last[25]]));
    let new = old.wrapping_sub(sum) as u16;
    last[24..26].copy_from_slice(&new.to_be_bytes());
    assert!(run.simulation.arrive(PortId(0), &last, run.now_us * 1000));
    run.simulation.poll(run.now_us / 1000);
    let counters = run.simulation.counters();
    assert_eq!((counters["time_exceeded"], run.received()), (1, seen + 1));
    run.simulation.take_sent();
    // The end: FIN from both sides, and the rules go.
    assert_eq!(run.segment(client, vip, Segment::Fin), backend);
    assert_eq!(run.segment(client, vip, Segment::Ack), backend);
    assert_eq!(run.segment(backend, client, Segment::Fin), client);
    assert_eq!(run.segment(client, vip, Segment::Ack), backend);
    assert_eq!(run.received(), seen + 3, "the FINs and no ACK");
    run.pass(200);
    let now = run.simulation.offload_stats().now();
    assert_eq!((now.rules, now.adopted), (4, 4));
    // The same ends again: software sees the whole handshake.
    let seen = run.received();
    let backend = run.connect(client, vip);
    assert_eq!(run.received(), seen + 3);
    assert_eq!(run.segment(client, vip, Segment::Ack), backend);
    assert_eq!(run.received(), seen + 3, "and nothing after it");
    assert_eq!(run.segment(client, vip, Segment::Rst), backend);
    assert_eq!(run.received(), seen + 4);
}
