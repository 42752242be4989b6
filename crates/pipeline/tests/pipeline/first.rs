//! First packets: what is done to a burst of them at once is what would be done
//! to one after the other.
use std::net::SocketAddr;

use flow::{AdmissionPolicy, BackendId, Scheduler};
use packet::HeapPacket;
use proptest::prelude::*;
use service::TunnelSpec;
use state::{Counter, Offload};

use crate::tunnels::TUNNELS;
use crate::world::{Link, OUTSIDE, Plan, TAGGED, World, destination, tcp, udp};

/// What a client sends.
#[derive(Clone, Copy, Debug)]
enum Sent {
    Syn,
    /// A SYN with FIN, which no segment has.
    SynFin,
    /// A SYN with IP options or an extension header.
    Options,
    /// A datagram whose UDP length is too large.
    LongUdp,
    Ack,
    Udp,
    /// A SYN whose last hop is used up.
    Expired,
    /// A SYN in a larger packet than the way to the servers takes.
    Long,
}

const VIPS: [&str; 16] = [
    "10.9.0.1:80",
    "10.9.0.2:81",
    "10.9.0.3:80",
    "10.9.0.4:80",
    "10.9.0.5:80",
    "10.9.9.9:80",
    "[fd09::1]:80",
    "[fd09::1]:80",
    "[fd09::3]:80",
    "[fd09::9]:80",
    "10.9.0.6:80",
    "10.9.0.7:80",
    "10.9.0.8:80",
    "[fd09::6]:80",
    "[fd09::7]:80",
    "[fd09::8]:80",
];
const WRONG: [&str; 3] = ["0.1.2.3", "10.9.0.1", "10.0.0.1"];
const WRONG_V6: [&str; 3] = ["[ff02::1]", "[fd09::1]", "[fd00::1]"];

fn frame(sent: Sent, client: u8, vip: usize, vlan: Option<u16>) -> Vec<u8> {
    let vip = VIPS[vip];
    let is_v6 = vip.starts_with('[');
    let client = match (client, is_v6) {
        (0..=20, false) => format!("9.9.9.{client}:5000"),
        (0..=20, true) => format!("[2001:db8::{client}]:5000"),
        (more, false) => format!("{}:5000", WRONG[usize::from(more) % WRONG.len()]),
        (more, true) => format!("{}:5000", WRONG_V6[usize::from(more) % WRONG.len()]),
    };
    let link = Link::CLIENT.tagged(vlan);
    let opens = |link, flags| tcp(link, &client, vip, flags, b"");
    match sent {
        Sent::Syn => opens(link, "S"),
        Sent::SynFin => opens(link, "SF"),
        Sent::Ack => opens(link, "A"),
        Sent::Expired => opens(link.ttl(1), "S"),
        Sent::Long => tcp(link, &client, vip, "S", &[7; 1000]),
        Sent::Udp => {
            let vip = vip.replace(":80", ":53");
            udp(link, &client, &vip, &[5; 20])
        }
        Sent::Options => with_options(opens(link, "S"), is_v6),
        Sent::LongUdp => {
            let to = if is_v6 { "[fd09::1]:53" } else { "10.9.0.1:53" };
            let mut frame = udp(link, &client, to, &[5; 20]);
            let length = frame.len() - 24;
            frame[length] = 0x40;
            frame
        }
    }
}

/// The frame with an option of IPv4, or an extension header of IPv6.
fn with_options(mut frame: Vec<u8>, is_v6: bool) -> Vec<u8> {
    let l3 = if frame[12..14] == [0x81, 0] { 18 } else { 14 };
    if is_v6 {
        frame.splice(l3 + 40..l3 + 40, [6, 0, 1, 4, 0, 0, 0, 0]);
        frame[l3 + 5] += 8;
        frame[l3 + 6] = 60;
        return frame;
    }
    frame.splice(l3 + 20..l3 + 20, [1; 4]);
    frame[l3] = 0x46;
    frame[l3 + 3] += 4;
    let mut ip = etherparse::Ipv4Header::from_slice(&frame[l3..]).unwrap().0;
    ip.header_checksum = ip.calc_header_checksum();
    frame[l3 + 10..l3 + 12].copy_from_slice(&ip.header_checksum.to_be_bytes());
    frame
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        12 => Just(Sent::Syn), 1 => Just(Sent::SynFin), 1 => Just(Sent::Options),
        1 => Just(Sent::LongUdp),
        2 => Just(Sent::Ack), 4 => Just(Sent::Udp), 1 => Just(Sent::Expired), 1 => Just(Sent::Long),
    ]
}

