//! ARP and NDP: known answers, and every check of RFC 4861 section 7.1.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::support;

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::{NetSlice, SlicedPacket};
use support::oracle::{is_right, repair};
use wire::ndp::{self, Invalid};
use wire::{Headers, Mac, Malformed, arp, ethernet};

const OURS: Mac = Mac([2, 0, 0, 0, 0, 9]);
const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 7]);
const VIP4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ASKER4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const VIP6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x12, 0x3456);
const ASKER6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

#[test]
fn an_arp_request_is_what_etherparse_reads() {
    let frame = arp::request(THEIRS, ASKER4, VIP4, None);
    assert_eq!(frame[..6], [0xff; 6]);
    let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
    let Some(NetSlice::Arp(arp)) = sliced.net else { panic!("not ARP") };
    assert_eq!((arp.operation().0, arp.hw_addr_type().0), (1, 1));
    assert_eq!(arp.sender_hw_addr(), THEIRS.0);
    assert_eq!(arp.sender_protocol_addr(), ASKER4.octets());
    assert_eq!(arp.target_hw_addr(), [0; 6]);
    assert_eq!(arp.target_protocol_addr(), VIP4.octets());
    assert_eq!(arp::request(THEIRS, ASKER4, VIP4, Some(OURS))[..6], OURS.0);
    let announced = arp::announcement(OURS, VIP4);
    assert_eq!((&announced[28..32], &announced[38..42]), (&VIP4.octets()[..], &VIP4.octets()[..]));
}

#[test]
fn an_arp_request_is_answered_also_with_tag_and_padding() {
    for tag in [&[][..], &[0x81, 0, 0, 5]] {
        let request = arp::request(THEIRS, ASKER4, VIP4, None);
        let mut frame = [&request[..12], tag, &request[12..], &[0; 18]].concat();
        let headers = Headers::parse(&frame).unwrap();
        assert!(arp::reply_in_place(&mut frame, &headers, OURS));
        let reply = arp::Repr::parse(&frame, &headers).unwrap();
        let expected = arp::Repr {
            operation: arp::REPLY,
            sender_mac: OURS,
            sender: VIP4,
            target_mac: THEIRS,
            target: ASKER4,
        };
        assert_eq!(reply, expected);
        assert_eq!(ethernet::macs(&frame), Some((THEIRS, OURS)));
        assert_eq!(frame[frame.len() - 18..], [0; 18]);
    }
}

#[test]
fn improper_arp_is_not_answered() {
    // Hardware type, protocol type, lengths, operation, sender's group addresses.
    let changes: &[(usize, u8)] =
        &[(15, 2), (16, 7), (18, 8), (19, 16), (21, 2), (21, 3), (22, 3), (28, 224), (12, 9)];
    for (at, value) in changes {
        let mut frame = arp::request(THEIRS, ASKER4, VIP4, None);
        frame[*at] = *value;
        let before = frame;
        let headers = Headers::parse(&frame).unwrap();
        assert!(!arp::reply_in_place(&mut frame, &headers, OURS), "byte {at}");
        assert_eq!(frame, before);
    }
    let short = &arp::request(THEIRS, ASKER4, VIP4, None)[..41];
    assert_eq!(Headers::parse(short), Err(Malformed::Truncated));
}

fn parse(frame: &[u8]) -> Result<ndp::Repr, Invalid> {
    ndp::Repr::parse(frame, &Headers::parse(frame).unwrap())
}

fn solicitation(frame: &[u8]) -> ndp::Solicitation {
    match parse(frame) {
        Ok(ndp::Repr::Solicitation(asked)) => asked,
        other => panic!("{other:?}"),
    }
}

