//! The packet that nearly all are: an untagged frame with a whole IPv4
//! datagram without options, TCP or UDP, that only has to be rewritten.
//!
//! [`Plain`] takes what the fast path needs from its 54 first bytes in a few
//! wide loads and without a branch between the conditions; [`PlainRewrite`]
//! writes everything that changes in one pass. What they do is what
//! [`Headers::common`](crate::Headers::common), [`Rewrite`](crate::Rewrite)
//! and [`decrement_ttl`](crate::decrement_ttl) do one after the other; every
//! other packet is left to those.
use crate::checksum;
use crate::headers::TcpFlags;
use crate::mac::Mac;
use crate::numbers::protocol;

/// Bytes of Ethernet, IPv4 and TCP headers: a [`Plain`] frame has at least so many.
pub const PLAIN_HEAD: usize = 54;
/// These bytes.
pub type Head = [u8; PLAIN_HEAD];
/// The shortest Ethernet frame without its check sequence.
const MIN_FRAME: u64 = 60;
/// FIN, SYN, RST.
const DECISIVE: u8 = 0x07;

/// What is matched in a plain packet. Addresses and ports are words as the
/// packet has them in memory: to be compared and copied, not to be counted with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plain {
    /// Source, then destination address.
    pub addresses: u64,
    /// Source, then destination port.
    pub ports: u32,
    /// Bytes of the IPv4 packet.
    pub length: u16,
    /// The protocol's number: TCP's or UDP's.
    pub proto: u8,
    /// TCP's control bits; of UDP nothing that means anything.
    pub flags: TcpFlags,
}

impl Plain {
    /// A frame of `len` bytes that begins with `head` as a plain packet for the
    /// station `mac`; `None`: it is another, or one that needs a closer look.
    /// That is: TCP with SYN, FIN or RST, the last hop used up, bytes behind the
    /// datagram that are no padding.
    #[inline(always)]
    #[must_use]
    pub fn of(head: &Head, len: usize, station: Mac) -> Option<Self> {
        let plain = Self::again(head);
        (is_simple(head, station) && plain.fits(len, head[22], DECISIVE)).then_some(plain)
    }

    /// As [`Self::of`], but takes a packet that opens a TCP connection, too: of
    /// SYN, ACK, FIN and RST it has SYN alone.
    #[inline(always)]
    #[must_use]
    pub fn first(head: &Head, len: usize, station: Mac) -> Option<Self> {
        let plain = Self::again(head);
        let decisive = if plain.flags.opens() { DECISIVE & !TcpFlags::SYN } else { DECISIVE };
        (is_simple(head, station) && plain.fits(len, head[22], decisive)).then_some(plain)
    }

    /// Whether it opens a TCP connection.
    #[inline(always)]
    #[must_use]
    pub const fn is_syn(&self) -> bool {
        self.proto == protocol::TCP && self.flags.opens()
    }

    /// Whether it may be the first packet of a connection: SYN, or UDP.
    #[inline(always)]
    #[must_use]
    pub const fn may_open(&self) -> bool {
        self.proto != protocol::TCP || self.flags.opens()
    }

    /// What a frame carries that [`Self::of`] has found plain before.
    #[inline(always)]
    #[must_use]
    pub fn again(head: &Head) -> Self {
        Self {
            addresses: long(head, 26),
            ports: word(head, 34),
            length: u16::from_be(half(head, 16)),
            proto: head[23],
            flags: TcpFlags(head[47]),
        }
    }

    /// Whether lengths, protocol, time to live and TCP flags are plain: none of
    /// `decisive` may be set.
    #[inline(always)]
    fn fits(&self, frame: usize, ttl: u8, decisive: u8) -> bool {
        let (end, frame) = (u64::from(self.length) + 14, frame as u64);
        // Whole, and nothing behind it that isn't padding.
        if ttl <= 1 || end.max(frame.min(MIN_FRAME)) != frame {
            return false;
        }
        match self.proto {
            protocol::TCP => self.flags.0 & decisive == 0 && end >= 54,
            protocol::UDP => end >= 42,
            _ => false,
        }
    }
}

/// All that changes in a plain packet that is forwarded: Ethernet addresses,
/// addresses, ports, time to live and checksums. All words are as the packet
/// has them in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainRewrite {
    /// New Ethernet destination and source.
    pub macs: [u8; 12],
    /// New source, then destination address.
    pub addresses: u64,
    /// New source, then destination port.
    pub ports: u32,
    /// What to add to the complement of the IPv4 header checksum for the
    /// addresses: `to_be` of that of [`Rewrite4`](crate::rewrite::Rewrite4).
    pub net_delta: u16,
    /// What to add to the complement of the TCP or UDP checksum, likewise.
    pub transport_delta: u16,
}

/// What changes in the word of time to live and protocol.
const ONE_HOP: u16 = (!0x0100_u16).to_be();

