//! Parsing against etherparse and against what the frame was made from.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::support;

use etherparse::{NetSlice, SlicedPacket, TcpSlice, TransportSlice, UdpSlice};
use proptest::prelude::*;
use support::checks::offsets;
use support::corpus::{Dice, frames, malform};
use support::oracle::{addresses, endpoints, repair};
use support::spec::{Spec, config, spec};
use wire::{FlowKey, Fragment, Headers, Malformed, Net, Transport};

/// The datagram's payload behind all network headers, as etherparse sees it.
fn payload<'a>(sliced: &SlicedPacket<'a>) -> (&'a [u8], u8, bool) {
    let payload = match &sliced.net {
        Some(NetSlice::Ipv4(ip)) => ip.payload(),
        Some(NetSlice::Ipv6(ip)) => ip.payload(),
        _ => panic!("not IP"),
    };
    (payload.payload, payload.ip_number.0, payload.fragmented)
}

/// etherparse 0.19 reads the fragment header's M bit and the offset's lower
/// bits at other places than RFC 8200 section 4.5 has them, and takes a payload
/// length of 0 for one that isn't known.
fn etherparse_can(spec: &Spec) -> bool {
    let fragments = spec.fragment.is_none_or(|(_, offset, more)| {
        (offset << 3 | u16::from(more)) & 0xff9f != 0 || (offset, more) == (0, false)
    });
    let empty = spec.payload.is_empty() && spec.options.is_empty() && spec.padding > 0;
    spec.ends.0.is_ipv4() || (fragments && !empty)
}

proptest! {
    #![proptest_config(config(3000))]

    #[test]
    fn agrees_with_etherparse_and_the_maker(spec in spec()) {
        let frame = spec.build();
        let headers = Headers::parse(&frame).unwrap();
        prop_assume!(etherparse_can(&spec));
        let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
        let (src, dst) = addresses(&sliced);
        prop_assert_eq!(headers.src_addr(&frame), Some(src));
        prop_assert_eq!(headers.dst_addr(&frame), Some(dst));
        prop_assert_eq!((src, dst), (spec.ends.0.ip(), spec.ends.1.ip()));
        prop_assert_eq!(headers.net, if src.is_ipv4() { Net::Ipv4 } else { Net::Ipv6 });
        prop_assert_eq!(headers.vlan, spec.tag.map(|tag| tag & 0xfff));
        prop_assert_eq!(headers.ttl, spec.ttl);
        prop_assert_eq!(usize::from(headers.end), frame.len() - spec.padding);

        let (rest, number, fragmented) = payload(&sliced);
        prop_assert_eq!(rest.as_ptr() as usize - frame.as_ptr() as usize, usize::from(headers.l4));
        prop_assert_eq!(rest.len(), usize::from(headers.end - headers.l4));
        prop_assert_eq!(number, headers.proto);
        prop_assert_eq!(fragmented, headers.fragment != Fragment::Whole);
        prop_assert_eq!(headers.fragment, match spec.fragment {
            None | Some((_, 0, false)) => Fragment::Whole,
            Some((id, 0, true)) => Fragment::First(id),
            Some((id, ..)) => Fragment::Later(id),
        });

        let later = matches!(headers.fragment, Fragment::Later(_));
        let (ports, flags) = match spec.proto {
            _ if later => (None, 0),
            6 => {
                let tcp = TcpSlice::from_slice(rest).unwrap();
                (Some((tcp.source_port(), tcp.destination_port())), spec.flags)
            }
            17 => {
                let udp = UdpSlice::from_slice(rest).unwrap();
                (Some((udp.source_port(), udp.destination_port())), 0)
            }
            _ => (None, 0),
        };
        prop_assert_eq!(headers.ports(&frame), ports);
        prop_assert_eq!(headers.tcp_flags.0, flags);
        let proto = Transport::from_number(spec.proto);
        let flow = ports.and_then(|_| FlowKey::new(proto?, spec.ends.0, spec.ends.1));
        prop_assert_eq!(headers.flow(&frame), flow);
    }

    #[test]
    fn a_cut_frame_is_refused_or_was_cut_in_its_padding(spec in spec(), keep in 0.0..1.0) {
        let frame = spec.build();
        let datagram = frame.len() - spec.padding;
        let len = (frame.len() as f64 * keep) as usize;
        let cut = Headers::parse(&frame[..len]);
        prop_assert_eq!(cut.is_ok(), len >= datagram);
    }
}

