//! `[announce]`.
use std::collections::HashMap;

use crate::tree::Way;
use crate::{Announce, Bgp, Vrrp};

use super::Findings;

pub(super) fn check(findings: &mut Findings<'_>) {
    let Some(announce) = &findings.config.announce else { return };
    let way = Way::to("announce");
    device(findings, &way, announce);
    if let Some(bgp) = &announce.bgp {
        peers(findings, &way.key("bgp"), bgp);
    }
    if let Some(vrrp) = &announce.vrrp {
        addresses(findings, &way.key("vrrp"), vrrp);
    }
}

fn device(findings: &mut Findings<'_>, way: &Way, announce: &Announce) {
    let (config, name) = (findings.config, announce.device.as_str());
    let taken = config.interfaces.iter().any(|own| own.kernel.as_deref() == Some(name));
    if taken || config.ports.iter().any(|own| own.kernel_interface() == Some(name)) {
        let text = format!(
            "'{name}' is an interface of the configuration already; give this one a name of its own"
        );
        findings.wrong(&way.key("device"), text);
    }
}

fn peers(findings: &mut Findings<'_>, way: &Way, bgp: &Bgp) {
    let config = findings.config;
    if bgp.router_id(config).is_none() {
        let text = "no interface has an IPv4 address to take it from; give one, as router_id = \"192.0.2.1\"";
        findings.wrong(&way.key("router_id"), text);
    }
    let mut seen = HashMap::new();
    for (place, peer) in bgp.peers.iter().enumerate() {
        let way = way.key("peer").item(place);
        let own = config.interfaces.iter().flat_map(|own| &own.addresses);
        if own.map(ipnet::IpNet::addr).any(|own| own == peer.address) {
            let text = format!(
                "{} is an address of the load balancer's own; give the router's",
                peer.address
            );
            findings.wrong(&way.key("address"), text);
        }
        if let Some(first) = seen.insert(peer.address, way.clone()) {
            let line = findings.line(&first);
            let text =
                format!("{} is a peer already (line {line}); leave one of them out", peer.address);
            findings.wrong(&way.key("address"), text);
        }
        let password = peer.password.as_deref().unwrap_or_default();
        if password.contains(|own: char| own == '"' || own == '\\' || own.is_control()) {
            let text = "BIRD takes no quotation mark, backslash or control character; use others";
            findings.wrong(&way.key("password"), text);
        }
    }
}

fn addresses(findings: &mut Findings<'_>, way: &Way, vrrp: &Vrrp) {
    let config = findings.config;
    let name = vrrp.interface.as_str();
    let own = config.interfaces.iter().find(|own| own.kernel.as_deref() == Some(name));
    let Some(own) = own else {
        let text = format!(
            "no [[interface]] has kernel = \"{name}\"; the load balancers hear each other over such an interface"
        );
        return findings.wrong(&way.key("interface"), text);
    };
    for (place, address) in vrrp.addresses.iter().enumerate() {
        let way = way.key("addresses").item(place);
        if config
            .interfaces
            .iter()
            .flat_map(|own| &own.addresses)
            .any(|own| own.addr() == address.addr())
        {
            let text = format!(
                "{} is an address of the load balancer's own; a floating address belongs to none of them",
                address.addr()
            );
            findings.wrong(&way, text);
        } else if !own.addresses.iter().any(|own| own.contains(&address.addr())) {
            let text = format!(
                "{address} is not on-link at {name}; give an address of one of its networks"
            );
            findings.wrong(&way, text);
        }
    }
    // Each of the load balancers would answer ARP for it.
    for (place, service) in config.services.iter().enumerate() {
        let mut networks = config.interfaces.iter().flat_map(|own| &own.addresses);
        if let Some(network) = networks.find(|own| own.contains(&service.vip)) {
            let text = format!(
                "with [announce.vrrp] {} cannot be on-link ({network}): every load balancer would answer for it; take a VIP of another network, which routers reach over a floating address",
                service.vip
            );
            findings.wrong(&Way::to("service").item(place).key("vip"), text);
        }
    }
}