impl PlainRewrite {
    /// Rewrites a frame that begins with `head`, of which [`Plain::of`] has
    /// made a packet of protocol `proto`, and takes one off its time to live.
    #[inline(always)]
    pub fn apply(&self, head: &mut Head, proto: u8) {
        head[..12].copy_from_slice(&self.macs);
        head[22] = head[22].wrapping_sub(1);
        // One fold for both changes: sums of ones' complements may be taken in
        // any order, also in the packet's order of bytes.
        let sum = u32::from(!half(head, 24)) + u32::from(self.net_delta) + u32::from(ONE_HOP);
        head[24..26].copy_from_slice(&(!checksum::fold(sum)).to_ne_bytes());
        head[26..34].copy_from_slice(&self.addresses.to_ne_bytes());
        head[34..38].copy_from_slice(&self.ports.to_ne_bytes());
        if proto == protocol::TCP {
            let field = checksum::update(half(head, 50), self.transport_delta);
            head[50..52].copy_from_slice(&field.to_ne_bytes());
        } else {
            let field = checksum::update_udp(half(head, 40), self.transport_delta);
            head[40..42].copy_from_slice(&field.to_ne_bytes());
        }
    }
}

/// Two Ethernet addresses as they begin a frame.
#[must_use]
pub fn mac_pair(destination: Mac, source: Mac) -> [u8; 12] {
    let mut pair = [0; 12];
    pair[..6].copy_from_slice(&destination.0);
    pair[6..].copy_from_slice(&source.0);
    pair
}

/// Whether the frame is for `station`, and an IPv4 datagram without tag and
/// options that isn't fragmented.
#[inline(always)]
fn is_simple(head: &Head, Mac([a, b, c, d, e, f]): Mac) -> bool {
    const IPV4: u16 = 0x0800_u16.to_be();
    const FRAGMENT: u16 = 0x3fff_u16.to_be();
    word(head, 0) == u32::from_ne_bytes([a, b, c, d])
        && half(head, 4) == u16::from_ne_bytes([e, f])
        && half(head, 12) == IPV4
        && head[14] == 0x45
        && half(head, 20) & FRAGMENT == 0
}

