//! `[[route]]` and `[[neighbour]]`.
use std::collections::HashMap;
use std::net::IpAddr;

use crate::tree::Way;

use super::{Findings, Reach};

pub(super) fn check(findings: &mut Findings<'_>) {
    let config = findings.config;
    let mut prefixes = HashMap::new();
    for (place, route) in config.routes.iter().enumerate() {
        let way = Way::to("route").item(place);
        if let Some(first) = prefixes.insert(route.prefix, way.clone()) {
            let line = findings.line(&first);
            findings.wrong(
                &way.key("prefix"),
                format!(
                    "{} already has a route (line {line}); leave one of them out",
                    route.prefix
                ),
            );
        }
        if route.via.is_ipv4() != route.prefix.addr().is_ipv4() {
            let text = format!(
                "{} is not of the family of {}; give a next hop of the same",
                route.via, route.prefix
            );
            findings.wrong(&way.key("via"), text);
        } else {
            check_hop(findings, &way.key("via"), route.via);
        }
    }
    let mut neighbours = HashMap::new();
    for (place, neighbour) in config.static_neighbours.iter().enumerate() {
        let way = Way::to("neighbour").item(place);
        if let Some(first) = neighbours.insert(neighbour.address, way.clone()) {
            let line = findings.line(&first);
            findings.wrong(
                &way.key("address"),
                format!(
                    "{} is already given (line {line}); leave one of them out",
                    neighbour.address
                ),
            );
        }
        check_hop(findings, &way.key("address"), neighbour.address);
        let mac = neighbour.mac;
        if mac.is_group() || mac.0 == [0; 6] {
            findings.wrong(&way.key("mac"), format!("{mac} cannot be the address of a host; give one with an even first byte, as 02:00:0a:01:00:05"));
        }
    }
}

/// Whether `address` may be asked for its Ethernet address.
fn check_hop(findings: &mut Findings<'_>, way: &Way, address: IpAddr) {
    let config = findings.config;
    if let Some(text) = config.unusable(address) {
        findings.wrong(way, text);
    } else if config.is_own(address) {
        findings.wrong(
            way,
            format!("{address} is an interface's own address; give that of another host"),
        );
    } else if let Some(service) = config.services.iter().find(|service| service.vip == address) {
        let text = format!(
            "{address} is the vip of service '{}'; give the address of another host",
            service.name
        );
        findings.wrong(way, text);
    } else if config.reach(address) != Reach::OnLink {
        let mut prefixes: Vec<String> = Vec::new();
        for prefix in config.interfaces.iter().flat_map(|interface| &interface.addresses) {
            if prefix.addr().is_ipv4() == address.is_ipv4() {
                prefixes.push(prefix.trunc().to_string());
            }
        }
        let hint = if prefixes.is_empty() {
            "no interface has an address of its family".to_owned()
        } else {
            format!("on-link are {}", prefixes.join(", "))
        };
        findings.wrong(way, format!("{address} is not on-link at any interface; {hint}"));
    }
}
