//! Intel X550: the checks of ixgbe's Flow Director parser in perfect mode
//! (DPDK, `drivers/net/ixgbe/ixgbe_flow.c`: `ixgbe_parse_fdir_filter_normal`,
//! `ixgbe_parse_fdir_act_attr`; `ixgbe_fdir.c`).
//!
//! A 5-tuple rule with QUEUE alone reaches the n-tuple parser first on 82599
//! and X540 only (`MAC_TYPE_FILTER_SUP_EXT`); on X550 all rules are Flow
//! Director's.
use dpdk::flow::{Action, FlowError, FlowErrorKind, Ipv4Fields, Item, Match, PortFields, Rule};
use flow::CardProfile;

use super::{Filter, Parsed, Profile, Rates, Target, Words, ingress_root, refuse};
use crate::key::{FlowType, Key, KeyV4, TableKey, rest};

/// The packet buffer of X540 and X550, in KiB, that filters share.
const PACKET_BUFFER_KIB: u32 = 384;

pub(crate) static PROFILE: Profile = Profile {
    profile: CardProfile::X550,
    max_queues: 128,
    reta_sizes: &[128, 512],
    one_mask: true,
    counts: false,
    highest_group: 0,
    rules_by_index: false,
    rates: Rates::UNKNOWN,
    // 64 KiB for 2048 perfect filters: 32 bytes each.
    rx_buffer_kib: |capacity| {
        u32::try_from(capacity / 32).ok().and_then(|used| PACKET_BUFFER_KIB.checked_sub(used))
    },
    parse: |rule, port| parse(rule, port.queues).map(Parsed::Director),
    program,
    words: Words {
        full: "Failed to create flow: the Flow Director table is full",
        duplicate: "Conflict with existing fdir filter!",
        mask: "Failed to create flow: only one global mask is supported, all the masks must be the same",
        soft_id: "Failed to create flow: the soft id is in use, filters are deleted by bucket hash and soft id",
    },
};

fn item(detail: &str) -> FlowError {
    let message = format!("Not supported by fdir filter: {detail}");
    refuse(FlowErrorKind::Item, FlowError::INVALID, message)
}

fn range() -> FlowError {
    let message = "Not supported last point for range";
    refuse(FlowErrorKind::Unspecified, FlowError::INVALID, message)
}

fn parse(rule: &Rule, queues: u16) -> Result<Filter, FlowError> {
    let (kind, key, mask) = pattern(&rule.pattern)?;
    ingress_root(rule, "No support for transfer.")?;
    let (target, soft_id) = actions(&rule.actions)?;
    if matches!(target, Target::Queue(queue) if queue >= queues) {
        let message = format!("Not supported by fdir filter: the port has {queues} receive queues");
        return Err(refuse(FlowErrorKind::Action, FlowError::NOT_SUPPORTED, message));
    }
    Ok(Filter {
        kind,
        key: Key::V4(key.masked(mask)),
        mask: Key::V4(mask),
        target,
        mark: Some(soft_id.unwrap_or(0)),
        soft_id,
        count: false,
    })
}

