//! Rewriting against etherparse's checksums.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::support;

use std::net::SocketAddr;

use proptest::prelude::*;
use support::checks::{offsets, residue};
use support::oracle::{checksums, is_right, repair};
use support::spec::{Spec, balanced, config, corner, sockets, spec};
use wire::{Fragment, Headers, Rewrite, Side, checksum, decrement_ttl};

/// A whole frame with right checksums, and new endpoints of its family.
fn case() -> impl Strategy<Value = (Spec, (SocketAddr, SocketAddr))> {
    balanced().prop_flat_map(|spec| {
        let v4 = spec.ends.0.is_ipv4();
        (Just(spec), sockets(v4))
    })
}

fn side() -> impl Strategy<Value = Side> {
    proptest::sample::select(vec![Side::Source, Side::Destination, Side::Both])
}

/// The endpoints after a plan with these sides.
fn mixed(
    old: (SocketAddr, SocketAddr),
    new: (SocketAddr, SocketAddr),
    side: Side,
    ports: Option<Side>,
) -> (SocketAddr, SocketAddr) {
    let end = |old: SocketAddr, new: SocketAddr, address, port| {
        let address = if address { new.ip() } else { old.ip() };
        SocketAddr::new(address, if port { new.port() } else { old.port() })
    };
    (
        end(old.0, new.0, side.source(), ports.is_some_and(Side::source)),
        end(old.1, new.1, side.destination(), ports.is_some_and(Side::destination)),
    )
}

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn equals_the_packet_made_anew(
        (spec, new) in case(),
        side in side(),
        ports in proptest::option::of(side()),
    ) {
        let mut frame = spec.build();
        repair(&mut frame, spec.bare);
        let plan = Rewrite::compile(side, ports, spec.ends, new).unwrap();
        let headers = Headers::parse(&frame).unwrap();
        prop_assert!(plan.apply(&mut frame, &headers));

        let mut expected = Spec { ends: mixed(spec.ends, new, side, ports), ..spec.clone() }.build();
        repair(&mut expected, spec.bare);
        prop_assert_eq!(frame, expected);
    }

    #[test]
    fn keeps_wrong_checksums_wrong((spec, new) in case(), break_by in 1..=0xffff_u16) {
        let mut frame = spec.build();
        repair(&mut frame, false);
        for (at, right) in checksums(&frame, false) {
            let wrong = right ^ break_by;
            frame[at..at + 2].copy_from_slice(&wrong.to_be_bytes());
        }
        let before = frame.clone();
        let plan = Rewrite::both(spec.ends, new).unwrap();
        let headers = Headers::parse(&frame).unwrap();
        prop_assert!(plan.apply(&mut frame, &headers));
        for ((at, was_right), (_, right)) in
            checksums(&before, false).into_iter().zip(checksums(&frame, false))
        {
            let (was, is) = (word(&before, at), word(&frame, at));
            // 0 and 0xffff are the same number, except that UDP's 0 is none.
            let was_wrong = was % 0xffff != was_right % 0xffff;
            if spec.proto == 17 && at + 1 == usize::from(headers.l4) + 7 && was == 0 {
                prop_assert_eq!(is, 0);
            } else {
                prop_assert_eq!(is % 0xffff != right % 0xffff, was_wrong);
            }
        }
    }

    #[test]
    fn the_address_plans_keep_ports((spec, new) in case()) {
        let mut frame = spec.build();
        repair(&mut frame, false);
        let headers = Headers::parse(&frame).unwrap();
        let (src, dst) = spec.ends;
        let plans = [
            Rewrite::source_address(src.ip(), new.0.ip()).unwrap(),
            Rewrite::destination_address(dst.ip(), new.1.ip()).unwrap(),
        ];
        for plan in plans {
            prop_assert!(plan.apply(&mut frame, &headers));
        }
        let ends = mixed(spec.ends, new, Side::Both, None);
        let mut expected = Spec { ends, ..spec }.build();
        repair(&mut expected, false);
        prop_assert_eq!(frame, expected);
    }

    #[test]
    fn there_and_back_again((spec, new) in case()) {
        let mut frame = spec.build();
        repair(&mut frame, spec.bare);
        let before = frame.clone();
        let headers = Headers::parse(&frame).unwrap();
        prop_assert!(Rewrite::source(spec.ends.0, new.0).unwrap().apply(&mut frame, &headers));
        prop_assert!(Rewrite::destination(spec.ends.1, new.1).unwrap().apply(&mut frame, &headers));
        prop_assert!(spec.bare || is_right(&frame));
        prop_assert!(Rewrite::both(new, spec.ends).unwrap().apply(&mut frame, &headers));
        prop_assert_eq!(frame, before);
    }

    /// The pieces of a datagram, rewritten one by one, make the rewritten datagram.
    #[test]
    fn fragments_reassemble_to_the_rewritten_whole((spec, new) in case(), size in 3..6_usize) {
        let whole = Spec { padding: 0, tag: None, payload: vec![0x77; 60], ..spec };
        let mut frame = whole.build();
        repair(&mut frame, false);
        let headers = Headers::parse(&frame).unwrap();
        let plan = Rewrite::both(whole.ends, new).unwrap();
        let data = frame[offsets(&headers).1..].to_vec();
        prop_assert!(plan.apply(&mut frame, &headers));

        let mut reassembled = Vec::new();
        let pieces: Vec<_> = data.chunks(size * 8).collect();
        for (index, piece) in pieces.iter().enumerate() {
            let place = (77, (index * size) as u16, index + 1 < pieces.len());
            // A piece is raw bytes behind the network header.
            let raw = Spec {
                proto: 132,
                fragment: Some(place),
                payload: piece.to_vec(),
                ..whole.clone()
            };
            let mut piece = raw.build();
            relabel(&mut piece, &raw, whole.proto);
            repair_network(&mut piece);
            let headers = Headers::parse(&piece).unwrap();
            let (l3, l4, _) = offsets(&headers);
            prop_assert_eq!(matches!(headers.fragment, Fragment::First(_)), index == 0);
            prop_assert!(plan.apply(&mut piece, &headers));
            if whole.ends.0.is_ipv4() {
                prop_assert_eq!(residue(&piece[l3..l4], 0), 0);
            }
            prop_assert_eq!(headers.dst_addr(&piece), Some(new.1.ip()));
            reassembled.extend_from_slice(&piece[l4..]);
        }
        prop_assert_eq!(&reassembled, &frame[offsets(&headers).1..]);
    }

    #[test]
    fn a_hop_equals_the_packet_made_anew(spec in spec()) {
        let spec = Spec { fragment: None, ..spec };
        let mut frame = spec.build();
        repair(&mut frame, spec.bare);
        let before = frame.clone();
        let headers = Headers::parse(&frame).unwrap();
        let gone = decrement_ttl(&mut frame, &headers);
        prop_assert_eq!(gone, spec.ttl > 1);
        let expected = if gone {
            let mut next = Spec { ttl: spec.ttl - 1, ..spec.clone() }.build();
            repair(&mut next, spec.bare);
            next
        } else {
            before
        };
        prop_assert_eq!(frame, expected);
    }

    #[test]
    fn an_update_equals_the_sum_made_anew(
        words in proptest::collection::vec(corner(), 1..12),
        new in corner(),
        at in any::<prop::sample::Index>(),
    ) {
        let at = at.index(words.len());
        let bytes = |words: &[u16]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<_>>();
        let mut changed = words.clone();
        changed[at] = new;
        // A message of zeros has two checksums; no packet is all zeros.
        prop_assume!(words.iter().any(|w| *w != 0) && changed.iter().any(|w| *w != 0));
        let field = checksum::of(&bytes(&words), 0);
        let delta = checksum::delta(&words[at].to_be_bytes(), &new.to_be_bytes());
        prop_assert_eq!(checksum::update(field, delta), checksum::of(&bytes(&changed), 0));
    }
}

