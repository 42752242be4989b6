//! ARP and neighbour discovery, answered and learnt; the resolver.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use flow::InterfaceId;
use keeper::{Resolver, ResolverSettings};
use l3::{Learnt, NeighbourState};
use service::ServiceTable;
use state::{Counter, Snapshot};
use wire::{Headers, Mac, arp, ndp};

use crate::world::{INSIDE, LB_IN, LB_OUT, Link, OUTSIDE, Plan, World, backend_mac, ip, tcp};

const HOST: Mac = Mac([2, 0, 0, 0, 9, 9]);

fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn tagged(frame: &[u8], vlan: Option<u16>) -> Vec<u8> {
    let Some(id) = vlan else { return frame.to_vec() };
    [&frame[..12], &[0x81, 0], &id.to_be_bytes(), &frame[12..]].concat()
}

#[test]
fn arp_for_our_addresses_is_answered_and_the_asker_learnt() {
    for vlan in [None, Some(7)] {
        let mut world = World::new(&Plan { vlans: [None, vlan], ..Plan::default() });
        for address in ["10.1.0.1", "10.9.0.1", "10.1.0.100"] {
            let ask = arp::request(HOST, v4("10.1.0.50"), v4(address), None);
            let (port, sent) = world.one(INSIDE, &tagged(&ask, vlan)).unwrap();
            assert_eq!(port, INSIDE);
            let reply = arp::Repr {
                operation: arp::REPLY,
                sender_mac: LB_IN,
                sender: v4(address),
                target_mac: HOST,
                target: v4("10.1.0.50"),
            };
            assert_eq!(sent, tagged(&reply.frame(HOST), vlan));
        }
        let hop = world.shared.neighbours().find(InterfaceId(1), ip("10.1.0.50")).unwrap();
        let known = world.shared.neighbours().get(hop).unwrap();
        assert_eq!((known.mac, known.state), (Some(HOST), NeighbourState::Reachable));
        // The other interface's own address is not on this link.
        let ask = arp::request(HOST, v4("10.1.0.50"), v4("10.0.0.1"), None);
        assert_eq!(world.one(INSIDE, &tagged(&ask, vlan)), None);
    }
}

#[test]
fn arp_teaches_only_what_is_known_already() {
    let mut world = World::new(&Plan { known_backends: false, ..Plan::default() });
    let says = |mac, address: &str| arp::announcement(mac, v4(address));
    world.drops(INSIDE, &says(HOST, "10.1.0.11"), Counter::ArpNotForUs);
    let hop = world.shared.neighbours().hop(InterfaceId(1), ip("10.1.0.11"), 0).unwrap();
    assert_eq!(world.one(INSIDE, &says(backend_mac(1), "10.1.0.11")), None);
    assert_eq!(world.count(Counter::ArpLearnt), 1);
    assert_eq!(world.shared.neighbours().get(hop).unwrap().mac, Some(backend_mac(1)));
    // A gratuitous one moves it.
    assert_eq!(world.one(INSIDE, &says(HOST, "10.1.0.11")), None);
    assert_eq!(world.shared.neighbours().get(hop).unwrap().mac, Some(HOST));
    // Not on another interface, not for our own addresses, not for static ones.
    world.drops(OUTSIDE, &says(HOST, "10.1.0.11"), Counter::ArpNotForUs);
    world.one(OUTSIDE, &says(HOST, "10.0.0.254"));
    let gateway = world.shared.neighbours().find(InterfaceId(0), ip("10.0.0.254")).unwrap();
    assert_ne!(world.shared.neighbours().get(gateway).unwrap().mac, Some(HOST));
    // Off the link nobody is entered.
    let ask = arp::request(HOST, v4("99.0.0.1"), v4("10.9.0.1"), None);
    assert!(world.one(INSIDE, &ask).is_some());
    assert_eq!(world.shared.neighbours().find(InterfaceId(1), ip("99.0.0.1")), None);
}