#[test]
fn what_both_accept_has_the_same_endpoints() {
    let frames = frames();
    let mut dice = Dice(7);
    let (mut frame, mut compared) = (Vec::new(), 0);
    for _ in 0..300_000 {
        malform(&mut dice, &frames, &mut frame);
        let Ok(headers) = Headers::parse(&frame) else { continue };
        let Ok(sliced) = SlicedPacket::from_ethernet(&frame) else { continue };
        let Some((src, dst)) = endpoints(&sliced) else { continue };
        // An authentication header in IPv4, or a second tag, isn't walked; and
        // etherparse takes some later IPv6 fragments for whole.
        let Some(flow) = headers.flow(&frame) else {
            let walked = headers.proto != 51 && !matches!(headers.net, Net::Other(_));
            let whole = headers.net != Net::Ipv6 || headers.fragment == Fragment::Whole;
            assert!(!walked || !whole, "{frame:02x?}");
            continue;
        };
        let tcp = matches!(sliced.transport, Some(TransportSlice::Tcp(_)));
        assert_eq!((flow.src(), flow.dst()), (src, dst));
        assert_eq!(flow.proto() == Transport::Tcp, tcp);
        compared += 1;
    }
    assert!(compared > 10_000, "{compared}");
}

proptest! {
    #![proptest_config(config(2000))]

    /// etherparse writes the checksums; one changed bit makes them wrong.
    #[test]
    fn checksums_are_those_of_etherparse(
        spec in spec(), at: prop::sample::Index, bit in 0..8_u8,
    ) {
        let spec = Spec { fragment: None, ..spec };
        prop_assume!(etherparse_can(&spec) && !spec.options.iter().any(|(kind, _)| *kind == 43));
        let mut frame = spec.build();
        repair(&mut frame, false);
        let headers = Headers::parse(&frame).unwrap();
        let possible = spec.proto != 6 || headers.tcp_flags.are_possible();
        prop_assert_eq!(headers.check(&frame, false).is_ok(), possible);
        let (l3, l4, end) = offsets(&headers);
        if [1, 6, 17, 58].contains(&spec.proto) {
            prop_assert!(headers.transport_checksum_is_right(&frame));
            let mut changed = frame.clone();
            changed[l4 + at.index(end - l4)] ^= 1 << bit;
            prop_assert!(!headers.transport_checksum_is_right(&changed));
        }
        if headers.net == Net::Ipv4 {
            frame[l3 + at.index(l4 - l3)] ^= 1 << bit;
            prop_assert_eq!(headers.check(&frame, false), Err(Malformed::BadHeaderChecksum));
            prop_assert_eq!(headers.check(&frame, true).is_ok(), possible);
        }
    }
}

/// Reasons, each with the smallest change of a good frame that brings it about.
mod reasons {
    use wire::{Headers, Malformed};

