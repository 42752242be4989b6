//! What a rule does with the packets it matches (`rte_flow_action`).
use std::net::{Ipv4Addr, Ipv6Addr};

use wire::Mac;

/// One action of a rule. Drivers apply modifications in the order given and
/// before the fate, whatever the place of the fate in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Deliver to this receive queue.
    Queue(u16),
    /// Attach this mark (Flow Director soft id).
    Mark(u32),
    /// Drop.
    Drop,
    /// Count packets and bytes.
    Count,
    /// Continue as if the rule were not there.
    Passthru,
    /// Continue in this group.
    Jump(u32),
    /// Report the rule when no packet has matched it for so many seconds (24
    /// bits); see `FlowPort::query_age`.
    Age {
        /// Seconds.
        timeout_s: u32,
    },
    /// Deliver to one of these receive queues, by the hash over addresses and
    /// ports with the port's own key.
    Rss(Vec<u16>),
    /// Send out of this DPDK port. Deprecated in DPDK for `RepresentedPort`,
    /// still the only one some drivers know.
    PortId(u16),
    /// Send to what this DPDK port represents; for a physical port: the wire.
    RepresentedPort(u16),
    /// Modify a header field (`MODIFY_FIELD`).
    ModifyField(Modify),
    /// `SET_MAC_SRC`.
    SetMacSrc(Mac),
    /// `SET_MAC_DST`.
    SetMacDst(Mac),
    /// `SET_IPV4_SRC`.
    SetIpv4Src(Ipv4Addr),
    /// `SET_IPV4_DST`.
    SetIpv4Dst(Ipv4Addr),
    /// `SET_IPV6_SRC`.
    SetIpv6Src(Ipv6Addr),
    /// `SET_IPV6_DST`.
    SetIpv6Dst(Ipv6Addr),
    /// `SET_TP_SRC`: the source port of TCP or UDP.
    SetTpSrc(u16),
    /// `SET_TP_DST`: the destination port of TCP or UDP.
    SetTpDst(u16),
    /// `DEC_TTL`: one off the TTL or hop limit. No card checks for 0 or 1.
    DecTtl,
    /// Put these headers (from Ethernet up to the tunnel's own) in front.
    RawEncap(Vec<u8>),
    /// Take headers like these off.
    RawDecap(Vec<u8>),
    /// Any other action, by its number.
    Other(u32),
}

/// The operation of a `MODIFY_FIELD`, on the outermost header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modify {
    /// The whole field becomes this value.
    Set(SetField),
    /// Adds to the field, wrapping round.
    Add(HopField, u8),
    /// Subtracts from the field, wrapping round.
    Sub(HopField, u8),
    /// Adds to a number of TCP's, modulo 2^32: how two connections are spliced.
    AddNumber(NumberField, u32),
    /// Anything else that `MODIFY_FIELD` can say: part of a field, another
    /// field, another source. To be refused, as what it was is not kept.
    Unsupported,
}

/// A field of `MODIFY_FIELD` and the value it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetField {
    /// `RTE_FLOW_FIELD_MAC_SRC`.
    MacSrc(Mac),
    /// `RTE_FLOW_FIELD_MAC_DST`.
    MacDst(Mac),
    /// `RTE_FLOW_FIELD_IPV4_SRC`.
    Ipv4Src(Ipv4Addr),
    /// `RTE_FLOW_FIELD_IPV4_DST`.
    Ipv4Dst(Ipv4Addr),
    /// `RTE_FLOW_FIELD_IPV6_SRC`.
    Ipv6Src(Ipv6Addr),
    /// `RTE_FLOW_FIELD_IPV6_DST`.
    Ipv6Dst(Ipv6Addr),
    /// `RTE_FLOW_FIELD_TCP_PORT_SRC`.
    TcpSport(u16),
    /// `RTE_FLOW_FIELD_TCP_PORT_DST`.
    TcpDport(u16),
    /// `RTE_FLOW_FIELD_UDP_PORT_SRC`.
    UdpSport(u16),
    /// `RTE_FLOW_FIELD_UDP_PORT_DST`.
    UdpDport(u16),
}

/// A field that counts bytes of a TCP stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberField {
    /// `RTE_FLOW_FIELD_TCP_SEQ_NUM`.
    TcpSequence,
    /// `RTE_FLOW_FIELD_TCP_ACK_NUM`.
    TcpAcknowledgement,
}

/// A field that counts hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopField {
    /// `RTE_FLOW_FIELD_IPV4_TTL`.
    Ipv4Ttl,
    /// `RTE_FLOW_FIELD_IPV6_HOPLIMIT`.
    Ipv6HopLimit,
}