fn advertisement(frame: &[u8]) -> ndp::Advertisement {
    match parse(frame) {
        Ok(ndp::Repr::Advertisement(told)) => told,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_solicitation_goes_to_the_group_and_is_answered() {
    let frame = ndp::solicit(THEIRS, ASKER6, VIP6, None);
    assert!(is_right(&frame));
    assert_eq!(frame[..6], [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
    let headers = Headers::parse(&frame).unwrap();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff12, 0x3456);
    assert_eq!(headers.dst_addr(&frame), Some(group.into()));
    let asked = solicitation(&frame);
    let expected = ndp::Solicitation {
        source: ASKER6,
        frame_source: THEIRS,
        target: VIP6,
        source_link: Some(THEIRS),
    };
    assert_eq!(asked, expected);

    let answer = ndp::advertise(&asked, OURS, false);
    assert!(is_right(&answer));
    assert_eq!(ethernet::macs(&answer), Some((THEIRS, OURS)));
    let headers = Headers::parse(&answer).unwrap();
    assert_eq!(headers.dst_addr(&answer), Some(ASKER6.into()));
    assert_eq!(headers.src_addr(&answer), Some(VIP6.into()));
    let expected = ndp::Advertisement {
        target: VIP6,
        router: false,
        solicited: true,
        replaces: true,
        target_link: Some(OURS),
    };
    assert_eq!(advertisement(&answer), expected);
    assert!(advertisement(&ndp::advertise(&asked, OURS, true)).router);
}

#[test]
fn a_probe_goes_to_one_host() {
    let frame = ndp::solicit(THEIRS, ASKER6, VIP6, Some(OURS));
    assert_eq!(frame[..6], OURS.0);
    assert_eq!(Headers::parse(&frame).unwrap().dst_addr(&frame), Some(VIP6.into()));
    assert_eq!(solicitation(&frame).target, VIP6);
}

#[test]
fn an_announcement_is_unsolicited_and_replaces() {
    let frame = ndp::announcement(OURS, VIP6, false);
    assert!(is_right(&frame));
    assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
    let told = advertisement(&frame);
    assert!(!told.solicited && told.replaces);
}

/// A solicitation of duplicate address detection: no source, no option.
fn detection(option: bool, group: Ipv6Addr) -> Vec<u8> {
    let mut frame = ndp::solicit(THEIRS, Ipv6Addr::UNSPECIFIED, VIP6, None).to_vec();
    frame[38..54].copy_from_slice(&group.octets());
    if !option {
        frame.truncate(78);
        frame[19] = 24;
    }
    repair(&mut frame, false);
    frame
}

#[test]
fn duplicate_address_detection_is_answered_to_all_nodes() {
    let asked = solicitation(&detection(false, ndp::solicited_node(VIP6)));
    assert_eq!((asked.source, asked.source_link), (Ipv6Addr::UNSPECIFIED, None));
    let answer = ndp::advertise(&asked, OURS, false);
    assert_eq!(answer[..6], [0x33, 0x33, 0, 0, 0, 1]);
    let headers = Headers::parse(&answer).unwrap();
    assert_eq!(headers.dst_addr(&answer), Some(ALL_NODES.into()));
    assert!(!advertisement(&answer).solicited);
    for frame in [detection(true, ndp::solicited_node(VIP6)), detection(false, ALL_NODES)] {
        assert_eq!(parse(&frame), Err(Invalid::Contradiction));
    }
}

#[test]
fn every_invalid_message_has_its_reason() {
    let changed = |frame: &[u8], at: usize, bytes: &[u8]| {
        let mut frame = frame.to_vec();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        repair(&mut frame, false);
        parse(&frame)
    };
    let asks = ndp::solicit(THEIRS, ASKER6, VIP6, None);
    let tells = ndp::announcement(OURS, VIP6, false);
    for frame in [&asks[..], &tells[..]] {
        assert!(parse(frame).is_ok());
        assert_eq!(changed(frame, 54, &[128]), Err(Invalid::NotNdp));
        assert_eq!(changed(frame, 21, &[254]), Err(Invalid::HopLimit));
        assert_eq!(changed(frame, 55, &[1]), Err(Invalid::Code));
        assert_eq!(changed(frame, 62, &[0xff]), Err(Invalid::Multicast));
        assert_eq!(changed(frame, 22, &[0xff]), Err(Invalid::Multicast));
        assert_eq!(changed(frame, 79, &[0]), Err(Invalid::Option));
        assert_eq!(changed(frame, 79, &[2]), Err(Invalid::Option));
        let mut short = frame[..77].to_vec();
        short[19] = 23;
        repair(&mut short, false);
        assert_eq!(parse(&short), Err(Invalid::Truncated));
        let mut wrong = frame.to_vec();
        wrong[56] ^= 1;
        assert_eq!(parse(&wrong), Err(Invalid::Checksum));
    }
    assert_eq!(changed(&tells, 58, &[0x40]), Err(Invalid::Contradiction));
    assert_eq!(parse(&arp::announcement(OURS, VIP4)), Err(Invalid::NotNdp));
}

#[test]
fn names_are_distinct() {
    let mut names: Vec<_> = Invalid::ALL.iter().map(|reason| reason.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Invalid::ALL.len());
}
