//! Encoding `rewrite` and tunnels: the NIC puts packets into them as software
//! would, and leaves to it what only software can do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub, dead_code)]

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use flow::{CardProfile, Encoding, PortId};
use nic::Fault;
use packet::PacketBuf;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use replay::{Options, Simulation};
use testkit::ConfigText;
use testkit::segments::{Segment, frame};
use wire::{Headers, Transport};

const TABLES: &str = "
[conntrack]
tcp_established = \"2s\"
udp = \"2s\"
[offload]
admission = \"all\"
";

/// A load balancer with backends behind a second port, in `mode`, of the VIP's
/// family and across; and one without a NIC.
fn with_tunnels(mode: &str, inside_mtu: u16) -> [Simulation; 2] {
    let mut text = ConfigText::two_ports(&format!("mtu = {inside_mtu}"), "")
        .table("[workers]", "count = 1")
        .table(TABLES, "");
    for (name, vip, port, subnet) in [
        ("four", "10.71.0.100", 80, "10.72.0."),
        ("six", "fd71::100", 80, "fd72::"),
        ("four-six", "10.71.0.100", 81, "fd72::"),
        ("six-four", "fd71::100", 81, "10.72.0."),
    ] {
        // Only tunnels cross families.
        if mode == "dsr" && port == 81 {
            continue;
        }
        let more = format!("mode = \"{mode}\"\nscheduler = \"maglev\"");
        text = text.service(name, vip, Some(port), Transport::Tcp, &more);
        for host in 11..15 {
            text = text.backend(format!("{subnet}{host}"), None, "");
        }
    }
    let config = text.parse();
    let hardware = Options {
        nic: Some(CardProfile::ConnectX),
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
    for mode in ["dsr", "ipip", "gue", "gre", "geneve"] {
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

/// Where an outer packet goes.
fn backend(frame: &[u8]) -> IpAddr {
    Headers::parse(frame).unwrap().dst_addr(frame).unwrap()
}

/// Connections move in and out of the NIC while it refuses, delays and loses
/// rules: each stays with its backend, and software would have sent the same.
#[test]
fn each_connection_stays_with_its_backend() {
    for (seed, mode) in (0..).zip(["ipip", "gue", "gre", "geneve"]) {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut pair = with_tunnels(mode, 1600);
        let (vips, mut now_us) = (tunnel_ends(), 0);
        let mut backends: HashMap<(SocketAddr, SocketAddr), IpAddr> = HashMap::new();
        let mut open: Vec<(SocketAddr, SocketAddr)> = Vec::new();
        for n in 0..8_000_u32 {
            if rng.random_ratio(1, 12) || open.is_empty() {
                let (client, vip) = vips[rng.random_range(0..vips.len())];
                let ends = (SocketAddr::new(client.ip(), 1024 + (n % 60_000) as u16), vip);
                for kind in [Segment::Syn, Segment::Ack] {
                    let sent = both(&mut pair, &segment(ends, kind, 0), now_us);
                    let known = backends.entry(ends).or_insert_with(|| backend(&sent));
                    assert_eq!(*known, backend(&sent));
                }
                open.push(ends);
            }
            let at = rng.random_range(0..open.len());
            let ends = open[at];
            let end = rng.random_ratio(1, 40);
            let kind = if end { Segment::Rst } else { Segment::Ack };
            let sent = both(&mut pair, &segment(ends, kind, n as usize % 1400), now_us);
            assert_eq!(backends[&ends], backend(&sent), "{mode}: {ends:?}");
            if end {
                open.swap_remove(at);
                backends.remove(&ends);
            }
            if rng.random_ratio(1, 2) {
                keep(&mut pair, &mut now_us);
            }
            if rng.random_ratio(1, 200) {
                let nic = pair[0].nic(PortId(0)).unwrap();
                nic.clear_faults();
                let per_mille = rng.random_range(0..500);
                nic.order_fault(match rng.random_range(0..5) {
                    0 => Fault::RefuseShare { per_mille, seed },
                    1 => Fault::SilentLoss { per_mille, seed },
                    2 => Fault::LateCreate { ns: 15_000_000 },
                    3 => Fault::LateDestroy { ns: 9_000_000 },
                    _ => Fault::FullAt { at: 20 },
                });
            }
        }
        let tunnelled = pair[0].nic(PortId(0)).unwrap().stats().tunnelled;
        println!("{mode}: {tunnelled} of 8000 by the card");
        assert!(tunnelled > 2000, "{mode}: {tunnelled} of 8000 by the card");
        assert_eq!(pair[0].offload_stats().orphaned, 0);
    }
}