const COUNTERS: [Counter; 12] = [
    Counter::Installed,
    Counter::Missed,
    Counter::LookedUp,
    Counter::Stateless,
    Counter::TableFullSeen,
    Counter::ForwardedPackets,
    Counter::BadSource,
    Counter::NotForUs,
    Counter::ReplyConflict,
    Counter::OffloadRequests,
    Counter::BadUdpLength,
    Counter::BadTcpFlags,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn bursts_do_what_single_packets_do(
        packets in prop::collection::vec((sent(), 0_u8..24, 0..VIPS.len()), 1..150),
        burst in 2_usize..64,
        connections in prop_oneof![Just(8_usize), Just(40), Just(500)],
        scheduler in prop::sample::select(vec![
            Scheduler::RoundRobin, Scheduler::WeightedRoundRobin, Scheduler::LeastConnections,
            Scheduler::Maglev, Scheduler::SourceHash,
        ]),
        admit in prop_oneof![Just(AdmissionPolicy::Off), Just(AdmissionPolicy::FirstPacket)],
        known_backends: bool,
        vlans in prop::sample::select(TAGGED.to_vec()),
        tunnel in prop::sample::select(TUNNELS.to_vec()),
    ) {
        let tunnel = TunnelSpec { tunnel, source: None, ttl: 64 };
        let plan = Plan {
            connections, scheduler, admit, known_backends, vlans, tunnel, mtus: [1500, 900],
            ..Plan::default()
        };
        let frames: Vec<_> =
            packets.iter().map(|(sent, client, vip)| frame(*sent, *client, *vip, vlans[0])).collect();
        let [mut single, mut bursts] = [World::new(&plan), World::new(&plan)];
        for some in frames.chunks(burst) {
            let one_by_one: Vec<_> =
                some.iter().flat_map(|frame| single.burst(OUTSIDE, vec![HeapPacket::new(frame)])).collect();
            let whole = some.iter().map(|frame| HeapPacket::new(frame)).collect();
            prop_assert_eq!(bursts.burst(OUTSIDE, whole), one_by_one);
        }
        for counter in COUNTERS {
            prop_assert_eq!(bursts.count(counter), single.count(counter), "{}", counter.name());
        }
        for backend in (0..20).map(BackendId) {
            let active = [&bursts, &single].map(|world| world.shared.loads().connections(backend));
            prop_assert_eq!(active[0], active[1], "connections of backend {:?}", backend);
        }
        prop_assert_eq!(&bursts.out.offload, &single.out.offload);
        prop_assert_eq!(&bursts.out.wanted, &single.out.wanted);
    }
}

/// The burst in which the table becomes full, and one after it: everybody is
/// served, nobody twice, and who found no room goes where Maglev says.
#[test]
fn a_flood_fills_the_table_and_goes_on() {
    let mut world = World::new(&Plan { connections: 40, ..Plan::default() });
    let servers = |world: &mut World, clients: std::ops::Range<u16>| -> Vec<SocketAddr> {
        let frames = clients.map(|n| {
            let client = format!("9.9.{}.{}:77", n / 200, n % 200 + 1);
            HeapPacket::new(&tcp(Link::CLIENT, &client, "10.9.0.1:80", "S", b""))
        });
        let sent = world.burst(OUTSIDE, frames.collect());
        sent.iter().map(|(_, frame)| destination(frame)).collect()
    };
    let first = servers(&mut world, 0..64);
    assert_eq!(first.len(), 64);
    assert_eq!((world.count(Counter::Installed), world.shared.table().len()), (40, 40));
    assert_eq!((world.count(Counter::Stateless), world.count(Counter::Missed)), (24, 64));
    // The first 40 by turns, and by Maglev the others, now and later.
    assert!(first[..40].chunks(2).all(|pair| pair[0] == first[0] && pair[1] == first[1]));
    assert_ne!(first[0], first[1]);
    assert_eq!(servers(&mut world, 0..64), first);
    assert_eq!(world.count(Counter::Stateless), 48);
    assert_eq!((world.count(Counter::Missed), world.count(Counter::LookedUp)), (88, 40));
    assert_eq!(world.count(Counter::Installed), 40);
    let active: u32 = (0..2).map(|id| world.shared.loads().connections(BackendId(id))).sum();
    assert_eq!(active, 40);
}

/// Rules are asked for at the first packet, if that is when.
#[test]
fn first_packets_ask_for_rules() {
    let mut world = World::new(&Plan { admit: AdmissionPolicy::FirstPacket, ..Plan::default() });
    let frame = |n| HeapPacket::new(&tcp(Link::CLIENT, &format!("9.9.9.{n}:1"), VIPS[0], "S", b""));
    world.burst(OUTSIDE, (1..20).map(frame).collect());
    assert_eq!(world.out.offload.len(), 19);
    assert!(world.out.offload.iter().all(|(_, why)| *why == Offload::Wanted));
}
