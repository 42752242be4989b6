//! Datagrams in pieces, in any order and both directions.
use flow::PortId;
use packet::HeapPacket;
use pipeline::Settings;
use proptest::prelude::*;
use state::Counter;

use crate::world::{
    FRAGMENT_TIMEOUT_MS, INSIDE, LB_IN, Link, OUTSIDE, Plan, World, backend_mac, destination, udp,
};

/// Cuts an untagged IPv4 frame into fragments whose data is `step` bytes.
fn cut4(frame: &[u8], id: u16, step: usize) -> Vec<Vec<u8>> {
    let pieces: Vec<&[u8]> = frame[34..].chunks(step).collect();
    let last = pieces.len() - 1;
    let one = |(at, data): (usize, &&[u8])| {
        let mut ip = etherparse::Ipv4Header::from_slice(&frame[14..34]).unwrap().0;
        ip.identification = id;
        ip.dont_fragment = false;
        ip.more_fragments = at < last;
        ip.fragment_offset = ((at * step / 8) as u16).try_into().unwrap();
        ip.total_len = (20 + data.len()) as u16;
        ip.header_checksum = ip.calc_header_checksum();
        [&frame[..14], &ip.to_bytes(), data].concat()
    };
    pieces.iter().enumerate().map(one).collect()
}

/// The same for IPv6 without extension headers.
fn cut6(frame: &[u8], id: u32, step: usize) -> Vec<Vec<u8>> {
    let pieces: Vec<&[u8]> = frame[54..].chunks(step).collect();
    let last = pieces.len() - 1;
    let one = |(at, data): (usize, &&[u8])| {
        let mut ip = frame[14..54].to_vec();
        ip[4..6].copy_from_slice(&(8 + data.len() as u16).to_be_bytes());
        let next = std::mem::replace(&mut ip[6], 44);
        let offset = (at * step) as u16 | u16::from(at < last);
        let header = [&[next, 0][..], &offset.to_be_bytes(), &id.to_be_bytes()].concat();
        [&frame[..14], &ip, &header, data].concat()
    };
    pieces.iter().enumerate().map(one).collect()
}

/// Cuts a frame into fragments whose data is `step` bytes.
pub(crate) fn cut(frame: &[u8], id: u16, step: usize) -> Vec<Vec<u8>> {
    if frame[12..14] == [0x81, 0] {
        let (macs, tag) = (&frame[..12], &frame[12..16]);
        let pieces = cut(&[macs, &frame[16..]].concat(), id, step);
        return pieces.iter().map(|piece| [macs, tag, &piece[12..]].concat()).collect();
    }
    if frame[12] == 0x08 { cut4(frame, id, step) } else { cut6(frame, u32::from(id), step) }
}

const ENDS: [(&str, &str, [&str; 2]); 2] = [
    ("9.9.9.9:5000", "10.9.0.1:53", ["10.1.0.11:5353", "10.1.0.12:5353"]),
    ("[2001:db8::9]:5000", "[fd09::1]:53", ["[fd01::11]:5353", "[fd01::12]:5353"]),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn all_pieces_reach_the_same_end_in_any_order(
        order in Just((0..8).collect::<Vec<usize>>()).prop_shuffle(),
        cut_at in 0usize..8,
        six in any::<bool>(),
        opened in any::<bool>(),
    ) {
        let (client, vip, servers) = ENDS[usize::from(six)];
        let mut world = World::new(&Plan::default());
        if opened {
            world.one(OUTSIDE, &udp(Link::CLIENT, client, vip, b"first"));
        }
        let payload: Vec<u8> = (0..8 * 64 - 8 - 3).map(|n| n as u8).collect();
        let there = cut(&udp(Link::CLIENT, client, vip, &payload), 77, 64);
        let wanted = cut(&udp(Link::to_backend(1), client, servers[0], &payload), 77, 64);
        check(&mut world, OUTSIDE, INSIDE, &order, cut_at, &there, &wanted)?;
        let back = cut(&udp(Link::from_backend(1), servers[0], client, &payload), 78, 64);
        let wanted = cut(&udp(Link::TO_CLIENT, vip, client, &payload), 78, 64);
        check(&mut world, INSIDE, OUTSIDE, &order, cut_at, &back, &wanted)?;
        prop_assert_eq!(world.count(Counter::FragmentsHeld), 0);
    }
}

/// Sends `pieces` in `order`, in two bursts, and compares what comes out: the
/// first piece when it comes, then those held before it, then the others.
fn check(
    world: &mut World,
    port: PortId,
    to: PortId,
    order: &[usize],
    cut_at: usize,
    pieces: &[Vec<u8>],
    wanted: &[Vec<u8>],
) -> Result<(), TestCaseError> {
    prop_assert_eq!(pieces.len(), 8);
    let (a, b) = order.split_at(cut_at);
    let mut sent = Vec::new();
    for half in [a, b] {
        let frames = half.iter().map(|&at| HeapPacket::new(&pieces[at])).collect();
        sent.extend(world.burst(port, frames));
    }
    let first = order.iter().position(|&at| at == 0).unwrap();
    let (before, behind) = order.split_at(first);
    let expected: Vec<_> = [0].iter().chain(before).chain(&behind[1..]).collect();
    prop_assert_eq!(sent.len(), 8);
    for ((on, frame), &at) in sent.iter().zip(expected) {
        prop_assert_eq!(*on, to);
        prop_assert_eq!(frame, &wanted[at], "piece {}", at);
    }
    Ok(())
}

