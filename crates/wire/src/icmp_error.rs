//! Tells a sender that its packet goes no further (RFC 1812 section 4.3.2,
//! RFC 4443 section 2.4).
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum;
use crate::ethernet;
use crate::headers::{Fragment, Headers, Net};
use crate::numbers::protocol;
use crate::parse;
use crate::{icmp, icmpv6, ipv4, ipv6};

/// The longest frame that [`error_into`] makes: Ethernet, a tag and IPv6's minimum MTU.
pub const MAX_ERROR_LEN: usize = 18 + MAX_V6;

/// The longest IPv4 error (RFC 1812 section 4.3.2.3).
const MAX_V4: usize = 576;
/// The longest IPv6 error (RFC 4443 section 2.4 c).
const MAX_V6: usize = 1280;
/// Time to live and hop limit of errors.
const TTL: u8 = 64;
/// Internetwork control, the precedence of IPv4 errors (RFC 1812 section 4.3.2.5).
const INTERNETWORK_CONTROL: u8 = 0xc0;

/// What an error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The TTL or hop limit was used up on the way.
    TimeExceeded,
    /// Nobody listens on the port.
    PortUnreachable,
    /// The packet is too long and may not be fragmented; the next hop's MTU in bytes.
    TooBig {
        /// The largest packet that would have gone through, in bytes.
        mtu: u16,
    },
}

impl ErrorKind {
    const fn v4(self) -> icmp::Repr {
        match self {
            Self::TimeExceeded => icmp::Repr::TimeExceeded { code: 0 },
            Self::PortUnreachable => icmp::Repr::Unreachable { code: 3, mtu: 0 },
            Self::TooBig { mtu } => {
                icmp::Repr::Unreachable { code: icmp::FRAGMENTATION_NEEDED, mtu }
            }
        }
    }

    const fn v6(self) -> icmpv6::Repr {
        match self {
            Self::TimeExceeded => icmpv6::Repr::TimeExceeded { code: 0 },
            Self::PortUnreachable => icmpv6::Repr::Unreachable { code: 4 },
            Self::TooBig { mtu } => icmpv6::Repr::PacketTooBig { mtu: mtu as u32 },
        }
    }
}

/// Writes the error `kind` about `frame`, sent by `from`, to the front of
/// `buf`, and gives its length. It goes back where the frame came from: to its
/// Ethernet source, with its tag. A buffer of [`MAX_ERROR_LEN`] always suffices.
///
/// `None`, and `buf` is as it was, if no error may be sent about the frame: an
/// ICMP error or redirect, a later fragment of IPv4, a multicast or broadcast
/// destination or source in either layer; and if `from` is of the other family
/// or `buf` too small.
#[must_use]
pub fn error_into(
    buf: &mut [u8],
    frame: &[u8],
    headers: &Headers,
    kind: ErrorKind,
    from: IpAddr,
) -> Option<usize> {
    let (dst, src) = ethernet::answer(frame)?;
    let l3 = usize::from(headers.l3);
    let packet = frame.get(l3..usize::from(headers.end))?;
    let headers = Headers { l3: 0, l4: headers.l4.checked_sub(headers.l3)?, ..*headers };
    let len = datagram_into(buf.get_mut(l3..)?, packet, &headers, kind, from)?;
    // The tag and the EtherType as they came.
    buf.get_mut(..l3)?.copy_from_slice(frame.get(..l3)?);
    ethernet::set_macs(buf, dst, src).then_some(l3 + len)
}

/// As [`error_into`], about an IP packet without a link header that may be cut off,
/// as errors quote them. The error is an IP packet without a link header, to the
/// sender of the other packet.
#[must_use]
pub fn error_about(buf: &mut [u8], packet: &[u8], kind: ErrorKind, from: IpAddr) -> Option<usize> {
    let headers = parse::quoted(packet).ok()?;
    datagram_into(buf, packet, &headers, kind, from)
}

