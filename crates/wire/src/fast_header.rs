//! The header of the frames that the fast path forwards: a whole IPv4 datagram
//! without options or a whole IPv6 packet without extension headers, TCP or
//! UDP, tagged or not.
//!
//! [`FastHeader`] reads what the fast path matches in a few wide loads;
//! [`FastRewrite`] writes all that changes behind the Ethernet addresses in one pass.
//! Together they do what [`Headers::common`](crate::Headers::common),
//! [`Rewrite`](crate::Rewrite) and [`decrement_ttl`](crate::decrement_ttl) do one
//! after the other; those functions serve every other frame.
//!
//! `K` is the number of 64-bit words of both addresses: 1 of IPv4, 4 of IPv6.
//! `tag` is the length of the 802.1Q tag in front of the EtherType, 0 or 4
//! ([`tag_len`]); where the caller knows it to be 0, all offsets are constants.
use flow::Transport;

use crate::checksum;
use crate::headers::TcpFlags;
use crate::mac::Mac;
use crate::numbers::{ethertype, protocol};
use crate::vlan;

/// Both Ethernet addresses: what is in front of the EtherType or the tag.
const MACS: usize = 12;
/// The shortest frame with a fast header, in bytes: of IPv4, padded.
const SHORTEST: usize = MACS + FastHeader::<1>::HEAD;
/// The shortest Ethernet frame without its check sequence, in bytes: up to here
/// bytes behind the IP packet are padding.
const MIN_FRAME: u64 = 60;
/// TCP flags that change a connection's state. The fast path counts no states,
/// so it leaves packets with these flags to the slow path.
const DECISIVE: u8 = TcpFlags::FIN | TcpFlags::SYN | TcpFlags::RST;

/// What the fast path matches in a packet. Addresses and ports are words as the
/// packet has them in memory, to be compared and copied, not to be computed
/// with: in keys, records and checksum changes they have the same order, so
/// that nothing is byte-swapped between the frame and the connection table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastHeader<const K: usize> {
    /// Source, then destination address.
    pub addresses: [u64; K],
    /// Source, then destination port.
    pub ports: u32,
    /// Bytes of the IP packet.
    pub length: u32,
    /// TCP or UDP.
    pub proto: Transport,
    /// TCP's control bits; meaningless in a UDP packet.
    pub flags: TcpFlags,
}

/// Whether both addresses are so many 64-bit words in IPv4.
const fn is_v4(words: usize) -> bool {
    assert!(words == 1 || words == 4, "IPv4 addresses are one word, those of IPv6 four");
    words == 1
}

/// Where the family has its fields: offsets count from the EtherType.
impl<const K: usize> FastHeader<K> {
    const IS_V4: bool = is_v4(K);
    const KIND: u16 = if Self::IS_V4 { ethertype::IPV4.to_be() } else { ethertype::IPV6.to_be() };
    /// Of IPv4's total length, of IPv6's payload length.
    const LENGTH: usize = if Self::IS_V4 { 4 } else { 6 };
    /// Bytes that the length field leaves out.
    const UNCOUNTED: u32 = if Self::IS_V4 { 0 } else { 40 };
    /// Of the time to live or hop limit.
    const TTL: usize = if Self::IS_V4 { 10 } else { 9 };
    const PROTO: usize = if Self::IS_V4 { 11 } else { 8 };
    const ADDRESSES: usize = if Self::IS_V4 { 14 } else { 10 };
    const TRANSPORT: usize = if Self::IS_V4 { 22 } else { 42 };
    const FLAGS: usize = Self::TRANSPORT + 13;
    const TCP_SUM: usize = Self::TRANSPORT + 16;
    const UDP_SUM: usize = Self::TRANSPORT + 6;
    /// Bytes from the EtherType on that every fast frame has. Ethernet pads an IPv4
    /// UDP packet to more than a TCP header, so that its flags can be read without a
    /// test; an IPv6 UDP packet may end before them.
    const HEAD: usize = if Self::IS_V4 { Self::TRANSPORT + 20 } else { Self::TRANSPORT + 8 };
}

impl<const K: usize> FastHeader<K> {
    /// The header of `frame`; `None` if it is none of the fast path's or needs a
    /// closer look: TCP with SYN, FIN or RST, the last hop used up, bytes behind
    /// the packet that are no padding. Does not look at the Ethernet addresses.
    #[inline(always)]
    #[must_use]
    pub fn of(frame: &[u8], tag: usize) -> Option<Self> {
        Self::verified(frame, tag, |flags| !flags.any(DECISIVE))
    }

    /// As [`Self::of`], and also of a packet that opens a TCP connection: of SYN,
    /// ACK, FIN and RST it has SYN alone. The result says whether it does, since that
    /// follows from a test that is made anyway.
    #[inline(always)]
    #[must_use]
    pub fn or_opening(frame: &[u8], tag: usize) -> Option<(Self, bool)> {
        let mut opens = false;
        let header = Self::verified(frame, tag, |flags| {
            opens = flags.any(DECISIVE);
            !opens || flags.opens()
        })?;
        Some((header, opens))
    }

