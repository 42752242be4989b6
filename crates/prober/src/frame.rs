//! Frames that are sent to the card, and what comes back of them.
use std::net::{IpAddr, SocketAddr};

use wire::{FlowKey, Headers, Mac, TcpFlags, Transport, checksum, ethernet, ipv4, ipv6, tcp, udp};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const TTL: u8 = 64;
const ACK: u8 = 0x10;
/// So that no frame is shorter than Ethernet's 60 bytes.
const PAYLOAD: [u8; 18] = *b"hnlb nic probe ...";

/// A frame with the headers of `flow` from `source` to `station`, with a tag if `vlan`
/// is given. TCP has the flag ACK only.
pub(crate) fn build(
    flow: &FlowKey,
    (source, station): (Mac, Mac),
    vlan: Option<u16>,
) -> Option<Vec<u8>> {
    let (src, dst) = (flow.src(), flow.dst());
    let proto = match flow.proto() {
        Transport::Tcp => 6,
        Transport::Udp => 17,
    };
    let (kind, length) = match src.ip() {
        IpAddr::V4(_) => (IPV4, segment_len(flow)),
        IpAddr::V6(_) => (IPV6, segment_len(flow)),
    };
    let ip = ip_header((src, dst), proto, length)?;
    let pseudo = checksum::pseudo(src.ip(), dst.ip(), proto, length)?;
    let first = vlan.map_or(kind, |_| VLAN);
    let mut frame = ethernet::Repr { dst: station, src: source, kind: first }.emit().to_vec();
    if let Some(id) = vlan {
        frame.extend(id.to_be_bytes());
        frame.extend(kind.to_be_bytes());
    }
    frame.extend(ip);
    frame.extend(segment(flow, pseudo));
    frame.extend(PAYLOAD);
    Some(frame)
}

fn segment_len(flow: &FlowKey) -> u16 {
    let header = match flow.proto() {
        Transport::Tcp => tcp::LEN,
        Transport::Udp => udp::LEN,
    };
    (header + PAYLOAD.len()) as u16
}

fn ip_header(
    (src, dst): (SocketAddr, SocketAddr),
    protocol: u8,
    payload_len: u16,
) -> Option<Vec<u8>> {
    match (src.ip(), dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = ipv4::Repr { src, dst, protocol, ttl: TTL, traffic_class: 0, payload_len };
            Some(header.emit().to_vec())
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = ipv6::Repr {
                src,
                dst,
                next_header: protocol,
                hop_limit: TTL,
                traffic_class: 0,
                flow_label: 0,
                payload_len,
            };
            Some(header.emit().to_vec())
        }
        _ => None,
    }
}

fn segment(flow: &FlowKey, pseudo: u32) -> Vec<u8> {
    let (sport, dport) = (flow.src().port(), flow.dst().port());
    match flow.proto() {
        Transport::Tcp => {
            let header = tcp::Repr {
                sport,
                dport,
                sequence: 1,
                acknowledgement: 1,
                flags: TcpFlags(ACK),
                window: 1024,
            };
            header.emit(pseudo, &PAYLOAD).to_vec()
        }
        Transport::Udp => udp::Repr { sport, dport }.emit(pseudo, &PAYLOAD).to_vec(),
    }
}

/// What `frame` has in its headers.
pub(crate) fn flow_of(frame: &[u8]) -> Option<FlowKey> {
    Headers::parse(frame).ok()?.flow(frame)
}

/// Whether `frame` is one of those that `build` makes, changed or not.
#[must_use]
pub fn is_ours(frame: &[u8]) -> bool {
    frame.ends_with(&PAYLOAD)
}

#[cfg(test)]
mod tests {
    use etherparse::{SlicedPacket, TransportSlice};

    use super::*;

    #[test]
    fn frames_are_what_they_say_and_their_checksums_are_right() {
        for (proto, src, dst) in [
            (Transport::Tcp, "192.0.2.1:1", "192.0.2.2:2"),
            (Transport::Udp, "192.0.2.1:1", "192.0.2.2:2"),
            (Transport::Tcp, "[2001:db8::1]:1", "[2001:db8::2]:2"),
            (Transport::Udp, "[2001:db8::1]:1", "[2001:db8::2]:2"),
        ] {
            let flow = FlowKey::new(proto, src.parse().unwrap(), dst.parse().unwrap()).unwrap();
            for vlan in [None, Some(7)] {
                let frame = build(&flow, (Mac([2; 6]), Mac([4; 6])), vlan).unwrap();
                assert!(frame.len() >= 60 && is_ours(&frame));
                let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
                assert_eq!(sliced.vlan_ids().len(), usize::from(vlan.is_some()));
                assert_eq!(flow_of(&frame), Some(flow));
                let headers = Headers::parse(&frame).unwrap();
                assert!(headers.transport_checksum_is_right(&frame));
                match sliced.transport.unwrap() {
                    TransportSlice::Tcp(tcp) => assert!(tcp.ack() && !tcp.syn()),
                    other => assert!(matches!(other, TransportSlice::Udp(_))),
                }
            }
        }
    }
}
