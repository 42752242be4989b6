//! `[[interface]]`.
use std::collections::HashMap;

use ipnet::IpNet;

use crate::tree::Way;

use super::Findings;
use super::usable::{edge, reserved};

pub(super) fn check(findings: &mut Findings<'_>) {
    let config = findings.config;
    if config.interfaces.is_empty() {
        let text = "there is no interface; add an [[interface]] with a port and addresses";
        findings.wrong(&Way::to("interface"), text);
    }
    let mut taken = HashMap::new();
    let mut kernels = HashMap::new();
    let mut prefixes: Vec<(IpNet, Way)> = Vec::new();
    for (place, interface) in config.interfaces.iter().enumerate() {
        let way = Way::to("interface").item(place);
        let ports = config.ports.iter().map(|port| port.name.as_str());
        findings.reference(&way.key("port"), "port", &interface.port, ports);
        if let Some(first) = taken.insert((&interface.port, interface.vlan), way.clone()) {
            let line = findings.line(&first);
            let (key, tag) = match interface.vlan {
                Some(vlan) => ("vlan", format!("vlan {vlan}")),
                None => ("port", "untagged packets".to_owned()),
            };
            findings.wrong(&way.key(key), format!("port '{}' already has an interface for {tag} (line {line}); give one of them another vlan, or all addresses to one", interface.port));
        }
        if let Some(kernel) = &interface.kernel {
            let way = way.key("kernel");
            if let Some(first) = kernels.insert(kernel, way.clone()) {
                let line = findings.line(&first);
                findings.wrong(&way, format!("'{kernel}' is the kernel's interface of another one already (line {line}); give each a name of its own"));
            }
            let mut ports = config.ports.iter();
            if let Some(port) = ports.find(|port| port.kernel_interface() == Some(kernel)) {
                findings.wrong(&way, format!("'{kernel}' is the device of port '{}'; give the kernel's interface another name", port.name));
            }
        }
        if let Some(mac) = interface.mac.filter(|mac| mac.is_group() || mac.0 == [0; 6]) {
            findings.wrong(&way.key("mac"), format!("{mac} cannot be the address of a host; give one with an even first byte, as 02:00:0a:01:00:05"));
        }
        for (place, address) in interface.addresses.iter().enumerate() {
            let way = way.key("addresses").item(place);
            check_address(findings, &way, *address);
            if let Some((other, first)) =
                prefixes.iter().find(|(p, _)| p.contains(address) || address.contains(p))
            {
                let line = findings.line(first);
                findings.wrong(&way, format!("{address} overlaps with {other} (line {line}); what is on-link must be so at one interface only, once"));
            }
            prefixes.push((*address, way));
        }
    }
}

fn check_address(findings: &mut Findings<'_>, way: &Way, address: IpNet) {
    if let Some(text) = reserved(address.addr()) {
        return findings.wrong(way, text);
    }
    if address.prefix_len() == 0 {
        let text = format!(
            "{address} makes everything on-link; give the length of the network's prefix, and a [[route]] for the rest"
        );
        return findings.wrong(way, text);
    }
    if let Some(text) = edge(address, address.addr()) {
        findings.wrong(way, text);
    }
}
