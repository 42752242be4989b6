//! Routes: over which interface and gateway an address is reached.
use std::net::{IpAddr, Ipv4Addr};

use flow::InterfaceId;
use ipnet::IpNet;

use crate::Interfaces;

/// One route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The addresses it is for.
    pub to: IpNet,
    /// The interface they are reached over.
    pub interface: InterfaceId,
    /// The gateway; `None`: they are on the link.
    pub via: Option<IpAddr>,
}

/// Routes of both families; the longest prefix wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteTable {
    /// Longest prefix first, so that the first match is the right one.
    v4: Vec<Route>,
    v6: Vec<Route>,
    /// Network and mask of each route in `v4`.
    prefixes: Vec<(u32, u32)>,
}

impl RouteTable {
    /// The configured `routes` and one for each interface's own networks. Of two
    /// routes for the same prefix a configured one wins, and of two configured ones
    /// the first.
    #[must_use]
    pub fn new(routes: &[Route], interfaces: &Interfaces) -> Self {
        let connected = interfaces.iter().flat_map(|(interface, i)| {
            i.addresses.iter().map(move |net| Route { to: net.trunc(), interface, via: None })
        });
        let mut all: Vec<Route> = routes.iter().copied().chain(connected).collect();
        all.sort_by_key(|route| std::cmp::Reverse(route.to.prefix_len()));
        let (v4, v6): (Vec<_>, _) = all.into_iter().partition(|route| route.to.addr().is_ipv4());
        let prefixes = v4.iter().map(|route| match route.to {
            IpNet::V4(net) => (net.network().to_bits(), net.netmask().to_bits()),
            IpNet::V6(_) => (u32::MAX, 0),
        });
        Self { prefixes: prefixes.collect(), v4, v6 }
    }

    /// The gateways of all routes.
    pub fn gateways(&self) -> impl Iterator<Item = IpAddr> {
        self.v4.iter().chain(&self.v6).filter_map(|route| route.via)
    }

    /// The interface and next hop's address for `addr`: the gateway, or `addr`
    /// itself on the link. `None`: unreachable.
    #[inline]
    #[must_use]
    pub fn next(&self, addr: IpAddr) -> Option<(InterfaceId, IpAddr)> {
        let route = match addr {
            IpAddr::V4(addr) => self.route_v4(addr),
            IpAddr::V6(_) => self.v6.iter().find(|route| route.to.contains(&addr)),
        }?;
        Some((route.interface, route.via.unwrap_or(addr)))
    }

    #[inline]
    fn route_v4(&self, addr: Ipv4Addr) -> Option<&Route> {
        let addr = addr.to_bits();
        let place = self.prefixes.iter().position(|(net, mask)| addr & mask == *net)?;
        self.v4.get(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_longest_prefix_wins_in_both_families() {
        let route = |to: &str, interface, via: Option<&str>| Route {
            to: to.parse().unwrap(),
            interface: InterfaceId(interface),
            via: via.map(ip),
        };
        let table = RouteTable::new(
            &[
                route("0.0.0.0/0", 0, Some("10.0.0.254")),
                route("10.1.0.0/16", 1, None),
                route("10.1.2.0/24", 2, Some("10.9.9.9")),
                route("::/0", 3, Some("fe80::1")),
            ],
            &Interfaces::default(),
        );
        assert_eq!(table.next(ip("8.8.8.8")), Some((InterfaceId(0), ip("10.0.0.254"))));
        assert_eq!(table.next(ip("10.1.3.4")), Some((InterfaceId(1), ip("10.1.3.4"))));
        assert_eq!(table.next(ip("10.1.2.4")), Some((InterfaceId(2), ip("10.9.9.9"))));
        assert_eq!(table.next(ip("fd00::1")), Some((InterfaceId(3), ip("fe80::1"))));
        assert_eq!(RouteTable::default().next(ip("fd00::1")), None);
    }

    proptest! {
        #[test]
        fn agrees_with_a_search_through_all(
            routes in prop::collection::vec((any::<u32>(), 0u8..=32, 0u16..4), 0..20),
            addr in any::<u32>(),
            near in any::<prop::sample::Index>(),
        ) {
            let routes: Vec<Route> = routes.iter().map(|&(net, len, interface)| Route {
                to: IpNet::new(IpAddr::V4(net.into()), len).unwrap().trunc(),
                interface: InterfaceId(interface),
                via: None,
            }).collect();
            let addr = IpAddr::V4(addr.into());
            let addr = if routes.is_empty() { addr } else { routes[near.index(routes.len())].to.addr() };
            let table = RouteTable::new(&routes, &Interfaces::default());
            let best = routes.iter().filter(|r| r.to.contains(&addr)).map(|r| r.to.prefix_len()).max();
            let found = table.next(addr).map(|(interface, _)| interface);
            let wanted = best.and_then(|len| {
                routes.iter().find(|r| r.to.contains(&addr) && r.to.prefix_len() == len)
            });
            prop_assert_eq!(found, wanted.map(|route| route.interface));
        }
    }
}
