//! What a frame is and where its parts are.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow::Transport;

use crate::bytes::{array, be16};

use crate::flow_key::{FlowKey, FlowV4, FlowV6};
use crate::malformed::Malformed;
use crate::numbers::{ethertype, protocol};
use crate::parse;

/// How many IPv6 extension headers are walked; a longer chain is
/// [`Malformed::TooManyExtensionHeaders`].
pub const MAX_EXTENSION_HEADERS: usize = 8;

/// The network protocol of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    /// RFC 791.
    Ipv4,
    /// RFC 8200.
    Ipv6,
    /// RFC 826.
    Arp,
    /// Anything else; the EtherType.
    Other(u16),
}

/// Whether an IP packet is a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// A whole datagram.
    Whole,
    /// The first fragment, with the transport header; the datagram's id.
    First(u32),
    /// A later fragment, without a transport header; the datagram's id.
    Later(u32),
}

/// TCP control bits (RFC 9293 section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// The acknowledgement field counts.
    pub const ACK: u8 = 0x10;

    /// Whether any of `bits` is set.
    #[must_use]
    pub const fn any(self, bits: u8) -> bool {
        self.0 & bits != 0
    }

    /// Whether of SYN, ACK, FIN and RST it is SYN alone: a connection begins.
    #[must_use]
    pub const fn opens(self) -> bool {
        self.0 & (Self::SYN | Self::ACK | Self::FIN | Self::RST) == Self::SYN
    }
}

/// Where the parts of a frame are. Made by [`Headers::parse`], which has
/// checked that every byte that forwarding and rewriting touch exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The network protocol.
    pub net: Net,
    /// Offset of the network header: 14, or 18 with an 802.1Q tag.
    pub l3: u16,
    /// Offset of the transport header. In a later fragment, of its data.
    pub l4: u16,
    /// Offset of the first byte after the datagram: Ethernet padding lies behind it.
    pub end: u16,
    /// The 802.1Q VLAN id, if the frame is tagged; 0 in a priority tag.
    pub vlan: Option<u16>,
    /// The transport protocol's number, behind all IPv6 extension headers. In
    /// a later IPv6 fragment, what the fragment header says comes next.
    pub proto: u8,
    /// Time to live or hop limit; 0 if the frame isn't IP.
    pub ttl: u8,
    /// Control bits; empty unless a TCP header is there.
    pub tcp_flags: TcpFlags,
    /// The TCP sequence number; 0 unless a TCP header is there.
    pub sequence: u32,
    /// The TCP acknowledgement number; 0 unless a TCP header is there.
    pub acknowledgement: u32,
    /// Whether the packet is a fragment.
    pub fragment: Fragment,
}

