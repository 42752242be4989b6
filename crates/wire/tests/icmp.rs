//! Echo answers, errors and the NAT of errors, against etherparse.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::support;

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use support::checks::offsets;
use support::oracle::{is_right, repair};
use support::spec::{Spec, balanced, config, sockets};
use wire::icmp::{self, ErrorKind, MAX_ERROR_LEN, echo_reply_in_place, error_into};
use wire::quoted::{Quoted, Translation, rewrite_quoted};
use wire::{Headers, Net, checksum, icmpv6};

fn base(v4: bool, proto: u8) -> Spec {
    let ends = if v4 { ("192.0.2.1:5", "192.0.2.2:6") } else { ("[2001:db8::1]:5", "[::2]:6") };
    Spec {
        tag: None,
        ends: (ends.0.parse().unwrap(), ends.1.parse().unwrap()),
        options: vec![],
        fragment: None,
        ttl: 9,
        proto,
        flags: 2,
        bare: false,
        payload: vec![1, 2, 3, 4, 5],
        padding: 3,
    }
}

fn built(spec: &Spec) -> (Vec<u8>, Headers) {
    let mut frame = spec.build();
    repair(&mut frame, spec.bare);
    let headers = Headers::parse(&frame).unwrap();
    (frame, headers)
}

fn router(v4: bool) -> IpAddr {
    if v4 { [203, 0, 113, 9].into() } else { [0x2001, 0xdb8, 9, 0, 0, 0, 0, 9].into() }
}

/// The error about `frame`.
fn error(frame: &[u8], kind: ErrorKind) -> Option<Vec<u8>> {
    let headers = Headers::parse(frame).unwrap();
    let mut buf = [0; MAX_ERROR_LEN];
    let from = router(headers.net == Net::Ipv4);
    error_into(&mut buf, frame, &headers, kind, from).map(|len| buf[..len].to_vec())
}

#[test]
fn an_echo_is_answered_with_its_data() {
    for (v4, tag) in [(true, None), (true, Some(7)), (false, None), (false, Some(7))] {
        let spec = Spec { tag, ..base(v4, if v4 { 1 } else { 58 }) };
        let (mut frame, headers) = built(&spec);
        let request = frame.clone();
        assert!(echo_reply_in_place(&mut frame, &headers, 7));
        assert!(is_right(&frame));
        assert_eq!((&frame[..6], &frame[6..12]), (&request[6..12], &request[..6]));
        let answered = Headers::parse(&frame).unwrap();
        assert_eq!(answered.dst_addr(&frame), Some(spec.ends.0.ip()));
        assert_eq!(answered.src_addr(&frame), Some(spec.ends.1.ip()));
        assert_eq!(answered.ttl, 64);
        let l4 = usize::from(headers.l4);
        assert_eq!(frame[l4], if v4 { 0 } else { 129 });
        assert_eq!(frame[l4 + 4..], request[l4 + 4..]);
    }
}

#[test]
fn an_echo_with_anything_unusual_is_not_answered() {
    for v4 in [true, false] {
        let spec = base(v4, if v4 { 1 } else { 58 });
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let (mut frame, _) = built(&spec);
            change(&mut frame);
            let headers = Headers::parse(&frame).unwrap();
            let before = frame.clone();
            !echo_reply_in_place(&mut frame, &headers, 7) && frame == before
        };
        let l4 = usize::from(built(&spec).1.l4);
        assert!(refused(&|frame| frame[l4 + 8] ^= 1), "a wrong checksum");
        assert!(refused(&|frame| frame[0] |= 1), "an Ethernet group");
        assert!(refused(&|frame| {
            frame[l4 + 1] = 1;
            repair(frame, false);
        }));
        if v4 {
            assert!(refused(&|frame| frame[24] ^= 1), "a wrong header checksum");
            assert!(refused(&|frame| {
                frame[30..34].copy_from_slice(&[224, 0, 0, 1]);
                repair(frame, false);
            }));
        }
        let with_options = Spec { options: vec![(60, 1)], ..spec.clone() };
        let (mut frame, headers) = built(&with_options);
        assert_eq!(echo_reply_in_place(&mut frame, &headers, 7), v4, "options");
        let fragment =
            Spec { fragment: Some((1, 0, true)), payload: vec![0; 8], padding: 0, ..spec };
        let (mut frame, headers) = built(&fragment);
        assert!(!echo_reply_in_place(&mut frame, &headers, 7));
    }
}

