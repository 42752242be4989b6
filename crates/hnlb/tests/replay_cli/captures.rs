//! Captures, byte by byte: the reader's library has no part in them.
use std::path::Path;
use std::time::Duration;

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};

/// A frame and when it came.
pub(crate) type Timed = (Duration, Vec<u8>);

/// The load balancer's and the other stations' Ethernet address.
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER: [u8; 6] = [2, 0, 0, 0, 9, 9];

/// Clients' connections and their ends: 20 of TCP, 10 of UDP.
pub(crate) const CONNECTIONS: u16 = 30;
/// Rounds of a packet there and one back.
pub(crate) const ROUNDS: u16 = 12;
/// Frames of TCP and UDP connections.
pub(crate) const FLOW_FRAMES: u64 = CONNECTIONS as u64 * ROUNDS as u64 * 2;

const CLIENT: [u8; 4] = [198, 51, 100, 5];
const VIP: [u8; 4] = [10, 71, 0, 100];

/// The one backend of both services.
const BACKEND: [u8; 4] = [10, 72, 0, 11];

/// A connection's ports: the client's, the VIP's, the backend's.
fn ports(connection: u16) -> [u16; 3] {
    if connection < 20 { [5000 + connection, 80, 8080] } else { [5000 + connection, 53, 5353] }
}

fn frame(connection: u16, round: u16, back: bool) -> Vec<u8> {
    let [client, service, server] = ports(connection);
    let (src, dst, sport, dport) = match back {
        true => (BACKEND, CLIENT, server, client),
        false => (CLIENT, VIP, client, service),
    };
    let ip = PacketBuilder::ethernet2(PEER, OWN).ipv4(src, dst, 64);
    let payload = [connection.to_be_bytes(), round.to_be_bytes()].concat();
    let mut bytes = Vec::new();
    if connection >= 20 {
        ip.udp(sport, dport).write(&mut bytes, &payload).unwrap();
        return bytes;
    }
    let tcp = ip.tcp(sport, dport, 7, 512);
    let tcp = match (round, back) {
        (0, false) => tcp.syn(),
        (0, true) => tcp.syn().ack(8),
        _ => tcp.ack(8),
    };
    tcp.write(&mut bytes, &payload).unwrap();
    bytes
}

/// All connections in turn, an echo request, an ARP request and a broken frame.
pub(crate) fn traffic() -> Vec<Timed> {
    let mut all = Vec::new();
    let mut now = Duration::from_secs(1_700_000_000);
    let mut add = |bytes: Vec<u8>| {
        now += Duration::from_micros(250);
        all.push((now, bytes));
    };
    for round in 0..ROUNDS {
        for connection in 0..CONNECTIONS {
            add(frame(connection, round, false));
            add(frame(connection, round, true));
        }
    }
    let mut echo = Vec::new();
    let ip = PacketBuilder::ethernet2(PEER, OWN).ipv4(CLIENT, VIP, 64);
    ip.icmpv4_echo_request(1, 2).write(&mut echo, b"hello").unwrap();
    add(echo);
    let mut arp = [&[0xff; 6][..], &PEER, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &PEER].concat();
    arp.extend([10, 71, 0, 254, 0, 0, 0, 0, 0, 0, 10, 71, 0, 100]);
    add(arp);
    add(frame(0, 1, false)[..20].to_vec());
    all
}

