//! RSTs made of the segments that they answer or stand for (RFC 9293).
use crate::checksum;
use crate::ethernet;
use crate::headers::{Fragment, Headers, Net, TcpFlags};
use crate::numbers::protocol;
use crate::{ipv4, ipv6, tcp};

/// The time to live and hop limit of answers.
const TTL: u8 = 64;

/// Turns a whole TCP segment into the RST that answers it (RFC 9293 section
/// 3.10.7.1): addresses of all layers and ports change places; the sequence number is
/// what the segment acknowledges, and without ACK the RST acknowledges the segment.
/// Returns the frame's new length; bytes behind it have no meaning.
///
/// Returns `None` and changes nothing if the packet is no whole TCP segment, is a
/// RST, has a data offset beyond the packet, or an Ethernet address is a group's.
#[must_use]
pub fn answer_in_place(frame: &mut [u8], headers: &Headers) -> Option<usize> {
    let (dst, src) = ethernet::answer(frame)?;
    let old = segment(frame, headers)?;
    let acknowledges = old.flags.any(TcpFlags::ACK);
    let reset = tcp::Repr {
        sport: old.dport,
        dport: old.sport,
        sequence: if acknowledges { old.acknowledgement } else { 0 },
        acknowledgement: if acknowledges { 0 } else { end_of(frame, headers, &old)? },
        flags: TcpFlags(TcpFlags::RST | if acknowledges { 0 } else { TcpFlags::ACK }),
        window: 0,
    };
    let length = write(frame, headers, &reset, true)?;
    ethernet::set_macs(frame, dst, src).then_some(length)
}

/// Turns a whole TCP segment into a RST from its sender, which its receiver believes
/// if the segment is the next that it expects (RFC 9293 section 3.10.7.4, RFC 5961
/// section 3.2). Returns the frame's new length; bytes behind it have no meaning.
///
/// Returns `None` and changes nothing, as for [`answer_in_place`].
#[must_use]
pub fn replace_in_place(frame: &mut [u8], headers: &Headers) -> Option<usize> {
    let old = segment(frame, headers)?;
    // An initial sequence number is not expected a second time.
    let sequence = old.sequence.wrapping_add(u32::from(old.flags.any(TcpFlags::SYN)));
    let flags = TcpFlags(TcpFlags::RST | old.flags.0 & TcpFlags::ACK);
    write(frame, headers, &tcp::Repr { sequence, flags, window: 0, ..old }, false)
}

/// The segment's header, if it may be answered.
fn segment(frame: &[u8], headers: &Headers) -> Option<tcp::Repr> {
    if headers.proto != protocol::TCP || headers.fragment != Fragment::Whole {
        return None;
    }
    let bytes = frame.get(headers.l4.into()..headers.end.into())?;
    let segment = tcp::Segment::parse(bytes).ok()?;
    let repr = tcp::Repr::parse(&segment.header);
    (!repr.flags.any(TcpFlags::RST)).then_some(repr)
}

/// The sequence number behind the segment: SYN and FIN take one each.
fn end_of(frame: &[u8], headers: &Headers, segment: &tcp::Repr) -> Option<u32> {
    let bytes = frame.get(headers.l4.into()..headers.end.into())?;
    let data = u32::try_from(tcp::Segment::parse(bytes).ok()?.data.len()).ok()?;
    let controls = [TcpFlags::SYN, TcpFlags::FIN].map(|bit| u32::from(segment.flags.any(bit)));
    let [syn, fin] = controls;
    Some(segment.sequence.wrapping_add(data).wrapping_add(syn + fin))
}

/// Writes `reset` over the packet, without options and extension headers, towards the
/// packet's source if it `answers`; returns the frame's new length.
fn write(frame: &mut [u8], headers: &Headers, reset: &tcp::Repr, answers: bool) -> Option<usize> {
    const LEN: u16 = tcp::LEN as u16;
    let l3 = usize::from(headers.l3);
    let packet = frame.get_mut(l3..headers.end.into())?;
    let ttl = if answers { TTL } else { headers.ttl };
    match headers.net {
        Net::Ipv4 => {
            let (header, rest) = packet.split_first_chunk_mut()?;
            let old = ipv4::Header::new(&*header);
            let (src, dst) = turned(old.src(), old.dst(), answers);
            let traffic_class = old.traffic_class();
            let protocol = protocol::TCP;
            let new = ipv4::Repr { src, dst, protocol, ttl, traffic_class, payload_len: LEN };
            let pseudo = checksum::pseudo_v4(src, dst, protocol, LEN);
            *rest.first_chunk_mut()? = reset.emit(pseudo, &[]);
            *header = new.emit();
            Some(l3 + ipv4::LEN + tcp::LEN)
        }
        Net::Ipv6 => {
            let (header, rest) = packet.split_first_chunk_mut()?;
            let old = ipv6::Repr::parse(&ipv6::Header::new(&*header));
            let (src, dst) = turned(old.src, old.dst, answers);
            let (next_header, hop_limit, payload_len) = (protocol::TCP, ttl, LEN);
            let new = ipv6::Repr { src, dst, next_header, hop_limit, payload_len, ..old };
            let pseudo = checksum::pseudo_v6(src, dst, protocol::TCP, LEN.into());
            *rest.first_chunk_mut()? = reset.emit(pseudo, &[]);
            *header = new.emit();
            Some(l3 + ipv6::LEN + tcp::LEN)
        }
        Net::Arp | Net::Other(_) => None,
    }
}

fn turned<A>(src: A, dst: A, answers: bool) -> (A, A) {
    if answers { (dst, src) } else { (src, dst) }
}
