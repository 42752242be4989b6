//! Requests through the L7 agent: hosts speak over it, and then the capture of what they have
//! sent goes through another HNLB, which chooses other numbers. Streams are spelt out here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use capture::{CaptureReader, CaptureWriter, Format};
use etherparse::{PacketBuilder, SlicedPacket, TcpOptionElement, TransportSlice};
use flow::{PortId, Transport};
use packet::PacketBuf;
use replay::{Arrivals, Options, Ports, Simulation, replay};
use testkit::ConfigText;
use testkit::segments::{OWN, PEER, seen};

const VIP: &str = "10.71.0.100:80";
const BACKENDS: [&str; 2] = ["10.72.0.11:8080", "10.72.0.12:8080"];
const MSS: usize = 1400;

/// One worker's HNLB whose numbers follow from `seed`.
fn simulation(seed: u8) -> Simulation {
    let more = "protocol = \"http\"\nrequest_headers = { remove = [\"X-Request-Id\"] }\n\
                [[service.route]]\npath = \"/other\"\ngroup = \"other\"\n";
    let text = ConfigText::one_port().service("web", "10.71.0.100", Some(80), Transport::Tcp, "");
    let text = text.text().replace("protocol = \"tcp\"\n", "") + more;
    let backend = |at: usize, group: &str| {
        format!("[[service.backend]]\naddress = \"10.72.0.1{}\"\nport = 8080\n{group}", at + 1)
    };
    let text = text + &backend(0, "") + &backend(1, "group = \"other\"\n");
    let config =
        config::Config::parse(&text, "test.toml").unwrap_or_else(|e| panic!("{e}\n{text}"));
    Simulation::new(&config, &Options { seed: [seed; 32], ..Options::default() }).unwrap()
}

/// One end of a connection. Nothing gets lost here, and it acknowledges every segment.
struct End {
    own: SocketAddr,
    other: SocketAddr,
    next: u32,
    acknowledged: u32,
    /// Its clock if it has timestamps, and the other's last.
    clock: Option<u32>,
    echo: u32,
    got: Vec<u8>,
}

impl End {
    fn frame(&mut self, syn: bool, fin: bool, payload: &[u8]) -> Vec<u8> {
        let ethernet = PacketBuilder::ethernet2(PEER, OWN);
        let (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) =
            (self.own.ip(), self.other.ip())
        else {
            panic!("IPv4 is spoken here")
        };
        let ip = ethernet.ipv4(from.octets(), to.octets(), 64);
        let mut tcp = ip.tcp(self.own.port(), self.other.port(), self.next, 60_000);
        if syn {
            tcp = tcp.syn();
        }
        if self.acknowledged != 0 {
            tcp = tcp.ack(self.acknowledged);
        }
        if fin {
            tcp = tcp.fin();
        }
        let mut options = Vec::new();
        if syn {
            options.push(TcpOptionElement::MaximumSegmentSize(MSS as u16));
        }
        if let Some(clock) = self.clock {
            options.push(TcpOptionElement::Timestamp(clock, self.echo));
        }
        let mut bytes = Vec::new();
        tcp.options(&options).unwrap().write(&mut bytes, payload).unwrap();
        self.next = self.next.wrapping_add(payload.len() as u32 + u32::from(syn) + u32::from(fin));
        bytes
    }

    fn data(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        bytes.chunks(MSS).map(|piece| self.frame(false, false, piece)).collect()
    }

    /// Takes in a segment for it; whether there is something to acknowledge.
    fn take(&mut self, frame: &[u8]) -> bool {
        let sliced = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("TCP is spoken here") };
        if tcp.rst() {
            // A client that goes on at another backend leaves the first by a reset.
            assert_eq!(self.own.port(), 8080, "{} is reset by {}", self.own, self.other);
            (self.acknowledged, self.next) = (0, self.next.wrapping_add(1 << 20));
            return false;
        }
        for option in tcp.options_iterator().flatten() {
            if let TcpOptionElement::Timestamp(value, _) = option {
                self.echo = value;
            }
        }
        if tcp.syn() {
            self.acknowledged = tcp.sequence_number().wrapping_add(1);
            return true;
        }
        let length = tcp.payload().len() as u32 + u32::from(tcp.fin());
        if tcp.sequence_number() == self.acknowledged {
            self.got.extend(tcp.payload());
            self.acknowledged = self.acknowledged.wrapping_add(length);
        }
        length > 0
    }
}