    use super::support::spec::Spec;

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
            payload: vec![0; 32],
            padding: 0,
        }
    }

    fn reason(frame: &[u8]) -> Malformed {
        Headers::parse(frame).unwrap_err()
    }

    fn with(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    }

    #[test]
    fn of_lengths_and_versions() {
        let (v4, v6) = (base(true, 6).build(), base(false, 6).build());
        assert_eq!(reason(&[]), Malformed::Truncated);
        assert_eq!(reason(&v4[..33]), Malformed::Truncated);
        assert_eq!(reason(&v6[..53]), Malformed::Truncated);
        assert_eq!(reason(&with(v4.clone(), 14, &[0x65])), Malformed::BadVersion);
        assert_eq!(reason(&with(v6.clone(), 14, &[0x45])), Malformed::BadVersion);
        assert_eq!(reason(&with(v4.clone(), 14, &[0x44])), Malformed::BadHeaderLength);
        assert_eq!(reason(&with(v4.clone(), 16, &[0, 19])), Malformed::BadTotalLength);
        assert_eq!(reason(&with(v4.clone(), 16, &[0, 73])), Malformed::BadTotalLength);
        assert_eq!(reason(&with(v6.clone(), 18, &[0, 53])), Malformed::BadTotalLength);
        assert_eq!(reason(&with(v4.clone(), 16, &[0, 39])), Malformed::TransportTruncated);
        assert_eq!(reason(&with(v6.clone(), 18, &[0, 19])), Malformed::TransportTruncated);
        assert_eq!(reason(&with(v4.clone(), 12, &[8, 6])[..41]), Malformed::Truncated);
        assert_eq!(reason(&vec![0; 0x10000]), Malformed::TooLong);
    }

    #[test]
    fn of_udp_and_icmp_without_a_whole_header() {
        for (v4, proto) in [(true, 17), (true, 1), (false, 17), (false, 58)] {
            let frame = Spec { payload: vec![], ..base(v4, proto) }.build();
            assert!(Headers::parse(&frame).is_ok());
            let (at, length) = if v4 { (16, 27) } else { (18, 7) };
            assert_eq!(reason(&with(frame, at, &[0, length])), Malformed::TransportTruncated);
        }
    }

    #[test]
    fn of_extension_headers() {
        let chain = |options| Spec { options, ..base(false, 6) }.build();
        assert!(Headers::parse(&chain(vec![(60, 1); 8])).is_ok());
        assert_eq!(reason(&chain(vec![(60, 1); 9])), Malformed::TooManyExtensionHeaders);
        assert_eq!(reason(&chain(vec![(60, 1), (0, 1)])), Malformed::MisplacedHopByHop);
        assert_eq!(reason(&with(chain(vec![(60, 1)]), 55, &[0xff])), Malformed::Truncated);
    }

    #[test]
    fn of_routes_that_are_not_ours() {
        let route = |left: u8| {
            let frame = Spec { options: vec![(43, 3)], ..base(false, 6) }.build();
            with(frame, 57, &[left])
        };
        assert!(Headers::parse(&route(0)).is_ok());
        assert_eq!(reason(&route(1)), Malformed::SegmentsLeft);
        let options = |bytes: &[u8]| {
            let words = bytes.len() / 4;
            with(Spec { options: vec![(1, 1); words], ..base(true, 6) }.build(), 34, bytes)
        };
        assert_eq!(reason(&options(&[1, 131, 7, 4, 10, 0, 0, 1])), Malformed::SourceRoute);
        assert_eq!(reason(&options(&[137, 7, 4, 10, 0, 0, 1, 0])), Malformed::SourceRoute);
        assert!(Headers::parse(&options(&[7, 7, 4, 0, 0, 0, 0, 0])).is_ok());
        assert!(Headers::parse(&options(&[7, 4, 4, 0, 131, 2, 0, 0])).is_err());
        // Behind the end of the options nothing counts.
        assert!(Headers::parse(&options(&[0, 131, 7, 4])).is_ok());
        for bad in [[7, 0, 0, 0], [7, 1, 0, 0], [7, 5, 0, 0], [1, 1, 1, 7]] {
            assert_eq!(reason(&options(&bad)), Malformed::BadOptions);
        }
    }

    #[test]
    fn of_transport_headers_that_cannot_be() {
        for v4 in [true, false] {
            let check = |frame: &[u8]| Headers::parse(frame).unwrap().check(frame, true);
            let (tcp, udp) = (base(v4, 6).build(), base(v4, 17).build());
            let l4 = if v4 { 34 } else { 54 };
            for (length, expected) in [
                (0, Err(Malformed::BadUdpLength)),
                (7, Err(Malformed::BadUdpLength)),
                (8, Ok(())),
                (40, Ok(())),
                (41, Err(Malformed::BadUdpLength)),
            ] {
                assert_eq!(check(&with(udp.clone(), l4 + 4, &[0, length])), expected, "{length}");
            }
            // 52 bytes are there.
            for (offset, expected) in [
                (0x40, Err(Malformed::BadDataOffset)),
                (0x50, Ok(())),
                (0xd0, Ok(())),
                (0xe0, Err(Malformed::BadDataOffset)),
            ] {
                assert_eq!(check(&with(tcp.clone(), l4 + 12, &[offset])), expected, "{offset:x}");
            }
            let possible = [0x01, 0x02, 0x04, 0x10, 0x11, 0x12, 0x14, 0x18, 0xd8];
            for flags in possible {
                assert_eq!(check(&with(tcp.clone(), l4 + 13, &[flags])), Ok(()), "{flags:x}");
            }
            for flags in [0x00, 0x03, 0x05, 0x06, 0x07, 0x08, 0x13, 0x20, 0x28, 0xff] {
                let checked = check(&with(tcp.clone(), l4 + 13, &[flags]));
                assert_eq!(checked, Err(Malformed::BadTcpFlags), "{flags:x}");
            }
            // A first fragment says the length of the whole datagram.
            let fragment = Some((1, 0, true));
            let first = Spec { fragment, payload: vec![0; 40], ..base(v4, 17) }.build();
            let l4 = if v4 { 34 } else { 62 };
            assert_eq!(check(&with(first.clone(), l4 + 4, &[9, 9])), Ok(()));
            assert_eq!(check(&with(first, l4 + 4, &[0, 7])), Err(Malformed::BadUdpLength));
        }
    }

    #[test]
    fn of_fragments() {
        for v4 in [true, false] {
            let fragment = |fragment, payload| {
                Spec { fragment: Some(fragment), payload, ..base(v4, 6) }.build()
            };
            let first = fragment((1, 0, true), vec![0; 4]);
            assert!(Headers::parse(&first).is_ok());
            let (at, length) = if v4 { (16, 36) } else { (18, 24) };
            assert_eq!(reason(&with(first, at, &[0, length])), Malformed::TinyFragment);
            for offset in [1, 2] {
                let later = fragment((1, offset, false), vec![0; 8]);
                assert_eq!(reason(&later), Malformed::TinyFragment);
            }
            assert!(Headers::parse(&fragment((1, 3, false), vec![0; 8])).is_ok());
            assert_eq!(reason(&fragment((1, 3, true), vec![0; 9])), Malformed::BadFragment);
            assert_eq!(reason(&fragment((1, 8191, false), vec![0; 8])), Malformed::BadFragment);
            assert!(Headers::parse(&fragment((1, 8191, false), vec![0; 7])).is_ok());
        }
        // Options that become a first fragment's header in front of the other.
        let twice = Spec {
            fragment: Some((1, 0, true)),
            options: vec![(60, 1)],
            payload: vec![0; 4],
            ..base(false, 6)
        };
        let twice = with(with(twice.build(), 20, &[44]), 56, &[0, 1]);
        assert_eq!(reason(&twice), Malformed::BadFragment);
    }
}
