//! RSTs, against etherparse and RFC 9293.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::support;

use etherparse::{SlicedPacket, TransportSlice};
use proptest::prelude::*;
use support::oracle::{addresses, endpoints, is_right, repair};
use support::spec::{Spec, balanced, config};
use wire::{Headers, reset};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// What etherparse reads in a RST.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    data: usize,
}

fn read(frame: &[u8]) -> Read {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("no TCP") };
    Read {
        sequence: tcp.sequence_number(),
        acknowledgement: tcp.acknowledgment_number(),
        flags: tcp.slice()[13],
        data: tcp.slice().len() - 20,
    }
}

/// A TCP frame, and what RFC 9293 calls SEG.SEQ, SEG.ACK and SEG.LEN.
fn segment(spec: &Spec) -> (Vec<u8>, Headers, [u32; 3]) {
    let spec = Spec { proto: 6, fragment: None, ..spec.clone() };
    let mut frame = spec.build();
    repair(&mut frame, false);
    let headers = Headers::parse(&frame).unwrap();
    let length = spec.payload.len() as u32
        + u32::from(spec.flags & SYN != 0)
        + u32::from(spec.flags & FIN != 0);
    (frame, headers, [0x0102_0304, 0x0506_0708, length])
}

proptest! {
    #![proptest_config(config(3000))]

    #[test]
    fn a_segment_is_answered_as_rfc_9293_asks(spec in balanced(), flags: u8) {
        let spec = Spec { flags: flags & !RST, ..spec };
        prop_assume!(spec.ends.0.is_ipv4() || !spec.options.iter().any(|(kind, _)| *kind == 51));
        let (mut frame, headers, [sequence, acknowledgement, length]) = segment(&spec);
        let before = frame.clone();
        let len = reset::answer_in_place(&mut frame, &headers).unwrap();
        frame.truncate(len);
        prop_assert!(is_right(&frame));
        let expected = if spec.flags & ACK != 0 {
            Read { sequence: acknowledgement, acknowledgement: 0, flags: RST, data: 0 }
        } else {
            let acknowledgement = sequence.wrapping_add(length);
            Read { sequence: 0, acknowledgement, flags: RST | ACK, data: 0 }
        };
        prop_assert_eq!(read(&frame), expected);
        let ends = endpoints(&SlicedPacket::from_ethernet(&frame).unwrap());
        prop_assert_eq!(ends, Some((spec.ends.1, spec.ends.0)));
        prop_assert_eq!((&frame[..6], &frame[6..12]), (&before[6..12], &before[..6]));
        prop_assert_eq!(Headers::parse(&frame).unwrap().vlan, headers.vlan);
        // A RST is not answered.
        let headers = Headers::parse(&frame).unwrap();
        prop_assert_eq!(reset::answer_in_place(&mut frame, &headers), None);
    }

    #[test]
    fn a_segment_is_replaced_by_the_reset_that_its_receiver_believes(spec in balanced(), flags: u8) {
        let spec = Spec { flags: flags & !RST, ..spec };
        prop_assume!(spec.ends.0.is_ipv4() || !spec.options.iter().any(|(kind, _)| *kind == 51));
        let (mut frame, headers, [sequence, acknowledgement, _]) = segment(&spec);
        let before = frame.clone();
        let len = reset::replace_in_place(&mut frame, &headers).unwrap();
        frame.truncate(len);
        prop_assert!(is_right(&frame));
        let syn = u32::from(spec.flags & SYN != 0);
        prop_assert_eq!(read(&frame), Read {
            sequence: sequence + syn,
            acknowledgement,
            flags: RST | spec.flags & ACK,
            data: 0,
        });
        prop_assert_eq!(&frame[..12], &before[..12]);
        let after = SlicedPacket::from_ethernet(&frame).unwrap();
        prop_assert_eq!(addresses(&after), (spec.ends.0.ip(), spec.ends.1.ip()));
        prop_assert_eq!(Headers::parse(&frame).unwrap().ttl, spec.ttl);
    }
}

#[test]
fn only_whole_segments_that_are_no_reset_are_answered() {
    for v4 in [true, false] {
        let ends = if v4 { ("192.0.2.1:5", "192.0.2.2:6") } else { ("[2001:db8::1]:5", "[::2]:6") };
        let spec = Spec {
            tag: None,
            ends: (ends.0.parse().unwrap(), ends.1.parse().unwrap()),
            options: vec![],
            fragment: None,
            ttl: 9,
            proto: 6,
            flags: SYN,
            bare: false,
            payload: vec![0; 44],
            padding: 0,
        };
        let refused = |spec: &Spec, change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = spec.build();
            change(&mut frame);
            let headers = Headers::parse(&frame).unwrap();
            let before = frame.clone();
            reset::answer_in_place(&mut frame, &headers).is_none() && frame == before
        };
        assert!(!refused(&spec, &|_| {}));
        assert!(refused(&Spec { flags: RST, ..spec.clone() }, &|_| {}));
        assert!(refused(&Spec { flags: RST | ACK, ..spec.clone() }, &|_| {}));
        assert!(refused(&Spec { fragment: Some((1, 0, true)), ..spec.clone() }, &|_| {}));
        assert!(refused(&Spec { fragment: Some((1, 9, false)), ..spec.clone() }, &|_| {}));
        assert!(refused(&Spec { proto: 17, ..spec.clone() }, &|_| {}));
        assert!(refused(&spec, &|frame| frame[0] |= 1), "to a group");
        assert!(refused(&spec, &|frame| frame[6] |= 1), "from a group");
        let offset = if v4 { 46 } else { 66 };
        assert!(!refused(&spec, &|frame| frame[offset] = 0xf0), "40 bytes of options");
        let short = Spec { payload: vec![0; 39], ..spec };
        assert!(refused(&short, &|frame| frame[offset] = 0xf0), "an offset beyond the packet");
    }
}
