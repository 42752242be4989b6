//! A next hop that takes another Ethernet address: packets of open connections go there,
//! those that the card rewrites by itself as well.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::net::SocketAddr;

use config::Config;
use flow::{CardProfile, Encoding, PortId};
use packet::PacketBuf;
use replay::{Options, Simulation};
use testkit::ConfigText;
use testkit::segments::{Segment, frame};
use wire::{Mac, Transport, arp};

const OUTSIDE: PortId = PortId(0);
const INSIDE: PortId = PortId(1);
const CLIENT: &str = "198.51.100.5:1024";
const VIP: &str = "10.71.0.100:80";
const BACKEND: &str = "10.72.0.11";

fn config() -> Config {
    let vip: SocketAddr = VIP.parse().unwrap();
    ConfigText::two_ports("", "")
        .table("[offload]", "admission = \"all\"")
        .service("web", vip.ip(), Some(vip.port()), Transport::Tcp, "mode = \"dsr\"")
        .backend(BACKEND.to_owned(), None, "")
        .parse()
}

/// The Ethernet destination of the client's packet, and how many packets the card has
/// forwarded by itself so far.
fn destination(simulation: &mut Simulation, segment: Segment, ms: u64) -> (Mac, u64) {
    let bytes = frame(Transport::Tcp, CLIENT.parse().unwrap(), VIP.parse().unwrap(), segment, b"");
    simulation.arrive(OUTSIDE, &bytes, ms * 1_000_000);
    simulation.poll(ms);
    let [sent] = &simulation.take_sent()[..] else { panic!("one packet") };
    (Mac(*sent.packet.bytes().first_chunk().unwrap()), simulation.intake().nic_forwarded)
}

#[test]
fn packets_go_to_the_new_address() {
    use CardProfile::{ConnectX, E810};
    for (encoding, nic) in [
        (Encoding::Off, None),
        (Encoding::Mark, Some(E810)),
        (Encoding::Queue, Some(E810)),
        (Encoding::Rewrite, Some(ConnectX)),
    ] {
        let options = Options { nic, encoding, ..Options::default() };
        let mut simulation = Simulation::new(&config(), &options).unwrap();
        let (old, _) = destination(&mut simulation, Segment::Syn, 1);
        assert_eq!(destination(&mut simulation, Segment::Ack, 2), (old, 0));
        (3..40).for_each(|ms| simulation.keep(ms));
        let by_card = u64::from(encoding == Encoding::Rewrite);
        assert_eq!(destination(&mut simulation, Segment::Ack, 41), (old, by_card), "{encoding}");
        let new = Mac([2, 0, 0, 0, 0x77, 0x11]);
        assert_ne!(new, old);
        let says = arp::announcement(new, BACKEND.parse().unwrap());
        assert!(simulation.arrive(INSIDE, &says, 42_000_000));
        simulation.poll(42);
        (43..90).for_each(|ms| simulation.keep(ms));
        // The rule leaves; the worker sends on what comes, until it has asked for another.
        let last = (91..2_000).find(|&ms| {
            let (mac, forwarded) = destination(&mut simulation, Segment::Ack, ms);
            assert_eq!(mac, new, "{encoding}");
            simulation.keep(ms);
            forwarded > by_card
        });
        assert_eq!(last.is_some(), encoding == Encoding::Rewrite, "the card forwards again");
    }
}
