//! Answers echo requests of both families.
use std::net::{IpAddr, Ipv4Addr};

use crate::checksum;
use crate::ethernet;
use crate::headers::{Fragment, Headers, Net};
use crate::ipv4::{Options, option};
use crate::numbers::protocol;
use crate::{icmp, icmpv6, ipv4, ipv6};

/// The time to live and hop limit of answers.
const TTL: u8 = 64;

/// Turns an echo request into its answer: addresses of both layers change
/// places, id, sequence and data stay, checksums are made anew. Routes and times
/// that IPv4 options record are continued with the answering address and
/// `clock_ms`, other options become no operation (RFC 1122 section 3.2.2.6, RFC 791
/// section 3.1). The caller has seen that the destination is its own.
///
/// Returns `false` and changes nothing unless the frame is a whole echo request
/// without IPv6 extension headers, from unicast to unicast addresses in both layers,
/// with right checksums (RFC 1122 section 3.2.2.6, RFC 4443 section 4.2).
#[must_use]
pub fn echo_reply_in_place(frame: &mut [u8], headers: &Headers, clock_ms: u64) -> bool {
    let Some((dst, src)) = ethernet::answer(frame) else { return false };
    if headers.fragment != Fragment::Whole {
        return false;
    }
    let length = usize::from(headers.l4.saturating_sub(headers.l3));
    let datagram = frame.get_mut(usize::from(headers.l3)..usize::from(headers.end));
    let answered = match (datagram, headers.net, headers.proto) {
        (Some(datagram), Net::Ipv4, protocol::ICMP) => answer_v4(datagram, length, clock_ms),
        (Some(datagram), Net::Ipv6, protocol::ICMPV6) if length == ipv6::LEN => answer_v6(datagram),
        _ => None,
    };
    answered.is_some() && ethernet::set_macs(frame, dst, src)
}

/// Turns the message of an echo request from `src` to `dst` into that of its answer.
/// Returns `false` and changes nothing unless it is an echo request with a right
/// checksum between unicast addresses.
#[must_use]
pub fn answer_message(message: &mut [u8], src: IpAddr, dst: IpAddr) -> bool {
    answer(message, src, dst).is_some()
}

fn answer(message: &mut [u8], src: IpAddr, dst: IpAddr) -> Option<()> {
    let (pseudo, may_be_told) = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            (0, crate::icmp_error::may_be_told_v4(src) && is_unicast_v4(dst))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let len = u32::try_from(message.len()).ok()?;
            // The pseudo-header's sum is the same in both directions.
            let pseudo = checksum::pseudo_v6(src, dst, protocol::ICMPV6, len);
            (pseudo, crate::icmp_error::may_be_told_v6(src) && !dst.is_multicast())
        }
        _ => return None,
    };
    if !may_be_told || checksum::fold(checksum::sum(message, pseudo)) != u16::MAX {
        return None;
    }
    let (echo, data) = message.split_first_chunk_mut::<{ icmp::LEN }>()?;
    *echo = if src.is_ipv4() {
        match icmp::Repr::parse(&icmp::Header::new(&*echo)) {
            icmp::Repr::EchoRequest { id, sequence } => {
                icmp::Repr::EchoReply { id, sequence }.emit(data)
            }
            _ => return None,
        }
    } else {
        match icmpv6::Repr::parse(&icmpv6::Header::new(&*echo)) {
            icmpv6::Repr::EchoRequest { id, sequence } => {
                icmpv6::Repr::EchoReply { id, sequence }.emit(pseudo, data)
            }
            _ => return None,
        }
    };
    Some(())
}

