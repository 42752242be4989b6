//! A backend that a reload inserts before others in the file takes nothing of
//! theirs: a connection's packets go on to its backend, by its Ethernet address
//! (`dsr`) or in its tunnel (`ipip`).
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::net::{IpAddr, SocketAddr};

use config::Config;
use flow::{CardProfile, Encoding, Mode, PortId};
use packet::PacketBuf;
use replay::{Options, Simulation};
use testkit::ConfigText;
use testkit::segments::{Segment, frame};
use wire::Transport;

const OUTSIDE: PortId = PortId(0);
const VIP: &str = "10.71.0.100:80";

fn config(mode: Mode, hosts: &[u8]) -> Config {
    let vip: SocketAddr = VIP.parse().unwrap();
    let more = format!("mode = \"{mode}\"\nscheduler = \"round-robin\"");
    let text = ConfigText::two_ports("mtu = 1600", "")
        .table("[offload]", "admission = \"all\"")
        .service("web", vip.ip(), Some(vip.port()), Transport::Tcp, &more);
    let backend = |text: ConfigText, host| text.backend(format!("10.72.0.{host}"), None, "");
    hosts.iter().fold(text, backend).parse()
}

/// The backend that the client's packet goes to.
fn host(simulation: &mut Simulation, mode: Mode, client: u16, segment: Segment, ms: u64) -> u8 {
    let client = SocketAddr::new("198.51.100.5".parse().unwrap(), client);
    let bytes = frame(Transport::Tcp, client, VIP.parse().unwrap(), segment, b"");
    assert!(simulation.arrive(OUTSIDE, &bytes, ms * 1_000_000));
    simulation.poll(ms);
    let [sent] = &simulation.take_sent()[..] else { panic!("one packet") };
    let bytes = sent.packet.bytes();
    let outer = wire::Headers::parse(bytes).unwrap().dst_addr(bytes).unwrap();
    match (mode, outer) {
        (Mode::Dsr, _) => bytes[5],
        (_, IpAddr::V4(v4)) => v4.octets()[3],
        (_, IpAddr::V6(_)) => panic!("{outer}"),
    }
}

#[test]
fn connections_keep_their_backend() {
    use CardProfile::{ConnectX, E810};
    let cards = [
        (Encoding::Off, None),
        (Encoding::Mark, Some(E810)),
        (Encoding::Queue, Some(E810)),
        (Encoding::Rewrite, Some(ConnectX)),
    ];
    for (mode, (encoding, nic)) in
        [Mode::Dsr, Mode::Ipip].into_iter().flat_map(|mode| cards.map(|card| (mode, card)))
    {
        let options = Options { nic, encoding, ..Options::default() };
        let mut simulation = Simulation::new(&config(mode, &[12, 13]), &options).unwrap();
        let go = |simulation: &mut Simulation, client, segment, ms| {
            host(simulation, mode, client, segment, ms)
        };
        let opened = [1, 2].map(|client| {
            let opened = go(&mut simulation, client, Segment::Syn, 1);
            assert_eq!(go(&mut simulation, client, Segment::Ack, 2), opened);
            opened
        });
        assert_eq!(opened, [12, 13], "round robin");
        // Rules for the connections, where there is a card.
        (3..40).for_each(|ms| simulation.keep(ms));
        for (ms, hosts) in [(50, &[11, 12, 13][..]), (60, &[14, 11, 12, 15, 13]), (70, &[13, 12])] {
            simulation.reload(&config(mode, hosts), ms).unwrap();
            for (client, opened) in [1, 2].into_iter().zip(opened) {
                let seen = go(&mut simulation, client, Segment::Ack, ms + 1);
                assert_eq!(seen, opened, "{mode}, {encoding}, {hosts:?}, client {client}");
            }
            simulation.keep(ms + 2);
        }
    }
}
