//! Neighbour discovery (RFC 4861): solicitations and advertisements.
use std::net::Ipv6Addr;

use crate::bytes::array;
use crate::checksum;
use crate::ethernet;
use crate::headers::{Fragment, Headers, Net};
use crate::icmpv6::{self, kind};
use crate::ipv6;
use crate::mac::Mac;
use crate::numbers::{ethertype, protocol};

/// The length of the frames made here: with one link-layer address option.
pub const FRAME_LEN: usize = ethernet::LEN + ipv6::LEN + MESSAGE_LEN;

/// ICMPv6 header, target, and one link-layer address option.
const MESSAGE_LEN: usize = icmpv6::LEN + 16 + 8;
/// The only hop limit that counts: the packet was never forwarded.
const HOP_LIMIT: u8 = 255;
/// Option: the sender's link-layer address.
const SOURCE_LINK: u8 = 1;
/// Option: the target's link-layer address.
const TARGET_LINK: u8 = 2;
/// All nodes on the link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

const ROUTER: u32 = 1 << 31;
const SOLICITED: u32 = 1 << 30;
const OVERRIDE: u32 = 1 << 29;

/// Why a frame is no valid message (RFC 4861 sections 7.1.1 and 7.1.2). Each
/// reason is the name of a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Invalid {
    /// Neither a solicitation nor an advertisement, or fragmented (RFC 6980).
    #[error("neither a neighbour solicitation nor an advertisement")]
    NotNdp,
    /// The hop limit is not 255.
    #[error("the hop limit is not 255: the packet comes from another link")]
    HopLimit,
    /// The ICMP checksum is wrong.
    #[error("the ICMPv6 checksum is wrong")]
    Checksum,
    /// The code is not 0.
    #[error("the ICMPv6 code is not 0")]
    Code,
    /// Shorter than 24 bytes.
    #[error("the message is shorter than 24 bytes")]
    Truncated,
    /// The target or the source is a multicast address.
    #[error("the target or the source is a multicast address")]
    Multicast,
    /// An option has length 0 or reaches beyond the message.
    #[error("an option has length 0 or reaches beyond the message")]
    Option,
    /// A solicitation without source that isn't sent to the solicited-node
    /// address or says a link-layer address, or an advertisement to a group
    /// that says it was solicited.
    #[error("source, destination and flags don't go together")]
    Contradiction,
}

impl Invalid {
    /// Every reason.
    pub const ALL: &[Self] = &[
        Self::NotNdp,
        Self::HopLimit,
        Self::Checksum,
        Self::Code,
        Self::Truncated,
        Self::Multicast,
        Self::Option,
        Self::Contradiction,
    ];

    /// The name of the drop, in snake_case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotNdp => "not_ndp",
            Self::HopLimit => "ndp_hop_limit",
            Self::Checksum => "ndp_checksum",
            Self::Code => "ndp_code",
            Self::Truncated => "ndp_truncated",
            Self::Multicast => "ndp_multicast",
            Self::Option => "ndp_option",
            Self::Contradiction => "ndp_contradiction",
        }
    }
}

/// A valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr {
    /// Asks for the target's link-layer address.
    Solicitation(Solicitation),
    /// States the target's link-layer address.
    Advertisement(Advertisement),
}

/// A valid neighbour solicitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// The address of the host that asks; unspecified in duplicate address detection.
    pub source: Ipv6Addr,
    /// The Ethernet address the frame came from.
    pub frame_source: Mac,
    /// Whose link-layer address is wanted.
    pub target: Ipv6Addr,
    /// The asker's link-layer address, from the option.
    pub source_link: Option<Mac>,
}

/// A valid neighbour advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// The address whose link-layer address the message states.
    pub target: Ipv6Addr,
    /// The target is a router.
    pub router: bool,
    /// It answers a solicitation and so proves that the target can be reached.
    pub solicited: bool,
    /// It replaces what was known before.
    pub replaces: bool,
    /// The target's link-layer address, from the option.
    pub target_link: Option<Mac>,
}

impl Repr {
    /// The message in `frame`, with all checks of RFC 4861 section 7.1.
    ///
    /// # Errors
    /// [`Invalid`] says which check failed.
    pub fn parse(frame: &[u8], headers: &Headers) -> Result<Self, Invalid> {
        let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
        if headers.net != Net::Ipv6
            || headers.proto != protocol::ICMPV6
            || headers.fragment != Fragment::Whole
        {
            return Err(Invalid::NotNdp);
        }
        let packet = frame.get(l3..).ok_or(Invalid::NotNdp)?;
        let message = frame.get(l4..usize::from(headers.end)).ok_or(Invalid::NotNdp)?;
        let (ip, _) = ipv6::Header::split(packet).map_err(|_| Invalid::NotNdp)?;
        let (icmp, body) = icmpv6::Header::split(message).map_err(|_| Invalid::Truncated)?;
        if !matches!(icmp.kind(), kind::NEIGHBOUR_SOLICITATION | kind::NEIGHBOUR_ADVERTISEMENT) {
            return Err(Invalid::NotNdp);
        }
        if ip.hop_limit() != HOP_LIMIT {
            return Err(Invalid::HopLimit);
        }
        let (source, destination) = (ip.src(), ip.dst());
        let pseudo =
            checksum::pseudo_v6(source, destination, protocol::ICMPV6, message.len() as u32);
        if checksum::fold(checksum::sum(message, pseudo)) != 0xffff {
            return Err(Invalid::Checksum);
        }
        if icmp.code() != 0 {
            return Err(Invalid::Code);
        }
        let target = array::<16>(body, 0).map(Ipv6Addr::from).ok_or(Invalid::Truncated)?;
        if target.is_multicast() || source.is_multicast() {
            return Err(Invalid::Multicast);
        }
        let options = Options::parse(body.get(16..).unwrap_or_default())?;
        if icmp.kind() == kind::NEIGHBOUR_ADVERTISEMENT {
            return advertisement(icmp.rest(), destination, target, options);
        }
        if source.is_unspecified()
            && (destination != solicited_node(target) || options.source_link.is_some())
        {
            return Err(Invalid::Contradiction);
        }
        let (_, frame_source) = ethernet::macs(frame).ok_or(Invalid::NotNdp)?;
        let source_link = options.source_link;
        Ok(Self::Solicitation(Solicitation { source, frame_source, target, source_link }))
    }
}

