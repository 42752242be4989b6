//! `[[pool]]`.
use std::collections::HashSet;
use std::net::IpAddr;

use crate::tree::Way;
use crate::{Config, Service};

use super::Findings;

pub(super) fn check(findings: &mut Findings<'_>) {
    let config = findings.config;
    findings.names("pool", config.pools.iter().map(|pool| pool.name.as_str()));
    for (place, pool) in config.pools.iter().enumerate() {
        let mut seen = HashSet::new();
        for (at, address) in pool.addresses.iter().enumerate() {
            let way = Way::to("pool").item(place).key("addresses").item(at);
            if !seen.insert(address) {
                findings.wrong(&way, format!("{address} is in the pool twice; leave one out"));
            } else if let Some(text) = config
                .unusable(*address)
                .or_else(|| config.unreachable(*address))
                .or_else(|| config.another_host(*address))
            {
                findings.wrong(&way, text);
            } else if let Some(service) = config.services.iter().find(|s| s.vip == *address) {
                findings.wrong(
                    &way,
                    format!(
                        "{address} is the vip of service '{}'; give the pool addresses of its own",
                        service.name
                    ),
                );
            }
        }
    }
}

impl Config {
    /// Why a pool that has `address` would take it away from another host: HNLB
    /// answers ARP and NDP for the addresses of its pools.
    fn another_host(&self, address: IpAddr) -> Option<String> {
        let its = |service: &&Service| service.backends.iter().any(|b| b.address == address);
        let what = if let Some(service) = self.services.iter().find(its) {
            format!("a backend of service '{}'", service.name)
        } else if self.routes.iter().any(|route| route.via == address) {
            "the next hop of a route".to_owned()
        } else if self.static_neighbours.iter().any(|known| known.address == address) {
            "a neighbour".to_owned()
        } else {
            return None;
        };
        Some(format!(
            "{address} is {what}, and the load balancer would answer ARP and NDP for it; give the pool addresses that no host has"
        ))
    }
}
