//! Pings to a VIP that do not fit one packet, and pings with IP options.
use etherparse::{IcmpEchoHeader, Icmpv4Type, Icmpv6Type};
use packet::HeapPacket;
use proptest::prelude::*;
use state::Counter;

use crate::fragments::cut;
use crate::icmp::{icmp4, icmp6};
use crate::world::{GATEWAY, LB_OUT, Link, OUTSIDE, Plan, TAGGED, World};

const ECHO: IcmpEchoHeader = IcmpEchoHeader { id: 3, seq: 4 };

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 + n / 256) as u8).collect()
}

/// A request to the VIP and its answer.
fn ping(v4: bool, link: Link, length: usize) -> (Vec<u8>, Vec<u8>) {
    let back = Link { src: LB_OUT, dst: GATEWAY, ..link }.ttl(64);
    let data = data(length);
    if v4 {
        let ask = icmp4(link, "9.9.9.9", "10.9.0.1", Icmpv4Type::EchoRequest(ECHO), &data);
        (ask, icmp4(back, "10.9.0.1", "9.9.9.9", Icmpv4Type::EchoReply(ECHO), &data))
    } else {
        let ask = icmp6(link, "2001:db8::9", "fd09::1", Icmpv6Type::EchoRequest(ECHO), &data);
        (ask, icmp6(back, "fd09::1", "2001:db8::9", Icmpv6Type::EchoReply(ECHO), &data))
    }
}

