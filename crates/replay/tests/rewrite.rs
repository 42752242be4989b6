//! Encoding `rewrite`: long connections pass through the NIC, and no worker
//! sees them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub, dead_code)]

use std::net::SocketAddr;

use flow::{CardProfile, Encoding, PortId};
use packet::PacketBuf;
use replay::{Options, Simulation};
use testkit::ConfigText;
use testkit::segments::{Segment, frame, seen};
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
    fn new(profile: CardProfile) -> Self {
        let options =
            Options { nic: Some(profile), encoding: Encoding::Rewrite, ..Options::default() };
        let config = ConfigText::one_port()
            .web_and_dns("round-robin")
            .table("[workers]", "count = 1")
            .table(TABLES, "")
            .parse();
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

fn ends() -> (SocketAddr, SocketAddr) {
    ("198.51.100.5:4000".parse().unwrap(), "10.71.0.100:80".parse().unwrap())
}

#[test]
fn a_long_connection_never_reaches_the_worker() {
    for profile in [CardProfile::ConnectX, CardProfile::BlueField3] {
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
    let mut run = Run::new(CardProfile::ConnectX);
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