fn advertisement(
    flags: u32,
    destination: Ipv6Addr,
    target: Ipv6Addr,
    options: Options,
) -> Result<Repr, Invalid> {
    let advertisement = Advertisement {
        target,
        router: flags & ROUTER != 0,
        solicited: flags & SOLICITED != 0,
        replaces: flags & OVERRIDE != 0,
        target_link: options.target_link,
    };
    if destination.is_multicast() && advertisement.solicited {
        return Err(Invalid::Contradiction);
    }
    Ok(Repr::Advertisement(advertisement))
}

/// The link-layer address options of a message.
struct Options {
    source_link: Option<Mac>,
    target_link: Option<Mac>,
}

impl Options {
    fn parse(mut bytes: &[u8]) -> Result<Self, Invalid> {
        let mut options = Self { source_link: None, target_link: None };
        while let Some((kind, tail)) = bytes.split_first() {
            let length = tail.first().map_or(0, |units| usize::from(*units) * 8);
            if length == 0 {
                return Err(Invalid::Option);
            }
            let (option, rest) = bytes.split_at_checked(length).ok_or(Invalid::Option)?;
            match *kind {
                SOURCE_LINK => options.source_link = array(option, 2).map(Mac),
                TARGET_LINK => options.target_link = array(option, 2).map(Mac),
                _ => {}
            }
            bytes = rest;
        }
        Ok(options)
    }
}

/// The group that the holder of `target` listens to (RFC 4291 section 2.7.1).
#[must_use]
pub const fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    let [.., g, h] = target.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (g & 0x00ff), h)
}

/// The Ethernet address of an IPv6 group (RFC 2464 section 7).
#[must_use]
pub const fn group_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

/// Asks who has `target`: its group, or only `known`, to learn whether `known` still
/// has it (RFC 4861 section 7.3.3).
#[must_use]
pub fn solicit(
    mac: Mac,
    address: Ipv6Addr,
    target: Ipv6Addr,
    known: Option<Mac>,
) -> [u8; FRAME_LEN] {
    let group = solicited_node(target);
    let (dst_mac, dst) = match known {
        Some(known) => (known, target),
        None => (group_mac(group), group),
    };
    let message = (kind::NEIGHBOUR_SOLICITATION, 0, SOURCE_LINK);
    frame((dst_mac, dst), (mac, address), target, message, mac)
}

/// Answers a solicitation: its target is at `mac`. The caller has seen that
/// the target is its own.
#[must_use]
pub fn advertise(asked: &Solicitation, mac: Mac, router: bool) -> [u8; FRAME_LEN] {
    let (to, solicited) = if asked.source.is_unspecified() {
        ((group_mac(ALL_NODES), ALL_NODES), 0)
    } else {
        ((asked.source_link.unwrap_or(asked.frame_source), asked.source), SOLICITED)
    };
    let flags = solicited | OVERRIDE | if router { ROUTER } else { 0 };
    let message = (kind::NEIGHBOUR_ADVERTISEMENT, flags, TARGET_LINK);
    frame(to, (mac, asked.target), asked.target, message, mac)
}

/// Tells everybody that `address` is at `mac` (RFC 4861 section 7.2.6).
#[must_use]
pub fn announcement(mac: Mac, address: Ipv6Addr, router: bool) -> [u8; FRAME_LEN] {
    let flags = OVERRIDE | if router { ROUTER } else { 0 };
    let message = (kind::NEIGHBOUR_ADVERTISEMENT, flags, TARGET_LINK);
    frame((group_mac(ALL_NODES), ALL_NODES), (mac, address), address, message, mac)
}

/// The frame of one message, given as (type, flags, option type).
fn frame(
    to: (Mac, Ipv6Addr),
    from: (Mac, Ipv6Addr),
    target: Ipv6Addr,
    (message, flags, option): (u8, u32, u8),
    link: Mac,
) -> [u8; FRAME_LEN] {
    let mut body = [0; MESSAGE_LEN - icmpv6::LEN];
    body[..16].copy_from_slice(&target.octets());
    body[16..18].copy_from_slice(&[option, 1]);
    body[18..].copy_from_slice(&link.0);
    let ip = ipv6::Repr {
        src: from.1,
        dst: to.1,
        next_header: protocol::ICMPV6,
        hop_limit: HOP_LIMIT,
        traffic_class: 0,
        flow_label: 0,
        payload_len: MESSAGE_LEN as u16,
    };
    let pseudo = checksum::pseudo_v6(ip.src, ip.dst, protocol::ICMPV6, MESSAGE_LEN as u32);
    let icmp = icmpv6::Repr::Other { kind: message, code: 0, rest: flags };
    let mut frame = [0; FRAME_LEN];
    let outer = ethernet::Repr { dst: to.0, src: from.0, kind: ethertype::IPV6 };
    frame[..14].copy_from_slice(&outer.emit());
    frame[14..54].copy_from_slice(&ip.emit());
    frame[54..62].copy_from_slice(&icmp.emit(pseudo, &body));
    frame[62..].copy_from_slice(&body);
    frame
}