fn pattern(items: &[Item]) -> Result<(FlowType, KeyV4, KeyV4), FlowError> {
    let mut items = items.iter();
    let mut next = items.next();
    if let Some(Item::Eth(ether)) = next {
        match ether {
            Match::Present => {}
            Match::Range => return Err(range()),
            _ => return Err(item("ETH fields need MAC VLAN mode")),
        }
        next = items.next();
    }
    let fields = match next {
        Some(Item::Ipv4(Match::Fields(fields))) => fields,
        Some(Item::Ipv4(Match::Range)) => return Err(range()),
        Some(Item::Ipv4(_)) => return Err(item("IPV4 needs a mask, of addresses only")),
        Some(Item::Ipv6(_)) => {
            return Err(item("perfect filters are for IPv4 only, IPv6 needs signature mode"));
        }
        Some(Item::Vlan(_)) => return Err(item("VLAN is for MAC VLAN mode, IPV4 can't follow")),
        _ => return Err(item("the pattern must be ETH / IPV4 / TCP or UDP / END")),
    };
    let (src_dst, src_dst_mask) = addresses(fields)?;
    let (kind, ports, proto) = match items.next() {
        Some(Item::Tcp(ports)) => (FlowType::Tcp, ports, 6),
        Some(Item::Udp(ports)) => (FlowType::Udp, ports, 17),
        // Ports count as fully masked in, with value 0; see `program`.
        None => {
            let mask = KeyV4 { addresses: src_dst_mask, rest: rest(u16::MAX, u16::MAX, u8::MAX) };
            return Ok((FlowType::Other, KeyV4 { addresses: src_dst, rest: 0 }, mask));
        }
        Some(_) => return Err(item("behind IPV4 comes TCP or UDP")),
    };
    let ports = match ports {
        Match::Fields(ports) => ports,
        Match::Range => return Err(range()),
        _ => return Err(item("TCP and UDP need a mask, of ports only")),
    };
    if ports.tcp_flags.mask != 0 {
        return Err(item("of TCP only ports can be matched"));
    }
    if items.next().is_some() {
        return Err(item("behind TCP or UDP comes END"));
    }
    let key = KeyV4 { addresses: src_dst, rest: rest(ports.sport.spec, ports.dport.spec, proto) };
    Ok((kind, key, KeyV4 { addresses: src_dst_mask, rest: port_mask(ports) }))
}

fn addresses(fields: &Ipv4Fields) -> Result<(u64, u64), FlowError> {
    if fields.proto.mask != 0 {
        return Err(item("the protocol is matched by the TCP or UDP item, not in IPV4"));
    }
    if fields.tos.mask != 0 || fields.ttl.mask != 0 || fields.fragment.mask != 0 {
        return Err(item("of IPV4 only addresses can be matched"));
    }
    let join = |src: u32, dst: u32| u64::from(src) << 32 | u64::from(dst);
    Ok((join(fields.src.spec, fields.dst.spec), join(fields.src.mask, fields.dst.mask)))
}

/// With both ports masked out the card masks the protocol out too
/// (`IXGBE_FDIRM_L4P`).
fn port_mask(ports: &PortFields) -> u64 {
    let proto = if ports.sport.mask == 0 && ports.dport.mask == 0 { 0 } else { u8::MAX };
    rest(ports.sport.mask, ports.dport.mask, proto)
}

/// QUEUE or DROP, then perhaps MARK.
fn actions(actions: &[Action]) -> Result<(Target, Option<u32>), FlowError> {
    let no = |detail: String| {
        refuse(FlowErrorKind::Action, FlowError::INVALID, format!("Not supported action.{detail}"))
    };
    let (first, others) = match actions {
        [first, others @ ..] => (first, others),
        [] => return Err(no(" QUEUE or DROP must come first".into())),
    };
    let target = match first {
        Action::Queue(queue) => Target::Queue(*queue),
        Action::Drop => Target::Drop,
        _ => return Err(no(" QUEUE or DROP must come first".into())),
    };
    match others {
        [] => Ok((target, None)),
        [Action::Mark(mark)] if *mark <= u32::from(u16::MAX) => Ok((target, Some(*mark))),
        [Action::Mark(mark)] => {
            Err(no(format!(" The soft id has 16 bits, mark {mark} doesn't fit")))
        }
        _ => Err(no(" Behind QUEUE or DROP only MARK can come".into())),
    }
}

/// The check of `ixgbe_fdir_filter_program`, which validation doesn't reach.
fn program(rule: &Parsed) -> Result<(), FlowError> {
    if matches!(rule, Parsed::Director(filter) if filter.kind == FlowType::Other) {
        let message =
            "By this device, IPv4-other is not supported without L4 protocol and ports masked!";
        return Err(refuse(FlowErrorKind::Handle, FlowError::NOT_SUPPORTED, message));
    }
    Ok(())
}
