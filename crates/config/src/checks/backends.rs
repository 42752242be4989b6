//! `[[service.backend]]`.
use std::collections::HashMap;

use flow::{Mode, alternatives};

use crate::tree::Way;
use crate::{Backend, HttpRoute, Service};

use super::services::family;
use super::{Findings, Reach, tunnels};

pub(super) fn check(findings: &mut Findings<'_>) {
    for (place, service) in findings.config.services.iter().enumerate() {
        let way = Way::to("service").item(place);
        let answered = service.routes.iter().any(HttpRoute::answers_all);
        if service.backends.is_empty() && !answered {
            let text = "there is no backend; add a [[service.backend]] with an address";
            findings.wrong(&way.key("backend"), text);
        }
        let mut taken = HashMap::new();
        for (at, backend) in service.backends.iter().enumerate() {
            let way = way.key("backend").item(at);
            let endpoint = (backend.address, backend.port.or(service.port));
            if let Some(first) = taken.insert(endpoint, way.clone()) {
                let line = findings.line(&first);
                findings.wrong(&way.key("address"), format!("the service already has this backend with the same port (line {line}); give it once, with the sum of the weights"));
            }
            check_port(findings, &way, service, backend);
            check_address(findings, &way.key("address"), service, backend);
        }
    }
}

fn check_port(findings: &mut Findings<'_>, way: &Way, service: &Service, backend: &Backend) {
    if service.port.is_none() && backend.port.is_some() {
        let text = "a service of any port keeps the port that the client asked for; leave the backend's out, or give the service a port";
        findings.wrong(&way.key("port"), text);
    } else if let (true, Some(port)) = (service.mode.is_one_way(), backend.port) {
        let (mode, vip) = (service.mode.name(), service.vip);
        let text = format!(
            "in mode {mode} packets reach the backend as the client sent them, so it listens at {vip} with the service's port, not at {port}; leave the port out"
        );
        findings.wrong(&way.key("port"), text);
    }
}

fn check_address(findings: &mut Findings<'_>, way: &Way, service: &Service, backend: &Backend) {
    let (config, address) = (findings.config, backend.address);
    if address.is_ipv4() != service.vip.is_ipv4() && !service.mode.is_tunnel() {
        let (own, its) = (family(address.is_ipv4()), family(service.vip.is_ipv4()));
        let text = format!(
            "{address} is {own}, the vip {} is {its}; families are not translated, give an {its} address, or use the mode {}",
            service.vip,
            alternatives(Mode::tunnels())
        );
        findings.wrong(way, text);
    } else if let Some(text) = config.unusable(address) {
        findings.wrong(way, text);
    } else if config.is_own(address) {
        let text = format!("{address} is an interface's own address; give that of another host");
        findings.wrong(way, text);
    } else if let Some(other) = config.services.iter().find(|other| other.vip == address) {
        let text = format!(
            "{address} is the vip of service '{}', so packets would go round in circles; give the address of a host",
            other.name
        );
        findings.wrong(way, text);
    } else if let Some(text) = config.unreachable(address) {
        findings.wrong(way, text);
    } else if service.mode == Mode::Dsr && config.reach(address) != Reach::OnLink {
        let text = format!(
            "the mode dsr reaches backends by their Ethernet address, and {address} is behind a router; add an [[interface]] in its network, or use the mode {}",
            alternatives(Mode::tunnels())
        );
        findings.wrong(way, text);
    } else {
        tunnels::check_room(findings, way, service, backend);
    }
}