#[test]
fn solicitations_for_our_addresses_are_answered() {
    for vlan in [None, Some(7)] {
        let mut world = World::new(&Plan { vlans: [None, vlan], ..Plan::default() });
        for address in ["fd01::1", "fd09::1", "fd01::100"] {
            let ask = ndp::solicit(HOST, v6("fd01::50"), v6(address), None);
            let (port, sent) = world.one(INSIDE, &tagged(&ask, vlan)).unwrap();
            assert_eq!(port, INSIDE);
            assert_eq!((&sent[..6], &sent[6..12]), (&HOST.0[..], &LB_IN.0[..]));
            let headers = Headers::parse(&sent).unwrap();
            assert_eq!(headers.vlan, vlan);
            let said = ndp::Repr::parse(&sent, &headers).unwrap();
            let ndp::Repr::Advertisement(said) = said else { panic!("{said:?}") };
            assert_eq!((said.target, said.target_link), (v6(address), Some(LB_IN)));
            assert!(said.solicited && said.router);
            assert_eq!(headers.dst_addr(&sent), Some(ip("fd01::50")));
        }
        let hop = world.shared.neighbours().find(InterfaceId(1), ip("fd01::50")).unwrap();
        assert_eq!(world.shared.neighbours().get(hop).unwrap().mac, Some(HOST));
        let other = ndp::solicit(HOST, v6("fd01::50"), v6("fd01::77"), None);
        world.drops(INSIDE, &tagged(&other, vlan), Counter::NdpNotForUs);
        let mut wrong = tagged(&other, vlan);
        *wrong.last_mut().unwrap() ^= 1;
        world.drops(INSIDE, &wrong, Counter::BadNdp);
    }
}

#[test]
fn advertisements_teach_what_is_known() {
    let mut world = World::new(&Plan { known_backends: false, ..Plan::default() });
    let says = |mac| ndp::announcement(mac, v6("fd01::11"), false);
    world.drops(INSIDE, &says(HOST), Counter::NdpNotForUs);
    let hop = world.shared.neighbours().hop(InterfaceId(1), ip("fd01::11"), 0).unwrap();
    for mac in [backend_mac(1), HOST] {
        assert_eq!(world.one(INSIDE, &says(mac)), None);
        assert_eq!(world.shared.neighbours().get(hop).unwrap().mac, Some(mac));
    }
    assert_eq!(world.count(Counter::NdpLearnt), 2);
}

/// Runs the resolver for `ms`; what it sent, with the time of each.
fn run(resolver: &mut Resolver, now: &mut u64, ms: u64) -> Vec<(u64, Vec<u8>)> {
    let mut sent = Vec::new();
    for _ in 0..ms {
        *now += 1;
        resolver.tick(*now, &mut |port, frame| {
            assert_eq!(port, INSIDE);
            sent.push((*now, frame.to_vec()));
        });
    }
    sent
}

#[test]
fn the_resolver_asks_backs_off_refreshes_and_forgets() {
    let world = World::new(&Plan { known_backends: false, ..Plan::default() });
    // Backends would never be forgotten.
    let services = ServiceTable::empty([1, 2], None);
    let old = world.shared.snapshot();
    world.shared.publish(Arc::new(Snapshot { services, ..Snapshot::clone(&old) }));
    let table = world.shared.neighbours();
    let settings = ResolverSettings::default();
    let mut resolver = Resolver::new(Arc::clone(&world.shared), settings);
    let (mut now, addr) = (1000, ip("10.1.0.11"));
    let hop = table.hop(InterfaceId(1), addr, now).unwrap();
    resolver.want(hop);
    let sent = run(&mut resolver, &mut now, 2000);
    let times: Vec<u64> = sent.iter().map(|(at, _)| at - 1000).collect();
    assert_eq!(times, [1, 251, 751, 1751]);
    let question = arp::request(LB_IN, v4("10.1.0.1"), v4("10.1.0.11"), None);
    assert!(sent.iter().all(|(_, frame)| frame[..] == question[..]));
    // An answer ends the questions until it is old, if it is used then.
    assert_eq!(table.learn(InterfaceId(1), addr, backend_mac(1), now), Learnt::Confirmed);
    assert!(run(&mut resolver, &mut now, 20_000).is_empty());
    let _ = table.resolve(hop, now);
    let sent = run(&mut resolver, &mut now, 2600);
    let to_it = arp::request(LB_IN, v4("10.1.0.1"), v4("10.1.0.11"), Some(backend_mac(1)));
    assert_eq!(sent.len(), 1, "refreshed before it is stale");
    assert_eq!(sent[0].1[..], to_it[..]);
    // Without an answer it becomes stale, is still used, and is given up.
    run(&mut resolver, &mut now, 8000);
    assert_eq!(table.get(hop).unwrap().state, NeighbourState::Stale);
    assert_eq!(table.resolve(hop, now), Some((InterfaceId(1), Some(backend_mac(1)))));
    run(&mut resolver, &mut now, 9000);
    assert_eq!(table.get(hop).unwrap().state, NeighbourState::Incomplete);
    // Not used and unanswered, it is forgotten before long.
    let _ = table.resolve(hop, now);
    run(&mut resolver, &mut now, 9000);
    assert!(table.get(hop).is_some());
    run(&mut resolver, &mut now, 1100);
    assert_eq!(table.get(hop), None);
}