/// What a server sends for a path: so many bytes as its last digits say.
fn response(path: &str) -> Vec<u8> {
    let length: usize = path.rsplit('/').next().unwrap().parse().unwrap();
    let body: Vec<u8> = (0..length).map(|at| (at * 7 + length) as u8).collect();
    let head = format!("HTTP/1.1 200 OK\r\nServer: s\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), &body].concat()
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: lab\r\nAccept: */*\r\n\r\n")
}

/// The request as docs/user/l7.md says that a backend gets it.
fn forwarded(path: &str, client: SocketAddr) -> String {
    let ip = client.ip();
    format!(
        "GET {path} HTTP/1.1\r\nHost: lab\r\nAccept: */*\r\nX-Forwarded-For: {ip}\r\n\
         X-Forwarded-Proto: http\r\nForwarded: for={ip};proto=http;host=\"lab\"\r\n\
         X-Forwarded-Host: lab\r\n\r\n"
    )
}

/// Hosts that speak over an HNLB, and what has arrived there, with the time.
struct Hosts {
    simulation: Simulation,
    now_ms: u64,
    ends: BTreeMap<(SocketAddr, SocketAddr), End>,
    arrived: Vec<(Duration, Vec<u8>)>,
}

impl Hosts {
    fn new(seed: u8) -> Self {
        let (ends, arrived) = (BTreeMap::new(), Vec::new());
        Self { simulation: simulation(seed), now_ms: 0, ends, arrived }
    }

    /// Sends frames and what follows from them, until nothing more is sent.
    fn carry(&mut self, frames: Vec<Vec<u8>>) {
        let mut queue = VecDeque::from(frames);
        while let Some(frame) = queue.pop_front() {
            self.now_ms += 1;
            let at = Duration::from_millis(self.now_ms);
            self.simulation.keep(self.now_ms);
            assert!(self.simulation.arrive(PortId(0), &frame, at.as_nanos() as u64));
            self.simulation.poll(self.now_ms);
            self.arrived.push((at, frame));
            for sent in self.simulation.take_sent() {
                let bytes = sent.packet.bytes();
                let Some(found) = seen(bytes) else { continue };
                let end = self.ends.entry((found.dst, found.src)).or_insert_with(|| End {
                    own: found.dst,
                    other: found.src,
                    next: 0x8000_0000 ^ u32::from(found.src.port()),
                    acknowledged: 0,
                    clock: Some(70_000),
                    echo: 0,
                    got: Vec::new(),
                });
                let is_backend = BACKENDS.contains(&found.dst.to_string().as_str());
                let opens = is_backend && end.acknowledged == 0;
                let before = end.got.len();
                if !end.take(bytes) {
                    continue;
                }
                queue.push_back(end.frame(opens, false, b""));
                let more = String::from_utf8_lossy(&end.got[before..]).into_owned();
                if is_backend && more.ends_with("\r\n\r\n") {
                    let path = more.split(' ').nth(1).unwrap();
                    queue.extend(end.data(&response(path)));
                }
            }
        }
    }

    /// A client asks for `paths`, one after the other in one connection, and ends it.
    fn talk(&mut self, client: SocketAddr, stamped: bool, paths: &[String]) {
        let vip: SocketAddr = VIP.parse().unwrap();
        let mut end = End {
            own: client,
            other: vip,
            next: u32::from(client.port()) << 16 | 0xfff0,
            acknowledged: 0,
            clock: stamped.then_some(9_000),
            echo: 0,
            got: Vec::new(),
        };
        let syn = end.frame(true, false, b"");
        self.ends.insert((client, vip), end);
        self.carry(vec![syn]);
        for path in paths {
            let end = self.ends.get_mut(&(client, vip)).unwrap();
            let frames = end.data(request(path).as_bytes());
            self.carry(frames);
        }
    }
}