/// A classic capture with microseconds.
pub(crate) fn pcap(frames: &[Timed]) -> Vec<u8> {
    let mut file = 0xa1b2_c3d4u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0]);
    for (time, frame) in frames {
        let len = frame.len() as u32;
        for word in [time.as_secs() as u32, time.subsec_micros(), len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// The Ethernet address of the backends' port in [`by_port`].
pub(crate) const BACK: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// [`traffic`] with the number of the port at which each frame arrives: what backends
/// send arrives at port 1.
pub(crate) fn by_port() -> Vec<(u32, Timed)> {
    let backends = |(time, mut bytes): Timed| {
        let from_backend = bytes.get(26..30) == Some(&BACKEND[..]);
        if from_backend {
            bytes[..6].copy_from_slice(&BACK);
        }
        (u32::from(from_backend), (time, bytes))
    };
    traffic().into_iter().map(backends).collect()
}

/// The newer format with one interface.
pub(crate) fn pcapng(frames: &[Timed]) -> Vec<u8> {
    let frames: Vec<(u32, Timed)> = frames.iter().map(|frame| (0, frame.clone())).collect();
    pcapng_of(1, &frames)
}

/// The newer format: a section, interfaces with microseconds, packets.
pub(crate) fn pcapng_of(interfaces: usize, frames: &[(u32, Timed)]) -> Vec<u8> {
    let mut section = 0x1a2b_3c4du32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend([0xff; 8]);
    let mut file = block(0x0a0d_0d0a, &section);
    for _ in 0..interfaces {
        file.extend(block(1, &[1, 0, 0, 0, 0xff, 0xff, 0, 0]));
    }
    for (interface, (time, frame)) in frames {
        let ticks = time.as_micros() as u64;
        let len = frame.len() as u32;
        let mut body = interface.to_le_bytes().to_vec();
        for word in [(ticks >> 32) as u32, ticks as u32, len, len] {
            body.extend(word.to_le_bytes());
        }
        body.extend(frame);
        body.resize(body.len().next_multiple_of(4), 0);
        file.extend(block(6, &body));
    }
    file
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (12 + body.len() as u32).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, body, &len].concat()
}

/// The frames of a capture.
pub(crate) fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = capture::CaptureReader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(captured) = reader.read().unwrap() {
        frames.push(captured.frame);
    }
    frames
}

/// Asserts that `frames` are what the load balancer must send for
/// [`traffic`], as etherparse reads them.
pub(crate) fn check_frames(frames: &[Vec<u8>]) {
    assert_eq!(frames.len() as u64, FLOW_FRAMES + 2);
    let mut expected = (0..ROUNDS).flat_map(|round| {
        (0..CONNECTIONS).flat_map(move |conn| [(conn, round, false), (conn, round, true)])
    });
    for frame in &frames[..FLOW_FRAMES as usize] {
        let (connection, round, back) = expected.next().unwrap();
        check_frame(frame, connection, round, back);
    }
    let echo = SlicedPacket::from_ethernet(&frames[FLOW_FRAMES as usize]).unwrap();
    let Some(TransportSlice::Icmpv4(echo)) = echo.transport else { panic!("{echo:?}") };
    assert!(matches!(echo.icmp_type(), etherparse::Icmpv4Type::EchoReply(_)));
    assert_eq!(echo.payload(), b"hello");
    let arp = SlicedPacket::from_ethernet(frames.last().unwrap()).unwrap();
    let Some(NetSlice::Arp(arp)) = arp.net else { panic!("{arp:?}") };
    assert_eq!((arp.sender_protocol_addr(), arp.sender_hw_addr()), (&VIP[..], &OWN[..]));
}

fn check_frame(frame: &[u8], connection: u16, round: u16, back: bool) {
    let [client, service, server] = ports(connection);
    let (src, dst, sport, dport) = match back {
        true => (VIP, CLIENT, service, client),
        false => (CLIENT, BACKEND, client, server),
    };
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(NetSlice::Ipv4(ip)) = &sliced.net else { panic!("{sliced:?}") };
    let ip = ip.header();
    assert_eq!((ip.source(), ip.destination(), ip.ttl()), (src, dst, 63));
    assert_eq!(ip.to_header().calc_header_checksum(), ip.header_checksum());
    let (ends, right, sum, payload) = match sliced.transport.as_ref().unwrap() {
        TransportSlice::Tcp(tcp) => (
            (tcp.source_port(), tcp.destination_port()),
            tcp.calc_checksum_ipv4(src, dst).unwrap(),
            tcp.checksum(),
            tcp.payload(),
        ),
        TransportSlice::Udp(udp) => (
            (udp.source_port(), udp.destination_port()),
            udp.to_header().calc_checksum_ipv4_raw(src, dst, udp.payload()).unwrap(),
            udp.checksum(),
            udp.payload(),
        ),
        other => panic!("{other:?}"),
    };
    assert_eq!((ends, sum), ((sport, dport), right));
    assert_eq!(payload, [connection.to_be_bytes(), round.to_be_bytes()].concat());
}
