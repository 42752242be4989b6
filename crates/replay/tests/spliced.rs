//! Responses of the L7 agent's connections pass through the NIC: what leaves is the same, byte
//! for byte, as without a NIC.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use etherparse::{PacketBuilder, SlicedPacket, TcpOptionElement, TransportSlice};
use flow::{CardProfile, Encoding, PortId, Transport};
use packet::PacketBuf;
use replay::{Options, Simulation};
use testkit::ConfigText;
use testkit::segments::{OWN, PEER, seen};

const VIP: &str = "10.71.0.100:80";
const BACKENDS: [&str; 2] = ["10.72.0.11:8080", "10.72.0.12:8080"];
const CLIENT: &str = "198.51.100.7";
const MSS: usize = 1400;
/// Segments that a backend sends at once.
const FLIGHT: usize = 6;

/// HNLB with routes to two groups, so that every request is read.
fn simulation(nic: Option<CardProfile>) -> Simulation {
    let more = "protocol = \"http\"\nrequest_headers = { remove = [\"X-Request-Id\"] }\n\
                [[service.route]]\npath = \"/other\"\ngroup = \"other\"\n";
    let text = ConfigText::one_port().service("web", "10.71.0.100", Some(80), Transport::Tcp, "");
    let text = text.text().replace("protocol = \"tcp\"\n", "") + more;
    let backend = |at: usize, group: &str| {
        format!("[[service.backend]]\naddress = \"10.72.0.1{}\"\nport = 8080\n{group}", at + 1)
    };
    let text = text + &backend(0, "") + &backend(1, "group = \"other\"\n");
    let text = text + "\n[offload]\nadmission = \"all\"\nreply_bytes = 65536\n";
    let config =
        config::Config::parse(&text, "test.toml").unwrap_or_else(|e| panic!("{e}\n{text}"));
    let encoding = if nic.is_some() { Encoding::Rewrite } else { Encoding::Off };
    Simulation::new(&config, &Options { nic, encoding, ..Options::default() }).unwrap()
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
    /// What it still has to send, and how much of that at once.
    rest: VecDeque<u8>,
}

impl End {
    fn new(own: SocketAddr, other: SocketAddr, clock: Option<u32>) -> Self {
        let next = u32::from(own.port()) << 16 ^ u32::from(other.port()) << 4 ^ 0xfff0;
        let (got, rest) = Default::default();
        Self { own, other, next, acknowledged: 0, clock, echo: 0, got, rest }
    }

    fn frame(&mut self, syn: bool, payload: &[u8]) -> Vec<u8> {
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
        let mut options = Vec::new();
        if syn {
            options.push(TcpOptionElement::MaximumSegmentSize(MSS as u16));
        }
        if let Some(clock) = &mut self.clock {
            *clock += 1;
            options.push(TcpOptionElement::Timestamp(*clock, self.echo));
        }
        let mut bytes = Vec::new();
        tcp.options(&options).unwrap().write(&mut bytes, payload).unwrap();
        self.next = self.next.wrapping_add(payload.len() as u32 + u32::from(syn));
        bytes
    }

