//! The TTL of IPv4 and the hop limit of IPv6.
use crate::checksum;
use crate::headers::{Headers, Net};

/// Takes one off the time to live or hop limit, with the IPv4 header checksum
/// (RFC 1812 section 5.3.1, RFC 1624).
///
/// Returns `false` and changes nothing if the packet may not go on because at most
/// one hop is left, if it isn't IP, or if `headers` isn't of this frame.
#[inline]
#[must_use]
pub fn decrement_ttl(frame: &mut [u8], headers: &Headers) -> bool {
    let Some(packet) = frame.get_mut(usize::from(headers.l3)..) else { return false };
    match headers.net {
        Net::Ipv4 => {
            let Some(ip) = packet.first_chunk_mut::<20>() else { return false };
            if ip[8] <= 1 {
                return false;
            }
            let field = u16::from_be_bytes([ip[10], ip[11]]);
            // The word of TTL and protocol shrinks by 0x0100.
            let updated = checksum::update(field, !0x0100);
            ip[8] -= 1;
            ip[10..12].copy_from_slice(&updated.to_be_bytes());
            true
        }
        Net::Ipv6 => {
            let Some(ip) = packet.first_chunk_mut::<40>() else { return false };
            if ip[7] <= 1 {
                return false;
            }
            ip[7] -= 1;
            true
        }
        Net::Arp | Net::Other(_) => false,
    }
}
