//! `on_remove = "reset"` and `on_down = "reset"`: the next packet of either side of a
//! connection whose backend is removed, or has been found down, is answered by a RST to both sides, in every encoding and mode, also
//! where the card has served the connection by itself. Connections of the other
//! backend never notice, and in the end nothing is kept.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::net::SocketAddr;

use config::Config;
use control::BackendKey;
use etherparse::{SlicedPacket, TransportSlice};
use flow::{CardProfile, Encoding, Mode, PortId};
use packet::PacketBuf;
use replay::{Options, Sent, Simulation};
use service::Health;
use testkit::ConfigText;
use testkit::segments::{Segment, frame};
use wire::Transport;

const OUTSIDE: PortId = PortId(0);
const INSIDE: PortId = PortId(1);
const VIP: &str = "10.71.0.100:80";

/// What becomes of the first backend.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Removed,
    Down,
}

/// What happens to its connections otherwise.
const OTHERWISE: &str = "health = { check = \"tcp\", on_down = \"reset\" }";

fn config(mode: Mode, hosts: &[u8]) -> Config {
    let vip: SocketAddr = VIP.parse().unwrap();
    let pool = if mode == Mode::FullNat { "\npool = \"locals\"" } else { "" };
    let more = format!(
        "mode = \"{mode}\"\nscheduler = \"round-robin\"\non_remove = \"reset\"{pool}\n{OTHERWISE}"
    );
    let text = ConfigText::two_ports("mtu = 1600", "")
        .table("[offload]", "admission = \"all\"")
        .table("[[pool]]", "name = \"locals\"\naddresses = [\"10.72.0.100\"]")
        .service("web", vip.ip(), Some(vip.port()), Transport::Tcp, &more);
    let backend = |text: ConfigText, host| text.backend(format!("10.72.0.{host}"), None, "");
    hosts.iter().fold(text, backend).parse()
}

fn client(number: u16) -> SocketAddr {
    SocketAddr::new("198.51.100.5".parse().unwrap(), number)
}

fn sent(simulation: &mut Simulation, port: PortId, bytes: &[u8], ms: u64) -> Vec<Sent> {
    assert!(simulation.arrive(port, bytes, ms * 1_000_000));
    simulation.poll(ms);
    simulation.take_sent()
}

/// A client's packet; what is sent for it.
fn ask(simulation: &mut Simulation, number: u16, segment: Segment, ms: u64) -> Vec<Sent> {
    let bytes = frame(Transport::Tcp, client(number), VIP.parse().unwrap(), segment, b"");
    sent(simulation, OUTSIDE, &bytes, ms)
}

/// Whether a frame is a RST, inside a tunnel or not.
fn is_reset(bytes: &[u8]) -> bool {
    let sliced = SlicedPacket::from_ethernet(bytes).unwrap();
    match sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => tcp.rst(),
        _ => SlicedPacket::from_ip(&bytes[34..]).is_ok_and(
            |inner| matches!(inner.transport, Some(TransportSlice::Tcp(tcp)) if tcp.rst()),
        ),
    }
}

fn check(mode: Mode, encoding: Encoding, nic: Option<CardProfile>, end: End) {
    let says = format!("{mode}, {encoding}, {end:?}");
    let options = Options { nic, encoding, ..Options::default() };
    let mut simulation = Simulation::new(&config(mode, &[11, 12]), &options).unwrap();
    let mut seen = Vec::new();
    for number in [1001, 1002] {
        let [first] = &ask(&mut simulation, number, Segment::Syn, 1)[..] else { panic!("{says}") };
        let bytes = first.packet.bytes().to_vec();
        if matches!(mode, Mode::Nat | Mode::FullNat) {
            let there = testkit::segments::seen(&bytes).unwrap();
            let answer = frame(Transport::Tcp, there.dst, there.src, Segment::SynAck, b"");
            assert_eq!(sent(&mut simulation, INSIDE, &answer, 2).len(), 1);
            seen.push((there.dst, there.src));
        }
        assert_eq!(ask(&mut simulation, number, Segment::Ack, 2).len(), 1);
    }
    (3..60).for_each(|ms| simulation.keep(ms));
    // A queue can't name a connection's local endpoint.
    let has_rules = (mode, encoding) != (Mode::FullNat, Encoding::Queue);
    if encoding != Encoding::Off && has_rules {
        assert!(simulation.offload_stats().now().rules_forward > 0, "{says}");
    }
    match end {
        End::Removed => drop(simulation.reload(&config(mode, &[12]), 60).unwrap()),
        End::Down => {
            let (address, port) = ("10.72.0.11".parse().unwrap(), Some(80));
            let backend = ("web".to_owned(), BackendKey { address, port });
            let done = simulation.set_health([(backend, Health::DOWN)]).unwrap();
            assert_eq!(done.steps.len(), 1);
        }
    }
    // A round over the table, time for rules to go, and another round.
    (61..1500).for_each(|ms| {
        simulation.poll(ms);
        simulation.keep(ms);
    });
    let resets = |all: &[Sent]| all.iter().filter(|one| is_reset(one.packet.bytes())).count();
    let both = ask(&mut simulation, 1001, Segment::Ack, 1500);
    assert_eq!((both.len(), resets(&both)), (2, 2), "{says}: {:?}", simulation.counters());
    assert!(
        both.iter().any(|one| one.port == OUTSIDE) && both.iter().any(|one| one.port == INSIDE)
    );
    if let Some((server, there)) = seen.first() {
        let data = frame(Transport::Tcp, *server, *there, Segment::Ack, b"late");
        let both = sent(&mut simulation, INSIDE, &data, 1501);
        assert_eq!((both.len(), resets(&both)), (2, 2), "{says}");
    }
    // The other connection goes on.
    let other = ask(&mut simulation, 1002, Segment::Ack, 1502);
    assert_eq!((other.len(), resets(&other)), (1, 0), "{says}");
    // A new connection on the same 5-tuple goes to the backend that is there.
    let again = ask(&mut simulation, 1001, Segment::Syn, 1503);
    assert_eq!((again.len(), resets(&again)), (1, 0), "{says}");
    assert_eq!(simulation.counters()["revoked"], if seen.is_empty() { 1 } else { 2 }, "{says}");
}

#[test]
fn connections_of_a_backend_that_ends_are_reset_for_both_sides() {
    use CardProfile::{ConnectX, E810};
    for mode in [Mode::Nat, Mode::FullNat, Mode::Dsr, Mode::Ipip] {
        for end in [End::Removed, End::Down] {
            check(mode, Encoding::Off, None, end);
            check(mode, Encoding::Mark, Some(E810), end);
            check(mode, Encoding::Queue, Some(E810), end);
            check(mode, Encoding::Rewrite, Some(ConnectX), end);
        }
    }
}

#[test]
fn silent_connections_are_forgotten() {
    let mut simulation =
        Simulation::new(&config(Mode::Dsr, &[11, 12]), &Options::default()).unwrap();
    for number in [1001, 1002] {
        ask(&mut simulation, number, Segment::Syn, 1);
        ask(&mut simulation, number, Segment::Ack, 2);
    }
    simulation.reload(&config(Mode::Dsr, &[12]), 60).unwrap();
    // `tcp_closing`, 30 s, and a round over the table.
    (0..35_000).step_by(10).for_each(|ms| simulation.keep(60 + ms));
    assert_eq!(simulation.shared().table().len(), 1);
}
