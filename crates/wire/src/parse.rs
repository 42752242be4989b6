//! The general walk through a frame's headers, for all layouts.
use crate::bytes::{array, be16, be32};
use crate::headers::{Fragment, Headers, MAX_EXTENSION_HEADERS, Net, TcpFlags, numbers};
use crate::ipv4::{Options, option};
use crate::malformed::Malformed;
use crate::numbers::{ethertype, protocol};

/// The length of an ARP packet for Ethernet and IPv4 (RFC 826).
const ARP_LEN: usize = 28;

/// Parses any frame; [`Headers::parse`] calls it for layouts that aren't common.
#[inline(never)]
pub(crate) fn general(frame: &[u8]) -> Result<Headers, Malformed> {
    if frame.len() > usize::from(u16::MAX) {
        return Err(Malformed::TooLong);
    }
    let mut kind = be16(frame, 12).ok_or(Malformed::Truncated)?;
    let mut l3 = 14;
    let mut vlan = None;
    if kind == ethertype::VLAN {
        vlan = Some(be16(frame, 14).ok_or(Malformed::Truncated)? & 0x0fff);
        kind = be16(frame, 16).ok_or(Malformed::Truncated)?;
        l3 = 18;
    }
    let packet = frame.get(l3..).ok_or(Malformed::Truncated)?;
    let walk = match kind {
        ethertype::IPV4 => ipv4(packet)?,
        ethertype::IPV6 => ipv6(packet)?,
        ethertype::ARP if packet.len() < ARP_LEN => return Err(Malformed::Truncated),
        ethertype::ARP => Walk { l4: ARP_LEN, end: ARP_LEN, ..Walk::nothing(Net::Arp) },
        other => Walk { end: packet.len(), ..Walk::nothing(Net::Other(other)) },
    };
    Ok(Headers {
        net: walk.net,
        l3: l3 as u16,
        l4: (l3 + walk.l4) as u16,
        end: (l3 + walk.end) as u16,
        vlan,
        proto: walk.proto,
        ttl: walk.ttl,
        tcp_flags: walk.tcp_flags,
        sequence: walk.numbers[0],
        acknowledgement: walk.numbers[1],
        fragment: walk.fragment,
    })
}

/// Parses a datagram without a link header, as ICMP errors quote them.
/// Offsets count from the IP header. The datagram may be cut off: its length
/// field isn't compared, and the transport header may be incomplete, but the
/// IP header and the extension headers before the transport header are there.
pub(crate) fn quoted(packet: &[u8]) -> Result<Headers, Malformed> {
    let walk = match packet.first().map(|byte| byte >> 4) {
        Some(4) => ipv4_header(packet)?,
        Some(6) => ipv6_header(packet, packet.len())?,
        Some(_) => return Err(Malformed::BadVersion),
        None => return Err(Malformed::Truncated),
    };
    Ok(Headers {
        net: walk.net,
        l3: 0,
        l4: u16::try_from(walk.l4).map_err(|_| Malformed::TooLong)?,
        end: u16::try_from(packet.len()).map_err(|_| Malformed::TooLong)?,
        vlan: None,
        proto: walk.proto,
        ttl: walk.ttl,
        tcp_flags: TcpFlags(0),
        sequence: 0,
        acknowledgement: 0,
        fragment: walk.fragment,
    })
}

/// The result of a walk; offsets count from the network header.
struct Walk {
    net: Net,
    l4: usize,
    end: usize,
    proto: u8,
    ttl: u8,
    tcp_flags: TcpFlags,
    /// Sequence and acknowledgement number of TCP.
    numbers: [u32; 2],
    fragment: Fragment,
    /// The fragment's offset in bytes and whether more follow.
    place: (usize, bool),
    /// Where the fragmentable part begins.
    data: usize,
}

impl Walk {
    const fn nothing(net: Net) -> Self {
        Self {
            net,
            l4: 0,
            end: 0,
            proto: 0,
            ttl: 0,
            tcp_flags: TcpFlags(0),
            numbers: [0; 2],
            fragment: Fragment::Whole,
            place: (0, false),
            data: 0,
        }
    }

    /// Checks what lies between the transport header's offset and the end.
    fn finish(mut self, packet: &[u8]) -> Result<Self, Malformed> {
        let (offset, more) = self.place;
        let data = self.end.saturating_sub(self.data);
        if offset + data > usize::from(u16::MAX) || (more && data % 8 != 0) {
            return Err(Malformed::BadFragment);
        }
        let icmp = if self.net == Net::Ipv4 { protocol::ICMP } else { protocol::ICMPV6 };
        let needed = match self.proto {
            protocol::TCP => 20,
            protocol::UDP => 8,
            proto if proto == icmp => 8,
            _ => 0,
        };
        let there = self.end.saturating_sub(self.l4);
        match self.fragment {
            Fragment::Whole if there < needed => return Err(Malformed::TransportTruncated),
            Fragment::First(_) if there < needed => return Err(Malformed::TinyFragment),
            Fragment::Later(_) if offset < needed => return Err(Malformed::TinyFragment),
            Fragment::Later(_) => return Ok(self),
            Fragment::Whole | Fragment::First(_) => {}
        }
        if self.proto == protocol::TCP {
            let tcp = packet.get(self.l4..).and_then(<[u8]>::first_chunk);
            let tcp = tcp.ok_or(Malformed::TransportTruncated)?;
            self.tcp_flags = TcpFlags(tcp[13]);
            self.numbers = numbers(tcp);
        }
        Ok(self)
    }
}

