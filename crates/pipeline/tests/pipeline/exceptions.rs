//! What goes to the kernel, and how much of it.
use etherparse::{Icmpv4Type, Icmpv6Type};
use flow::InterfaceId;
use packet::HeapPacket;
use proptest::prelude::*;
use state::Counter;
use wire::{Mac, arp, ndp};

use crate::fragments::cut;
use crate::icmp::{icmp4, icmp6};
use crate::world::{INSIDE, LB_OUT, Link, OUTSIDE, Plan, World, ip, tcp, udp};

const HOST: Mac = Mac([2, 0, 0, 0, 9, 9]);

fn plan() -> Plan {
    Plan { kernel: true, ..Plan::default() }
}

/// A frame of the IP protocol `number`.
fn protocol(link: Link, src: &str, dst: &str, number: u8) -> Vec<u8> {
    let mut frame = Vec::new();
    link.network(ip(src), ip(dst)).write(&mut frame, number.into(), b"hello").unwrap();
    frame
}

/// Frames to the outside interface that are the kernel's, and why they would be dropped
/// without one.
fn for_kernel(link: Link) -> Vec<(Vec<u8>, Counter)> {
    let echo = etherparse::IcmpEchoHeader { id: 3, seq: 4 };
    let group = Link { dst: Mac([1, 0, 0x5e, 0, 0, 18]), ..link };
    let group6 = Link { dst: Mac([0x33, 0x33, 0, 0, 0, 18]), ..link };
    let (reply, ask) = (Icmpv4Type::EchoReply(echo), Icmpv4Type::EchoRequest(echo));
    let reply6 = Icmpv6Type::EchoReply(echo);
    vec![
        // To an address of ours.
        (tcp(link, "9.9.9.9:7", "10.0.0.1:22", "S", b""), Counter::NotForUs),
        (tcp(link, "9.9.9.9:7", "10.0.0.1:22", "A", b"data"), Counter::NotForUs),
        (tcp(link, "9.9.9.9:7", "10.1.0.1:179", "R", b""), Counter::NotForUs),
        (udp(link, "9.9.9.9:7", "10.0.0.1:3784", b"bfd"), Counter::NotForUs),
        (tcp(link, "[2001:db8::9]:7", "[fd00::1]:22", "S", b""), Counter::NotForUs),
        (protocol(link, "9.9.9.9", "10.0.0.1", 89), Counter::ProtocolNotBalanced),
        (icmp4(link, "9.9.9.9", "10.0.0.1", reply, b""), Counter::IcmpUnsupported),
        (icmp6(link, "2001:db8::9", "fd00::1", reply6, b""), Counter::IcmpUnsupported),
        // To others: the kernel routes.
        (tcp(link, "9.9.9.9:7", "10.1.0.77:22", "S", b""), Counter::NotForUs),
        (udp(link, "[2001:db8::9]:7", "[fd01::77]:53", b"?"), Counter::NotForUs),
        (icmp4(link, "9.9.9.9", "10.1.0.77", ask, b""), Counter::NotForUs),
        (protocol(link, "9.9.9.9", "10.1.0.77", 47), Counter::ProtocolNotBalanced),
        // To a group.
        (protocol(group, "10.0.0.9", "224.0.0.18", 112), Counter::ProtocolNotBalanced),
        (protocol(group6, "fe80::9", "ff02::12", 112), Counter::ProtocolNotBalanced),
        (udp(group, "10.0.0.9:520", "224.0.0.9:520", b"rip"), Counter::GroupMac),
        (udp(group6, "[fe80::9]:521", "[ff02::9]:521", b"rip"), Counter::GroupMac),
    ]
}

#[test]
fn the_kernel_gets_what_nothing_here_takes() {
    for vlan in [None, Some(7)] {
        let vlans = [vlan, None];
        let tagged = for_kernel(Link::CLIENT.tagged(vlan));
        for ((frame, reason), (plain, _)) in tagged.iter().zip(for_kernel(Link::CLIENT)) {
            let mut world = World::new(&Plan { vlans, ..plan() });
            assert_eq!(world.one(OUTSIDE, frame), None);
            assert_eq!(world.out.kernel, [(InterfaceId(0), plain)], "{}", reason.name());
            assert_eq!(world.count(Counter::ToKernel), 1);
            // Without a kernel's interface it is dropped.
            World::new(&Plan { vlans, ..Plan::default() }).drops(OUTSIDE, frame, *reason);
        }
    }
}

/// An answer to a ping of the kernel's, or a long ping to it, may come in pieces.
#[test]
fn pieces_of_icmp_to_an_address_of_an_interface_are_the_kernels() {
    let echo = etherparse::IcmpEchoHeader { id: 3, seq: 4 };
    let data = [7; 2000];
    let cases = [
        (icmp4(Link::CLIENT, "9.9.9.9", "10.0.0.1", Icmpv4Type::EchoReply(echo), &data), true),
        (icmp4(Link::CLIENT, "9.9.9.9", "10.0.0.1", Icmpv4Type::EchoRequest(echo), &data), true),
        (icmp6(Link::CLIENT, "2001:db8::9", "fd00::1", Icmpv6Type::EchoReply(echo), &data), true),
        (icmp4(Link::CLIENT, "9.9.9.9", "10.9.0.1", Icmpv4Type::EchoRequest(echo), &data), false),
    ];
    for (frame, is_kernels) in cases {
        // Whichever piece comes first.
        for backwards in [false, true] {
            let mut pieces = cut(&frame, 5, 800);
            if backwards {
                pieces.reverse();
            }
            let mut world = World::new(&plan());
            let burst = pieces.iter().map(|piece| HeapPacket::new(piece)).collect();
            world.burst(OUTSIDE, burst);
            let given: Vec<_> = world.out.kernel.iter().map(|(_, frame)| frame.clone()).collect();
            assert_eq!(given, if is_kernels { pieces } else { Vec::new() });
            assert_eq!(world.count(Counter::EchoReplied), u64::from(!is_kernels));
        }
    }
}

