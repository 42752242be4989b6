//! The actions and items that rules have in common which send packets on
//! without a worker, be it for a connection or for a stateless service.
use dpdk::flow::{Action, Field, HopField, Ipv4Fields, Ipv6Fields, Item, Match, Modify, SetField};

use super::rewrite::Style;

/// The longest timeout of AGE: 24 bits.
const LONGEST_AGE_S: u32 = (1 << 24) - 1;

/// Flags and fragment offset of IPv4 packets that are no fragments: neither
/// more fragments nor an offset.
pub(crate) const WHOLE: Field<u16> = Field { spec: 0, mask: 0x3fff };

/// Matches packets with a TTL or hop limit of 0 and 1, which go no further: all
/// bits but the lowest are zero.
pub(crate) fn last_hop(ipv6: bool) -> Item {
    let ttl = Field { spec: 0, mask: 0xfe };
    match ipv6 {
        false => Item::Ipv4(Match::Fields(Ipv4Fields { ttl, ..Ipv4Fields::default() })),
        true => Item::Ipv6(Match::Fields(Ipv6Fields { hop_limit: ttl, ..Ipv6Fields::default() })),
    }
}

/// Writes a field, in the driver's words.
pub(crate) fn write(set: SetField, style: Style) -> Action {
    if !style.legacy {
        return Action::ModifyField(Modify::Set(set));
    }
    match set {
        SetField::MacSrc(mac) => Action::SetMacSrc(mac),
        SetField::MacDst(mac) => Action::SetMacDst(mac),
        SetField::Ipv4Src(addr) => Action::SetIpv4Src(addr),
        SetField::Ipv4Dst(addr) => Action::SetIpv4Dst(addr),
        SetField::Ipv6Src(addr) => Action::SetIpv6Src(addr),
        SetField::Ipv6Dst(addr) => Action::SetIpv6Dst(addr),
        SetField::TcpSport(port) | SetField::UdpSport(port) => Action::SetTpSrc(port),
        SetField::TcpDport(port) | SetField::UdpDport(port) => Action::SetTpDst(port),
    }
}

/// One off the TTL. mlx5 subtracts by adding: its fields wrap round.
pub(crate) fn decrement(ipv6: bool, style: Style) -> Action {
    let field = if ipv6 { HopField::Ipv6HopLimit } else { HopField::Ipv4Ttl };
    if style.legacy { Action::DecTtl } else { Action::ModifyField(Modify::Add(field, u8::MAX)) }
}

/// Counts, ages by `timeout_ms` if the driver can, and sends out of the port
/// that rules call `output`.
pub(crate) fn send(
    style: Style,
    timeout_ms: Option<u32>,
    output: u16,
) -> impl Iterator<Item = Action> {
    let age = timeout_ms.filter(|_| style.age).map(|timeout_ms| Action::Age {
        timeout_s: timeout_ms.div_ceil(1000).clamp(1, LONGEST_AGE_S),
    });
    let output =
        if style.port_id { Action::PortId(output) } else { Action::RepresentedPort(output) };
    std::iter::once(Action::Count).chain(age).chain([output])
}
