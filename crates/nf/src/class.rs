//! What a frame is, and which bucket it falls into (section 4.1.7.1).
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::numbers::protocol;
use wire::{Fragment, Headers, Net};

/// How a flow becomes a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Hash {
    /// Both directions of a flow fall into one bucket, as an NF with state needs it.
    /// ICMP goes by addresses and, in echoes, by the identifier.
    #[default]
    Symmetric,
    /// CRC-32 over source, destination, protocol and ports, or ICMP's type and checksum:
    /// the directions of a flow fall into different buckets, and so do the packets of
    /// one ping.
    Thesis,
}

/// What is done with a kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Through a network function, by addresses where there are no ports.
    Balance,
    /// Straight to the paired port.
    Pass,
    /// Dropped, with a name.
    Drop,
}

/// Why a packet has no flow of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFlow {
    /// Neither IPv4 nor IPv6: ARP, LLDP, a frame with two VLAN tags.
    NotIp,
    /// A header that can't be.
    Malformed,
    /// A fragment, which has no ports or must go where the others go.
    Fragment,
    /// An IP protocol other than TCP, UDP and ICMP.
    Protocol,
}

/// What is done with what has no flow. Section 4.1.7.1 drops all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Traffic {
    /// ARP and everything else that isn't IP; it has no bucket, so [`Policy::Balance`]
    /// is [`Policy::Pass`].
    pub not_ip: Policy,
    /// IP frames with a VLAN tag, whatever is inside. The tag stays as it is.
    pub tagged: Policy,
    /// Fragments.
    pub fragments: Policy,
    /// Other IP protocols.
    pub protocols: Policy,
    /// Headers that can't be; without a bucket, as `not_ip`.
    pub malformed: Policy,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            not_ip: Policy::Pass,
            tagged: Policy::Balance,
            fragments: Policy::Balance,
            protocols: Policy::Balance,
            malformed: Policy::Drop,
        }
    }
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// The hash of its flow or its addresses; `None`: it has neither.
    pub hash: Option<u32>,
    /// Why it has no flow.
    pub no_flow: Option<NoFlow>,
    /// Whether it has a VLAN tag.
    pub tagged: bool,
    /// Where the IPv4 header of a whole datagram is, whose identification may be
    /// written over.
    pub ipv4_at: Option<u16>,
}

impl Class {
    /// Looks at a frame.
    #[must_use]
    pub fn of(frame: &[u8], hash: Hash) -> Self {
        let Ok(headers) = Headers::parse(frame) else {
            return Self::without(NoFlow::Malformed);
        };
        let (Some(src), Some(dst)) = (headers.src_addr(frame), headers.dst_addr(frame)) else {
            return Self::without(NoFlow::NotIp);
        };
        let whole = headers.fragment == Fragment::Whole;
        let (values, no_flow) = values(&headers, frame, hash);
        Self {
            hash: Some(hash.of((src, values.0), (dst, values.1), headers.proto)),
            no_flow,
            tagged: headers.vlan.is_some(),
            ipv4_at: (whole && headers.net == Net::Ipv4).then_some(headers.l3),
        }
    }

    const fn without(reason: NoFlow) -> Self {
        Self { hash: None, no_flow: Some(reason), tagged: false, ipv4_at: None }
    }
}

impl Hash {
    fn of(self, source: (IpAddr, u16), destination: (IpAddr, u16), protocol: u8) -> u32 {
        match self {
            Self::Symmetric => balance::symmetric(source, destination, protocol),
            Self::Thesis => balance::thesis(source, destination, protocol),
        }
    }
}

/// The two values beside the addresses, and why there are none.
fn values(headers: &Headers, frame: &[u8], hash: Hash) -> ((u16, u16), Option<NoFlow>) {
    if headers.fragment != Fragment::Whole {
        return ((0, 0), Some(NoFlow::Fragment));
    }
    let l4 = usize::from(headers.l4);
    let word = |at: usize| {
        let bytes = frame.get(l4 + at..l4 + at + 2);
        bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_be_bytes)
    };
    match headers.proto {
        protocol::TCP | protocol::UDP => ((word(0), word(2)), None),
        protocol::ICMP | protocol::ICMPV6 => match hash {
            Hash::Thesis => ((word(0) >> 8, word(2)), None),
            Hash::Symmetric if is_echo(word(0) >> 8) => ((word(4), word(4)), None),
            Hash::Symmetric => ((0, 0), None),
        },
        _ => ((0, 0), Some(NoFlow::Protocol)),
    }
}

/// Whether an ICMP type of either family is an echo or its reply.
const fn is_echo(kind: u16) -> bool {
    matches!(kind, 0 | 8 | 128 | 129)
}
