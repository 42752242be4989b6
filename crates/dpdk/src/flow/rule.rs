//! A rule as a typed value: attributes, pattern and actions.
use std::ops::RangeInclusive;

use wire::{FlowKey, Mac, Transport};

use super::Action;

/// Where a rule lives (`rte_flow_attr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Group (table) number; 0 is the root.
    pub group: u32,
    /// Priority within the group; 0 is the highest.
    pub priority: u32,
    /// Applies to received packets.
    pub ingress: bool,
    /// Applies to sent packets.
    pub egress: bool,
    /// Applies in the embedded switch.
    pub transfer: bool,
}

/// One header field of a pattern item: the value and the bits of it that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field<T> {
    /// The value (`spec`).
    pub spec: T,
    /// The bits that must agree (`mask`); all zero: the field is not matched.
    pub mask: T,
}

/// What an item says of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match<T> {
    /// The header is there (`spec`, `last` and `mask` all null).
    Present,
    /// The header is there and these fields agree.
    Fields(T),
    /// A range (`last` not null): no card we know takes it, so its bounds are not kept.
    Range,
    /// The mask covers bits that the fields here don't carry (a checksum, a
    /// sequence number): to be refused, as taking it would match too much.
    Unsupported,
}

/// Fields of `rte_flow_item_eth`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthFields {
    /// Destination address.
    pub dst: Field<Mac>,
    /// Source address.
    pub src: Field<Mac>,
    /// EtherType.
    pub ethertype: Field<u16>,
}

/// Fields of `rte_flow_item_vlan`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlanFields {
    /// Tag control information.
    pub tci: Field<u16>,
    /// EtherType behind the tag.
    pub inner_type: Field<u16>,
}

/// Fields of `rte_flow_item_ipv4`; addresses as big-endian numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv4Fields {
    /// Source address.
    pub src: Field<u32>,
    /// Destination address.
    pub dst: Field<u32>,
    /// Next protocol.
    pub proto: Field<u8>,
    /// Type of service.
    pub tos: Field<u8>,
    /// Time to live.
    pub ttl: Field<u8>,
    /// Flags and fragment offset.
    pub fragment: Field<u16>,
}

/// Fields of `rte_flow_item_ipv6`; addresses as big-endian numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv6Fields {
    /// Source address.
    pub src: Field<u128>,
    /// Destination address.
    pub dst: Field<u128>,
    /// Next header.
    pub proto: Field<u8>,
    /// Hop limit.
    pub hop_limit: Field<u8>,
    /// The first four bytes: version, traffic class (bits 20 to 27) and flow label.
    pub vtc_flow: Field<u32>,
}

/// Fields of `rte_flow_item_tcp` and `rte_flow_item_udp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortFields {
    /// Source port.
    pub sport: Field<u16>,
    /// Destination port.
    pub dport: Field<u16>,
    /// TCP control bits; unused for UDP.
    pub tcp_flags: Field<u8>,
}

/// One item of a pattern (`rte_flow_item`), outermost header first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// `RTE_FLOW_ITEM_TYPE_ETH`.
    Eth(Match<EthFields>),
    /// `RTE_FLOW_ITEM_TYPE_VLAN`.
    Vlan(Match<VlanFields>),
    /// `RTE_FLOW_ITEM_TYPE_IPV4`.
    Ipv4(Match<Ipv4Fields>),
    /// `RTE_FLOW_ITEM_TYPE_IPV6`.
    Ipv6(Match<Ipv6Fields>),
    /// `RTE_FLOW_ITEM_TYPE_TCP`.
    Tcp(Match<PortFields>),
    /// `RTE_FLOW_ITEM_TYPE_UDP`.
    Udp(Match<PortFields>),
    /// Any other item, by its number.
    Other(u32),
}

/// A whole rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where it lives.
    pub attributes: Attributes,
    /// What it matches, outermost header first, without the END item.
    pub pattern: Vec<Item>,
    /// What it does, without the END action.
    pub actions: Vec<Action>,
}

impl Rule {
    /// An ingress rule in the root group that matches exactly the 5-tuple `flow`.
    #[must_use]
    pub fn five_tuple(flow: &FlowKey, actions: Vec<Action>) -> Self {
        let exact = |sport: u16, dport: u16| PortFields {
            sport: Field { spec: sport, mask: u16::MAX },
            dport: Field { spec: dport, mask: u16::MAX },
            tcp_flags: Field::default(),
        };
        let (net, ports) = match flow {
            FlowKey::V4(key) => (
                Item::Ipv4(Match::Fields(Ipv4Fields {
                    src: Field { spec: u32::from(key.src), mask: u32::MAX },
                    dst: Field { spec: u32::from(key.dst), mask: u32::MAX },
                    ..Ipv4Fields::default()
                })),
                exact(key.sport, key.dport),
            ),
            FlowKey::V6(key) => (
                Item::Ipv6(Match::Fields(Ipv6Fields {
                    src: Field { spec: u128::from(key.src), mask: u128::MAX },
                    dst: Field { spec: u128::from(key.dst), mask: u128::MAX },
                    ..Ipv6Fields::default()
                })),
                exact(key.sport, key.dport),
            ),
        };
        let transport = match flow.proto() {
            Transport::Tcp => Item::Tcp(Match::Fields(ports)),
            Transport::Udp => Item::Udp(Match::Fields(ports)),
        };
        Self {
            attributes: Attributes { ingress: true, ..Attributes::default() },
            pattern: vec![Item::Eth(Match::Present), net, transport],
            actions,
        }
    }
}

/// How far a rule belongs to a range of the switch's groups; see
/// `FlowPort::recover`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupUse {
    /// Whether it is a rule of the switch.
    pub transfer: bool,
    /// The group it is in.
    pub group: u32,
    /// The group it jumps to.
    pub jump: Option<u32>,
}

impl GroupUse {
    /// Of `rule`.
    #[must_use]
    pub fn of(rule: &Rule) -> Self {
        let jump = rule.actions.iter().find_map(|action| match action {
            Action::Jump(group) => Some(*group),
            _ => None,
        });
        Self { transfer: rule.attributes.transfer, group: rule.attributes.group, jump }
    }

    /// 0: it jumps into `groups` from elsewhere; 1: it is in them; `None`: neither.
    #[must_use]
    pub fn rank(&self, groups: &RangeInclusive<u32>) -> Option<u8> {
        if !self.transfer {
            return None;
        }
        if groups.contains(&self.group) {
            return Some(1);
        }
        self.jump.filter(|jump| groups.contains(jump)).map(|_| 0)
    }
}

/// What a rule's COUNT action has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets matched.
    pub packets: u64,
    /// Bytes matched.
    pub bytes: u64,
}

/// An installed rule. The holder of the handle owns the rule and gives it back to the
/// same port to destroy it; it can be neither copied nor made up.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a rule whose handle is dropped stays in the NIC for ever"]
pub struct RuleHandle(usize);

impl RuleHandle {
    /// The handle for a port's own number or pointer of a rule. Only for
    /// implementations of a port.
    pub fn from_port(value: usize) -> Self {
        Self(value)
    }

    /// The number or pointer the port gave it.
    #[must_use]
    pub fn port_value(&self) -> usize {
        self.0
    }
}
