//! TCP segments as the agent reads, makes and changes them.
use std::net::SocketAddr;

use flow::Account;
use packet::PacketBuf;
use wire::{Headers, Net, TcpFlags, checksum, ipv4, ipv6, tcp};

use crate::options::{Change, Stamps};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Hops that a made packet may take.
const TTL: u8 = 64;
/// IPv4's protocol and IPv6's next header of TCP.
const TCP: u8 = 6;

/// A segment but for its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    pub(crate) src: SocketAddr,
    pub(crate) dst: SocketAddr,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    /// How many of its bytes, and of those behind it, come up to the end of urgent data; 0:
    /// there is none.
    pub(crate) urgent: u16,
    /// For whom it counts once it is sent.
    pub(crate) account: Option<Account>,
}

impl Outline {
    /// A RST that acknowledges nothing.
    pub(crate) const fn reset(src: SocketAddr, dst: SocketAddr, sequence: u32) -> Self {
        let (flags, account) = (RST, None);
        Self { src, dst, sequence, acknowledgement: 0, flags, window: 0, urgent: 0, account }
    }

    /// The same, for the counts of `account`.
    pub(crate) const fn of(self, account: Account) -> Self {
        Self { account: Some(account), ..self }
    }

    /// That of the segment behind `length` bytes of data.
    pub(crate) const fn behind(self, length: usize) -> Self {
        let urgent = (self.urgent as usize).saturating_sub(length) as u16;
        Self { sequence: self.sequence.wrapping_add(length as u32), urgent, ..self }
    }
}

/// What a received segment says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) outline: Outline,
    /// Where options and data are in the frame.
    pub(crate) options: usize,
    pub(crate) data: usize,
    pub(crate) end: usize,
    pub(crate) l3: usize,
    pub(crate) l4: usize,
}

impl Received {
    /// `None`: it is no whole TCP segment.
    pub(crate) fn parse(frame: &[u8], headers: &Headers) -> Option<Self> {
        let (l3, l4, end) = (headers.l3.into(), headers.l4.into(), usize::from(headers.end));
        let (sport, dport) = headers.ports(frame)?;
        let segment = tcp::Segment::parse(frame.get(l4..end)?).ok()?;
        let repr = tcp::Repr::parse(&segment.header);
        let outline = Outline {
            src: SocketAddr::new(headers.src_addr(frame)?, sport),
            dst: SocketAddr::new(headers.dst_addr(frame)?, dport),
            sequence: repr.sequence,
            acknowledgement: repr.acknowledgement,
            flags: repr.flags.0,
            window: repr.window,
            urgent: if repr.flags.0 & URG == 0 { 0 } else { segment.header.urgent() },
            account: None,
        };
        let options = l4 + tcp::LEN;
        Some(Self { outline, options, data: options + segment.options.len(), end, l3, l4 })
    }

    /// The number behind its urgent data, if it has any (RFC 6093 section 2).
    pub(crate) fn urgent_end(&self) -> Option<u32> {
        let Outline { sequence, urgent, .. } = self.outline;
        (urgent > 0).then(|| sequence.wrapping_add(urgent.into()))
    }

    pub(crate) const fn has(&self, flags: u8) -> bool {
        self.outline.flags & flags != 0
    }

    pub(crate) fn options<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.options..self.data).unwrap_or_default()
    }

    pub(crate) fn stamps(&self, frame: &[u8]) -> Option<Stamps> {
        Stamps::parse(self.options(frame))
    }

    pub(crate) fn data<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.data..self.end).unwrap_or_default()
    }

    /// Gives a received frame other endpoints and numbers. The checksum follows by
    /// difference (RFC 1624), so a segment that came damaged leaves damaged.
    pub(crate) fn rewrite(
        &self,
        frame: &mut [u8],
        new: &Outline,
        change: &Change<'_>,
    ) -> Option<()> {
        let (l3, l4) = (self.l3, self.l4);
        let is_v4 = new.src.is_ipv4();
        let addresses = if is_v4 { l3 + 12..l3 + 20 } else { l3 + 8..l3 + 40 };
        let mut before = [0; 92];
        let mut after = [0; 92];
        let length = gather(frame, addresses.clone(), l4..self.data, &mut before)?;
        let old_ip = frame.get(addresses.clone()).map(|bytes| bytes.len())?;
        write_addresses(frame.get_mut(addresses.clone())?, new);
        let header: &mut [u8; tcp::LEN] = frame.get_mut(l4..)?.first_chunk_mut()?;
        let mut view = tcp::Header::new(header);
        view.set_sport(new.src.port());
        view.set_dport(new.dst.port());
        view.set_sequence(new.sequence);
        view.set_acknowledgement(new.acknowledgement);
        view.set_control(new.flags);
        view.set_window(new.window);
        change.apply(frame.get_mut(self.options..self.data)?);
        gather(frame, addresses, l4..self.data, &mut after)?;
        let delta = checksum::delta(before.get(..length)?, after.get(..length)?);
        update(frame, l4 + 16, delta)?;
        if is_v4 {
            let ip = checksum::delta(before.get(..old_ip)?, after.get(..old_ip)?);
            update(frame, l3 + 10, ip)?;
        }
        Some(())
    }
}