/// A neighbour without packets is remembered for longer than any connection that may
/// be using it, by the timeouts that are in force now.
#[test]
fn an_unused_neighbour_is_remembered_by_the_timeouts_in_force() {
    let world = World::new(&Plan { known_backends: false, ..Plan::default() });
    let shared = &world.shared;
    let mut resolver = Resolver::new(Arc::clone(shared), ResolverSettings::default());
    let (mut now, addr) = (1000, ip("10.2.0.77"));
    for hours in [3, 1, 5] {
        let established_ms = hours * 3_600_000;
        let timeouts = service::Timeouts { established_ms, ..service::Timeouts::default() };
        shared.table().set_timeouts(timeouts.into());
        let snapshot = Snapshot::clone(&shared.snapshot());
        shared.publish(Arc::new(snapshot));
        let hop = shared.neighbours().hop(InterfaceId(1), addr, now).unwrap();
        shared.neighbours().learn(InterfaceId(1), addr, backend_mac(1), now);
        now += 2 * u64::from(established_ms) - 1000;
        run(&mut resolver, &mut now, 500);
        assert!(shared.neighbours().get(hop).is_some(), "{hours} h");
        run(&mut resolver, &mut now, 1500);
        assert_eq!(shared.neighbours().get(hop), None, "{hours} h");
    }
}

#[test]
fn announcements_name_what_is_on_the_link() {
    let world = World::new(&Plan { vlans: [None, Some(7)], ..Plan::default() });
    let mut resolver = Resolver::new(Arc::clone(&world.shared), ResolverSettings::default());
    let mut sent = Vec::new();
    resolver.announce(&mut |port, frame| sent.push((port, frame.to_vec())));
    let wanted = [
        (OUTSIDE, arp::announcement(LB_OUT, v4("10.0.0.1")).to_vec()),
        (OUTSIDE, ndp::announcement(LB_OUT, v6("fd00::1"), true).to_vec()),
        (INSIDE, tagged(&arp::announcement(LB_IN, v4("10.1.0.1")), Some(7))),
        (INSIDE, tagged(&ndp::announcement(LB_IN, v6("fd01::1"), true), Some(7))),
    ];
    assert_eq!(sent, wanted);
}

#[test]
fn kept_hops_are_asked_for_without_packets_and_tags_are_right() {
    let world =
        World::new(&Plan { known_backends: false, vlans: [None, Some(7)], ..Plan::default() });
    let mut resolver = Resolver::new(Arc::clone(&world.shared), ResolverSettings::default());
    let mut now = 500_000;
    let sent = run(&mut resolver, &mut now, 10);
    let question = tagged(&ndp::solicit(LB_IN, v6("fd01::1"), v6("fd01::11"), None), Some(7));
    assert_eq!(sent.iter().filter(|(_, frame)| *frame == question).count(), 1);
    let snapshot = world.shared.snapshot();
    let hosts = snapshot.services.backends().iter().map(|own| own.address);
    let hosts = hosts.collect::<std::collections::BTreeSet<_>>();
    assert_eq!(sent.len(), hosts.len(), "every backend is asked for");
    assert_eq!(resolver.counters().get(Counter::OriginatedPackets), sent.len() as u64);
}

