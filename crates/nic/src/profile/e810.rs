//! Intel E810: the checks of ice's Flow Director parser (DPDK,
//! `drivers/net/ice/ice_fdir_filter.c`: `ice_fdir_parse_pattern`,
//! `ice_fdir_parse_action`; `ice_generic_flow.c`).
use dpdk::flow::{Action, FlowError, FlowErrorKind, Item, Match, PortFields, Rule};
use flow::CardProfile;

use super::{Card, Filter, Parsed, Rates, Target, Words, refuse};
use crate::key::{FlowType, Key, KeyV4, KeyV6, rest};

pub(crate) static CARD: Card = Card {
    profile: CardProfile::E810,
    max_queues: 256,
    reta_sizes: &[128, 512, 2048],
    one_mask: false,
    counts: true,
    rates: Rates::UNKNOWN,
    rx_buffer_kib: |_| None,
    parse: |rule, port| parse(rule, port.queues).map(Parsed::Director),
    program: |_| Ok(()),
    words: Words {
        full: "Add filter rule failed: the Flow Director table is full",
        duplicate: "Rule already exists!",
        mask: "Profile configure failed: rules of the flow type have another input set",
        soft_id: "",
    },
};

fn item(message: &str) -> FlowError {
    refuse(FlowErrorKind::Item, FlowError::INVALID, message)
}

fn parse(rule: &Rule, queues: u16) -> Result<Filter, FlowError> {
    attributes(rule)?;
    let (kind, key, mask) = pattern(&rule.pattern)?;
    let actions = actions(&rule.actions, queues)?;
    Ok(Filter { kind, key, mask, soft_id: None, ..actions })
}

fn attributes(rule: &Rule) -> Result<(), FlowError> {
    let attributes = &rule.attributes;
    let message = if !attributes.ingress {
        "Only support ingress."
    } else if attributes.egress {
        "Not support egress."
    } else if attributes.transfer {
        "Not support transfer."
    } else if attributes.priority != 0 {
        "Not support priority."
    } else if attributes.group != 0 {
        "Not support group."
    } else {
        return Ok(());
    };
    Err(refuse(FlowErrorKind::Attribute, FlowError::INVALID, message))
}

fn pattern(items: &[Item]) -> Result<(FlowType, Key, Key), FlowError> {
    if items.iter().any(is_range) {
        return Err(item("Not support range"));
    }
    let (ip, transport) = match items {
        [Item::Eth(Match::Present), ip, transport] => (ip, transport),
        [Item::Eth(_), _, _] => {
            return Err(item("Invalid input set: ETH fields aren't modelled"));
        }
        _ => return Err(item("Not supported pattern: it must be ETH / IPV4 or IPV6 / TCP or UDP")),
    };
    let (kind, ports, proto) = match transport {
        Item::Tcp(ports) => (FlowType::Tcp, ports, 6),
        Item::Udp(ports) => (FlowType::Udp, ports, 17),
        _ => return Err(item("Not supported pattern: behind the IP item comes TCP or UDP")),
    };
    let ports = match ports {
        Match::Fields(ports) => *ports,
        Match::Present => PortFields::default(),
        _ => return Err(item("Invalid TCP mask")),
    };
    if ports.tcp_flags.mask != 0 {
        return Err(item("Invalid TCP mask"));
    }
    let (sport, dport) = (ports.sport.mask, ports.dport.mask);
    if !whole_or_nothing(sport, u16::MAX) || !whole_or_nothing(dport, u16::MAX) {
        return Err(item("Invalid input set: a port's mask must be all ones or zero"));
    }
    let ports_key = rest(ports.sport.spec & sport, ports.dport.spec & dport, proto);
    let ports_mask = rest(sport, dport, u8::MAX);
    let (key, mask) = addresses(ip, ports_key, ports_mask)?;
    let nothing = match mask {
        Key::V4(mask) => mask.addresses == 0,
        Key::V6(mask) => mask.src == 0 && mask.dst == 0,
    };
    if nothing && sport == 0 && dport == 0 {
        return Err(item("Invalid input set: no field is matched"));
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

fn addresses(ip: &Item, ports_key: u64, ports_mask: u64) -> Result<(Key, Key), FlowError> {
    let partial = || item("Invalid input set: an address's mask must be all ones or zero");
    match ip {
        Item::Ipv4(fields) => {
            let fields = match fields {
                Match::Fields(fields) => *fields,
                Match::Present => Default::default(),
                _ => return Err(item("Invalid IPv4 mask.")),
            };
            if fields.fragment.mask != 0 {
                return Err(item("Invalid IPv4 mask."));
            }
            if fields.proto.mask != 0 || fields.tos.mask != 0 || fields.ttl.mask != 0 {
                return Err(item("Invalid input set: of IPV4 only addresses are modelled"));
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
                _ => return Err(item("Invalid IPv6 mask")),
            };
            if fields.proto.mask != 0 || fields.hop_limit.mask != 0 || fields.vtc_flow.mask != 0 {
                return Err(item("Invalid input set: of IPV6 only addresses are modelled"));
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
        _ => Err(item("Not supported pattern: behind ETH comes IPV4 or IPV6")),
    }
}

/// At most one of QUEUE, DROP and PASSTHRU, at most one MARK and one COUNT;
/// MARK or COUNT alone continue to RSS. Key and mask are the caller's.
fn actions(actions: &[Action], queues: u16) -> Result<Filter, FlowError> {
    let no = |message: &str| refuse(FlowErrorKind::Action, FlowError::INVALID, message);
    let (mut targets, mut marks, mut counts) = (0, 0, 0);
    let nothing = Key::V4(KeyV4::default());
    let mut filter = Filter {
        kind: FlowType::Other,
        key: nothing,
        mask: nothing,
        target: Target::Rss,
        mark: None,
        soft_id: None,
        count: false,
    };
    for action in actions {
        match action {
            Action::Queue(queue) if *queue >= queues => return Err(no("Invalid queue for FDIR.")),
            Action::Queue(queue) => {
                (targets, filter.target) = (targets + 1, Target::Queue(*queue));
            }
            Action::Drop => (targets, filter.target) = (targets + 1, Target::Drop),
            Action::Passthru => (targets, filter.target) = (targets + 1, Target::Rss),
            Action::Mark(mark) => (marks, filter.mark) = (marks + 1, Some(*mark)),
            Action::Count => (counts, filter.count) = (counts + 1, true),
            _ => return Err(no("Invalid action.")),
        }
    }
    if targets > 1 {
        return Err(no("Unsupported action combination"));
    }
    if marks > 1 {
        return Err(no("Too many mark actions"));
    }
    if counts > 1 {
        return Err(no("Too many count actions"));
    }
    if targets + marks + counts == 0 {
        return Err(no("Empty action"));
    }
    Ok(filter)
}