fn ipv4(packet: &[u8]) -> Result<Walk, Malformed> {
    let mut walk = ipv4_header(packet)?;
    walk.end = usize::from(be16(packet, 2).ok_or(Malformed::Truncated)?);
    if walk.end < walk.l4 || walk.end > packet.len() {
        return Err(Malformed::BadTotalLength);
    }
    if walk.l4 > 20 {
        check_options(packet.get(20..walk.l4).unwrap_or_default())?;
    }
    walk.finish(packet)
}

/// Refuses IPv4 options that are misshapen or ask for a route of their own.
fn check_options(options: &[u8]) -> Result<(), Malformed> {
    for option in Options::new(options) {
        if let (_, [option::LOOSE_ROUTE | option::STRICT_ROUTE, ..]) = option? {
            return Err(Malformed::SourceRoute);
        }
    }
    Ok(())
}

/// The IPv4 header and its options (RFC 791 section 3.1).
fn ipv4_header(packet: &[u8]) -> Result<Walk, Malformed> {
    let ip: [u8; 20] = array(packet, 0).ok_or(Malformed::Truncated)?;
    if ip[0] >> 4 != 4 {
        return Err(Malformed::BadVersion);
    }
    let header = usize::from(ip[0] & 0x0f) * 4;
    if header < 20 {
        return Err(Malformed::BadHeaderLength);
    }
    if header > packet.len() {
        return Err(Malformed::Truncated);
    }
    let word = u16::from_be_bytes([ip[6], ip[7]]);
    let place = (usize::from(word & 0x1fff) * 8, word & 0x2000 != 0);
    let id = u32::from(u16::from_be_bytes([ip[4], ip[5]]));
    Ok(Walk {
        l4: header,
        data: header,
        proto: ip[9],
        ttl: ip[8],
        fragment: fragment(place, id),
        place,
        ..Walk::nothing(Net::Ipv4)
    })
}

fn ipv6(packet: &[u8]) -> Result<Walk, Malformed> {
    let payload = usize::from(be16(packet, 4).ok_or(Malformed::Truncated)?);
    let walk = ipv6_header(packet, 40 + payload)?;
    if walk.end > packet.len() {
        return Err(Malformed::BadTotalLength);
    }
    walk.finish(packet)
}

/// The IPv6 header and the extension headers (RFC 8200 section 4) up to `end`.
fn ipv6_header(packet: &[u8], end: usize) -> Result<Walk, Malformed> {
    let ip: [u8; 8] = array(packet, 0).ok_or(Malformed::Truncated)?;
    if ip[0] >> 4 != 6 {
        return Err(Malformed::BadVersion);
    }
    if packet.len() < 40 {
        return Err(Malformed::Truncated);
    }
    let Some(datagram) = packet.get(..end) else { return Err(Malformed::BadTotalLength) };
    let mut walk =
        Walk { l4: 40, end, data: 40, proto: ip[6], ttl: ip[7], ..Walk::nothing(Net::Ipv6) };
    for count in 0..=MAX_EXTENSION_HEADERS {
        let hop_by_hop = walk.proto == protocol::HOP_BY_HOP;
        if !is_extension(walk.proto) {
            return Ok(walk);
        }
        if hop_by_hop && count > 0 {
            return Err(Malformed::MisplacedHopByHop);
        }
        if count == MAX_EXTENSION_HEADERS {
            break;
        }
        extension(datagram, &mut walk)?;
        if matches!(walk.fragment, Fragment::Later(_)) {
            return Ok(walk);
        }
    }
    Err(Malformed::TooManyExtensionHeaders)
}

const fn is_extension(proto: u8) -> bool {
    matches!(
        proto,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AUTHENTICATION
            | protocol::DESTINATION_OPTIONS
    )
}

/// Steps over the extension header `walk.proto` at `walk.l4`.
fn extension(datagram: &[u8], walk: &mut Walk) -> Result<(), Malformed> {
    // RFC 7112: a first fragment holds the whole chain.
    let short = match walk.fragment {
        Fragment::Whole => Malformed::Truncated,
        Fragment::First(_) | Fragment::Later(_) => Malformed::TinyFragment,
    };
    let [next, length] = array(datagram, walk.l4).ok_or(short)?;
    let size = match walk.proto {
        protocol::FRAGMENT => 8,
        protocol::AUTHENTICATION => (usize::from(length) + 2) * 4,
        _ => (usize::from(length) + 1) * 8,
    };
    if walk.l4 + size > datagram.len() {
        return Err(short);
    }
    if walk.proto == protocol::FRAGMENT {
        if walk.fragment != Fragment::Whole {
            return Err(Malformed::BadFragment);
        }
        let word = be16(datagram, walk.l4 + 2).ok_or(short)?;
        let id = be32(datagram, walk.l4 + 4).ok_or(short)?;
        walk.place = (usize::from(word & 0xfff8), word & 1 != 0);
        walk.fragment = fragment(walk.place, id);
        walk.data = walk.l4 + size;
    }
    if walk.proto == protocol::ROUTING && datagram.get(walk.l4 + 3).is_some_and(|left| *left > 0) {
        return Err(Malformed::SegmentsLeft);
    }
    walk.proto = next;
    walk.l4 += size;
    Ok(())
}

/// An IPv6 atomic fragment (RFC 6946) counts as whole.
const fn fragment(place: (usize, bool), id: u32) -> Fragment {
    match place {
        (0, false) => Fragment::Whole,
        (0, true) => Fragment::First(id),
        _ => Fragment::Later(id),
    }
}
