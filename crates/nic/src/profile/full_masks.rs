//! Patterns of cards that match a field wholly or not at all, and have one
//! input set for each flow type: E810 and XL710.
use dpdk::flow::{FlowError, FlowErrorKind, Item, Match, PortFields};

use super::refuse;
use crate::key::{FlowType, Key, KeyV4, KeyV6, rest};

/// A driver's words for the patterns that it refuses.
pub(super) struct PatternWords {
    /// An item has a last value.
    pub(super) range: &'static str,
    /// The Ethernet item has fields.
    pub(super) eth: &'static str,
    /// The items are not Ethernet, IP, and TCP or UDP.
    pub(super) unsupported: &'static str,
    /// An IPv4 field is matched that can't be.
    pub(super) ipv4: &'static str,
    /// An IPv6 field is matched that can't be.
    pub(super) ipv6: &'static str,
    /// A TCP field is matched that can't be.
    pub(super) tcp: &'static str,
    /// A UDP field is matched that can't be.
    pub(super) udp: &'static str,
    /// A mask has some ones.
    pub(super) partial: &'static str,
    /// An IP field is matched that the emulated NIC doesn't match.
    pub(super) other_fields: &'static str,
    /// No field is matched.
    pub(super) nothing: &'static str,
}

fn item(message: &str) -> FlowError {
    refuse(FlowErrorKind::Item, FlowError::INVALID, message)
}

/// The flow type, the value and the mask of ETH / IPV4 or IPV6 / TCP or UDP,
/// where every field of addresses and ports is matched wholly or not at all.
pub(super) fn pattern(
    items: &[Item],
    words: &PatternWords,
) -> Result<(FlowType, Key, Key), FlowError> {
    if items.iter().any(is_range) {
        return Err(item(words.range));
    }
    let (ip, transport) = match items {
        [Item::Eth(Match::Present), ip, transport] => (ip, transport),
        [Item::Eth(_), _, _] => {
            return Err(item(words.eth));
        }
        _ => return Err(item(words.unsupported)),
    };
    let (kind, ports, proto, no_mask) = match transport {
        Item::Tcp(ports) => (FlowType::Tcp, ports, 6, words.tcp),
        Item::Udp(ports) => (FlowType::Udp, ports, 17, words.udp),
        _ => return Err(item(words.unsupported)),
    };
    let ports = match ports {
        Match::Fields(ports) => *ports,
        Match::Present => PortFields::default(),
        _ => return Err(item(no_mask)),
    };
    if ports.tcp_flags.mask != 0 {
        return Err(item(no_mask));
    }
    let (sport, dport) = (ports.sport.mask, ports.dport.mask);
    if !whole_or_nothing(sport, u16::MAX) || !whole_or_nothing(dport, u16::MAX) {
        return Err(item(words.partial));
    }
    let ports_key = rest(ports.sport.spec & sport, ports.dport.spec & dport, proto);
    let ports_mask = rest(sport, dport, u8::MAX);
    let (key, mask) = addresses(ip, words, ports_key, ports_mask)?;
    let nothing = match mask {
        Key::V4(mask) => mask.addresses == 0,
        Key::V6(mask) => mask.src == 0 && mask.dst == 0,
    };
    if nothing && sport == 0 && dport == 0 {
        return Err(item(words.nothing));
    }
    Ok((kind, key, mask))
}

fn is_range(item: &Item) -> bool {
    matches!(
        item,
        Item::Eth(Match::Range)
            | Item::Vlan(Match::Range)
            | Item::Ipv4(Match::Range)
            | Item::Ipv6(Match::Range)
            | Item::Tcp(Match::Range)
            | Item::Udp(Match::Range)
    )
}

fn whole_or_nothing<T: PartialEq + Default>(mask: T, ones: T) -> bool {
    mask == ones || mask == T::default()
}

fn addresses(
    ip: &Item,
    words: &PatternWords,
    ports_key: u64,
    ports_mask: u64,
) -> Result<(Key, Key), FlowError> {
    let partial = || item(words.partial);
    match ip {
        Item::Ipv4(fields) => {
            let fields = match fields {
                Match::Fields(fields) => *fields,
                Match::Present => Default::default(),
                _ => return Err(item(words.ipv4)),
            };
            if fields.fragment.mask != 0 {
                return Err(item(words.ipv4));
            }
            if fields.proto.mask != 0 || fields.tos.mask != 0 || fields.ttl.mask != 0 {
                return Err(item(words.other_fields));
            }
            let (src, dst) = (fields.src.mask, fields.dst.mask);
            if !whole_or_nothing(src, u32::MAX) || !whole_or_nothing(dst, u32::MAX) {
                return Err(partial());
            }
            let join = |src: u32, dst: u32| u64::from(src) << 32 | u64::from(dst);
            let addresses = join(fields.src.spec & src, fields.dst.spec & dst);
            Ok((
                Key::V4(KeyV4 { addresses, rest: ports_key }),
                Key::V4(KeyV4 { addresses: join(src, dst), rest: ports_mask }),
            ))
        }
        Item::Ipv6(fields) => {
            let fields = match fields {
                Match::Fields(fields) => *fields,
                Match::Present => Default::default(),
                _ => return Err(item(words.ipv6)),
            };
            if fields.proto.mask != 0 || fields.hop_limit.mask != 0 || fields.vtc_flow.mask != 0 {
                return Err(item(words.other_fields));
            }
            let (src, dst) = (fields.src.mask, fields.dst.mask);
            if !whole_or_nothing(src, u128::MAX) || !whole_or_nothing(dst, u128::MAX) {
                return Err(partial());
            }
            let (key_src, key_dst) = (fields.src.spec & src, fields.dst.spec & dst);
            Ok((
                Key::V6(KeyV6 { src: key_src, dst: key_dst, rest: ports_key }),
                Key::V6(KeyV6 { src, dst, rest: ports_mask }),
            ))
        }
        _ => Err(item(words.unsupported)),
    }
}
