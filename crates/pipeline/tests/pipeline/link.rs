//! Ethernet, next hops, TTL and MTU.
use flow::InterfaceId;
use keeper::{Resolver, ResolverSettings};
use proptest::prelude::*;
use state::Counter;
use wire::Mac;

use crate::world::{
    GATEWAY, INSIDE, LB_OUT, Link, OUTSIDE, Plan, World, backend_mac, ip, tcp, udp,
};

const CLIENT: &str = "9.9.9.9:5000";
const VIP: &str = "10.9.0.1:80";

#[test]
fn only_frames_to_our_station_count() {
    let mut world = World::new(&Plan::default());
    let to = |dst: Mac| tcp(Link::new(GATEWAY, dst, 60), CLIENT, VIP, "S", b"");
    world.drops(OUTSIDE, &to(Mac([2, 9, 9, 9, 9, 9])), Counter::WrongMac);
    world.drops(OUTSIDE, &to(Mac::BROADCAST), Counter::GroupMac);
    let mut other = to(LB_OUT);
    other[12..14].copy_from_slice(&[0x88, 0xcc]);
    world.drops(OUTSIDE, &other, Counter::UnknownEtherType);
    world.drops(OUTSIDE, &to(LB_OUT)[..20], Counter::Truncated);
    let mut gre = to(LB_OUT);
    gre[23] = 47;
    world.drops(OUTSIDE, &gre, Counter::ProtocolNotBalanced);
}

#[test]
fn an_unresolved_hop_is_asked_for() {
    let mut world = World::new(&Plan { known_backends: false, ..Plan::default() });
    let syn = tcp(Link::CLIENT, CLIENT, VIP, "S", b"");
    assert_eq!(world.one(OUTSIDE, &syn), None);
    let hop = world.out.wanted[0];
    let neighbour = world.shared.neighbours().get(hop).unwrap();
    assert_eq!((neighbour.interface, neighbour.addr), (InterfaceId(1), ip("10.1.0.11")));
    assert_eq!(world.shared.port_of(hop), Some(INSIDE));
    world.shared.neighbours().learn(InterfaceId(1), ip("10.1.0.11"), backend_mac(1), 5);
    let wanted = tcp(Link::to_backend(1), CLIENT, "10.1.0.11:8080", "S", b"");
    world.tick();
    assert_eq!(std::mem::take(&mut world.out.sent), [(INSIDE, wanted.clone())]);
    assert_eq!(world.one(OUTSIDE, &syn), Some((INSIDE, wanted)));
}

#[test]
fn padding_stays_and_garbage_goes() {
    let mut world = World::new(&Plan::default());
    let mut frame = udp(Link::CLIENT, CLIENT, "10.9.0.1:53", b"q");
    let mut wanted = udp(Link::to_backend(1), CLIENT, "10.1.0.11:5353", b"q");
    frame.resize(60, 0);
    wanted.resize(60, 0);
    assert_eq!(world.one(OUTSIDE, &frame), Some((INSIDE, wanted.clone())));
    frame.resize(900, 1);
    assert_eq!(world.one(OUTSIDE, &frame), Some((INSIDE, wanted)));
}

#[test]
fn a_packet_that_goes_no_further_opens_nothing() {
    let mut world = World::new(&Plan::default());
    let syn = tcp(Link::CLIENT.ttl(1), CLIENT, VIP, "S", b"");
    assert_eq!(world.one(OUTSIDE, &syn).unwrap().0, OUTSIDE);
    assert!(world.shared.table().is_empty());
    assert_eq!(world.count(Counter::TimeExceeded), 1);
}

#[test]
fn the_way_back_is_asked_for_with_the_first_packet() {
    let mut world = World::new(&Plan::default());
    let syn = tcp(Link::CLIENT, "10.0.0.77:5000", VIP, "S", b"");
    assert!(world.one(OUTSIDE, &syn).is_some());
    let neighbour = world.shared.neighbours().get(world.out.wanted[0]).unwrap();
    assert_eq!((neighbour.interface, neighbour.addr), (InterfaceId(0), ip("10.0.0.77")));
}

#[test]
fn a_forgotten_hop_is_found_again() {
    let mut world = World::new(&Plan::default());
    let client = "10.0.0.77:5000";
    world.one(OUTSIDE, &tcp(Link::CLIENT, client, VIP, "S", b""));
    let table = world.shared.neighbours();
    let answer = tcp(Link::from_backend(1), "10.1.0.11:8080", client, "SA", b"");
    let old = table.find(InterfaceId(0), ip("10.0.0.77")).unwrap();
    let settings = ResolverSettings::default();
    let mut resolver = Resolver::new(std::sync::Arc::clone(&world.shared), settings);
    resolver.tick(1_000_000, &mut |_, _| {});
    assert_eq!(table.get(old), None, "unanswered for long");
    assert_eq!(world.one(INSIDE, &answer), None);
    let table = world.shared.neighbours();
    assert_ne!(world.out.wanted.last(), Some(&old));
    table.learn(InterfaceId(0), ip("10.0.0.77"), GATEWAY, 5);
    let wanted = tcp(Link::TO_CLIENT, VIP, client, "SA", b"");
    world.tick();
    assert_eq!(std::mem::take(&mut world.out.sent), [(OUTSIDE, wanted.clone())]);
    assert_eq!(world.one(INSIDE, &answer), Some((OUTSIDE, wanted)));
    assert_eq!(world.count(Counter::Rerouted), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_bytes_are_accounted_for(
        frames in prop::collection::vec(
            (any::<bool>(), 0usize..6, prop::collection::vec((0usize..100, any::<u8>()), 0..6), 0usize..120),
            1..60,
        ),
    ) {
        let mut world = World::new(&Plan { connections: 8, ..Plan::default() });
        let whole = [
            tcp(Link::CLIENT, CLIENT, VIP, "S", b"some data to look at"),
            udp(Link::CLIENT, CLIENT, "10.9.0.1:53", b"some data to look at"),
            udp(Link::CLIENT, "[2001:db8::1]:9", "[fd09::1]:53", b"some data to look at"),
            wire::arp::request(GATEWAY, [10, 0, 0, 9].into(), [10, 9, 0, 1].into(), None).to_vec(),
            wire::ndp::solicit(GATEWAY, "fd00::9".parse().unwrap(), "fd09::1".parse().unwrap(), None)
                .to_vec(),
            vec![0; 70],
        ];
        for (outside, which, changes, length) in frames {
            let mut frame = whole[which].clone();
            for (at, value) in changes {
                if let Some(byte) = frame.get_mut(at) {
                    *byte = value;
                }
            }
            frame.truncate(length);
            let port = if outside { OUTSIDE } else { INSIDE };
            // The balance of the counters is asserted there.
            world.burst(port, vec![packet::HeapPacket::new(&frame)]);
            world.now_ms += 50;
            world.tick();
        }
    }
}