/// `N` bytes at once. Built from single bytes, the compiler would take it apart
/// again where a part of them is masked out.
#[inline(always)]
fn chunk<const N: usize>(head: &Head, at: usize) -> [u8; N] {
    head.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

#[inline(always)]
fn half(head: &Head, at: usize) -> u16 {
    u16::from_ne_bytes(chunk(head, at))
}

#[inline(always)]
fn word(head: &Head, at: usize) -> u32 {
    u32::from_ne_bytes(chunk(head, at))
}

#[inline(always)]
fn long(head: &Head, at: usize) -> u64 {
    u64::from_ne_bytes(chunk(head, at))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use proptest::prelude::*;

    use super::*;
    use crate::{Fragment, Headers, Net, Rewrite, decrement_ttl, ethernet};

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 9]);
    const THERE: Mac = Mac([2, 0, 0, 0, 7, 1]);

    /// A frame of `data` bytes behind the header, and what Ethernet puts behind it.
    fn frame(proto: u8, data: &[u8], ttl: u8, sum: u16, padded: bool) -> Vec<u8> {
        let header: usize = if proto == protocol::TCP { 20 } else { 8 };
        let length = (20 + header + data.len()) as u16;
        let mut frame = [&OWN.0[..], &[2, 9, 9, 9, 9, 9, 8, 0, 0x45, 3]].concat();
        frame.extend(length.to_be_bytes());
        frame.extend([0, 7, 0x40, 0, ttl, proto, 0xab, 0xcd, 192, 0, 2, 1, 198, 51, 100, 7]);
        let mut transport =
            vec![0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0];
        transport.truncate(header);
        let at = if proto == protocol::TCP { 16 } else { 6 };
        transport[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        frame.extend(transport);
        frame.extend(data);
        while padded && frame.len() < MIN_FRAME as usize {
            frame.push(0);
        }
        frame
    }

    fn plain(frame: &[u8]) -> Option<Plain> {
        frame.first_chunk().and_then(|head| Plain::of(head, frame.len(), OWN))
    }

    fn words(frame: &[u8]) -> (u64, u32) {
        let at = |at: usize| u64::from(u32::from_be_bytes(frame[at..at + 4].try_into().unwrap()));
        ((at(26) << 32 | at(30)).to_be(), (at(34) as u32).to_be())
    }

    proptest! {
        /// What is plain has the headers that the general parser finds, and
        /// comes out as general rewriting makes it.
        #[test]
        fn plain_does_what_the_general_way_does(
            tcp: bool, data in proptest::collection::vec(any::<u8>(), 0..40), ttl: u8, sum: u16,
            padded: bool, client: u32, server: u32, sport: u16, dport: u16, net_sum: u16,
        ) {
            let proto = if tcp { protocol::TCP } else { protocol::UDP };
            let mut frame = frame(proto, &data, ttl, sum, padded);
            frame[24..26].copy_from_slice(&net_sum.to_be_bytes());
            let Some(plain) = plain(&frame) else {
                prop_assert!(ttl <= 1 || frame.len() < PLAIN_HEAD);
                return Ok(());
            };
            let headers = Headers::parse(&frame).unwrap();
            prop_assert_eq!((headers.net, headers.proto, headers.fragment), (Net::Ipv4, proto, Fragment::Whole));
            prop_assert_eq!(usize::from(headers.end - headers.l3), usize::from(plain.length));
            prop_assert_eq!((plain.addresses, plain.ports), words(&frame));
            let end = |word: u64, ports: u32, up: bool| {
                let (ip, port) = if up { (word >> 32, ports >> 16) } else { (word, ports) };
                SocketAddr::from((Ipv4Addr::from_bits(ip as u32), port as u16))
            };
            let new = (SocketAddr::from((Ipv4Addr::from_bits(client), sport)), SocketAddr::from((Ipv4Addr::from_bits(server), dport)));
            let (addresses, ports) = (u64::from_be(plain.addresses), u32::from_be(plain.ports));
            let old = (end(addresses, ports, true), end(addresses, ports, false));
            prop_assert_eq!(Plain::again(frame.first_chunk().unwrap()), plain);
            let rewrite = Rewrite::both(old, new).unwrap();
            let Rewrite::V4(compiled) = rewrite else { unreachable!() };
            let mut expected = frame.clone();
            prop_assert!(rewrite.apply(&mut expected, &headers));
            prop_assert!(decrement_ttl(&mut expected, &headers));
            prop_assert!(ethernet::set_macs(&mut expected, THERE, OWN));
            let fused = PlainRewrite {
                macs: mac_pair(THERE, OWN),
                addresses: (u64::from(client) << 32 | u64::from(server)).to_be(),
                ports: (u32::from(sport) << 16 | u32::from(dport)).to_be(),
                net_delta: compiled.net_delta.to_be(),
                transport_delta: compiled.transport_delta.to_be(),
            };
            fused.apply(frame.first_chunk_mut().unwrap(), plain.proto);
            prop_assert_eq!(frame, expected);
        }
    }

    /// A packet that opens a connection is plain but for its SYN.
    #[test]
    fn first_packets_are_plain_but_for_syn() {
        let first = |frame: &[u8]| Plain::first(frame.first_chunk()?, frame.len(), OWN);
        let base = frame(protocol::TCP, &[1, 2, 3, 4, 5, 6, 7, 8], 9, 77, true);
        for flags in 0..=255 {
            let (mut flagged, mut cleared) = (base.clone(), base.clone());
            (flagged[47], cleared[47]) = (flags, flags & !TcpFlags::SYN);
            let opens = flags & 0x17 == TcpFlags::SYN;
            let expected = plain(if opens { &cleared } else { &flagged });
            let expected = expected.map(|plain| Plain { flags: TcpFlags(flags), ..plain });
            assert_eq!(first(&flagged), expected, "{flags:02x}");
            assert_eq!(expected.is_some_and(|first| first.may_open()), opens, "{flags:02x}");
            assert_eq!(expected.is_some_and(|first| first.is_syn()), opens, "{flags:02x}");
        }
        let udp = frame(protocol::UDP, &[2; 30], 9, 77, true);
        assert_eq!(first(&udp), plain(&udp));
        assert!(first(&udp).is_some_and(|first| first.may_open() && !first.is_syn()));
        for (at, value) in [(0, 9), (13, 6), (14, 0x46), (16, 9), (20, 0x20), (22, 1), (23, 1)] {
            let mut frame = base.clone();
            (frame[47], frame[at]) = (TcpFlags::SYN, value);
            assert_eq!(first(&frame), None, "byte {at}");
        }
    }

    /// Whatever byte is changed: what is still plain is parsed alike, for our
    /// station, not decisive, not at its last hop and has no tail to be cut.
    #[test]
    fn nothing_else_is_plain() {
        let long = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20];
        for (proto, data) in [
            (protocol::TCP, &long[..8]),
            (protocol::TCP, &[]),
            (protocol::UDP, long),
            (protocol::UDP, &[]),
        ] {
            let base = frame(proto, data, 9, 77, true);
            assert!(plain(&base).is_some());
            assert_eq!(plain(&[&base[..], &[0]].concat()), None, "a tail");
            assert_eq!(plain(&base[..53]), None);
            for at in 0..base.len() {
                for value in 0..=255 {
                    let mut frame = base.clone();
                    frame[at] = value;
                    if plain(&frame).is_none() {
                        continue;
                    }
                    let headers = Headers::common(&frame).unwrap();
                    assert_eq!((headers.net, headers.vlan), (Net::Ipv4, None), "{frame:02x?}");
                    assert!(headers.ttl > 1 && !headers.tcp_flags.any(DECISIVE));
                    assert!(usize::from(headers.end).max(MIN_FRAME as usize) >= frame.len());
                    assert_eq!(frame[..6], OWN.0);
                }
            }
        }
    }
}
