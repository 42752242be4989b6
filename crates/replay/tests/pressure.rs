//! The connection table is full, and has room again: who was served without
//! state meanwhile stays where it was.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::net::{Ipv4Addr, SocketAddr};

use flow::PortId;
use packet::PacketBuf;
use replay::{Options, Simulation};
use testkit::ConfigText;
use testkit::segments::{Segment, frame, seen};
use wire::Transport;

const CAPACITY: u16 = 64;
const LATE: u16 = 16;

fn client(port: u16) -> SocketAddr {
    (Ipv4Addr::new(198, 51, 100, 5), port).into()
}

/// Sends one packet of `port`'s connection; the backend it reaches.
fn send(simulation: &mut Simulation, port: u16, segment: Segment, now_ms: u64) -> SocketAddr {
    let vip = "10.71.0.100:80".parse().unwrap();
    let bytes = frame(Transport::Tcp, client(port), vip, segment, b"");
    assert!(simulation.arrive(PortId(0), &bytes, now_ms * 1_000_000));
    simulation.poll(now_ms);
    let sent = simulation.take_sent();
    assert_eq!(sent.len(), 1, "{:?}", simulation.counters());
    seen(sent[0].packet.bytes()).unwrap().dst
}

#[test]
fn a_syn_sent_again_reaches_the_same_backend() {
    let limits = format!(
        "connections = {CAPACITY}\ntcp_closing = \"1s\"\nembryonic_service = 0\nembryonic_source = 0"
    );
    let config = ConfigText::one_port()
        .web_and_dns("round-robin")
        .table("[workers]", "count = 1")
        .table("[conntrack]", &limits)
        .parse();
    let mut simulation = Simulation::new(&config, &Options::default()).unwrap();
    for port in 0..CAPACITY {
        send(&mut simulation, 1024 + port, Segment::Syn, 1);
    }
    let late: Vec<u16> = (0..LATE).map(|n| 5000 + n).collect();
    let first: Vec<_> =
        late.iter().map(|&port| send(&mut simulation, port, Segment::Syn, 2)).collect();
    assert_eq!(simulation.counters()["stateless"], u64::from(LATE));
    for port in 0..LATE {
        send(&mut simulation, 1024 + port, Segment::Rst, 3);
    }
    for now_ms in 4..3000 {
        simulation.keep(now_ms);
        simulation.poll(now_ms);
    }
    assert_eq!(simulation.shared().table().len(), usize::from(CAPACITY - LATE));
    let again: Vec<_> =
        late.iter().map(|&port| send(&mut simulation, port, Segment::Syn, 3001)).collect();
    assert_eq!(first, again);
    assert_eq!(simulation.counters()["stateless"], u64::from(LATE), "there was room");
    let after: Vec<_> =
        late.iter().map(|&port| send(&mut simulation, port, Segment::Ack, 3002)).collect();
    assert_eq!(first, after);
}