/// RFC 1624's corners, all of them: every word becomes every corner beside
/// every corner.
#[test]
fn every_change_to_a_corner_is_right() {
    const CORNERS: [u16; 12] =
        [0, 1, 2, 0xff, 0x100, 0x5555, 0x7fff, 0x8000, 0xaaaa, 0xff00, 0xfffe, 0xffff];
    let of = |a: u16, b: u16| checksum::of(&[a.to_be_bytes(), b.to_be_bytes()].concat(), 0);
    for beside in CORNERS {
        for new in CORNERS {
            for old in 0..=0xffff_u16 {
                if (beside, old) == (0, 0) || (beside, new) == (0, 0) {
                    continue;
                }
                let delta = checksum::delta(&old.to_be_bytes(), &new.to_be_bytes());
                let updated = checksum::update(of(beside, old), delta);
                assert_eq!(updated, of(beside, new), "{beside:04x}: {old:04x} to {new:04x}");
            }
        }
    }
}

/// Every field and every delta: never 0xffff out of a proper field, and the
/// residue moves by the delta.
#[test]
fn every_corner_delta_moves_every_field_by_itself() {
    for delta in [0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff_u16] {
        for field in 0..=0xffff_u16 {
            let updated = checksum::update(field, delta);
            let moved = (u32::from(!field) + u32::from(delta)) % 0xffff;
            assert_eq!(u32::from(!updated) % 0xffff, moved);
            assert!(updated != 0xffff || field == 0xffff);
            let udp = checksum::update_udp(field, delta);
            assert_eq!(udp == 0, field == 0);
            assert!(field == 0 || udp % 0xffff == updated % 0xffff);
        }
    }
}

#[test]
fn families_do_not_mix() {
    let (v4, v6): (SocketAddr, SocketAddr) =
        ("192.0.2.1:1".parse().unwrap(), "[::1]:1".parse().unwrap());
    assert_eq!(Rewrite::source(v4, v6), None);
    assert_eq!(Rewrite::destination(v6, v4), None);
    assert_eq!(Rewrite::both((v4, v4), (v4, v6)), None);
    assert_eq!(Rewrite::source_address(v4.ip(), v6.ip()), None);
    assert!(size_of::<Rewrite>() <= 44);
}

fn word(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

/// Makes a raw piece one of `proto`: in the IPv4 header, or in the fragment header.
fn relabel(piece: &mut [u8], raw: &Spec, proto: u8) {
    let at = if raw.ends.0.is_ipv4() {
        14 + 9
    } else {
        let before: usize = raw.options.iter().map(|(_, size)| usize::from(*size) * 8).sum();
        14 + 40 + before
    };
    assert_eq!(piece[at], 132);
    piece[at] = proto;
}

/// The IPv4 header checksum, by etherparse.
fn repair_network(piece: &mut [u8]) {
    if piece[12..14] == [8, 0] {
        let header = etherparse::Ipv4HeaderSlice::from_slice(&piece[14..]).unwrap().to_header();
        let sum = header.calc_header_checksum();
        piece[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}