    /// Its next segments.
    fn flight(&mut self, most: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while !self.rest.is_empty() && frames.len() < most {
            let piece: Vec<u8> = self.rest.drain(..MSS.min(self.rest.len())).collect();
            frames.push(self.frame(false, &piece));
        }
        frames
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
        let mut stamped = false;
        for option in tcp.options_iterator().flatten() {
            if let TcpOptionElement::Timestamp(value, _) = option {
                let is_newer = value.wrapping_sub(self.echo) < 1 << 31 || self.echo == 0;
                assert!(is_newer, "{} > {}: {} then {value}", self.other, self.own, self.echo);
                (self.echo, stamped) = (value, true);
            }
        }
        if tcp.syn() {
            self.clock = self.clock.filter(|_| stamped);
            self.acknowledged = tcp.sequence_number().wrapping_add(1);
            return true;
        }
        let length = tcp.payload().len() as u32;
        assert!(length == 0 || tcp.sequence_number() == self.acknowledged, "nothing gets lost");
        self.got.extend(tcp.payload());
        self.acknowledged = self.acknowledged.wrapping_add(length);
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

/// From and to.
type Way = (SocketAddr, SocketAddr);

/// Hosts that speak over an HNLB.
struct Hosts {
    simulation: Simulation,
    now_ms: u64,
    ends: BTreeMap<Way, End>,
    /// What has left for each of them.
    left: BTreeMap<Way, Vec<Vec<u8>>>,
}

impl Hosts {
    fn new(nic: Option<CardProfile>) -> Self {
        let (ends, left) = Default::default();
        Self { simulation: simulation(nic), now_ms: 0, ends, left }
    }

    /// Sends frames and what follows from them, until nothing more is sent.
    fn carry(&mut self, frames: Vec<Vec<u8>>) {
        let mut queue = VecDeque::from(frames);
        let mut quiet = 0;
        while quiet < 100 {
            self.now_ms += 1;
            self.simulation.keep(self.now_ms);
            quiet += 1;
            if let Some(frame) = queue.pop_front() {
                assert!(self.simulation.arrive(PortId(0), &frame, self.now_ms * 1_000_000));
                quiet = 0;
            }
            self.simulation.poll(self.now_ms);
            for sent in self.simulation.take_sent() {
                let bytes = sent.packet.bytes();
                let Some(found) = seen(bytes) else { continue };
                quiet = 0;
                self.left.entry((found.src, found.dst)).or_default().push(bytes.to_vec());
                queue.extend(self.answer(bytes, (found.src, found.dst)));
            }
        }
    }

    /// What a host sends when it gets a frame.
    fn answer(&mut self, bytes: &[u8], (src, dst): Way) -> Vec<Vec<u8>> {
        let end = self.ends.entry((dst, src)).or_insert_with(|| {
            let clock = if dst.ip().to_string().ends_with('1') { 70_000 } else { 4_000_000_000 };
            End::new(dst, src, Some(clock))
        });
        let is_backend = BACKENDS.contains(&dst.to_string().as_str());
        let opens = is_backend && end.acknowledged == 0;
        let before = end.got.len();
        let mut frames = Vec::new();
        if end.take(bytes) {
            frames.push(end.frame(opens, b""));
            let more = String::from_utf8_lossy(&end.got[before..]).into_owned();
            if is_backend && more.ends_with("\r\n\r\n") {
                end.rest.extend(response(more.split(' ').nth(1).unwrap()));
            }
        }
        frames.extend(end.flight(if frames.is_empty() { 1 } else { FLIGHT }));
        frames
    }

    /// A client asks for `paths`, one after the other in one connection.
    fn talk(&mut self, port: u16, stamped: bool, paths: &[String]) {
        let client = SocketAddr::new(CLIENT.parse().unwrap(), port);
        let vip: SocketAddr = VIP.parse().unwrap();
        let clock = stamped.then_some(u32::from(port) * 1_000);
        let mut end = End::new(client, vip, clock);
        let syn = end.frame(true, b"");
        self.ends.insert((client, vip), end);
        self.carry(vec![syn]);
        for (number, path) in paths.iter().enumerate() {
            let end = self.ends.get_mut(&(client, vip)).unwrap();
            let text = format!("GET {path} HTTP/1.1\r\nHost: lab\r\nX-Number: {number}\r\n\r\n");
            let frames = vec![end.frame(false, text.as_bytes())];
            self.carry(frames);
        }
    }

    /// What a client has got.
    fn got(&self, port: u16) -> &[u8] {
        let client = SocketAddr::new(CLIENT.parse().unwrap(), port);
        &self.ends[&(client, VIP.parse().unwrap())].got
    }
}

/// The paths of one connection, which may go on to another backend.
fn paths(number: u16, switches: bool) -> Vec<String> {
    (0..3)
        .map(|turn| match (number + turn) % 4 {
            0 if switches => format!("/other/{}", 150_000 + u32::from(number)),
            1 => format!("/{turn}00"),
            _ => format!("/{}", u32::from(number) * 10_000 + 100_000),
        })
        .collect()
}

/// Whether a connection has timestamps, and whether it goes on to another backend.
const KINDS: [(bool, bool); 4] = [(false, true), (true, false), (false, false), (true, true)];

/// The first port of clients whose packets differ: the clock of a second backend begins further
/// on if the agent has not seen the last packets of the first.
const DIFFER: u16 = 6_000;

#[test]
fn hardware_gives_the_bytes_that_software_gives() {
    for profile in [CardProfile::ConnectX, CardProfile::BlueField3] {
        let [mut software, mut hardware] = [None, Some(profile)].map(Hosts::new);
        for number in 0..12_u16 {
            let (stamped, switches) = KINDS[usize::from(number) % KINDS.len()];
            let port = number + if stamped && switches { DIFFER } else { DIFFER - 1_000 };
            let all = paths(number, switches);
            for hosts in [&mut software, &mut hardware] {
                hosts.talk(port, stamped, &all);
                let wanted: Vec<u8> = all.iter().flat_map(|path| response(path)).collect();
                assert!(hosts.got(port) == wanted, "connection {number} of {profile:?}");
            }
        }
        assert_eq!(software.left.len(), hardware.left.len());
        for (way, frames) in &software.left {
            let found = &hardware.left[way];
            assert_eq!(frames.len(), found.len(), "{way:?}");
            if way.0.port().max(way.1.port()) >= DIFFER {
                continue;
            }
            for (at, (a, b)) in frames.iter().zip(found).enumerate() {
                assert_eq!(a, b, "{way:?}: frame {at}");
            }
        }
        let stats = hardware.simulation.offload_stats();
        let done = stats.done();
        let bytes: u64 = hardware.left.values().flatten().map(|frame| frame.len() as u64).sum();
        println!("{profile:?}: {} of {bytes} bytes by the card", done.spliced_bytes);
        assert!(done.spliced_bytes * 2 > bytes, "{done:?}");
        assert_eq!(done.spliced_bytes, done.forwarded_bytes);
        assert_eq!(stats.now().rules_spliced, 0, "no response is under way");
        let counters = hardware.simulation.counters();
        assert_eq!((counters["http_reset"], counters["http_unknown"]), (0, 0));
    }
}