/// Sequence and acknowledgement number of a TCP header.
#[inline(always)]
pub(crate) const fn numbers(tcp: &[u8; 20]) -> [u32; 2] {
    let [_, _, _, _, a, b, c, d, e, f, g, h, ..] = *tcp;
    [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
}

impl Headers {
    /// Parses `frame`, from the first byte of the Ethernet header.
    ///
    /// The headers then hold for the frame: `end` is at most the frame's length; `l3`
    /// to `l4` hold the network header with its options or extension headers; `l4` to
    /// `end` hold at least 20 bytes for TCP, 8 for UDP, ICMP and ICMPv6, unless the
    /// packet is a later fragment. The TCP data offset, the UDP length and the IPv4
    /// header checksum are left to [`Self::check`].
    ///
    /// # Errors
    /// [`Malformed`] says what makes the frame unfit for forwarding.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Self, Malformed> {
        match Self::common(frame) {
            Some(headers) => Ok(headers),
            None => parse::general(frame),
        }
    }

    /// Parses an IP packet without a link header that may be cut off behind its
    /// IP header, as ICMP errors quote them. Offsets count from the IP header;
    /// `end` is where the bytes end.
    ///
    /// # Errors
    /// [`Malformed`] says what is wrong with the IP header.
    pub fn quoted(packet: &[u8]) -> Result<Self, Malformed> {
        parse::quoted(packet)
    }

    /// The layouts that nearly every packet has: at most one tag, IPv4 without
    /// options and not fragmented or IPv6 without extension headers, TCP or
    /// UDP. `None` for all others, also if they are well-formed.
    ///
    /// Inlined for certain, so that the result stays in registers. In memory it would
    /// be written field by field and read at once as a whole, and the processor would
    /// wait until all writes are done.
    #[inline(always)]
    #[must_use]
    pub fn common(frame: &[u8]) -> Option<Self> {
        let outer = frame.first_chunk::<34>()?;
        if frame.len() > usize::from(u16::MAX) {
            return None;
        }
        let first = u16::from_be_bytes([outer[12], outer[13]]);
        let (kind, l3, vlan) = if first == ethertype::VLAN {
            let tag = u16::from_be_bytes([outer[14], outer[15]]);
            (u16::from_be_bytes([outer[16], outer[17]]), 18, Some(tag & 0x0fff))
        } else {
            (first, 14, None)
        };
        let packet = frame.get(l3..)?;
        let (net, length, header, proto, ttl) = if kind == ethertype::IPV4 {
            let ip = packet.first_chunk::<20>()?;
            let flags_and_offset = u16::from_be_bytes([ip[6], ip[7]]);
            if ip[0] != 0x45 || flags_and_offset & 0x3fff != 0 {
                return None;
            }
            (Net::Ipv4, usize::from(u16::from_be_bytes([ip[2], ip[3]])), 20, ip[9], ip[8])
        } else if kind == ethertype::IPV6 {
            let ip = packet.first_chunk::<40>()?;
            if ip[0] >> 4 != 6 {
                return None;
            }
            let payload = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
            (Net::Ipv6, 40 + payload, 40, ip[6], ip[7])
        } else {
            return None;
        };
        let transport = packet.get(..length)?.get(header..)?;
        let (tcp_flags, [sequence, acknowledgement]) = match proto {
            protocol::TCP => {
                let tcp = transport.first_chunk::<20>()?;
                (TcpFlags(tcp[13]), numbers(tcp))
            }
            protocol::UDP => {
                transport.first_chunk::<8>()?;
                (TcpFlags(0), [0; 2])
            }
            _ => return None,
        };
        Some(Self {
            net,
            l3: l3 as u16,
            l4: (l3 + header) as u16,
            end: (l3 + length) as u16,
            vlan,
            proto,
            ttl,
            tcp_flags,
            sequence,
            acknowledgement,
            fragment: Fragment::Whole,
        })
    }

    /// Where a fragment's data, which begins at `l4`, belongs in its datagram, in
    /// bytes, and whether more follow; `None` if the packet is whole.
    #[must_use]
    pub fn place(&self, frame: &[u8]) -> Option<(usize, bool)> {
        match (self.fragment, self.net) {
            (Fragment::Whole, _) => None,
            (Fragment::First(_), _) => Some((0, true)),
            (Fragment::Later(_), Net::Ipv4) => {
                let word = be16(frame, usize::from(self.l3) + 6)?;
                Some((usize::from(word & 0x1fff) * 8, word & 0x2000 != 0))
            }
            // The fragment header is the last in front of the data.
            (Fragment::Later(_), _) => {
                let word = be16(frame, usize::from(self.l4).checked_sub(6)?)?;
                Some((usize::from(word & 0xfff8), word & 1 != 0))
            }
        }
    }

    /// The 5-tuple of a whole or first fragment of TCP or UDP. `frame` is the
    /// one that was parsed.
    #[inline]
    #[must_use]
    pub fn flow(&self, frame: &[u8]) -> Option<FlowKey> {
        if matches!(self.fragment, Fragment::Later(_)) {
            return None;
        }
        let proto = Transport::from_number(self.proto)?;
        let [a, b, c, d] = array(frame, usize::from(self.l4))?;
        let (sport, dport) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let l3 = usize::from(self.l3);
        match self.net {
            Net::Ipv4 => {
                let src = Ipv4Addr::from(array::<4>(frame, l3 + 12)?);
                let dst = Ipv4Addr::from(array::<4>(frame, l3 + 16)?);
                Some(FlowKey::V4(FlowV4 { src, dst, sport, dport, proto }))
            }
            Net::Ipv6 => {
                let src = Ipv6Addr::from(array::<16>(frame, l3 + 8)?);
                let dst = Ipv6Addr::from(array::<16>(frame, l3 + 24)?);
                Some(FlowKey::V6(FlowV6 { src, dst, sport, dport, proto }))
            }
            Net::Arp | Net::Other(_) => None,
        }
    }

    /// The IP source address; `None` if the frame isn't IP.
    #[inline]
    #[must_use]
    pub fn src_addr(&self, frame: &[u8]) -> Option<IpAddr> {
        self.address(frame, 12, 8)
    }

    /// The IP destination address; `None` if the frame isn't IP.
    #[inline]
    #[must_use]
    pub fn dst_addr(&self, frame: &[u8]) -> Option<IpAddr> {
        self.address(frame, 16, 24)
    }

    #[inline]
    fn address(&self, frame: &[u8], at_v4: usize, at_v6: usize) -> Option<IpAddr> {
        let l3 = usize::from(self.l3);
        match self.net {
            Net::Ipv4 => array::<4>(frame, l3 + at_v4).map(IpAddr::from),
            Net::Ipv6 => array::<16>(frame, l3 + at_v6).map(IpAddr::from),
            Net::Arp | Net::Other(_) => None,
        }
    }

    /// Source and destination port of TCP and UDP; `None` in a later fragment.
    #[inline]
    #[must_use]
    pub fn ports(&self, frame: &[u8]) -> Option<(u16, u16)> {
        if matches!(self.fragment, Fragment::Later(_)) {
            return None;
        }
        Transport::from_number(self.proto)?;
        let l4 = usize::from(self.l4);
        Some((be16(frame, l4)?, be16(frame, l4 + 2)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The common frames: IPv4 and IPv6, TCP and UDP, tagged or not, padded.
    fn common_frames() -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for (tag, kind) in [(&[][..], 0x0800_u16), (&[0x81, 0, 0xe0, 5], 0x0800)] {
            for (proto, len) in [(6, 20), (17, 8)] {
                let front = [&[2; 12], tag].concat();
                let mut v4 = [&front[..], &kind.to_be_bytes(), &[0x45, 0, 0, 20 + len]].concat();
                v4.extend([0, 9, 0x40, 0, 64, proto, 1, 2, 10, 0, 0, 1, 10, 0, 0, 2]);
                v4.extend(vec![7; usize::from(len) + 3]);
                let mut v6 = [&front[..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, len, proto, 64]].concat();
                v6.extend(vec![9; 32 + usize::from(len)]);
                frames.extend([v4, v6]);
            }
        }
        frames
    }

    #[test]
    fn the_common_path_takes_the_common_frames_and_agrees() {
        for frame in common_frames() {
            let headers = Headers::common(&frame).unwrap();
            assert_eq!(parse::general(&frame), Ok(headers));
        }
    }

    #[test]
    fn the_common_path_agrees_whatever_byte_is_changed() {
        for base in common_frames() {
            for at in 0..base.len() {
                let mut frame = base.clone();
                for value in 0..=255 {
                    frame[at] = value;
                    if let Some(headers) = Headers::common(&frame) {
                        assert_eq!(parse::general(&frame), Ok(headers), "{frame:02x?}");
                    }
                }
                if let Some(headers) = Headers::common(&base[..at]) {
                    assert_eq!(parse::general(&base[..at]), Ok(headers));
                }
            }
        }
    }
}