#[test]
fn an_error_says_what_happened() {
    let kinds = [
        (ErrorKind::TimeExceeded, (11, 0, 0), (3, 0, 0)),
        (ErrorKind::PortUnreachable, (3, 3, 0), (1, 4, 0)),
        (ErrorKind::TooBig { mtu: 1400 }, (3, 4, 1400), (2, 0, 1400)),
    ];
    for (kind, v4, v6) in kinds {
        for (family, expected) in [(true, v4), (false, v6)] {
            let (frame, headers) = built(&Spec { tag: Some(3), ..base(family, 17) });
            let error = error(&frame, kind).unwrap();
            assert!(is_right(&error));
            let told = Headers::parse(&error).unwrap();
            let (_, l4, end) = offsets(&told);
            let (message, _) = icmp::Header::split(&error[l4..]).unwrap();
            assert_eq!((message.kind(), message.code(), message.rest()), expected);
            assert_eq!(told.vlan, Some(3));
            assert_eq!(told.src_addr(&error), Some(router(family)));
            assert_eq!(told.dst_addr(&error), headers.src_addr(&frame));
            assert_eq!(&error[..6], &frame[6..12]);
            let (l3, _, datagram) = offsets(&headers);
            assert_eq!(error[l4 + 8..end], frame[l3..datagram]);
        }
    }
}

#[test]
fn an_error_is_never_too_long() {
    for (v4, limit) in [(true, 576), (false, 1280)] {
        let (frame, _) = built(&Spec { payload: vec![7; 1400], ..base(v4, 6) });
        let error = error(&frame, ErrorKind::TooBig { mtu: 1280 }).unwrap();
        assert_eq!(error.len(), 14 + limit);
        assert!(is_right(&error));
    }
}

#[test]
fn no_error_is_sent_about_what_must_not_be_told() {
    let none = |frame: &[u8]| error(frame, ErrorKind::TimeExceeded).is_none();
    for v4 in [true, false] {
        let (frame, _) = built(&base(v4, 17));
        assert!(!none(&frame));
        let about_error = error(&frame, ErrorKind::PortUnreachable).unwrap();
        assert!(none(&about_error), "an error");
        let (echo, _) = built(&base(v4, if v4 { 1 } else { 58 }));
        assert!(!none(&echo));
        let mut group = frame.clone();
        group[0] = 0xff;
        assert!(none(&group), "an Ethernet broadcast");
        // IPv6 senders are told of later fragments, but not if it may be an error's.
        let later = Spec { fragment: Some((1, 5, false)), ..base(v4, 17) };
        assert_eq!(none(&later.build()), v4, "a later fragment");
        let later = Spec { proto: if v4 { 1 } else { 58 }, ..later };
        assert!(none(&later.build()), "a later fragment of ICMP");
        let sources: &[&str] = if v4 {
            &["0.0.0.0:1", "127.0.0.1:1", "224.0.0.1:1", "255.255.255.255:1", "240.0.0.1:1"]
        } else {
            &["[::]:1", "[ff02::1]:1", "[::1]:1"]
        };
        for source in sources {
            let spec = base(v4, 17);
            let ends = (source.parse().unwrap(), spec.ends.1);
            assert!(none(&Spec { ends, ..spec }.build()), "from {source}");
        }
        let groups: &[&str] =
            if v4 { &["224.0.0.1:1", "255.255.255.255:1"] } else { &["[ff02::1]:1"] };
        for group in groups {
            let spec = base(v4, 17);
            let ends = (spec.ends.0, group.parse().unwrap());
            assert!(none(&Spec { ends, ..spec }.build()), "to {group}");
        }
    }
}

/// A packet, and the new endpoints of its quote and of the error.
fn translated() -> impl Strategy<Value = (Spec, (SocketAddr, SocketAddr), usize)> {
    balanced().prop_flat_map(|spec| {
        let v4 = spec.ends.0.is_ipv4();
        // Sources that may be told.
        let mut spec = Spec { padding: 0, ..spec };
        spec.ends.0.set_ip(router(v4));
        spec.ends.1.set_ip(if v4 { [10, 0, 0, 1].into() } else { [1; 8].into() });
        (Just(spec), sockets(v4), 8..120_usize)
    })
}

proptest! {
    #![proptest_config(config(4000))]

    /// Translating the error about a packet gives the error about the
    /// translated packet, for every length of the quote.
    #[test]
    fn an_error_translated_is_the_error_about_the_translated((spec, new, keep) in translated()) {
        // Half a TCP checksum can't be kept right.
        prop_assume!(spec.proto != 6 || keep != 17);
        let v4 = spec.ends.0.is_ipv4();
        let quote_of = |ends| {
            let (frame, headers) = built(&Spec { ends, ..spec.clone() });
            let (l3, l4, end) = offsets(&headers);
            (frame[l3..end.min(l4 + keep)].to_vec(), l4 - l3)
        };
        let (quote, _) = quote_of(spec.ends);
        let (expected, _) = quote_of(new);
        let mut frame = wrap(&quote, v4, router(v4), spec.ends.0.ip());
        let headers = Headers::parse(&frame).unwrap();
        let quoted = Quoted::parse(&frame, &headers).unwrap();
        prop_assert_eq!((quoted.flow.src(), quoted.flow.dst()), spec.ends);
        let to = Translation {
            quoted_src: Some(new.0),
            quoted_dst: Some(new.1),
            quoted_sequence: None,
            src: Some(new.1.ip()),
            dst: Some(new.0.ip()),
        };
        prop_assert!(rewrite_quoted(&mut frame, &headers, &quoted, &to));
        prop_assert_eq!(frame, wrap(&expected, v4, new.1.ip(), new.0.ip()));
    }
}

