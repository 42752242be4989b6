//! Least latency, over the whole data path: a backend that answers late gets
//! few new connections, until it answers as soon as the others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::collections::HashMap;
use std::net::SocketAddr;

use flow::{Encoding, PortId, Transport};
use packet::PacketBuf;
use replay::{Options, Simulation};
use testkit::ConfigText;
use testkit::segments::{Segment, frame, seen};

/// Clients, a service and its backends, in a simulation.
struct Bed {
    simulation: Simulation,
    proto: Transport,
    clients: &'static str,
    vip: SocketAddr,
    now_ms: u64,
    opened: u32,
    /// What backends are about to send, and when.
    answers: Vec<(u64, Vec<u8>)>,
}

impl Bed {
    fn new(proto: Transport, clients: &'static str, vip: &str) -> Self {
        let config = ConfigText::one_port()
            .web_and_dns("least-latency")
            .table("[workers]", "count = 2")
            .parse();
        let options = Options {
            nic: Some(flow::CardProfile::E810),
            encoding: Encoding::Mark,
            ..Options::default()
        };
        let simulation = Simulation::new(&config, &options).unwrap();
        let vip = vip.parse().unwrap();
        Self { simulation, proto, clients, vip, now_ms: 1, opened: 0, answers: Vec::new() }
    }

    fn exchange(&mut self, bytes: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
        assert!(self.simulation.arrive(PortId(0), bytes, self.now_ms * 1_000_000));
        self.simulation.poll(self.now_ms);
        let sent = self.simulation.take_sent();
        sent.iter().find_map(|sent| seen(sent.packet.bytes())).map(|seen| (seen.src, seen.dst))
    }

    /// Opens `count` connections, one each millisecond, with backends of which
    /// `slow` answers after 20 ms and every other after 1 ms; connections by
    /// backend.
    fn open(&mut self, count: u32, slow: Option<SocketAddr>) -> HashMap<SocketAddr, u32> {
        let mut shares = HashMap::new();
        for _ in 0..count {
            self.now_ms += 1;
            self.simulation.keep(self.now_ms);
            let now_ms = self.now_ms;
            let (due, rest) = self.answers.drain(..).partition(|(at, _)| *at <= now_ms);
            self.answers = rest;
            let due: Vec<(u64, Vec<u8>)> = due;
            for (_, bytes) in due {
                assert!(self.exchange(&bytes).is_some(), "the answer reaches the client");
            }
            let port = 1024 + (self.opened % 60_000) as u16;
            let ip = format!("{}{}", self.clients, 5 + self.opened / 60_000);
            let client = SocketAddr::new(ip.parse().unwrap(), port);
            self.opened += 1;
            let bytes = frame(self.proto, client, self.vip, Segment::Syn, b"");
            let (_, server) = self.exchange(&bytes).expect("the first packet reaches a backend");
            *shares.entry(server).or_default() += 1;
            let after = if Some(server) == slow { 20 } else { 1 };
            let answer = frame(self.proto, server, client, Segment::SynAck, b"");
            self.answers.push((now_ms + after, answer));
        }
        shares
    }
}

#[test]
fn a_slow_backend_gets_few_new_connections_while_it_is_slow() {
    for (proto, clients, vip, backend) in [
        (Transport::Tcp, "198.51.100.", "10.71.0.100:80", "10.72.0.12:8080"),
        (Transport::Udp, "198.51.100.", "10.71.0.100:53", "10.72.0.12:5353"),
        (Transport::Tcp, "2001:db8::", "[fd71::100]:80", "[fd72::c]:8080"),
        (Transport::Udp, "2001:db8::", "[fd71::100]:53", "[fd72::c]:5353"),
    ] {
        let slow: SocketAddr = backend.parse().unwrap();
        let mut bed = Bed::new(proto, clients, vip);
        let shares = bed.open(2000, Some(slow));
        assert_eq!(shares.len(), 4, "{proto} {shares:?}");
        // One in 32 of its quarter explores, and some came before it was known.
        assert!(shares[&slow] < 60, "{proto} {shares:?}");
        bed.open(8000, None);
        let shares = bed.open(2000, None);
        assert!(shares.values().all(|share| (350..650).contains(share)), "{proto} {shares:?}");
    }
}
