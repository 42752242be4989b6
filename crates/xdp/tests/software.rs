//! The program in the kernel does what software does, byte for byte, and what it may
//! not forward it leaves alone. Run by `BPF_PROG_TEST_RUN`; skipped where that isn't
//! permitted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use packet::{HeapPacket, PacketBuf};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testkit::segments::{OWN, PEER, Segment, frame};
use wire::{Encap, FlowKey, Fragment, Headers, Mac, Net, Rewrite, TcpFlags, Transport, Tunnel};
use xdp::{Action, Change, Count, Key, Outcome, Program, Settings, Table};

const MTU: u16 = 1400;

fn load(capacity: u32) -> Option<(Program, Table)> {
    let (mac, actions, seed, always_redirects) = (Mac(OWN), 4096, 0x5eed, false);
    let settings = Settings { mac, capacity, actions, seed, always_redirects };
    match Program::load(&settings) {
        Ok(loaded) => Some(loaded),
        Err(error) if error.is_permission() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
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

fn connection(rng: &mut StdRng) -> (FlowKey, Action) {
    let v6 = rng.random();
    let [src, dst, new_src, new_dst] = std::array::from_fn(|_| address(rng, v6));
    let proto = if rng.random() { Transport::Tcp } else { Transport::Udp };
    let rewrite = match rng.random_range(0..9) {
        0 => None,
        1 => Rewrite::source(src, new_src),
        2 => Rewrite::destination(dst, new_dst),
        3 => Rewrite::source_address(src.ip(), new_src.ip()),
        4 => Rewrite::destination_address(dst.ip(), new_dst.ip()),
        5 => Rewrite::both((src, dst), (new_src, new_dst)),
        _ => return (FlowKey::new(proto, src, dst).unwrap(), into_tunnel(rng, v6)),
    };
    let action = Action {
        change: rewrite.map_or(Change::None, Change::Rewrite),
        interface: if rng.random() { 1 } else { 7 },
        source: Mac(rng.random()),
        destination: Mac(rng.random()),
        mtu: MTU,
    };
    (FlowKey::new(proto, src, dst).unwrap(), action)
}

/// An action that puts packets of the family into any tunnel.
fn into_tunnel(rng: &mut StdRng, ipv6: bool) -> Action {
    let port = rng.random();
    let tunnel = match rng.random_range(0..4) {
        0 => Tunnel::Ipip,
        1 => Tunnel::Gre,
        2 => Tunnel::Gue { port },
        _ => Tunnel::Geneve { port },
    };
    let outside = rng.random();
    let [src, dst] = std::array::from_fn(|_| address(rng, outside).ip());
    let encap = Encap::new(tunnel, src, dst, rng.random()).unwrap();
    let interface = if rng.random() { 1 } else { 7 };
    let (source, destination) = (Mac(rng.random()), Mac(rng.random()));
    Action { change: Change::Tunnel { encap, ipv6 }, interface, source, destination, mtu: MTU }
}

/// A packet of the connection, most often an ordinary one.
fn packet(rng: &mut StdRng, flow: &FlowKey) -> Vec<u8> {
    let length =
        if rng.random_ratio(1, 8) { rng.random_range(1300..1450) } else { rng.random_range(0..80) };
    let payload: Vec<u8> = (0..length).map(|_| rng.random()).collect();
    let segments = [Segment::Syn, Segment::SynAck, Segment::Fin, Segment::Rst];
    let segment =
        if rng.random_ratio(1, 8) { segments[rng.random_range(0..4)] } else { Segment::Ack };
    let mut bytes = frame(flow.proto(), flow.src(), flow.dst(), segment, &payload);
    match rng.random_range(0..10) {
        0 => bytes.truncate(rng.random_range(14..=bytes.len())),
        1 => {
            let at = rng.random_range(0..bytes.len().min(80));
            bytes[at] ^= 1 << rng.random_range(0..8);
        }
        2 => bytes.extend((0..rng.random_range(1..20)).map(|_| rng.random::<u8>())),
        // The traffic class, or the flow label.
        6 => bytes[15] = rng.random(),
        3 => bytes[if matches!(flow, FlowKey::V4(_)) { 22 } else { 21 }] = rng.random_range(0..4),
        // A UDP checksum of zero or one that becomes zero; a wrong one of TCP.
        4 => {
            let l4 = if matches!(flow, FlowKey::V4(_)) { 34 } else { 54 };
            let at = l4 + if flow.proto() == Transport::Udp { 6 } else { 16 };
            let value: [u8; 2] = if rng.random() { [0, 0] } else { rng.random() };
            bytes[at..at + 2].copy_from_slice(&value);
        }
        5 if matches!(flow, FlowKey::V4(_)) => {
            let fragment: [u8; 2] = [rng.random_range(0..64), 0];
            bytes[20..22].copy_from_slice(&fragment);
        }
        _ => {}
    }
    bytes
}

/// How many packets the program and software are compared by: `make soak-xdp` says more.
fn packets() -> u64 {
    std::env::var("XDP_PACKETS").map_or(300_000, |packets| packets.parse().unwrap())
}

/// What software does: the frame as it leaves, or nothing if the program must leave
/// the packet to it.
fn software(frame: &[u8], known: &HashMap<FlowKey, Action>) -> Option<(Action, Vec<u8>)> {
    let headers = Headers::parse(frame).ok()?;
    let plain = match headers.net {
        Net::Ipv4 => 20,
        Net::Ipv6 => 40,
        Net::Arp | Net::Other(_) => return None,
    };
    let ends = headers.tcp_flags.any(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST);
    let for_us = frame.get(..6)? == OWN;
    if !for_us
        || ends
        || headers.vlan.is_some()
        || headers.fragment != Fragment::Whole
        || headers.l4 - headers.l3 != plain
    {
        return None;
    }
    let action = known.get(&headers.flow(frame)?)?;
    let mut after = frame.to_vec();
    let mut length = headers.end - headers.l3;
    if let Change::Rewrite(rewrite) = &action.change {
        assert!(rewrite.apply(&mut after, &headers));
    }
    if !wire::decrement_ttl(&mut after, &headers) {
        return None;
    }
    if let Change::Tunnel { encap, .. } = &action.change {
        // The outer header has the class, and a rule has one header for all packets.
        let first = u16::from_be_bytes([frame[14], frame[15]]);
        if first & if headers.net == Net::Ipv4 { 0x00ff } else { 0x0ff0 } != 0 {
            return None;
        }
        let mut packet = HeapPacket::new(&after);
        assert!(encap.apply(&mut packet, &mut { headers }));
        after = packet.bytes().to_vec();
        length += encap.overhead();
    }
    if length > MTU {
        return None;
    }
    after[..6].copy_from_slice(&action.destination.0);
    after[6..12].copy_from_slice(&action.source.0);
    Some((*action, after))
}

#[test]
fn the_program_equals_software_byte_for_byte() {
    let Some((program, mut table)) = load(512) else { return };
    let mut rng = StdRng::seed_from_u64(15);
    let connections: Vec<_> = (0..512).map(|_| connection(&mut rng)).collect();
    let packets = packets();
    // Every other one is known.
    let known: HashMap<_, _> = connections.iter().step_by(2).copied().collect();
    for (flow, action) in &known {
        table.insert(&Key::new(flow), action).unwrap();
    }
    let mut counts: HashMap<FlowKey, Count> = HashMap::new();
    for number in 0..packets {
        let (flow, _) = connections[rng.random_range(0..connections.len())];
        let before = packet(&mut rng, &flow);
        let ran = program.run(&before).unwrap();
        let (outcome, after) = match software(&before, &known) {
            None => (Outcome::Up, before.clone()),
            Some((action, after)) => {
                let key = Headers::parse(&before).unwrap().flow(&before).unwrap();
                let count = counts.entry(key).or_default();
                count.packets += 1;
                count.bytes += before.len() as u64;
                (if action.interface == 1 { Outcome::Back } else { Outcome::Out }, after)
            }
        };
        assert_eq!((ran.outcome, ran.frame), (outcome, after), "packet {number}: {before:02x?}");
    }
    assert!(counts.values().map(|count| count.packets).sum::<u64>() > packets / 4);
    for flow in known.keys() {
        let expected = counts.get(flow).copied().unwrap_or_default();
        assert_eq!(table.count(&Key::new(flow)), Some(expected), "{flow:?}");
        assert_eq!(table.remove(&Key::new(flow)), Some(expected));
    }
    assert!(table.is_empty());
}

#[test]
fn the_verifier_has_most_of_its_million_instructions_left() {
    let Some((program, _)) = load(8) else { return };
    let verified = program.verified().unwrap();
    eprintln!("the verifier went through {verified} instructions");
    assert!(verified < 50_000, "{verified}");
}

#[test]
fn truncated_packets_of_every_length_go_up_untouched() {
    let Some((program, mut table)) = load(64) else { return };
    let mut rng = StdRng::seed_from_u64(16);
    for _ in 0..32 {
        let (flow, action) = connection(&mut rng);
        table.insert(&Key::new(&flow), &action).unwrap();
        let whole = frame(flow.proto(), flow.src(), flow.dst(), Segment::Ack, b"data");
        assert_ne!(program.run(&whole).unwrap().outcome, Outcome::Up);
        for length in 14..whole.len() {
            let ran = program.run(&whole[..length]).unwrap();
            assert_eq!((ran.outcome, &*ran.frame), (Outcome::Up, &whole[..length]));
        }
    }
}

#[test]
fn the_table_keeps_what_a_map_keeps() {
    let Some((program, mut table)) = load(2000) else { return };
    let mut rng = StdRng::seed_from_u64(17);
    let flows: Vec<_> = (0..3000).map(|_| connection(&mut rng)).collect();
    let mut model: HashMap<FlowKey, Action> = HashMap::new();
    let mut refused = 0;
    for _ in 0..40_000 {
        let (flow, _) = flows[rng.random_range(0..flows.len())];
        let (_, mut action) = flows[rng.random_range(0..40)];
        action.change = Change::None;
        if rng.random_ratio(1, 3) {
            assert_eq!(table.remove(&Key::new(&flow)).is_some(), model.remove(&flow).is_some());
        } else if table.insert(&Key::new(&flow), &action).is_ok() {
            model.insert(flow, action);
        } else {
            assert!(model.len() >= 2000, "full with {} entries", model.len());
            refused += 1;
        }
        assert_eq!(table.len() as usize, model.len());
    }
    // It was full at times: entries were moved, and none got lost.
    assert!(refused > 0);
    for (flow, _) in &flows {
        let before = frame(flow.proto(), flow.src(), flow.dst(), Segment::Ack, b"");
        let expected = software(&before, &model).map_or(before.clone(), |(_, after)| after);
        assert_eq!(program.run(&before).unwrap().frame, expected);
    }
}

/// Ends the writer, also when an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One connection is forwarded to one backend and taken back again and again; another
/// takes its place and its action meanwhile. Its packets go up or to its own backend.
#[test]
fn no_packet_is_misrouted_while_entries_change() {
    let Some((program, mut table)) = load(8) else { return };
    let mut rng = StdRng::seed_from_u64(18);
    let pairs: Vec<_> = std::iter::repeat_with(|| connection(&mut rng))
        .filter(|(_, action)| action.change != Change::None)
        .take(16)
        .collect();
    let done = AtomicBool::new(false);
    let writing = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = 0;
            while !done.load(Ordering::Relaxed) {
                let (flow, action) = &pairs[turn % pairs.len()];
                table.insert(&Key::new(flow), action).unwrap();
                if turn > 2 {
                    table.remove(&Key::new(&pairs[(turn - 3) % pairs.len()].0)).unwrap();
                }
                turn += 1;
                writing.store(true, Ordering::Relaxed);
            }
        });
        let stop = Stop(&done);
        while !writing.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let mut forwarded = 0;
        for turn in 0..100_000 {
            let (flow, action) = &pairs[turn % pairs.len()];
            let before = frame(flow.proto(), flow.src(), flow.dst(), Segment::Ack, &PEER);
            let ran = program.run(&before).unwrap();
            if ran.outcome == Outcome::Up {
                assert_eq!(ran.frame, before);
            } else {
                let known = HashMap::from([(*flow, *action)]);
                assert_eq!(Some(ran.frame), software(&before, &known).map(|(_, after)| after));
                forwarded += 1;
            }
        }
        drop(stop);
        assert!(forwarded > 0);
    });
}
