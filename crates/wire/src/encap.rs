//! Tunnels: an IP packet inside another (RFC 2003, RFC 2473), behind a GRE
//! header (RFC 2784), in UDP (GUE, draft-ietf-intarea-gue), or in UDP behind a
//! Geneve header (RFC 8926).
use std::net::IpAddr;

use flow::Mode;
use packet::PacketBuf;

use crate::bytes::be16;
use crate::fast_header::FastHeader;
use crate::flow_key::FlowKey;
use crate::headers::{Fragment, Headers, Net, TcpFlags};
use crate::inner::Inner;
use crate::numbers::{ethertype, protocol};
use crate::{checksum, ethernet};

/// The port that GUE is assigned.
pub const GUE_PORT: u16 = 6080;

/// The port that Geneve is assigned (RFC 8926 section 3.3).
pub const GENEVE_PORT: u16 = 6081;

/// The longest outer header: IPv6, UDP and Geneve.
const MOST: usize = 40 + UDP + GENEVE;

/// Bytes of a UDP header.
const UDP: usize = 8;

/// Bytes of a Geneve header without options (RFC 8926 section 3.4).
const GENEVE: usize = 8;

/// What is between the outer and the inner IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tunnel {
    /// Nothing: protocol 4 or 41, by the inner family.
    Ipip,
    /// GRE without key, sequence number and checksum.
    Gre,
    /// UDP to this port, and in it the inner packet at once: GUE variant 1
    /// (draft-ietf-intarea-gue section 4), which receivers tell from variant 0
    /// by the first bits. Linux takes it with `ip fou add port N gue`. The
    /// source port is made from the inner flow, so that routers and receive
    /// queues spread flows and keep each in order. The UDP checksum is zero,
    /// over IPv6 too (RFC 6935 section 5): no card can compute one that covers
    /// the data, and the inner packet has its own.
    Gue {
        /// The destination port.
        port: u16,
    },
    /// UDP to this port, and in it a Geneve header of version 0 without
    /// options, whose protocol type is that of the inner IP packet and whose
    /// virtual network identifier is 0. Source port and UDP checksum are as in
    /// `Gue` (RFC 8926 sections 3.3 and 4.3.1).
    Geneve {
        /// The destination port.
        port: u16,
    },
}

impl Tunnel {
    /// Every kind of tunnel, UDP to the assigned port.
    pub const ALL: [Self; 4] =
        [Self::Ipip, Self::Gre, Self::Gue { port: GUE_PORT }, Self::Geneve { port: GENEVE_PORT }];

    /// The tunnel of a service in `mode`, with `port` in the place of the
    /// assigned one; `None` if the mode has none.
    #[must_use]
    pub fn of(mode: Mode, port: Option<u16>) -> Option<Self> {
        match mode {
            Mode::Nat | Mode::FullNat | Mode::Dsr => None,
            Mode::Ipip => Some(Self::Ipip),
            Mode::Gre => Some(Self::Gre),
            Mode::Gue => Some(Self::Gue { port: port.unwrap_or(GUE_PORT) }),
            Mode::Geneve => Some(Self::Geneve { port: port.unwrap_or(GENEVE_PORT) }),
        }
    }

    /// The mode of services whose packets take such a tunnel.
    #[must_use]
    pub const fn mode(self) -> Mode {
        match self {
            Self::Ipip => Mode::Ipip,
            Self::Gre => Mode::Gre,
            Self::Gue { .. } => Mode::Gue,
            Self::Geneve { .. } => Mode::Geneve,
        }
    }

    /// The kind's place in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn kind(self) -> usize {
        match self {
            Self::Ipip => 0,
            Self::Gre => 1,
            Self::Gue { .. } => 2,
            Self::Geneve { .. } => 3,
        }
    }

    /// The UDP port that outer packets go to; `None` if they are not UDP.
    #[must_use]
    pub const fn port(self) -> Option<u16> {
        match self {
            Self::Ipip | Self::Gre => None,
            Self::Gue { port } | Self::Geneve { port } => Some(port),
        }
    }

    /// The length of what is between the IP headers, in bytes.
    const fn shim(self) -> usize {
        match self {
            Self::Ipip => 0,
            Self::Gre => 4,
            Self::Gue { .. } => UDP,
            Self::Geneve { .. } => UDP + GENEVE,
        }
    }

    /// What the outer IP header says comes next.
    const fn protocol(self, ipv6_inside: bool) -> u8 {
        match self {
            Self::Ipip if ipv6_inside => protocol::IPV6,
            Self::Ipip => protocol::IPIP,
            Self::Gre => protocol::GRE,
            Self::Gue { .. } | Self::Geneve { .. } => protocol::UDP,
        }
    }

    /// Where the inner packet's EtherType is behind the outer IP header.
    const fn ethertype_at(self) -> Option<usize> {
        match self {
            Self::Ipip | Self::Gue { .. } => None,
            Self::Gre => Some(2),
            Self::Geneve { .. } => Some(UDP + 2),
        }
    }

    /// Bytes that a packet grows by between outer addresses of this family.
    #[must_use]
    pub const fn overhead(self, ipv6: bool) -> u16 {
        (self.shim() + if ipv6 { 40 } else { 20 }) as u16
    }
}