/// Asserts that `sent` are the pieces of the packet `whole`, none longer than `mtu`.
fn are_pieces(sent: &[Vec<u8>], whole: &[u8], mtu: usize) {
    let tag = if whole[12..14] == [0x81, 0] { 4 } else { 0 };
    let v4 = whole[12 + tag] == 8;
    let ip = 14 + tag + if v4 { 20 } else { 40 };
    let mut end = 0;
    for (n, frame) in sent.iter().enumerate() {
        let header = frame.len().min(14 + tag + if v4 { 20 } else { 48 });
        assert!(frame.len() - 14 - tag <= mtu);
        // Ethernet, tag, IP version and class, TTL or hop limit, addresses.
        assert_eq!(frame[..16 + tag], whole[..16 + tag]);
        let l3 = 14 + tag;
        let (place, more) = if v4 {
            assert_eq!(frame[l3 + 8..l3 + 10], [64, 1]);
            assert_eq!(frame[l3 + 12..l3 + 20], whole[l3 + 12..l3 + 20]);
            let parsed = etherparse::Ipv4Header::from_slice(&frame[l3..]).unwrap().0;
            assert_eq!(parsed.header_checksum, parsed.calc_header_checksum());
            assert!(!parsed.dont_fragment);
            (usize::from(parsed.fragment_offset.value()) * 8, parsed.more_fragments)
        } else {
            assert_eq!(frame[l3 + 6..l3 + 8], [44, 64]);
            assert_eq!(frame[l3 + 8..l3 + 40], whole[l3 + 8..l3 + 40]);
            let length = u16::from_be_bytes([frame[l3 + 4], frame[l3 + 5]]);
            assert_eq!(usize::from(length), frame.len() - l3 - 40);
            assert_eq!(frame[l3 + 40..l3 + 42], [58, 0]);
            let word = u16::from_be_bytes([frame[l3 + 42], frame[l3 + 43]]);
            (usize::from(word & 0xfff8), word & 1 == 1)
        };
        assert_eq!((place, more), (end, n + 1 < sent.len()));
        end += frame.len() - header;
        assert_eq!(frame[header..], whole[ip + place..ip + end]);
    }
    assert_eq!(end, whole.len() - ip);
    assert!(sent.len() > 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_ping_in_pieces_is_answered_in_pieces(
        v4 in any::<bool>(),
        length in prop_oneof![1473..4000_usize, 60_000..65_000_usize, Just(65_507)],
        step in 8..185_usize,
        turn in any::<prop::sample::Index>(),
        vlans in prop::sample::select(TAGGED.to_vec()),
    ) {
        let mut world = World::new(&Plan { vlans, ..Plan::default() });
        let (ask, wanted) = ping(v4, Link::CLIENT.tagged(vlans[0]), length);
        let mut pieces = cut(&ask, 7, step * 8);
        let at = turn.index(pieces.len());
        pieces.rotate_left(at);
        let last = pieces.pop().unwrap();
        for some in pieces.chunks(64) {
            let burst = some.iter().map(|piece| HeapPacket::new(piece)).collect();
            prop_assert!(world.burst(OUTSIDE, burst).is_empty());
        }
        let sent: Vec<_> = world.burst(OUTSIDE, vec![HeapPacket::new(&last)]);
        prop_assert!(sent.iter().all(|(port, _)| *port == OUTSIDE));
        let sent: Vec<Vec<u8>> = sent.into_iter().map(|(_, frame)| frame).collect();
        are_pieces(&sent, &wanted, 1500);
        prop_assert_eq!(world.count(Counter::EchoReplied), 1);
        prop_assert_eq!(world.count(Counter::IcmpPieces), pieces.len() as u64);
        prop_assert_eq!(world.count(Counter::OriginatedPackets), sent.len() as u64 - 1);
    }
}

/// The kernel's AF_PACKET hands out IPv4 datagrams that it has put together.
#[test]
fn a_whole_ping_longer_than_the_mtu_is_answered_in_pieces() {
    for v4 in [true, false] {
        let mut world = World::new(&Plan::default());
        let (ask, wanted) = ping(v4, Link::CLIENT, 1600);
        let sent = world.burst(OUTSIDE, vec![HeapPacket::new(&ask)]);
        let sent: Vec<Vec<u8>> = sent.into_iter().map(|(_, frame)| frame).collect();
        are_pieces(&sent, &wanted, 1500);
    }
}

#[test]
fn a_ping_in_pieces_with_a_wrong_checksum_is_not_answered() {
    for v4 in [true, false] {
        let mut world = World::new(&Plan::default());
        let (mut ask, _) = ping(v4, Link::CLIENT, 2000);
        *ask.last_mut().unwrap() ^= 1;
        let pieces = cut(&ask, 7, 1000);
        assert_eq!(world.one(OUTSIDE, &pieces[0]), None);
        assert_eq!(world.one(OUTSIDE, &pieces[1]), None);
        world.drops(OUTSIDE, &pieces[2], Counter::BadIcmp);
    }
}

#[test]
fn pieces_of_pings_to_others_are_not_kept() {
    let mut world = World::new(&Plan::default());
    let ask = icmp4(Link::CLIENT, "9.9.9.9", "8.8.8.8", Icmpv4Type::EchoRequest(ECHO), &[0; 99]);
    for piece in cut(&ask, 7, 64) {
        world.drops(OUTSIDE, &piece, Counter::IcmpUnsupported);
    }
    assert_eq!(world.count(Counter::IcmpPieces), 0);
}

/// `ping -R`, and the three kinds of timestamps: the answering address and the
/// load balancer's clock are added where there is room.
#[test]
fn options_of_a_ping_are_continued() {
    let mut world = World::new(&Plan::default());
    world.now_ms = 0x0102_0304;
    let vip = [10, 9, 0, 1];
    let (ask, wanted) = ping(true, Link::CLIENT, 40);
    let answer = |world: &mut World, options: &[u8]| {
        let mut frame = ask.clone();
        frame.splice(34..34, options.iter().copied());
        let fix = |frame: &mut Vec<u8>| {
            frame[14] = 0x45 + (options.len() / 4) as u8;
            let length = (frame.len() - 14) as u16;
            frame[16..18].copy_from_slice(&length.to_be_bytes());
            let ip = etherparse::Ipv4Header::from_slice(&frame[14..]).unwrap().0;
            frame[24..26].copy_from_slice(&ip.calc_header_checksum().to_be_bytes());
        };
        fix(&mut frame);
        let (_, sent) = world.one(OUTSIDE, &frame).expect("an answer");
        let mut expected = wanted.clone();
        expected.splice(34..34, sent[34..34 + options.len()].iter().copied());
        expected[20..22].copy_from_slice(&sent[20..22]);
        fix(&mut expected);
        assert_eq!(sent, expected);
        sent[34..34 + options.len()].to_vec()
    };
    // Room for three routers, two of them gone by.
    let route = [1, 7, 15, 12, 9, 0, 0, 1, 9, 0, 0, 2, 0, 0, 0, 0];
    let continued = [&route[..3], &[16], &route[4..12], &vip].concat();
    assert_eq!(answer(&mut world, &route), continued);
    let full = [7, 7, 8, 9, 0, 0, 1, 0];
    assert_eq!(answer(&mut world, &full), full);
    let stamp = |next: u8, flags: u8, data: [u8; 8]| [&[68, 12, next, flags][..], &data].concat();
    for (asked, expected) in [
        (stamp(5, 0, [0; 8]), stamp(9, 0, [0x81, 2, 3, 4, 0, 0, 0, 0])),
        (stamp(13, 0x20, [5; 8]), stamp(13, 0x30, [5; 8])),
        (stamp(13, 0xf0, [5; 8]), stamp(13, 0xf0, [5; 8])),
        (stamp(5, 1, [0; 8]), stamp(13, 1, [10, 9, 0, 1, 0x81, 2, 3, 4])),
        (stamp(9, 1, [0; 8]), stamp(9, 0x11, [0; 8])),
        (stamp(5, 3, [10, 9, 0, 1, 0, 0, 0, 0]), stamp(13, 3, [10, 9, 0, 1, 0x81, 2, 3, 4])),
        (stamp(5, 3, [9, 9, 0, 1, 0, 0, 0, 0]), stamp(5, 3, [9, 9, 0, 1, 0, 0, 0, 0])),
    ] {
        assert_eq!(answer(&mut world, &asked), expected, "{asked:?}");
    }
    // A router alert becomes nothing.
    assert_eq!(answer(&mut world, &[148, 4, 0, 0]), [1; 4]);
}
