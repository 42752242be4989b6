//! Modes in which packets reach the backend as the client sent them, and the
//! answers go past the load balancer.
use conntrack::ConnState;
use etherparse::{Icmpv4Type, icmpv4};
use flow::AdmissionPolicy;
use packet::HeapPacket;
use state::{Counter, Offload};

use crate::fragments::cut;
use crate::icmp::icmp4;
use crate::world::{INSIDE, Link, OUTSIDE, Plan, World, tcp, udp};

const CLIENT: &str = "9.9.9.9:5000";
const CLIENT6: &str = "[2001:db8::9]:5000";

#[test]
fn dsr_changes_ethernet_addresses_and_the_ttl_alone() {
    for (client, vip) in [(CLIENT, "10.9.0.6:80"), (CLIENT6, "[fd09::6]:443")] {
        let mut world = World::new(&Plan::default());
        for (flags, payload) in [("S", &b""[..]), ("A", b""), ("PA", b"hello, odd length")] {
            let sent = world.one(OUTSIDE, &tcp(Link::CLIENT, client, vip, flags, payload));
            let wanted = tcp(Link::to_backend(1), client, vip, flags, payload);
            assert_eq!(sent, Some((INSIDE, wanted)), "{vip} {flags}");
        }
        assert_eq!(world.count(Counter::Installed), 1);
        assert_eq!(world.count(Counter::Missed), 1);
    }
    let mut world = World::new(&Plan::default());
    for query in [&b"first"[..], b"second"] {
        let sent = world.one(OUTSIDE, &udp(Link::CLIENT, CLIENT, "10.9.0.6:53", query));
        let wanted = udp(Link::to_backend(1), CLIENT, "10.9.0.6:53", query);
        assert_eq!(sent, Some((INSIDE, wanted)));
    }
}

#[test]
fn tags_follow_the_way() {
    let mut world = World::new(&Plan { vlans: [Some(5), Some(6)], ..Plan::default() });
    let syn = tcp(Link::CLIENT.vlan(5), CLIENT, "10.9.0.6:80", "S", b"");
    let wanted = tcp(Link::to_backend(1).vlan(6), CLIENT, "10.9.0.6:80", "S", b"");
    assert_eq!(world.one(OUTSIDE, &syn), Some((INSIDE, wanted)));
}

/// The states of all connections.
fn states(world: &World) -> Vec<ConnState> {
    let mut states = Vec::new();
    world.shared.table().iter(world.now_ms, &mut |_, view| states.push(view.state));
    states
}

#[test]
fn the_client_alone_opens_and_closes_a_connection_and_asks_for_its_rule() {
    let mut world = World::new(&Plan { admit: AdmissionPolicy::All, ..Plan::default() });
    for (flags, state, asked) in [
        ("S", ConnState::Syn, 0),
        ("A", ConnState::Established, 1),
        ("PA", ConnState::Established, 1),
        ("FA", ConnState::Closing, 2),
        ("A", ConnState::Closing, 2),
    ] {
        world.one(OUTSIDE, &tcp(Link::CLIENT, CLIENT, "10.9.0.6:80", flags, b"")).unwrap();
        assert_eq!((states(&world), world.out.offload.len()), (vec![state], asked), "{flags}");
    }
    let reasons: Vec<_> = world.out.offload.iter().map(|(_, reason)| *reason).collect();
    assert_eq!(reasons, [Offload::Wanted, Offload::Closing]);
}

#[test]
fn answers_that_pass_here_all_the_same_go_on_unchanged() {
    for connections in [64, 0] {
        let mut world = World::new(&Plan { connections, ..Plan::default() });
        world.one(OUTSIDE, &tcp(Link::CLIENT, CLIENT, "10.9.0.6:80", "S", b"")).unwrap();
        let answer = tcp(Link::from_backend(1), "10.9.0.6:80", CLIENT, "SA", b"");
        let wanted = tcp(Link::TO_CLIENT, "10.9.0.6:80", CLIENT, "SA", b"");
        assert_eq!(world.one(INSIDE, &answer), Some((OUTSIDE, wanted)), "{connections}");
        // From a backend's own address nothing is an answer.
        let own = tcp(Link::from_backend(1), "10.1.0.11:80", CLIENT, "SA", b"");
        world.drops(INSIDE, &own, Counter::NotForUs);
    }
}