/// An own address that another station claims is announced, once in ten seconds.
#[test]
fn own_addresses_are_defended() {
    for vlan in [None, Some(7)] {
        let mut world = World::new(&Plan { vlans: [None, vlan], ..Plan::default() });
        world.now_ms = 20_000;
        let claims = [
            (arp::announcement(HOST, v4("10.9.0.1")).to_vec(), "10.9.0.1"),
            (arp::announcement(HOST, v4("10.1.0.1")).to_vec(), "10.1.0.1"),
            (ndp::announcement(HOST, v6("fd09::1"), false).to_vec(), "fd09::1"),
        ];
        for (claim, addr) in claims {
            let claim = tagged(&claim, vlan);
            let defence = match ip(addr) {
                IpAddr::V4(addr) => arp::announcement(LB_IN, addr).to_vec(),
                IpAddr::V6(addr) => ndp::announcement(LB_IN, addr, true).to_vec(),
            };
            assert_eq!(world.one(INSIDE, &claim), Some((INSIDE, tagged(&defence, vlan))));
            world.now_ms += 9_999;
            world.drops(INSIDE, &claim, Counter::AddressConflict);
            let claimed: Vec<_> = world.shared.neighbours().defences().take().collect();
            assert_eq!(claimed, [(ip(addr), HOST)]);
            world.now_ms += 1;
            assert_eq!(world.one(INSIDE, &claim), Some((INSIDE, tagged(&defence, vlan))));
            let _ = world.shared.neighbours().defences().take().count();
        }
        assert_eq!(world.count(Counter::AddressDefended), 6);
        // What an interface of ours has sent is no claim.
        let own = tagged(&arp::announcement(LB_OUT, v4("10.9.0.1")), vlan);
        world.drops(INSIDE, &own, Counter::OwnFrame);
    }
}

#[test]
fn a_changed_address_is_counted_and_a_pinned_one_stays() {
    let mut world = World::new(&Plan { known_backends: false, ..Plan::default() });
    let neighbours = world.shared.neighbours();
    let hop = neighbours.hop(InterfaceId(1), ip("10.1.0.11"), world.now_ms).unwrap();
    let six = neighbours.hop(InterfaceId(1), ip("fd01::11"), world.now_ms).unwrap();
    let says = |mac| {
        let four = arp::announcement(mac, v4("10.1.0.11")).to_vec();
        [four, ndp::announcement(mac, v6("fd01::11"), false).to_vec()]
    };
    for (mac, changed) in [(backend_mac(1), 0), (HOST, 2), (HOST, 2)] {
        says(mac).iter().for_each(|frame| assert_eq!(world.one(INSIDE, frame), None));
        assert_eq!(world.count(Counter::NeighbourChanged), changed);
    }
    world.shared.neighbours().set_pinned(true);
    says(backend_mac(1)).iter().for_each(|frame| assert_eq!(world.one(INSIDE, frame), None));
    assert_eq!(world.count(Counter::NeighbourRefused), 2);
    for hop in [hop, six] {
        assert_eq!(world.shared.neighbours().get(hop).unwrap().mac, Some(HOST));
    }
}

/// The neighbour of an address that is not on the link of the interface where a
/// claim comes in, a gateway for instance, is not believed there.
#[test]
fn an_address_that_is_not_on_the_link_is_not_believed() {
    let mut world = World::new(&Plan::default());
    let hop = world.shared.neighbours().hop(InterfaceId(0), ip("10.1.0.50"), 0).unwrap();
    let says = arp::announcement(HOST, v4("10.1.0.50"));
    world.drops(OUTSIDE, &says, Counter::ArpNotForUs);
    assert_eq!(world.shared.neighbours().get(hop).unwrap().mac, None);
}

