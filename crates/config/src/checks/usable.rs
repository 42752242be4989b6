//! Addresses that no host can have.
use std::net::IpAddr;

/// Why `address` cannot be that of a VIP, backend, next hop or interface, and
/// what would be right; `None` if it can.
pub(crate) fn unusable(address: IpAddr) -> Option<String> {
    let what = match address {
        IpAddr::V4(a) if a.is_broadcast() => "the broadcast address",
        IpAddr::V4(a) if a.octets()[0] == 0 || a.octets()[0] >= 240 => "of a reserved range",
        IpAddr::V4(a) if a.is_link_local() => "a link-local address",
        IpAddr::V6(a) if a.to_ipv4_mapped().is_some() => "an IPv4 address mapped into IPv6",
        IpAddr::V6(a) if a.is_unicast_link_local() => "a link-local address",
        _ if address.is_unspecified() => "the unspecified address",
        _ if address.is_loopback() => "a loopback address",
        _ if address.is_multicast() => "a multicast address",
        _ => return None,
    };
    let right = match address {
        IpAddr::V6(a) => match a.to_ipv4_mapped() {
            Some(a) => format!("write {a}"),
            None => "give a global or unique local unicast address".to_owned(),
        },
        IpAddr::V4(_) => "give a unicast address".to_owned(),
    };
    Some(format!("{address} is {what}; {right}"))
}
