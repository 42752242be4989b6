//! Ethernet, next hops, TTL and MTU.
use pipeline::{Counter, InterfaceId};
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
    world.drops(OUTSIDE, &syn, Counter::NeighbourUnresolved);
    let hop = world.out.wanted[0];
    let neighbour = world.shared.neighbours.get(hop).unwrap();
    assert_eq!((neighbour.interface, neighbour.addr), (InterfaceId(1), ip("10.1.0.11")));
    assert_eq!(world.shared.port_of(hop), Some(INSIDE));
    assert!(world.shared.neighbours.learn(InterfaceId(1), ip("10.1.0.11"), backend_mac(1), 5));
    let wanted = tcp(Link::to_backend(1), CLIENT, "10.1.0.11:8080", "S", b"");
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