fn update(frame: &mut [u8], at: usize, delta: u16) -> Option<()> {
    let field: &mut [u8; 2] = frame.get_mut(at..)?.first_chunk_mut()?;
    *field = checksum::update(u16::from_be_bytes(*field), delta).to_be_bytes();
    Some(())
}

/// Marks the packet as one of a transport that does not know ECN, so that routers drop
/// where they would mark. `false`: a router has marked it already, and its receiver
/// would not see that: the packet counts as lost (RFC 6040 section 4.2).
pub(crate) fn clear_ecn(frame: &mut [u8], l3: usize, is_v4: bool) -> bool {
    // Byte 0 and 1 of both families have the traffic class; IPv6 has it 4 bits higher.
    let Some(word) = frame.get_mut(l3..).and_then(|rest| rest.first_chunk_mut::<2>()) else {
        return false;
    };
    let old = *word;
    let mask: u16 = if is_v4 { 0x0003 } else { 0x0030 };
    let bits = u16::from_be_bytes(old);
    *word = (bits & !mask).to_be_bytes();
    let new = *word;
    if is_v4 && old != new {
        let delta = checksum::delta(&old, &new);
        if update(frame, l3 + 10, delta).is_none() {
            return false;
        }
    }
    bits & mask != mask
}

/// Addresses and TCP header without the checksum, one behind the other.
fn gather(
    frame: &[u8],
    addresses: std::ops::Range<usize>,
    header: std::ops::Range<usize>,
    into: &mut [u8; 92],
) -> Option<usize> {
    let (addresses, header) = (frame.get(addresses)?, frame.get(header)?);
    let length = addresses.len() + header.len();
    into.get_mut(..addresses.len())?.copy_from_slice(addresses);
    let copy = into.get_mut(addresses.len()..length)?;
    copy.copy_from_slice(header);
    copy.get_mut(16..18)?.fill(0);
    Some(length)
}

fn write_addresses(bytes: &mut [u8], new: &Outline) {
    let (half, mut both) = (bytes.len() / 2, [0; 32]);
    match (new.src, new.dst) {
        (SocketAddr::V4(src), SocketAddr::V4(dst)) => {
            for (to, from) in
                both.iter_mut().zip(src.ip().octets().into_iter().chain(dst.ip().octets()))
            {
                *to = from;
            }
        }
        (SocketAddr::V6(src), SocketAddr::V6(dst)) => {
            for (to, from) in
                both.iter_mut().zip(src.ip().octets().into_iter().chain(dst.ip().octets()))
            {
                *to = from;
            }
        }
        _ => return,
    }
    for (to, from) in bytes.iter_mut().zip(both).take(half * 2) {
        *to = from;
    }
}

/// The length of the frame of a segment.
pub(crate) fn frame_length(outline: &Outline, options: usize, data: usize) -> usize {
    let ip = if outline.src.is_ipv4() { ipv4::LEN } else { ipv6::LEN };
    ETHERNET + ip + tcp::LEN + options + data
}