/// One tunnel's outer header, compiled: fields that depend on the packet are filled
/// in for each packet. [`Self::of_flow`] gives hardware what it needs for the same
/// header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encap {
    tunnel: Tunnel,
    ipv6: bool,
    /// The IP header and the headers behind it; zero where the packet decides.
    header: [u8; MOST],
    /// The sum over an IPv4 header.
    sum: u32,
}

impl Encap {
    /// The tunnel from `src` to `dst`, whose packets may take `ttl` hops;
    /// `None` if the addresses are of different families.
    ///
    /// An IPv4 outer header forbids fragments and so needs no id (RFC 6864
    /// section 4.1).
    #[must_use]
    pub fn new(tunnel: Tunnel, src: IpAddr, dst: IpAddr, ttl: u8) -> Option<Self> {
        let mut header = [0; MOST];
        let (ipv6, sum) = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                header[0] = 0x45;
                header[6] = 0x40;
                header[8] = ttl;
                header[12..16].copy_from_slice(&src.octets());
                header[16..20].copy_from_slice(&dst.octets());
                (false, checksum::sum(&header[..20], 0))
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                header[0] = 0x60;
                header[7] = ttl;
                header[8..24].copy_from_slice(&src.octets());
                header[24..40].copy_from_slice(&dst.octets());
                (true, 0)
            }
            _ => return None,
        };
        if let Some(port) = tunnel.port() {
            let at = if ipv6 { 42 } else { 22 };
            header[at..at + 2].copy_from_slice(&port.to_be_bytes());
        }
        Some(Self { tunnel, ipv6, header, sum })
    }

    /// What is between the IP headers.
    #[must_use]
    pub const fn tunnel(&self) -> Tunnel {
        self.tunnel
    }

    /// Whether the outer addresses are IPv6.
    #[must_use]
    pub const fn is_ipv6(&self) -> bool {
        self.ipv6
    }

    /// The packet inside one of this tunnel's, whose outer IP header `headers`
    /// describe; it may be cut off. `None` if the outer packet is not of [`Self`]'s
    /// kind.
    #[must_use]
    pub fn carried<'a>(&self, packet: &'a [u8], headers: &Headers) -> Option<&'a [u8]> {
        carried(packet, headers.proto, headers.l4.into(), &[self.tunnel])
    }

    /// Bytes that a packet grows by.
    #[must_use]
    pub const fn overhead(&self) -> u16 {
        self.tunnel.overhead(self.ipv6)
    }

    /// The outer header of whole packets of `flow` whose traffic class is 0, in front
    /// of which [`Self::apply`] puts the same. Only the fields that follow from the
    /// length are zero: the length fields and IPv4's checksum.
    #[must_use]
    pub fn of_flow(&self, flow: &FlowKey) -> Vec<u8> {
        let header = self.front(&Inner::of_flow(flow));
        header.get(..usize::from(self.overhead())).unwrap_or(&header).to_vec()
    }

    /// The outer header of whole packets of the family whose traffic class is 0, for
    /// whoever fills in the rest: the length fields, IPv4's checksum and, from the flow,
    /// the flow label and the lower 14 bits of UDP's source port are zero.
    #[must_use]
    pub fn of_family(&self, ipv6_inside: bool) -> Vec<u8> {
        let header = self.front(&Inner::of_family(ipv6_inside));
        header.get(..usize::from(self.overhead())).unwrap_or(&header).to_vec()
    }

    /// Puts the IP packet of a frame into the tunnel and makes `headers` those of the
    /// outer packet. DSCP and congestion marks are copied out (RFC 2983 section 3.1,
    /// RFC 6040 section 4.1); IPv6 outside gets a flow label from the inner flow (RFC
    /// 6438). Padding behind the datagram goes. The inner packet stays as it is; the
    /// caller is responsible for its TTL.
    ///
    /// Returns `false` and changes nothing without headroom, if the frame isn't IP or
    /// too long then, or if `headers` isn't of this frame.
    #[must_use]
    pub fn apply<P: PacketBuf>(&self, packet: &mut P, headers: &mut Headers) -> bool {
        let Some(inner) = Inner::of(packet.bytes(), headers) else { return false };
        let Some(end) = self.put(packet, headers.l3.into(), &inner) else { return false };
        *headers = Headers {
            net: if self.ipv6 { Net::Ipv6 } else { Net::Ipv4 },
            l4: headers.l3 + if self.ipv6 { 40 } else { 20 },
            end,
            proto: self.tunnel.protocol(inner.ipv6),
            ttl: if self.ipv6 { self.header[7] } else { self.header[8] },
            tcp_flags: TcpFlags(0),
            sequence: 0,
            acknowledgement: 0,
            fragment: Fragment::Whole,
            ..*headers
        };
        true
    }

    /// As [`Self::apply`], of a frame whose fast header, behind `tag` bytes of tag, is
    /// `header`. The inner packet's fields are as far behind `tag` as the frame has
    /// grown.
    #[inline]
    #[must_use]
    pub fn apply_fast<const K: usize, P: PacketBuf>(
        &self,
        packet: &mut P,
        tag: usize,
        header: &FastHeader<K>,
    ) -> bool {
        let l3 = ethernet::LEN + tag;
        let inner = Inner::of_fast(packet.bytes(), l3, header);
        inner.is_some_and(|inner| self.put(packet, l3, &inner).is_some())
    }

    /// Puts the outer header of `inner` in front of it, `l3` bytes into the frame,
    /// and returns where the frame ends then.
    #[inline]
    fn put<P: PacketBuf>(&self, packet: &mut P, l3: usize, inner: &Inner) -> Option<u16> {
        let grown = usize::from(self.overhead());
        let end = u16::try_from(l3 + usize::from(inner.length) + grown).ok()?;
        let outer = self.fill(inner)?;
        let kind = l3.checked_sub(2)?;
        if !packet.prepend(grown) {
            return None;
        }
        // Cutting can't fail.
        let _ = packet.resize(end.into());
        let front = packet.bytes_mut().get_mut(..l3 + grown)?;
        front.copy_within(grown.., 0);
        let ethertype = if self.ipv6 { ethertype::IPV6 } else { ethertype::IPV4 };
        front.get_mut(kind..l3)?.copy_from_slice(&ethertype.to_be_bytes());
        front.get_mut(l3..)?.copy_from_slice(outer.get(..grown)?);
        Some(end)
    }

    /// The outer header for this packet.
    fn fill(&self, inner: &Inner) -> Option<[u8; MOST]> {
        let mut header = self.front(inner);
        let behind = inner.length.checked_add(self.tunnel.shim() as u16)?;
        if self.ipv6 {
            header[4..6].copy_from_slice(&behind.to_be_bytes());
        } else {
            let total = behind.checked_add(20)?;
            header[2..4].copy_from_slice(&total.to_be_bytes());
            let [tos, next] = [header[1], header[9]].map(u32::from);
            let sum = self.sum + tos + u32::from(total) + next;
            header[10..12].copy_from_slice(&(!checksum::fold(sum)).to_be_bytes());
        }
        if self.tunnel.port().is_some() {
            let at = self.ip() + 4;
            header.get_mut(at..at + 2)?.copy_from_slice(&behind.to_be_bytes());
        }
        Some(header)
    }

    /// The outer header except the fields that follow from the length.
    fn front(&self, inner: &Inner) -> [u8; MOST] {
        let mut header = self.header;
        let next = self.tunnel.protocol(inner.ipv6);
        if self.ipv6 {
            let label = inner.entropy >> 12;
            let first = 6 << 28 | u32::from(inner.traffic_class) << 20 | label;
            header[..4].copy_from_slice(&first.to_be_bytes());
            header[6] = next;
        } else {
            header[1] = inner.traffic_class;
            header[9] = next;
        }
        let mut put = |at: usize, word: u16| {
            if let Some(place) = header.get_mut(at..at + 2) {
                place.copy_from_slice(&word.to_be_bytes());
            }
        };
        if self.tunnel.port().is_some() {
            // The source port, one of the ephemeral ports (RFC 6335 section 6).
            put(self.ip(), 0xc000 | inner.entropy as u16 >> 2);
        }
        if let Some(at) = self.tunnel.ethertype_at() {
            put(self.ip() + at, if inner.ipv6 { ethertype::IPV6 } else { ethertype::IPV4 });
        }
        header
    }

    /// The length of the outer IP header.
    const fn ip(&self) -> usize {
        if self.ipv6 { 40 } else { 20 }
    }
}

/// The inner packet of `packet`, which is in one of `tunnels`; `None` if it is
/// in none of them. `packet` begins with the outer IP header, whose length is
/// `l4` and which says that `proto` comes next, and may be cut off.
#[must_use]
pub fn carried<'a>(packet: &'a [u8], proto: u8, l4: usize, tunnels: &[Tunnel]) -> Option<&'a [u8]> {
    let port = be16(packet, l4 + 2);
    let is_of = |tunnel: &&Tunnel| {
        [false, true].iter().any(|ipv6| tunnel.protocol(*ipv6) == proto)
            && (tunnel.port().is_none() || tunnel.port() == port)
    };
    packet.get(l4 + tunnels.iter().find(is_of)?.shim()..)
}