/// SYNs from invented addresses on the link fill the table of 256, and clients on
/// the link are served all the same.
#[test]
fn invented_addresses_on_the_link_do_not_stop_others() {
    let mut world = World::new(&Plan { connections: 4000, ..Plan::default() });
    let kept: Vec<_> = world.shared.neighbours().iter().map(|own| own.hop).collect();
    let syn = |n: u32| {
        let client = format!("[fd00::1{:x}:{:x}]:5000", n >> 8, n & 255);
        tcp(Link::CLIENT, &client, "[fd09::1]:80", "S", b"")
    };
    for n in 1000..3000 {
        world.one(OUTSIDE, &syn(n));
        world.now_ms += 1;
    }
    for n in 1..=100_u32 {
        let client = format!("fd00::7:{n:x}");
        let frame = tcp(Link::CLIENT, &format!("[{client}]:80"), "[fd09::1]:80", "S", b"");
        assert!(world.one(OUTSIDE, &frame).is_some(), "client {n}");
        let answer = ndp::announcement(HOST, v6(&client), false);
        assert_eq!(world.one(OUTSIDE, &answer), None);
        let hop = world.shared.neighbours().find(InterfaceId(0), ip(&client)).unwrap();
        assert_eq!(world.shared.neighbours().get(hop).unwrap().mac, Some(HOST));
    }
    assert_eq!(world.count(Counter::NeighbourTableFull), 0);
    assert!(kept.iter().all(|hop| world.shared.neighbours().get(*hop).is_some()));
}

/// A stale next hop is asked for five times in vain, by unicast; with the sixth
/// question its address is given up. A pinned one is asked for a minute.
#[test]
fn a_stale_hop_is_given_up_after_so_many_questions() {
    let settings = ResolverSettings::default();
    let (asked, after_ms) = questions_in_vain(false);
    assert_eq!((asked, after_ms < 30_000), (settings.tries as usize, true));
    let (asked, after_ms) = questions_in_vain(true);
    assert_eq!((asked, after_ms > 55_000), (settings.pinned_tries as usize, true));
}

/// Changed addresses are told, those that follow within a quarter of a second are
/// counted only.
#[test]
fn notices_of_changed_addresses_are_limited() {
    let world = World::new(&Plan { known_backends: false, ..Plan::default() });
    let table = world.shared.neighbours();
    let mut resolver = Resolver::new(Arc::clone(&world.shared), ResolverSettings::default());
    let (mut now, addr) = (1_000, ip("10.1.0.11"));
    table.hop(InterfaceId(1), addr, now).unwrap();
    table.learn(InterfaceId(1), addr, backend_mac(1), now);
    run(&mut resolver, &mut now, 1_000);
    let _ = resolver.take_notices();
    // Once the walk over the table is round, the notice of the first change is there;
    // then one change a millisecond for a second.
    let mut told = 0;
    for turn in 0..1_000_u64 {
        table.learn(InterfaceId(1), addr, backend_mac(2 + turn as u8 % 2), now);
        run(&mut resolver, &mut now, 1);
        told += resolver.take_notices().len();
    }
    assert!((3..=4).contains(&told), "{told} notices of a thousand changes in a second");
}

/// How often a stale neighbour is asked for in vain, and how long after it became
/// stale its address is given up.
fn questions_in_vain(pinned: bool) -> (usize, u64) {
    let world = World::new(&Plan { known_backends: false, ..Plan::default() });
    let table = world.shared.neighbours();
    table.set_pinned(pinned);
    let mut resolver = Resolver::new(Arc::clone(&world.shared), ResolverSettings::default());
    let (mut now, addr) = (1000, ip("10.1.0.11"));
    let hop = table.hop(InterfaceId(1), addr, now).unwrap();
    table.learn(InterfaceId(1), addr, backend_mac(1), now);
    let question = arp::request(LB_IN, v4("10.1.0.1"), v4("10.1.0.11"), Some(backend_mac(1)));
    let (mut asked, mut stale_ms) = (0, None);
    loop {
        let sent = run(&mut resolver, &mut now, 1);
        match table.get(hop).unwrap().state {
            NeighbourState::Reachable => {}
            NeighbourState::Stale => {
                stale_ms.get_or_insert(now);
                asked += sent.iter().filter(|(_, frame)| frame[..] == question[..]).count();
            }
            _ => break,
        }
        assert!(now < 200_000);
    }
    (asked, now - stale_ms.unwrap())
}