    /// The header of a frame of which [`Self::of`] has made one before.
    #[inline(always)]
    #[must_use]
    pub fn again(frame: &[u8], tag: usize) -> Option<Self> {
        let packet = packet::<K>(frame, tag)?;
        let is_tcp = packet[Self::PROTO] == protocol::TCP;
        let proto = if is_tcp { Transport::Tcp } else { Transport::Udp };
        Some(Self::read(packet, proto))
    }

    /// The rewrite that leaves a packet as it is except for the hop.
    #[inline(always)]
    #[must_use]
    pub const fn unchanged(&self) -> FastRewrite<K> {
        let Self { addresses, ports, .. } = *self;
        FastRewrite { addresses, ports, net_delta: 0, transport_delta: 0 }
    }

    /// Whether the packet may be the first of a connection: SYN, or UDP.
    #[inline(always)]
    #[must_use]
    pub const fn may_open(&self) -> bool {
        matches!(self.proto, Transport::Udp) || self.flags.opens()
    }

    /// Whether [`Headers::check`](crate::Headers::check) finds nothing wrong with a
    /// frame of which this header was made and which [may open](Self::may_open) a
    /// connection. `verified`: the NIC has verified the IPv4 header checksum.
    #[inline(always)]
    #[must_use]
    pub fn is_sound(&self, frame: &[u8], tag: usize, verified: bool) -> bool {
        let Some(packet) = packet::<K>(frame, tag) else { return false };
        if Self::IS_V4 && !verified {
            // Sums may be taken in any order, also in the packet's byte order (RFC
            // 1071 section 2).
            let (first, second) = (long(packet, 2), long(packet, 10));
            let words = [first >> 32, first & LOWER, second >> 32, second & LOWER];
            let sum = words.iter().fold(u64::from(word(packet, 18)), |sum, word| sum + word);
            let sum = (sum >> 32) + (sum >> 16 & 0xffff) + (sum & 0xffff);
            if checksum::fold(sum as u32) != u16::MAX {
                return false;
            }
        }
        let there = self.length - (Self::TRANSPORT - 2) as u32;
        match self.proto {
            Transport::Tcp => {
                let length =
                    u32::from(packet.get(Self::TRANSPORT + 12).map_or(0, |byte| byte >> 4));
                length >= 5 && length * 4 <= there
            }
            Transport::Udp => {
                let length = u32::from(u16::from_be(half(packet, Self::TRANSPORT + 4)));
                length >= 8 && length <= there
            }
        }
    }

    /// The header, if `is_usual` accepts its TCP flags.
    ///
    /// Each test is a branch of its own. Branches that are hardly ever taken cost one
    /// comparison with memory, fused with its jump; or-ing all differences into one
    /// word costs a load, an exclusive or and an or each.
    #[inline(always)]
    fn verified(
        frame: &[u8],
        tag: usize,
        mut is_usual: impl FnMut(TcpFlags) -> bool,
    ) -> Option<Self> {
        let packet = packet::<K>(frame, tag)?;
        if !Self::is_whole(packet) || packet[Self::TTL] <= 1 {
            return None;
        }
        let header = Self::read(packet, Transport::Udp);
        let (end, len) = ((MACS + 2 + tag) as u64 + u64::from(header.length), frame.len() as u64);
        // One test covers both: the packet is whole, and nothing but padding is
        // behind it.
        if end.max(len.min(MIN_FRAME)) != len {
            return None;
        }
        let least = |transport| header.length >= (Self::TRANSPORT - 2 + transport) as u32;
        // The protocol is told apart once: a TCP packet is not tested for UDP.
        let proto = match packet[Self::PROTO] {
            protocol::TCP if is_usual(header.flags) && least(20) => Transport::Tcp,
            protocol::UDP if least(8) => Transport::Udp,
            _ => return None,
        };
        Some(Self { proto, ..header })
    }

    /// Whether the packet is of this family, has no options or extension headers
    /// and isn't a fragment. The protocol number tells extension headers apart.
    #[inline(always)]
    fn is_whole(packet: &[u8]) -> bool {
        const FRAGMENT: u16 = 0x3fff_u16.to_be();
        let kind = half(packet, 0) == Self::KIND;
        if Self::IS_V4 {
            kind && packet[2] == 0x45 && half(packet, 8) & FRAGMENT == 0
        } else {
            kind && packet[2] >> 4 == 6
        }
    }

    #[inline(always)]
    fn read(packet: &[u8], proto: Transport) -> Self {
        let length = u16::from_be(half(packet, Self::LENGTH));
        Self {
            addresses: std::array::from_fn(|word| long(packet, Self::ADDRESSES + 8 * word)),
            ports: word(packet, Self::TRANSPORT),
            length: u32::from(length) + Self::UNCOUNTED,
            proto,
            flags: TcpFlags(packet.get(Self::FLAGS).copied().unwrap_or(0)),
        }
    }
}