#[test]
fn a_backend_answers_a_health_check_of_the_kernels() {
    let mut world = World::new(&plan());
    let link = Link::from_backend(1);
    let answer = tcp(link, "10.1.0.11:8080", "10.1.0.1:40000", "SA", b"");
    assert_eq!(world.one(INSIDE, &answer), None);
    assert_eq!(world.out.kernel, [(InterfaceId(1), answer)]);
}

#[test]
fn services_answers_and_forgeries_are_not_the_kernels() {
    let echo = etherparse::IcmpEchoHeader { id: 3, seq: 4 };
    let other = Link { dst: HOST, ..Link::CLIENT };
    let mut world = World::new(&plan());
    for frame in [
        tcp(Link::CLIENT, "9.9.9.9:7", "10.9.0.1:80", "S", b""),
        tcp(Link::CLIENT, "9.9.9.9:7", "10.9.0.1:81", "S", b""),
        icmp4(Link::CLIENT, "9.9.9.9", "10.0.0.1", Icmpv4Type::EchoRequest(echo), b""),
        icmp4(Link::CLIENT, "9.9.9.9", "10.9.0.1", Icmpv4Type::EchoReply(echo), b""),
        protocol(Link::CLIENT, "9.9.9.9", "10.9.0.1", 47),
        tcp(other, "9.9.9.9:7", "10.0.0.1:22", "S", b""),
        protocol(other, "9.9.9.9", "10.0.0.1", 89),
        arp::request(HOST, "10.0.0.50".parse().unwrap(), "10.0.0.1".parse().unwrap(), None)
            .to_vec(),
    ] {
        world.burst(OUTSIDE, vec![HeapPacket::new(&frame)]);
        assert!(world.out.kernel.is_empty(), "{frame:x?}");
    }
}

/// The kernel resolves neighbours itself: it asks over its interface, and the answers
/// come to the load balancer's address.
#[test]
fn the_kernel_learns_neighbours_that_the_load_balancer_learns_too() {
    let reply = arp::Repr {
        operation: arp::REPLY,
        sender_mac: HOST,
        sender: "10.0.0.50".parse().unwrap(),
        target_mac: LB_OUT,
        target: "10.0.0.1".parse().unwrap(),
    };
    let mut world = World::new(&plan());
    world.shared.neighbours().hop(InterfaceId(0), ip("10.0.0.50"), 0).unwrap();
    let frame = reply.frame(LB_OUT);
    assert_eq!(world.one(OUTSIDE, &frame), None);
    assert_eq!(world.out.kernel, [(InterfaceId(0), frame.to_vec())]);
    let hop = world.shared.neighbours().find(InterfaceId(0), ip("10.0.0.50")).unwrap();
    assert_eq!(world.shared.neighbours().get(hop).unwrap().mac, Some(HOST));
    let ask = ndp::solicit(HOST, "fd01::50".parse().unwrap(), "fd01::77".parse().unwrap(), None);
    assert_eq!(world.one(INSIDE, &ask), None);
    assert_eq!(world.out.kernel[1], (InterfaceId(1), ask.to_vec()));
}

#[test]
fn a_full_ring_is_a_drop() {
    let mut world = World::new(&plan());
    world.out.ring_full = true;
    let frame = tcp(Link::CLIENT, "9.9.9.9:7", "10.0.0.1:22", "S", b"");
    world.drops(OUTSIDE, &frame, Counter::ToKernelFull);
}

/// Health checks change the configuration during a flood, and their answers arrive.
#[test]
fn a_flood_is_limited_whatever_changes_and_takes_no_answer_of_a_backend() {
    let plan = Plan { to_kernel: 10, ..plan() };
    let mut world = World::new(&plan);
    let frame = udp(Link::CLIENT, "9.9.9.9:7", "10.0.0.1:9", b"");
    for _ in 0..5 {
        world.burst(OUTSIDE, vec![HeapPacket::new(&frame); 20]);
        drop(world.shared.publish(std::sync::Arc::new(crate::world::snapshot(&plan))));
    }
    assert_eq!(world.out.kernel.len(), 10);
    let answer = tcp(Link::from_backend(1), "10.1.0.11:8080", "10.1.0.1:40000", "SA", b"");
    assert_eq!(world.one(INSIDE, &answer), None);
    assert_eq!(world.out.kernel.len(), 11);
}

proptest! {
    /// In every stretch of time the kernel gets what the rate allows, and the bucket.
    #[test]
    fn the_kernel_gets_no_more_than_the_rate(
        rate in 0u32..50,
        steps in prop::collection::vec((0u64..400, 0usize..40), 1..20),
    ) {
        let mut world = World::new(&Plan { to_kernel: rate, ..plan() });
        let frame = udp(Link::CLIENT, "9.9.9.9:7", "10.0.0.1:9", b"");
        let (began, mut offered) = (world.now_ms, 0);
        for (wait, count) in steps {
            world.now_ms += wait;
            world.burst(OUTSIDE, vec![HeapPacket::new(&frame); count]);
            offered += count as u64;
        }
        let given = world.out.kernel.len() as u64;
        let passed = world.now_ms - began;
        let most = u64::from(rate) + u64::from(rate) * passed / 1000;
        prop_assert!(given <= most, "{given} of {offered} in {passed} ms at {rate}");
        prop_assert_eq!(given + world.count(Counter::ToKernelLimited), offered);
        prop_assert!(given >= offered.min(rate.into()));
    }
}