/// An unreachable message with this quote.
fn wrap(quote: &[u8], v4: bool, src: IpAddr, dst: IpAddr) -> Vec<u8> {
    let outer = Spec {
        ends: (SocketAddr::new(src, 0), SocketAddr::new(dst, 0)),
        payload: quote.to_vec(),
        padding: 0,
        ..base(v4, if v4 { 1 } else { 58 })
    };
    let mut frame = outer.build();
    let l4 = frame.len() - quote.len() - 8;
    let kind = if v4 { icmp::kind::UNREACHABLE } else { icmpv6::kind::UNREACHABLE };
    frame[l4..l4 + 8].copy_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
    repair(&mut frame, false);
    frame
}

#[test]
fn a_quote_ends_where_its_extension_begins() {
    // RFC 4884: a quote of 32 bytes' header and ports, padded, then an extension.
    let (inner, headers) = built(&Spec { payload: vec![0; 200], padding: 0, ..base(true, 6) });
    let (l3, ..) = offsets(&headers);
    let mut frame = wrap(&inner[l3..l3 + 160], true, router(true), base(true, 6).ends.0.ip());
    let at = frame.len() - 160 - 8;
    frame[at + 5] = 8;
    let headers = Headers::parse(&frame).unwrap();
    let quoted = Quoted::parse(&frame, &headers).unwrap();
    assert_eq!(usize::from(quoted.headers.end), at + 8 + 32);
    // The TCP checksum would lie in the extension: it must stay.
    let to = Translation { quoted_dst: Some("10.9.9.9:99".parse().unwrap()), ..Default::default() };
    let before = frame.clone();
    assert!(rewrite_quoted(&mut frame, &headers, &quoted, &to));
    assert_eq!(frame[at + 8 + 32..], before[at + 8 + 32..]);
    frame[at + 5] = 5;
    assert_eq!(Quoted::parse(&frame, &headers), None);
}

#[test]
fn only_errors_about_balanced_packets_are_quotes() {
    for v4 in [true, false] {
        let (inner, headers) = built(&Spec { padding: 0, ..base(v4, 17) });
        let (l3, l4, end) = offsets(&headers);
        let parse = |quote: &[u8], kind: Option<u8>| {
            let mut frame = wrap(quote, v4, router(v4), base(v4, 6).ends.0.ip());
            let at = frame.len() - quote.len() - 8;
            frame[at] = kind.unwrap_or(frame[at]);
            Quoted::parse(&frame, &Headers::parse(&frame).unwrap())
        };
        assert!(parse(&inner[l3..end], None).is_some());
        assert!(parse(&inner[l3..l4 + 4], None).is_some());
        assert!(parse(&inner[l3..l4 + 3], None).is_none());
        assert!(parse(&inner[l3..end], Some(if v4 { 8 } else { 128 })).is_none());
        assert!(parse(&inner[l3..end], Some(if v4 { 5 } else { 137 })).is_none());
        let (echo, _) = built(&base(v4, if v4 { 1 } else { 58 }));
        assert!(parse(&echo[l3..], None).is_none());
        let (other, headers) = built(&base(!v4, 17));
        assert!(parse(&other[offsets(&headers).0..], None).is_none(), "the other family");
    }
}

#[test]
fn messages_survive_parse_and_emit() {
    let v4 = [
        icmp::Repr::EchoRequest { id: 1, sequence: 2 },
        icmp::Repr::EchoReply { id: 3, sequence: 4 },
        icmp::Repr::Unreachable { code: 4, mtu: 1400 },
        icmp::Repr::TimeExceeded { code: 1 },
        icmp::Repr::Other { kind: 13, code: 0, rest: 7 },
    ];
    for repr in v4 {
        let bytes = repr.emit(b"odd");
        assert_eq!(icmp::Repr::parse(&icmp::Header::new(&bytes)), repr);
        assert_eq!(checksum::of(&[&bytes[..], b"odd"].concat(), 0), 0);
    }
    let v6 = [
        icmpv6::Repr::EchoRequest { id: 1, sequence: 2 },
        icmpv6::Repr::EchoReply { id: 3, sequence: 4 },
        icmpv6::Repr::Unreachable { code: 4 },
        icmpv6::Repr::PacketTooBig { mtu: 1280 },
        icmpv6::Repr::TimeExceeded { code: 1 },
        icmpv6::Repr::Other { kind: 135, code: 0, rest: 7 },
    ];
    for repr in v6 {
        let bytes = repr.emit(9, b"odd");
        assert_eq!(icmpv6::Repr::parse(&icmpv6::Header::new(&bytes)), repr);
        assert_eq!(checksum::of(&[&bytes[..], b"odd"].concat(), 9), 0);
    }
}
