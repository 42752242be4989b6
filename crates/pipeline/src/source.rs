//! Source addresses from which a packet may open a connection or be answered.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::context::Context;

/// Whether a client behind routers can have this address, so that its packets are
/// forwarded. Link-local addresses are valid on their link only (RFC 4291 section
/// 2.5.6, RFC 3927 section 2.7).
#[inline]
pub(crate) fn is_client<O>(cx: &Context<'_, O>, ip: IpAddr) -> bool {
    let link_local = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !link_local && is_host(cx, ip)
}

/// Whether another host can have this address, so that it may be answered: not a
/// group, loopback, reserved or unspecified address, none of the load balancer's
/// own, and not the network or broadcast address of one of its networks.
#[inline]
pub(crate) fn is_host<O>(cx: &Context<'_, O>, ip: IpAddr) -> bool {
    let reserved = match ip {
        IpAddr::V4(v4) => is_reserved_v4(v4) || cx.snapshot.interfaces.reserve_v4(v4),
        IpAddr::V6(v6) => is_reserved_v6(v6) || cx.snapshot.interfaces.owner(ip).is_some(),
    };
    !reserved && !cx.snapshot.services.has(ip)
}

/// 0/8, 127/8, multicast, and what is reserved behind it with the limited
/// broadcast address (RFC 1122 section 3.2.1.3, RFC 6890).
#[inline]
const fn is_reserved_v4(ip: Ipv4Addr) -> bool {
    let [first, ..] = ip.octets();
    matches!(first, 0 | 127 | 224..)
}

/// Unspecified, loopback and multicast addresses, and IPv4-mapped ones, which name
/// IPv4 nodes inside a host and are not sent (RFC 4291 section 2.5.5.2).
#[inline]
const fn is_reserved_v6(ip: Ipv6Addr) -> bool {
    let [first, ..] = ip.octets();
    // All of these addresses except multicast begin with a zero byte, which hardly
    // any other address does.
    first == 0xff || (first == 0 && is_special_v6(ip))
}

#[cold]
const fn is_special_v6(ip: Ipv6Addr) -> bool {
    ip.is_unspecified() || ip.is_loopback() || matches!(ip.segments(), [0, 0, 0, 0, 0, 0xffff, ..])
}