/// All that changes in a forwarded packet behind the Ethernet addresses:
/// addresses, ports, time to live and checksums. All words are as the packet
/// has them in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastRewrite<const K: usize> {
    /// New source, then destination address.
    pub addresses: [u64; K],
    /// New source, then destination port.
    pub ports: u32,
    /// What to add to the complement of the IPv4 header checksum for the
    /// addresses: `to_be` of [`Rewrite4`](crate::rewrite::Rewrite4)'s. Zero for
    /// IPv6, which has no such checksum.
    pub net_delta: u16,
    /// What to add to the complement of the TCP or UDP checksum, in the same
    /// order.
    pub transport_delta: u16,
}

/// The lower half of a 64-bit word.
const LOWER: u64 = 0xffff_ffff;

/// What changes in the word of time to live and protocol.
const ONE_HOP: u16 = (!0x0100_u16).to_be();

impl<const K: usize> FastRewrite<K> {
    /// Rewrites a frame of which [`FastHeader::of`] has made a header of protocol
    /// `proto`, and takes one off its time to live. Nothing happens to a frame
    /// too short for that.
    #[inline(always)]
    pub fn apply(&self, frame: &mut [u8], tag: usize, proto: Transport) {
        let Some(packet) = packet_mut::<K>(frame, tag) else { return };
        let ttl = FastHeader::<K>::TTL;
        packet[ttl] = packet[ttl].wrapping_sub(1);
        if FastHeader::<K>::IS_V4 {
            // One fold for both changes: ones' complement sums may be taken in
            // any order, also in the packet's byte order (RFC 1071 section 2).
            let sum = u32::from(!half(packet, 12)) + u32::from(self.net_delta) + u32::from(ONE_HOP);
            packet[12..14].copy_from_slice(&(!checksum::fold(sum)).to_ne_bytes());
        }
        for (word, at) in self.addresses.iter().zip((FastHeader::<K>::ADDRESSES..).step_by(8)) {
            packet[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        let ports = FastHeader::<K>::TRANSPORT;
        packet[ports..ports + 4].copy_from_slice(&self.ports.to_ne_bytes());
        let delta = self.transport_delta;
        match proto {
            Transport::Tcp => {
                let Some(field) = pair_mut(packet, FastHeader::<K>::TCP_SUM) else { return };
                *field = checksum::update(u16::from_ne_bytes(*field), delta).to_ne_bytes();
            }
            Transport::Udp => {
                let Some(field) = pair_mut(packet, FastHeader::<K>::UDP_SUM) else { return };
                *field = checksum::update_udp(u16::from_ne_bytes(*field), delta).to_ne_bytes();
            }
        }
    }
}

/// The length of the frame's 802.1Q tag in bytes: 0 or 4.
#[inline(always)]
#[must_use]
pub fn tag_len(frame: &[u8]) -> usize {
    let tagged = frame.len() >= MACS + 2 && half(frame, MACS) == ethertype::VLAN.to_be();
    if tagged { vlan::LEN } else { 0 }
}

/// Two Ethernet addresses as they begin a frame.
#[must_use]
pub fn mac_pair(destination: Mac, source: Mac) -> [u8; MACS] {
    let mut pair = [0; MACS];
    pair[..6].copy_from_slice(&destination.0);
    pair[6..].copy_from_slice(&source.0);
    pair
}

/// Whether the frame is long enough for a fast header and its destination is
/// `station`.
#[inline(always)]
#[must_use]
pub fn is_for(frame: &[u8], Mac([a, b, c, d, e, f]): Mac) -> bool {
    // A frame without a whole header is refused first, as by the header, so that the
    // tests of the addresses need not compare its length again.
    frame.len() >= SHORTEST
        && word(frame, 0) == u32::from_ne_bytes([a, b, c, d])
        && half(frame, 4) == u16::from_ne_bytes([e, f])
}

/// The frame from its EtherType on, if it is long enough for a header.
#[inline(always)]
fn packet<const K: usize>(frame: &[u8], tag: usize) -> Option<&[u8]> {
    if frame.len() < MACS + tag + FastHeader::<K>::HEAD {
        return None;
    }
    frame.get(MACS + tag..)
}

#[inline(always)]
fn packet_mut<const K: usize>(frame: &mut [u8], tag: usize) -> Option<&mut [u8]> {
    if frame.len() < MACS + tag + FastHeader::<K>::HEAD {
        return None;
    }
    frame.get_mut(MACS + tag..)
}

#[inline(always)]
fn pair_mut(bytes: &mut [u8], at: usize) -> Option<&mut [u8; 2]> {
    bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut())
}

/// `N` bytes at once. Built from single bytes, the compiler would take the word
/// apart again where a mask follows.
#[inline(always)]
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

#[inline(always)]
fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(chunk(bytes, at))
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(chunk(bytes, at))
}

#[inline(always)]
fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(chunk(bytes, at))
}
