//! The views of headers, read and written, against etherparse.
#![allow(clippy::unwrap_used)]

use crate::support;

use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice, TcpSlice, UdpSlice};
use proptest::prelude::*;
use support::oracle::is_right;
use support::spec::{balanced, config, sockets};
use wire::{Malformed, Net, TcpFlags, checksum, ethernet, ipv4, ipv6, tcp, udp};

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn network_headers_read_as_etherparse_reads_them(spec in balanced()) {
        let spec = support::spec::Spec { tag: None, ..spec };
        let frame = spec.build();
        let (outer, packet) = ethernet::Header::split(&frame).unwrap();
        prop_assert_eq!(&ethernet::Repr::parse(&outer).emit()[..], &frame[..14]);
        if spec.ends.0.is_ipv4() {
            let datagram = ipv4::Datagram::parse(packet).unwrap();
            let other = Ipv4HeaderSlice::from_slice(packet).unwrap();
            let header = datagram.header;
            prop_assert_eq!(header.src(), other.source_addr());
            prop_assert_eq!(header.dst(), other.destination_addr());
            prop_assert_eq!(header.total_length(), other.total_len());
            prop_assert_eq!(header.header_length(), other.slice().len());
            prop_assert_eq!(header.id(), other.identification());
            prop_assert_eq!((header.ttl(), header.protocol()), (other.ttl(), other.protocol().0));
            prop_assert_eq!(datagram.options, other.options());
            let right = other.to_header().calc_header_checksum();
            let mut whole = other.slice().to_vec();
            let (mut writable, _) = ipv4::Header::split_mut(&mut whole).unwrap();
            writable.set_checksum(right);
            whole.extend(datagram.payload);
            prop_assert!(ipv4::Datagram::parse(&whole).unwrap().checksum_is_right());
            prop_assert_eq!(datagram.checksum_is_right(), header.checksum() == right);
            whole[8] ^= 1;
            prop_assert!(!ipv4::Datagram::parse(&whole).unwrap().checksum_is_right());
        } else {
            let datagram = ipv6::Datagram::parse(packet).unwrap();
            let other = Ipv6HeaderSlice::from_slice(packet).unwrap();
            let header = datagram.header;
            prop_assert_eq!(header.src(), other.source_addr());
            prop_assert_eq!(header.dst(), other.destination_addr());
            prop_assert_eq!(header.payload_length(), other.payload_length());
            prop_assert_eq!(usize::from(other.payload_length()), datagram.payload.len());
            prop_assert_eq!(header.next_header(), other.next_header().0);
            prop_assert_eq!(&ipv6::Repr::parse(&header).emit()[..], &packet[..40]);
        }
    }

    /// Whole frames put together from emitted headers satisfy etherparse.
    #[test]
    fn emitted_headers_make_right_frames(
        ends in any::<bool>().prop_flat_map(sockets),
        data in proptest::collection::vec(any::<u8>(), 0..40),
        (sequence, acknowledgement, window) in any::<(u32, u32, u16)>(),
        (class, label, is_tcp) in any::<(u8, u32, bool)>(),
    ) {
        let (src, dst) = ends;
        let (protocol, len) = if is_tcp { (6, tcp::LEN) } else { (17, udp::LEN) };
        let payload_len = (len + data.len()) as u16;
        let pseudo = checksum::pseudo(src.ip(), dst.ip(), protocol, payload_len).unwrap();
        let (sport, dport) = (src.port(), dst.port());
        let flags = TcpFlags(TcpFlags::SYN | TcpFlags::ACK);
        let segment = tcp::Repr { sport, dport, sequence, acknowledgement, flags, window };
        let transport = if is_tcp {
            segment.emit(pseudo, &data).to_vec()
        } else {
            udp::Repr { sport, dport }.emit(pseudo, &data).to_vec()
        };
        let outer = |kind| {
            let mac = wire::Mac([2; 6]);
            ethernet::Repr { dst: mac, src: mac, kind }.emit()
        };
        let frame = match (src.ip(), dst.ip()) {
            (std::net::IpAddr::V4(src), std::net::IpAddr::V4(dst)) => {
                let repr = ipv4::Repr { src, dst, protocol, ttl: 9, traffic_class: class, payload_len };
                let header = repr.emit();
                let whole = [&header[..], &transport, &data].concat();
                prop_assert_eq!(ipv4::Repr::parse(&ipv4::Datagram::parse(&whole).unwrap()), repr);
                [&outer(0x0800)[..], &whole].concat()
            }
            (std::net::IpAddr::V6(src), std::net::IpAddr::V6(dst)) => {
                let header = ipv6::Header::new(ipv6::Repr {
                    src,
                    dst,
                    next_header: protocol,
                    hop_limit: 9,
                    traffic_class: class,
                    flow_label: label,
                    payload_len,
                }.emit());
                prop_assert_eq!(header.traffic_class(), class);
                prop_assert_eq!(header.flow_label(), label & 0xf_ffff);
                let other = Ipv6HeaderSlice::from_slice(header.as_bytes()).unwrap();
                prop_assert_eq!(other.traffic_class(), class);
                prop_assert_eq!(other.flow_label().value(), label & 0xf_ffff);
                [&outer(0x86dd)[..], header.as_bytes(), &transport, &data].concat()
            }
            _ => unreachable!(),
        };
        prop_assert!(is_right(&frame));
        let headers = wire::Headers::parse(&frame).unwrap();
        prop_assert_eq!(headers.net == Net::Ipv4, src.is_ipv4());
        if is_tcp {
            let parsed = tcp::Segment::parse(&frame[usize::from(headers.l4)..]).unwrap();
            let other = TcpSlice::from_slice(&frame[usize::from(headers.l4)..]).unwrap();
            prop_assert_eq!(tcp::Repr::parse(&parsed.header), segment);
            prop_assert_eq!((parsed.options, parsed.data), (&[][..], &data[..]));
            prop_assert_eq!(other.sequence_number(), sequence);
            prop_assert_eq!(other.acknowledgment_number(), acknowledgement);
            prop_assert_eq!((other.window_size(), other.syn(), other.ack()), (window, true, true));
        } else {
            let other = UdpSlice::from_slice(&frame[usize::from(headers.l4)..]).unwrap();
            prop_assert_eq!(usize::from(other.length()), transport.len() + data.len());
        }
    }
}

#[test]
fn a_segment_has_its_options_within_its_offset() {
    let mut bytes = [0; 28];
    bytes[12] = 0x60;
    let segment = tcp::Segment::parse(&bytes).unwrap();
    assert_eq!((segment.options.len(), segment.data.len()), (4, 4));
    bytes[12] = 0x40;
    assert_eq!(tcp::Segment::parse(&bytes), Err(Malformed::BadHeaderLength));
    bytes[12] = 0x80;
    assert_eq!(tcp::Segment::parse(&bytes), Err(Malformed::TransportTruncated));
    assert_eq!(tcp::Segment::parse(&bytes[..19]), Err(Malformed::Truncated));
}
