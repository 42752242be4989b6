//! `[[pool]]`.
use std::collections::HashSet;

use crate::tree::Way;

use super::Findings;
use super::usable::unusable;

pub(super) fn check(findings: &mut Findings<'_>) {
    let config = findings.config;
    findings.names("pool", config.pools.iter().map(|pool| pool.name.as_str()));
    for (place, pool) in config.pools.iter().enumerate() {
        let mut seen = HashSet::new();
        for (at, address) in pool.addresses.iter().enumerate() {
            let way = Way::to("pool").item(place).key("addresses").item(at);
            if !seen.insert(address) {
                findings.wrong(&way, format!("{address} is in the pool twice; leave one out"));
            } else if let Some(text) = unusable(*address).or_else(|| config.unreachable(*address)) {
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