#[test]
fn a_full_table_and_packets_midway_follow_maglev() {
    let mut fresh = World::new(&Plan::default());
    let mut full = World::new(&Plan { connections: 0, ..Plan::default() });
    let mut backends = [0; 2];
    for n in 0..40 {
        let client = format!("9.9.9.9:{}", 1000 + n);
        let frame = tcp(Link::CLIENT, &client, "10.9.0.6:80", "A", b"more");
        let (port, kept) = fresh.one(OUTSIDE, &frame).unwrap();
        assert_eq!(full.one(OUTSIDE, &frame), Some((port, kept.clone())));
        let n = kept[5];
        assert_eq!(kept, tcp(Link::to_backend(n), &client, "10.9.0.6:80", "A", b"more"));
        backends[usize::from(n) - 1] += 1;
    }
    assert!(backends.iter().all(|&n| n > 5), "{backends:?}");
    assert_eq!(full.count(Counter::Stateless), 40);
}

#[test]
fn pieces_reach_one_backend_whichever_comes_first() {
    let frame = udp(Link::CLIENT, CLIENT, "10.9.0.6:53", &[7; 300]);
    let wanted = udp(Link::to_backend(1), CLIENT, "10.9.0.6:53", &[7; 300]);
    let (pieces, mut wanted) = (cut(&frame, 9, 64), cut(&wanted, 9, 64));
    let mut world = World::new(&Plan::default());
    let frames = [1, 0, 3, 2, 4].map(|n: usize| HeapPacket::new(&pieces[n]));
    let mut sent: Vec<_> = world.burst(OUTSIDE, frames.into()).into_iter().map(|s| s.1).collect();
    sent.sort();
    wanted.sort();
    assert_eq!(sent, wanted);
}

#[test]
fn errors_about_answers_reach_the_backend_that_sent_them() {
    let too_big = || {
        let needed = icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1400 };
        Icmpv4Type::DestinationUnreachable(needed)
    };
    for connections in [64, 0] {
        let mut world = World::new(&Plan { connections, ..Plan::default() });
        world.one(OUTSIDE, &tcp(Link::CLIENT, CLIENT, "10.9.0.6:80", "S", b"")).unwrap();
        // Sent past here by the backend; a router on its way had to drop it.
        let answer = tcp(Link::from_backend(1), "10.9.0.6:80", CLIENT, "A", &[1; 1400]);
        let quote = &answer[14..14 + 28];
        let error = icmp4(Link::CLIENT, "9.0.0.1", "10.9.0.6", too_big(), quote);
        let (port, sent) = world.one(OUTSIDE, &error).unwrap();
        assert_eq!(port, INSIDE);
        let backend = sent[5];
        let wanted = icmp4(Link::to_backend(backend), "9.0.0.1", "10.9.0.6", too_big(), quote);
        assert_eq!(sent, wanted);
        assert_eq!(world.count(Counter::IcmpTranslated), 1);
    }
}

#[test]
fn a_ttl_that_runs_out_ends_here() {
    let mut world = World::new(&Plan::default());
    let syn = tcp(Link::CLIENT.ttl(1), CLIENT, "10.9.0.6:80", "S", b"");
    assert_eq!(world.one(OUTSIDE, &syn).unwrap().0, OUTSIDE);
    assert_eq!(world.count(Counter::TimeExceeded), 1);
}

/// Connections of an HNLB that was killed, whose backends have not answered yet.
#[test]
fn packets_of_awaited_connections_wait_for_their_backend() {
    let mut world = World::new(&Plan::default());
    let packets = |client: &str| {
        let tcp = |flags| tcp(Link::CLIENT, client, "10.9.0.6:80", flags, b"");
        [tcp("A"), tcp("PA"), tcp("FA"), tcp("R"), udp(Link::CLIENT, client, "10.9.0.6:53", b"q")]
    };
    let key = |frame: &[u8]| wire::Headers::parse(frame).unwrap().flow(frame).unwrap();
    world.shared.awaited().set(packets(CLIENT).iter().map(|frame| key(frame)));
    for frame in packets(CLIENT) {
        world.drops(OUTSIDE, &frame, Counter::TakeoverPending);
    }
    for frame in packets("9.9.9.8:77") {
        assert!(world.one(OUTSIDE, &frame).is_some(), "another client's");
    }
    let syn = tcp(Link::CLIENT, CLIENT, "10.9.0.6:80", "S", b"");
    assert!(world.one(OUTSIDE, &syn).is_some(), "a new connection");
    assert!(world.one(OUTSIDE, &packets(CLIENT)[0]).is_some(), "in the table");
    world.shared.awaited().set([]);
    assert!(world.one(OUTSIDE, &packets(CLIENT)[4]).is_some());
}