/// The payloads of all segments from one address to another, in the order of their numbers.
fn streams(path: &Path) -> BTreeMap<(SocketAddr, SocketAddr), Vec<u8>> {
    let mut pieces: BTreeMap<_, BTreeMap<u32, Vec<u8>>> = BTreeMap::new();
    let mut firsts = BTreeMap::new();
    let mut reader = CaptureReader::open(path).unwrap();
    while let Some(captured) = reader.read().unwrap() {
        let frame = captured.frame;
        let Some(found) = seen(&frame) else { continue };
        let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { continue };
        let ends = (found.src, found.dst);
        let first = *firsts.entry(ends).or_insert(tcp.sequence_number());
        let place = tcp.sequence_number().wrapping_sub(first);
        if !found.payload.is_empty() {
            pieces.entry(ends).or_default().insert(place, found.payload);
        }
    }
    pieces.into_iter().map(|(ends, all)| (ends, all.into_values().flatten().collect())).collect()
}

#[test]
fn a_capture_of_requests_goes_through_an_hnlb_that_chooses_other_numbers() {
    let vip: SocketAddr = VIP.parse().unwrap();
    let backends = BACKENDS.map(|own| own.parse::<SocketAddr>().unwrap());
    let mut hosts = Hosts::new(1);
    let mut expected = BTreeMap::new();
    for number in 0..12_u16 {
        let client = SocketAddr::new("198.51.100.7".parse().unwrap(), 5_000 + number);
        let paths: Vec<String> = (0..=number % 3)
            .map(|turn| match (number + turn) % 4 {
                0 => format!("/other/{}", number * 100),
                _ => format!("/{}", u32::from(number) * 2_000 + u32::from(turn)),
            })
            .collect();
        hosts.talk(client, number % 2 == 0, &paths);
        for path in paths {
            let at = usize::from(path.starts_with("/other"));
            expected.entry((vip, client)).or_insert_with(Vec::new).extend(response(&path));
            let to_backend = expected.entry((client, backends[at])).or_insert_with(Vec::new);
            to_backend.extend(forwarded(&path, client).into_bytes());
        }
    }
    // The hosts have got what they should.
    for ((from, to), wanted) in &expected {
        let got = &hosts.ends[&(*to, *from)].got;
        assert_eq!(String::from_utf8_lossy(got), String::from_utf8_lossy(wanted), "{from} > {to}");
    }
    let dir = tempfile::tempdir().unwrap();
    let [input, output] = ["in.pcap", "out.pcap"].map(|name| dir.path().join(name));
    let mut writer = CaptureWriter::create(&input, Format::Pcap, &["p0"], &[]).unwrap();
    for (at, frame) in &hosts.arrived {
        writer.write(0, *at, frame).unwrap();
    }
    writer.finish().unwrap();
    let reader = CaptureReader::open(&input).unwrap();
    let arrivals = Arrivals::new(vec![(reader, Ports::One(PortId(0)))]);
    let writer = CaptureWriter::create(&output, Format::Pcap, &["p0"], &[&input]).unwrap();
    let mut other = simulation(2);
    let done = replay(&mut other, arrivals, writer, None).unwrap();
    assert_eq!((done.read, done.error.is_none()), (hosts.arrived.len() as u64, true));
    let found = streams(&output);
    for (ends, wanted) in &expected {
        let got = found.get(ends).map(Vec::as_slice).unwrap_or_default();
        let (got, wanted) = (String::from_utf8_lossy(got), String::from_utf8_lossy(wanted));
        assert_eq!(got, wanted, "{ends:?}");
    }
    let counters = other.counters();
    let requests: u16 = (0..12).map(|number| number % 3 + 1).sum();
    assert_eq!(counters["http_requests"], u64::from(requests));
    assert_eq!((counters["http_unknown"], counters["http_reset"]), (0, 0));
}