fn answer_v4(datagram: &mut [u8], length: usize, clock_ms: u64) -> Option<()> {
    let (header, message) = datagram.split_at_mut_checked(length)?;
    if checksum::fold(checksum::sum(header, 0)) != u16::MAX {
        return None;
    }
    let (ip, options) = header.split_first_chunk_mut::<{ ipv4::LEN }>()?;
    let old = ipv4::Header::new(&*ip);
    let (src, dst, traffic_class) = (old.src(), old.dst(), old.traffic_class());
    let payload_len = u16::try_from(options.len() + message.len()).ok()?;
    answer(message, src.into(), dst.into())?;
    continue_options(options, dst, clock_ms);
    let protocol = protocol::ICMP;
    let new = ipv4::Repr { src: dst, dst: src, protocol, ttl: TTL, traffic_class, payload_len };
    let mut new = ipv4::Header::new(new.emit());
    if !options.is_empty() {
        new.set_version_and_length(0x40 | (length / 4) as u8);
        new.set_checksum(0);
        new.set_checksum(checksum::of(options, checksum::sum(new.as_bytes(), 0)));
    }
    *ip = *new.as_bytes();
    Some(())
}

fn answer_v6(datagram: &mut [u8]) -> Option<()> {
    let (ip, message) = datagram.split_first_chunk_mut::<{ ipv6::LEN }>()?;
    let old = ipv6::Repr::parse(&ipv6::Header::new(&*ip));
    answer(message, old.src.into(), old.dst.into())?;
    *ip = ipv6::Repr { src: old.dst, dst: old.src, hop_limit: TTL, ..old }.emit();
    Some(())
}

/// Continues recorded routes and times with `own` and the time; all other options
/// of more than one byte become no operation.
fn continue_options(options: &mut [u8], own: Ipv4Addr, clock_ms: u64) {
    let mut at = 0;
    while let Some(Ok((place, found))) =
        options.get(at..).and_then(|rest| Options::new(rest).next())
    {
        let (from, to) = (at + place, at + place + found.len());
        let Some(found) = options.get_mut(from..to) else { return };
        match found.first() {
            Some(&option::RECORD_ROUTE) => record_route(found, own),
            Some(&option::TIMESTAMP) => record_time(found, own, clock_ms),
            _ => found.fill(option::NO_OPERATION),
        }
        at = to;
    }
}

/// Adds `own` to a recorded route that has room. The third byte counts from 1 where
/// the next address goes.
fn record_route(found: &mut [u8], own: Ipv4Addr) {
    let Some(next) = found.get(2).copied().filter(|next| *next >= 4) else { return };
    if put(found, next, &own.octets()) {
        found[2] = next + 4;
    }
}

/// Adds the time, with `own` or behind it if the flags say so, to a timestamp
/// option; without room, counts that up to 15.
fn record_time(found: &mut [u8], own: Ipv4Addr, clock_ms: u64) {
    const ALONE: u8 = 0;
    const WITH_ADDRESS: u8 = 1;
    const PRESPECIFIED: u8 = 3;
    // Not the time of day, which the highest bit says.
    let time = (clock_ms as u32 | 1 << 31).to_be_bytes();
    let [a, b, c, d] = own.octets();
    let [e, f, g, h] = time;
    let both = [a, b, c, d, e, f, g, h];
    let Some(&[_, _, next, flags]) = found.first_chunk() else { return };
    let (written, size) = match flags & 15 {
        _ if next < 5 => return,
        ALONE => (put(found, next, &time), 4),
        WITH_ADDRESS => (put(found, next, &both), 8),
        PRESPECIFIED => {
            let asked = found.get(usize::from(next) - 1..).and_then(|rest| rest.first_chunk());
            if asked != Some(&own.octets()) {
                return;
            }
            (put(found, next, &both), 8)
        }
        _ => return,
    };
    if written {
        found[2] = next + size;
    } else if flags >> 4 < 15 {
        found[3] = flags + 16;
    }
}

/// Writes `bytes` where `next`, counted from 1, points; `false`: no room.
fn put(found: &mut [u8], next: u8, bytes: &[u8]) -> bool {
    let room = found.get_mut(usize::from(next) - 1..).and_then(|rest| rest.get_mut(..bytes.len()));
    room.map(|room| room.copy_from_slice(bytes)).is_some()
}

/// An address that one host can have.
const fn is_unicast_v4(address: Ipv4Addr) -> bool {
    !address.is_multicast() && !address.is_broadcast() && !address.is_unspecified()
}
