//! Addresses that no host can have.
use std::net::IpAddr;

use ipnet::IpNet;

use crate::Config;

impl Config {
    /// Why `address` cannot be that of a VIP, a backend, a next hop or a pool, and
    /// what would be right; `None` if it can.
    pub(crate) fn unusable(&self, address: IpAddr) -> Option<String> {
        let prefixes = self.interfaces.iter().flat_map(|interface| &interface.addresses);
        reserved(address).or_else(|| prefixes.copied().find_map(|net| edge(net, address)))
    }
}

/// Why `address` is that of no host in its network `net`, and what would be right.
pub(super) fn edge(net: IpNet, address: IpAddr) -> Option<String> {
    // Prefixes of one or two addresses have neither (RFC 3021, RFC 6164).
    if net.max_prefix_len() - net.prefix_len() < 2 {
        return None;
    }
    let what = match net {
        IpNet::V4(v4) if address == v4.broadcast() => "broadcast",
        _ if address == net.network() => "network",
        _ => return None,
    };
    Some(format!("{address} is the {what} address of {}; give an address within it", net.trunc()))
}

/// Why no host can have `address`, in any network.
pub(super) fn reserved(address: IpAddr) -> Option<String> {
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