/// The error's IP packet; `headers` count from the front of `packet`.
fn datagram_into(
    buf: &mut [u8],
    packet: &[u8],
    headers: &Headers,
    kind: ErrorKind,
    from: IpAddr,
) -> Option<usize> {
    // Only IPv6 senders are told of a later fragment (RFC 1122 section 3.2.2; RFC
    // 4443 section 2.4 e has no such rule), unless it may be one of an ICMPv6 error.
    let is_later = matches!(headers.fragment, Fragment::Later(_));
    if is_later && headers.net == Net::Ipv4 {
        return None;
    }
    let message = packet.get(usize::from(headers.l4)).copied().filter(|_| !is_later);
    match (headers.net, from, headers.src_addr(packet)?, headers.dst_addr(packet)?) {
        (Net::Ipv4, IpAddr::V4(from), IpAddr::V4(to), IpAddr::V4(about)) => {
            let is_error = headers.proto == protocol::ICMP && message.is_none_or(icmp::is_error);
            if is_error || !may_be_told_v4(to) || about.is_multicast() || about.is_broadcast() {
                return None;
            }
            write_v4(buf, packet, kind.v4(), from, to)
        }
        (Net::Ipv6, IpAddr::V6(from), IpAddr::V6(to), IpAddr::V6(about)) => {
            let is_error =
                headers.proto == protocol::ICMPV6 && message.is_none_or(icmpv6::is_error);
            if is_error || !may_be_told_v6(to) || about.is_multicast() {
                return None;
            }
            write_v6(buf, packet, kind.v6(), from, to)
        }
        _ => None,
    }
}

/// Whether errors may go to this source (RFC 1812 section 4.3.2.7).
pub(crate) const fn may_be_told_v4(source: Ipv4Addr) -> bool {
    let [first, ..] = source.octets();
    // 0/8, 127/8 and everything from multicast upwards.
    first != 0 && first != 127 && first < 224
}

/// Whether errors may go to this source (RFC 4443 section 2.4 e).
pub(crate) const fn may_be_told_v6(source: Ipv6Addr) -> bool {
    !source.is_unspecified() && !source.is_multicast() && !source.is_loopback()
}

fn write_v4(
    buf: &mut [u8],
    packet: &[u8],
    message: icmp::Repr,
    src: Ipv4Addr,
    dst: Ipv4Addr,
) -> Option<usize> {
    const FRONT: usize = ipv4::LEN + icmp::LEN;
    let quote = packet.get(..packet.len().min(MAX_V4 - FRONT))?;
    let ip = ipv4::Repr {
        src,
        dst,
        protocol: protocol::ICMP,
        ttl: TTL,
        traffic_class: INTERNETWORK_CONTROL,
        payload_len: u16::try_from(icmp::LEN + quote.len()).ok()?,
    };
    let (front, rest) = buf.split_at_mut_checked(FRONT)?;
    rest.get_mut(..quote.len())?.copy_from_slice(quote);
    let (header, icmp) = front.split_first_chunk_mut()?;
    *header = ip.emit();
    *icmp.first_chunk_mut()? = message.emit(quote);
    Some(FRONT + quote.len())
}

fn write_v6(
    buf: &mut [u8],
    packet: &[u8],
    message: icmpv6::Repr,
    src: Ipv6Addr,
    dst: Ipv6Addr,
) -> Option<usize> {
    const FRONT: usize = ipv6::LEN + icmpv6::LEN;
    let quote = packet.get(..packet.len().min(MAX_V6 - FRONT))?;
    let payload_len = u16::try_from(icmpv6::LEN + quote.len()).ok()?;
    let ip = ipv6::Repr {
        src,
        dst,
        next_header: protocol::ICMPV6,
        hop_limit: TTL,
        traffic_class: 0,
        flow_label: 0,
        payload_len,
    };
    let (front, rest) = buf.split_at_mut_checked(FRONT)?;
    rest.get_mut(..quote.len())?.copy_from_slice(quote);
    let (header, icmp) = front.split_first_chunk_mut()?;
    *header = ip.emit();
    let pseudo = checksum::pseudo_v6(src, dst, protocol::ICMPV6, u32::from(payload_len));
    *icmp.first_chunk_mut()? = message.emit(pseudo, quote);
    Some(FRONT + quote.len())
}