#[test]
fn pieces_whose_first_never_comes_time_out() {
    let settings = Settings { fragments_held: 3, fragment_datagrams: 8, ..Settings::default() };
    let mut world = World::new(&Plan { settings, ..Plan::default() });
    let pieces = cut(&udp(Link::CLIENT, ENDS[0].0, ENDS[0].1, &[1; 500]), 5, 64);
    for piece in &pieces[1..4] {
        assert_eq!(world.one(OUTSIDE, piece), None);
    }
    assert_eq!(world.count(Counter::FragmentsHeld), 3);
    world.drops(OUTSIDE, &pieces[4], Counter::FragmentOverflow);
    world.now_ms += FRAGMENT_TIMEOUT_MS;
    world.tick();
    assert_eq!(world.count(Counter::FragmentsHeld), 3);
    world.now_ms += 1;
    world.tick();
    assert_eq!(world.count(Counter::FragmentsHeld), 0);
    assert_eq!(world.count(Counter::FragmentTimeout), 3);
    // There is room again.
    assert_eq!(world.one(OUTSIDE, &pieces[4]), None);
    assert_eq!(world.count(Counter::FragmentsHeld), 1);
}

#[test]
fn pieces_of_a_dropped_datagram_are_dropped() {
    let mut world = World::new(&Plan::default());
    let pieces = cut(&udp(Link::CLIENT, ENDS[0].0, "10.9.0.1:9", &[1; 200]), 5, 64);
    assert_eq!(world.one(OUTSIDE, &pieces[1]), None);
    world.drops(OUTSIDE, &pieces[0], Counter::ClosedPort);
    assert_eq!(world.count(Counter::FragmentOrphaned), 1);
    world.drops(OUTSIDE, &pieces[2], Counter::FragmentOrphaned);
}

#[test]
fn datagrams_are_told_apart_by_their_id() {
    let mut world = World::new(&Plan::default());
    let payload = [1; 100];
    let one = cut(&udp(Link::CLIENT, "9.9.9.9:1", ENDS[0].1, &payload), 1, 64);
    let two = cut(&udp(Link::CLIENT, "9.9.9.9:2", ENDS[0].1, &payload), 2, 64);
    assert_eq!(world.one(OUTSIDE, &two[1]), None);
    let (_, first) = world.one(OUTSIDE, &one[0]).unwrap();
    let (_, later) = world.one(OUTSIDE, &one[1]).unwrap();
    assert_eq!(first[..12], later[..12]);
    let sent = world.burst(OUTSIDE, vec![HeapPacket::new(&two[0])]);
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|(_, frame)| frame[6..12] == LB_IN.0));
    assert!(sent.iter().all(|(_, frame)| frame[..6] == backend_mac(2).0));
    assert_eq!(destination(&sent[0].1).port(), 5353);
}

/// A later fragment of a datagram whose first one never comes.
fn forged(client: &str, id: u16) -> HeapPacket {
    HeapPacket::new(&cut(&udp(Link::CLIENT, client, ENDS[0].1, &[7; 128]), id, 64)[1])
}

/// Sends 200 datagrams of two pieces, in the `order` of their pieces, each behind
/// `forged` pieces from the source that a number has; how many got through whole.
fn served_beside(forged: impl Fn(u16) -> HeapPacket, each: u16, order: [usize; 2]) -> usize {
    let mut world = World::new(&Plan::default());
    let whole = (0..200_u16).filter(|&n| {
        let client = format!("9.8.{}.{}:9", n / 100, n % 100 + 1);
        let pieces = cut(&udp(Link::CLIENT, &client, ENDS[0].1, &[1; 100]), n, 64);
        let mut sent = world.burst(OUTSIDE, vec![HeapPacket::new(&pieces[order[0]])]).len();
        let flood: Vec<_> = (0..each).map(|m| forged(n * each + m)).collect();
        assert!(world.burst(OUTSIDE, flood).is_empty());
        sent += world.burst(OUTSIDE, vec![HeapPacket::new(&pieces[order[1]])]).len();
        sent == 2
    });
    whole.count()
}

#[test]
fn forged_pieces_from_anywhere_do_not_stop_datagrams() {
    let anywhere = |n: u16| forged(&format!("7.{}.{}.9:9", n >> 8, n & 255), n);
    // As many as may be held are there before the first honest datagram is.
    assert_eq!(served_beside(anywhere, 10, [0, 1]), 200);
    assert_eq!(served_beside(anywhere, 10, [1, 0]), 200);
    // Of the datagrams whose pieces come in order none suffers from any number.
    assert_eq!(served_beside(anywhere, 60, [0, 1]), 200);
}

#[test]
fn forged_pieces_from_one_source_take_one_share() {
    let one = |n| forged("7.7.7.7:9", n);
    assert_eq!(served_beside(one, 60, [0, 1]), 200);
    // 60 are more than a share of 32: what others of that share hold is lost.
    let served = served_beside(one, 60, [1, 0]);
    assert!((150..200).contains(&served), "{served} of 200");
}

#[test]
fn the_oldest_piece_makes_room() {
    let settings = Settings { fragments_held: 3, fragment_datagrams: 8, ..Settings::default() };
    let mut world = World::new(&Plan { settings, ..Plan::default() });
    let pieces = cut(&udp(Link::CLIENT, ENDS[0].0, ENDS[0].1, &[1; 500]), 5, 64);
    let late = pieces[1..5].iter().map(|piece| HeapPacket::new(piece)).collect();
    assert!(world.burst(OUTSIDE, late).is_empty());
    assert_eq!(world.count(Counter::FragmentOverflow), 1);
    let sent = world.burst(OUTSIDE, vec![HeapPacket::new(&pieces[0])]);
    let offsets = sent.iter().map(|(_, frame)| frame[21]);
    assert_eq!(offsets.collect::<Vec<_>>(), [0, 16, 24, 32], "in units of 8 bytes");
}
