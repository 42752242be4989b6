//! Answers echo requests of both families.
use crate::checksum;
use crate::ethernet;
use crate::headers::{Fragment, Headers, Net};
use crate::numbers::protocol;
use crate::{icmp, icmpv6, ipv4, ipv6};

/// The time to live and hop limit of answers.
const TTL: u8 = 64;

/// Turns an echo request into its answer: addresses of both layers change
/// places, id, sequence and data stay, checksums are made anew. The caller has
/// seen that the destination is its own.
///
/// `false`, and nothing happens, unless the frame is a whole echo request
/// without IP options or extension headers, from unicast to unicast addresses
/// in both layers, with right checksums (RFC 1122 section 3.2.2.6, RFC 4443
/// section 4.2).
#[must_use]
pub fn echo_reply_in_place(frame: &mut [u8], headers: &Headers) -> bool {
    let Some((dst, src)) = ethernet::answer(frame) else { return false };
    if headers.fragment != Fragment::Whole {
        return false;
    }
    let datagram = frame.get_mut(usize::from(headers.l3)..usize::from(headers.end));
    let answered = match (datagram, headers.net, headers.proto) {
        (Some(datagram), Net::Ipv4, protocol::ICMP) => answer_v4(datagram),
        (Some(datagram), Net::Ipv6, protocol::ICMPV6) => answer_v6(datagram),
        _ => None,
    };
    answered.is_some() && ethernet::set_macs(frame, dst, src)
}

fn answer_v4(datagram: &mut [u8]) -> Option<()> {
    let (ip, message) = datagram.split_first_chunk_mut::<{ ipv4::LEN }>()?;
    if ip[0] != 0x45
        || checksum::fold(checksum::sum(ip, 0)) != 0xffff
        || checksum::fold(checksum::sum(message, 0)) != 0xffff
    {
        return None;
    }
    let header = ipv4::Header::new(&mut *ip);
    let repr = ipv4::Repr {
        src: header.dst(),
        dst: header.src(),
        protocol: protocol::ICMP,
        ttl: TTL,
        traffic_class: header.traffic_class(),
        payload_len: u16::try_from(message.len()).ok()?,
    };
    if !crate::icmp_error::may_be_told_v4(repr.dst) || !is_unicast_v4(repr.src) {
        return None;
    }
    let (echo, data) = message.split_first_chunk_mut::<{ icmp::LEN }>()?;
    let icmp::Repr::EchoRequest { id, sequence } = icmp::Repr::parse(&icmp::Header::new(&*echo))
    else {
        return None;
    };
    *ip = repr.emit();
    *echo = icmp::Repr::EchoReply { id, sequence }.emit(data);
    Some(())
}

fn answer_v6(datagram: &mut [u8]) -> Option<()> {
    let (ip, message) = datagram.split_first_chunk_mut::<{ ipv6::LEN }>()?;
    let old = ipv6::Repr::parse(&ipv6::Header::new(&*ip));
    let new = ipv6::Repr { src: old.dst, dst: old.src, hop_limit: TTL, ..old };
    let len = u32::try_from(message.len()).ok()?;
    // The pseudo-header's sum is the same in both directions.
    let pseudo = checksum::pseudo_v6(old.src, old.dst, protocol::ICMPV6, len);
    if old.next_header != protocol::ICMPV6
        || checksum::fold(checksum::sum(message, pseudo)) != 0xffff
        || old.dst.is_multicast()
        || !crate::icmp_error::may_be_told_v6(old.src)
    {
        return None;
    }
    let (echo, data) = message.split_first_chunk_mut::<{ icmpv6::LEN }>()?;
    let header = icmpv6::Header::new(&*echo);
    let icmpv6::Repr::EchoRequest { id, sequence } = icmpv6::Repr::parse(&header) else {
        return None;
    };
    *ip = new.emit();
    *echo = icmpv6::Repr::EchoReply { id, sequence }.emit(pseudo, data);
    Some(())
}

/// An address that one host can have.
const fn is_unicast_v4(address: std::net::Ipv4Addr) -> bool {
    !address.is_multicast() && !address.is_broadcast() && !address.is_unspecified()
}
