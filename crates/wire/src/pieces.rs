//! IP packets for a payload that may not fit one: fragments (RFC 791 section 3.2,
//! RFC 8200 section 4.5).
use std::net::IpAddr;

use crate::checksum;
use crate::numbers::protocol;
use crate::{ipv4, ipv6};

/// The time to live and hop limit of the packets.
const TTL: u8 = 64;
/// The IPv6 fragment header's length.
const FRAGMENT: usize = 8;

/// What the pieces of one datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// The source address.
    pub src: IpAddr,
    /// The destination address, of the same family.
    pub dst: IpAddr,
    /// The transport protocol's number.
    pub proto: u8,
    /// Differentiated services and congestion notification.
    pub traffic_class: u8,
    /// Tells the datagram apart from others between the same addresses; IPv4 has
    /// the lower half.
    pub id: u32,
    /// The longest packet, in bytes; at least 68.
    pub mtu: u16,
}

/// The packets of one datagram, one after the other.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    outer: Outer,
    /// Bytes of the IP header and, where there are several pieces, of the fragment
    /// header.
    front: usize,
    /// Payload of each piece but the last: a multiple of 8 bytes.
    step: usize,
    payload: &'a [u8],
    at: usize,
}

impl<'a> Pieces<'a> {
    /// The packets for `payload`; `None` if the addresses are of different families
    /// or the payload is longer than any datagram's.
    #[must_use]
    pub fn new(outer: Outer, payload: &'a [u8]) -> Option<Self> {
        let v4 = outer.src.is_ipv4();
        let (ip, extra, most) =
            if v4 { (ipv4::LEN, 0, 65_535 - ipv4::LEN) } else { (ipv6::LEN, FRAGMENT, 65_535) };
        if v4 != outer.dst.is_ipv4() || payload.len() > most {
            return None;
        }
        let room = usize::from(outer.mtu.max(68)) - ip;
        let fits = payload.len() <= room;
        let front = if fits { ip } else { ip + extra };
        let step = if fits { payload.len() } else { (room - extra) / 8 * 8 };
        Some(Self { outer, front, step, payload, at: 0 })
    }

    /// The length of the next packet; `None` if there is none.
    #[must_use]
    pub fn next_len(&self) -> Option<usize> {
        let rest = self.payload.len().checked_sub(self.at).filter(|rest| *rest > 0)?;
        Some(self.front + rest.min(self.step))
    }

    /// Writes the next packet to the front of `buf`, which has room for it, and
    /// returns its length.
    #[must_use]
    pub fn write(&mut self, buf: &mut [u8]) -> Option<usize> {
        let length = self.next_len()?;
        let (at, end) = (self.at, self.at + length - self.front);
        let data = self.payload.get(at..end)?;
        let (front, rest) = buf.get_mut(..length)?.split_at_mut_checked(self.front)?;
        rest.copy_from_slice(data);
        let more = end < self.payload.len();
        match (self.outer.src, self.outer.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let Outer { proto: protocol, traffic_class, id, .. } = self.outer;
                let payload_len = u16::try_from(data.len()).ok()?;
                let repr = ipv4::Repr { src, dst, protocol, ttl: TTL, traffic_class, payload_len };
                let mut header = ipv4::Header::new(repr.emit());
                if more || at > 0 {
                    let more = if more { ipv4::MORE_FRAGMENTS } else { 0 };
                    header.set_id(id as u16);
                    header.set_flags_and_offset((at / 8) as u16 | more);
                    header.set_checksum(0);
                    header.set_checksum(checksum::of(header.as_bytes(), 0));
                }
                front.copy_from_slice(header.as_bytes());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let Outer { proto, traffic_class, id, .. } = self.outer;
                let (ip, fragment) = front.split_first_chunk_mut()?;
                let payload_len = u16::try_from(fragment.len() + data.len()).ok()?;
                let next_header = if fragment.is_empty() { proto } else { protocol::FRAGMENT };
                let (hop_limit, flow_label) = (TTL, 0);
                *ip = ipv6::Repr {
                    src,
                    dst,
                    next_header,
                    hop_limit,
                    traffic_class,
                    flow_label,
                    payload_len,
                }
                .emit();
                if let Some(fragment) = fragment.first_chunk_mut::<FRAGMENT>() {
                    let place = at as u16 | u16::from(more);
                    fragment[..2].copy_from_slice(&[proto, 0]);
                    fragment[2..4].copy_from_slice(&place.to_be_bytes());
                    fragment[4..].copy_from_slice(&id.to_be_bytes());
                }
            }
            _ => return None,
        }
        self.at = end;
        Some(length)
    }
}
