//! `[[port]]` and `[port.nic]`.
use std::collections::HashMap;

use flow::{Entries, alternatives};

use crate::tree::Way;
use crate::{Nic, Port};

use super::Findings;

pub(super) fn check(findings: &mut Findings<'_>) {
    let config = findings.config;
    if config.ports.is_empty() {
        findings
            .wrong(&Way::to("port"), "there is no port; add a [[port]] with a name and a device");
    }
    findings.names("port", config.ports.iter().map(|port| port.name.as_str()));
    let mut devices = HashMap::new();
    for (place, port) in config.ports.iter().enumerate() {
        let way = Way::to("port").item(place);
        if let Some(other) = devices.insert(&port.device, &port.name) {
            let text = format!(
                "port '{other}' has the same device, {}; each port needs a device of its own",
                port.device
            );
            findings.wrong(&way.key("device"), text);
        }
        check_port(findings, &way, port);
        if port.nic.is_some() && port.xdp_interface().is_some() {
            let text =
                format!("device {} has a match table of its own; remove [port.nic]", port.device);
            findings.wrong(&way.key("nic"), text);
        }
        if let Some(nic) = &port.nic {
            check_nic(findings, &way.key("nic"), nic);
        }
    }
}

fn check_port(findings: &mut Findings<'_>, way: &Way, port: &Port) {
    let rings = [("rx_descriptors", port.rx_descriptors), ("tx_descriptors", port.tx_descriptors)];
    for (key, count) in rings {
        if count % 32 != 0 {
            let text =
                format!("{count} is not a multiple of 32; take {}", count.next_multiple_of(32));
            findings.wrong(&way.key(key), text);
        }
    }
    let mut interfaces = findings.config.interfaces.iter();
    let v6 =
        interfaces.any(|i| i.port == port.name && i.addresses.iter().any(|a| a.addr().is_ipv6()));
    if v6 && port.mtu < 1280 {
        let text = format!(
            "{} is too small for IPv6, which an interface of the port speaks; give at least 1280",
            port.mtu
        );
        findings.wrong(&way.key("mtu"), text);
    }
}

fn check_nic(findings: &mut Findings<'_>, way: &Way, nic: &Nic) {
    let (name, most) = (nic.profile.name(), nic.profile.queues());
    if nic.queues > most {
        let text = format!(
            "{} is more than the {most} queues of an {name}; give at most {most}",
            nic.queues
        );
        findings.wrong(&way.key("queues"), text);
    }
    let workers = findings.config.workers.count;
    if nic.queues < workers {
        let text = format!(
            "{} is too few for {workers} workers; give each at least one queue of its own",
            nic.queues
        );
        findings.wrong(&way.key("queues"), text);
    }
    let entries = nic.entries();
    if nic.profile.entries().allow(entries) {
        return;
    }
    let text = match nic.profile.entries() {
        Entries::OneOf(sizes) => {
            format!("{entries} is not a table size of an {name}; take {}", alternatives(sizes))
        }
        Entries::UpTo(most) => {
            format!("{entries} is more than the {most} entries of profile {name}")
        }
    };
    findings.wrong(&way.key("capacity"), text);
}
