//! The rules of services without connections: gates in the root, and in a group for each
//! service guards for sources that no client has and rules by the client's lowest bits.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use dpdk::flow::{
    Action, EthFields, FlowError, FlowErrorKind, Ipv4Fields, Ipv6Fields, Item, Match, PortFields,
};
use wire::{FlowKey, Mac, Transport};

use super::{Class, FRAGMENT, Lowered, Masked, actions::connection, guard as of_all, refuse};
use crate::Change;
use crate::classes::BITS;
use crate::stateless::{NUMBERS, Sources};

fn number(group: u32) -> Result<u32, FlowError> {
    if NUMBERS.contains(&group) {
        return Ok(group - NUMBERS.start());
    }
    refuse(FlowErrorKind::Attribute, "the kernel has no such group of rules")
}

/// Leads packets to an address of ours, a VIP and a port to the group.
pub(super) fn gate(pattern: &[Item], group: u32) -> Result<Lowered, FlowError> {
    let group = number(group)?;
    let [Item::Eth(Match::Fields(EthFields { dst, src, ethertype })), net, transport] = pattern
    else {
        return refuse(FlowErrorKind::Item, "the program sends untagged packets on only");
    };
    let own = (dst.mask, src.mask, ethertype.mask) == (Mac::BROADCAST, Mac::default(), 0);
    let (protocol, ports) = match transport {
        Item::Tcp(ports) => (Transport::Tcp, ports),
        Item::Udp(ports) => (Transport::Udp, ports),
        _ => return refuse(FlowErrorKind::Item, "TCP and UDP are matched, nothing else"),
    };
    let port = match ports {
        Match::Present => Some(None),
        Match::Fields(PortFields { sport, dport, tcp_flags }) => {
            let exact = (sport.mask, dport.mask, tcp_flags.mask) == (0, u16::MAX, 0);
            (exact && dport.spec != 0).then_some(Some(dport.spec))
        }
        Match::Range | Match::Unsupported => None,
    };
    match (own, to(net), port) {
        (true, Some(vip), Some(port)) => {
            Ok(Lowered::Gate { mac: dst.spec, vip, port, protocol, group })
        }
        _ => refuse(FlowErrorKind::Item, "a gate is a VIP and a port, and whole packets only"),
    }
}

/// The destination of whole packets, if nothing else is matched.
fn to(net: &Item) -> Option<IpAddr> {
    match net {
        Item::Ipv4(Match::Fields(fields)) => {
            let Ipv4Fields { dst, fragment, .. } = *fields;
            let only = *fields == Ipv4Fields { dst, fragment, ..Ipv4Fields::default() };
            let whole = (fragment.spec, fragment.mask) == (0, FRAGMENT);
            (only && whole && dst.mask == u32::MAX).then(|| Ipv4Addr::from(dst.spec).into())
        }
        Item::Ipv6(Match::Fields(fields)) => {
            let Ipv6Fields { dst, .. } = *fields;
            let only = *fields == Ipv6Fields { dst, ..Ipv6Fields::default() };
            (only && dst.mask == u128::MAX).then(|| Ipv6Addr::from(dst.spec).into())
        }
        _ => None,
    }
}

/// Source and mask as bits of the family, if nothing else is matched.
fn from(net: &Item) -> Option<(IpAddr, IpAddr)> {
    match net {
        Item::Ipv4(Match::Fields(fields)) => {
            let Ipv4Fields { src, .. } = *fields;
            let only = *fields == Ipv4Fields { src, ..Ipv4Fields::default() };
            only.then(|| (Ipv4Addr::from(src.spec).into(), Ipv4Addr::from(src.mask).into()))
        }
        Item::Ipv6(Match::Fields(fields)) => {
            let Ipv6Fields { src, .. } = *fields;
            let only = *fields == Ipv6Fields { src, ..Ipv6Fields::default() };
            only.then(|| (Ipv6Addr::from(src.spec).into(), Ipv6Addr::from(src.mask).into()))
        }
        _ => None,
    }
}

/// Leaves packets of the group to software: those that the program leaves there by itself,
/// or those of some sources.
pub(super) fn guard(pattern: &[Item], group: u32) -> Result<Lowered, FlowError> {
    let group = number(group)?;
    let source = match pattern {
        // All of them.
        [Item::Eth(Match::Present)] => {
            let sources = Sources { value: [0; 2], mask: [0; 2] };
            return Ok(Lowered::Sources { group, sources });
        }
        [Item::Eth(Match::Present), net] => from(net),
        _ => None,
    };
    let words = crate::stateless::words;
    match source {
        Some((source, mask)) if words(mask) == words(whole(source)) => {
            Ok(Lowered::Source { group, source })
        }
        Some((source, mask)) => {
            let (bits, mask) = (words(source), words(mask));
            let value = [bits[0] & mask[0], bits[1] & mask[1]];
            let sources = Sources { value, mask };
            Ok(Lowered::Sources { group, sources })
        }
        None => of_all(pattern),
    }
}

/// The mask of a whole address of the family.
fn whole(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::BROADCAST.into(),
        IpAddr::V6(_) => Ipv6Addr::from(u128::MAX).into(),
    }
}

/// A rule for clients by the lowest bits of their addresses.
pub(super) fn masked(
    pattern: &[Item],
    (group, priority): (u32, u32),
    actions: &[Action],
) -> Result<Lowered, FlowError> {
    let group = number(group)?;
    let source = match pattern {
        [Item::Eth(Match::Present), net] => from(net),
        _ => None,
    };
    let Some((source, mask)) = source else {
        return refuse(FlowErrorKind::Item, "rules of a service match its clients' addresses");
    };
    let (value, mask, any) = match (source, mask) {
        (IpAddr::V4(source), IpAddr::V4(mask)) => {
            (source.to_bits().into(), mask.to_bits().into(), IpAddr::from([0; 4]))
        }
        (IpAddr::V6(source), IpAddr::V6(mask)) => {
            (source.to_bits(), mask.to_bits(), IpAddr::from([0; 16]))
        }
        _ => return refuse(FlowErrorKind::Item, "the addresses are of different families"),
    };
    let bits = mask.trailing_ones();
    if bits > BITS || mask != (1 << bits) - 1 || value & !mask != 0 {
        return refuse(FlowErrorKind::Item, "the lowest 14 bits of an address are matched at most");
    }
    let any = SocketAddr::new(any, 0);
    let Some(key) = FlowKey::new(Transport::Udp, any, any) else {
        return refuse(FlowErrorKind::Item, "the addresses are of different families");
    };
    let sent = connection(key, Class::Any, actions)?;
    if sent.change != Change::None || sent.timeout_s.is_some() {
        return refuse(FlowErrorKind::Action, "clients' packets get Ethernet addresses only");
    }
    Ok(Lowered::Masked(Masked { group, value: value as u32, bits, priority, sent }))
}