/// Writes the segment into `packet`, which has [`frame_length`] bytes. The Ethernet
/// addresses are left to the sender. `None`: the packet has another length, the
/// families differ, or the segment is too long for an IP packet.
pub(crate) fn emit<B: PacketBuf>(
    packet: &mut B,
    outline: &Outline,
    options: &[u8],
    data: &[u8],
) -> Option<()> {
    let frame = packet.bytes_mut();
    if frame.len() != frame_length(outline, options.len(), data.len()) {
        return None;
    }
    let (ethernet, rest) = frame.split_at_mut_checked(ETHERNET)?;
    ethernet.fill(0);
    let is_v4 = outline.src.is_ipv4();
    let kind: u16 = if is_v4 { 0x0800 } else { 0x86dd };
    ethernet.get_mut(12..)?.copy_from_slice(&kind.to_be_bytes());
    let length = u16::try_from(tcp::LEN + options.len() + data.len()).ok()?;
    let (pseudo, rest) = match (outline.src, outline.dst) {
        (SocketAddr::V4(src), SocketAddr::V4(dst)) => {
            let (header, rest) = rest.split_first_chunk_mut()?;
            let (src, dst) = (*src.ip(), *dst.ip());
            let repr = ipv4::Repr {
                src,
                dst,
                protocol: TCP,
                ttl: TTL,
                traffic_class: 0,
                payload_len: length,
            };
            *header = repr.emit();
            (checksum::pseudo_v4(src, dst, TCP, length), rest)
        }
        (SocketAddr::V6(src), SocketAddr::V6(dst)) => {
            let (header, rest) = rest.split_first_chunk_mut()?;
            let (src, dst) = (*src.ip(), *dst.ip());
            *header = v6_header(src, dst, length);
            (checksum::pseudo_v6(src, dst, TCP, length.into()), rest)
        }
        _ => return None,
    };
    let (header, rest) = rest.split_first_chunk_mut::<{ tcp::LEN }>()?;
    let (to_options, to_data) = rest.split_at_mut_checked(options.len())?;
    to_options.copy_from_slice(options);
    to_data.copy_from_slice(data);
    let mut view = tcp::Header::new([0; tcp::LEN]);
    view.set_sport(outline.src.port());
    view.set_dport(outline.dst.port());
    view.set_sequence(outline.sequence);
    view.set_acknowledgement(outline.acknowledgement);
    view.set_data_offset(((tcp::LEN + options.len()) as u8 / 4) << 4);
    let urgent = if outline.urgent == 0 { 0 } else { URG };
    view.set_control(outline.flags & !URG | urgent);
    view.set_window(outline.window);
    view.set_urgent(outline.urgent);
    let sum = checksum::sum(view.as_bytes(), pseudo);
    view.set_checksum(checksum::of(data, checksum::sum(options, sum)));
    *header = *view.as_bytes();
    Some(())
}

fn v6_header(src: std::net::Ipv6Addr, dst: std::net::Ipv6Addr, length: u16) -> [u8; ipv6::LEN] {
    let mut bytes = [0; ipv6::LEN];
    let [a, b] = length.to_be_bytes();
    let front = [0x60, 0, 0, 0, a, b, TCP, TTL];
    let all = front.into_iter().chain(src.octets()).chain(dst.octets());
    for (to, from) in bytes.iter_mut().zip(all) {
        *to = from;
    }
    bytes
}

/// Whether the frame's IP header says nothing that the agent would lose.
pub(crate) fn is_plain(headers: &Headers) -> bool {
    headers.fragment == wire::Fragment::Whole && matches!(headers.net, Net::Ipv4 | Net::Ipv6)
}

pub(crate) const FIN: u8 = TcpFlags::FIN;
pub(crate) const SYN: u8 = TcpFlags::SYN;
pub(crate) const RST: u8 = TcpFlags::RST;
pub(crate) const PSH: u8 = 0x08;
pub(crate) const ACK: u8 = TcpFlags::ACK;
pub(crate) const URG: u8 = 0x20;
pub(crate) const ECE: u8 = 0x40;
pub(crate) const CWR: u8 = 0x80;
/// The flags of explicit congestion notification.
pub(crate) const ECN: u8 = ECE | CWR;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_packet_is_lost_and_another_loses_its_ecn() {
        for (is_v4, class) in [(true, [0x45, 0xb8]), (false, [0x6b, 0x80])] {
            let shift = if is_v4 { 0 } else { 4 };
            let plain = [class.as_slice(), &[0; 38]].concat();
            for bits in 0..4_u8 {
                let mut frame = plain.clone();
                frame[1] |= bits << shift;
                if is_v4 {
                    let sum = checksum::of(&frame[..20], 0);
                    frame[10..12].copy_from_slice(&sum.to_be_bytes());
                }
                assert_eq!(clear_ecn(&mut frame, 0, is_v4), bits != 3);
                assert_eq!(frame[..2], class);
                assert!(!is_v4 || checksum::of(&frame[..20], 0) == 0);
            }
        }
    }
}
