//! Each service's connections are kept for the service's own time, by the clock of
//! the replay.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::net::SocketAddr;

use flow::PortId;
use replay::{Options, Simulation};
use testkit::ConfigText;
use testkit::segments::{Segment, frame};
use wire::Transport::{self, Tcp, Udp};

const VIPS: [(&str, Transport, &str); 3] = [
    ("10.71.0.100:80", Tcp, ""),
    ("10.71.0.100:443", Tcp, "timeouts = { tcp_established = \"20s\" }"),
    ("10.71.0.100:53", Udp, "timeouts = { udp = \"10s\", udp_unanswered = \"3s\" }"),
];

fn config(conntrack: &str, more: [&str; 3]) -> config::Config {
    let mut text = ConfigText::one_port();
    for ((n, (vip, proto, _)), more) in VIPS.iter().enumerate().zip(more) {
        let vip: SocketAddr = vip.parse().unwrap();
        text = text.service(&format!("s{n}"), vip.ip(), Some(vip.port()), *proto, more).backend(
            format!("10.72.0.1{n}"),
            None,
            "",
        );
    }
    text.table("[conntrack]", conntrack).parse()
}

/// A connection to each service, the UDP flow answered or not.
fn open(simulation: &mut Simulation, answered: bool) {
    let client: SocketAddr = "198.51.100.5:5000".parse().unwrap();
    for (n, (vip, proto, _)) in VIPS.iter().enumerate() {
        let vip: SocketAddr = vip.parse().unwrap();
        let server = SocketAddr::new(format!("10.72.0.1{n}").parse().unwrap(), vip.port());
        let there = |segment| frame(*proto, client, vip, segment, b"");
        let back = frame(*proto, server, client, Segment::SynAck, b"");
        let mut frames = vec![there(Segment::Syn)];
        if answered || *proto == Tcp {
            frames.extend([back, there(Segment::Ack)]);
        }
        for frame in frames {
            assert!(simulation.arrive(PortId(0), &frame, 1_000_000));
            simulation.poll(1);
        }
    }
}

/// How many connections there are at `seconds`, by service.
fn kept(simulation: &mut Simulation, seconds: u64) -> [usize; 3] {
    for step in 0..200 {
        simulation.keep(1000 * seconds + step);
        simulation.poll(1000 * seconds + step);
    }
    let mut kept = [0; 3];
    simulation.shared().table().iter(1000 * seconds, &mut |_, view| {
        kept[usize::from(view.binding.service.0)] += 1;
    });
    kept
}

#[test]
fn a_service_keeps_its_connections_for_its_own_time() {
    let own = VIPS.map(|(_, _, more)| more);
    for (answered, udp_s) in [(true, 10), (false, 3)] {
        let config = config("tcp_established = \"60s\"", own);
        let mut simulation = Simulation::new(&config, &Options::default()).unwrap();
        open(&mut simulation, answered);
        assert_eq!(kept(&mut simulation, udp_s - 1), [1, 1, 1]);
        assert_eq!(kept(&mut simulation, udp_s + 1), [1, 1, 0]);
        assert_eq!(kept(&mut simulation, 19), [1, 1, 0]);
        assert_eq!(kept(&mut simulation, 21), [1, 0, 0]);
        assert_eq!(kept(&mut simulation, 59), [1, 0, 0]);
        assert_eq!(kept(&mut simulation, 61), [0, 0, 0]);
    }
}

/// RFC 5382 REQ-5 and RFC 4787 REQ-5.
#[test]
fn connections_are_kept_as_long_as_a_nat_has_to_keep_them() {
    let mut simulation = Simulation::new(&config("", [""; 3]), &Options::default()).unwrap();
    open(&mut simulation, true);
    assert_eq!(kept(&mut simulation, 5 * 60 - 1), [1, 1, 1]);
    assert_eq!(kept(&mut simulation, 5 * 60 + 1), [1, 1, 0]);
    assert_eq!(kept(&mut simulation, 2 * 3600 + 4 * 60 - 1), [1, 1, 0]);
    assert_eq!(kept(&mut simulation, 2 * 3600 + 4 * 60 + 1), [0, 0, 0]);
}
