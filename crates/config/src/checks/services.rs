//! `[[service]]`.
use std::collections::HashMap;
use std::net::IpAddr;

use flow::{Mode, StatelessKey, Transport};
use service::{MaglevSizeError, check_maglev_size};

use crate::Service;
use crate::tree::Way;

use super::{Findings, health, http, quic, tunnels};

/// Ids of services and backends have 16 bits.
const MOST: usize = 65534;

pub(super) fn check(findings: &mut Findings<'_>) {
    let config = findings.config;
    findings.names("service", config.services.iter().map(|service| service.name.as_str()));
    let backends: usize = config.services.iter().map(|service| service.backends.len()).sum();
    if config.services.len() > MOST || backends > MOST {
        findings.wrong(&Way::to("service"), format!("there are {} services with {backends} backends; at most {MOST} of each are possible", config.services.len()));
    }
    let mut taken = HashMap::new();
    for (place, service) in config.services.iter().enumerate() {
        let way = Way::to("service").item(place);
        let at = (service.vip, service.port, service.protocol.transport());
        if let Some((name, first)) = taken.get(&at) {
            let line = findings.line(first);
            let text = format!(
                "{} is already taken by service '{name}' (line {line}); give one of them another vip, port or protocol",
                endpoint(at)
            );
            findings.wrong(&way.key("vip"), text);
        } else {
            taken.insert(at, (&service.name, way.key("vip")));
        }
        let vip = service.vip;
        if let Some(text) = config.unusable(vip).or_else(|| config.unreachable(vip)) {
            findings.wrong(&way.key("vip"), text);
        }
        check_stateless(findings, &way, service);
        check_scheduler(findings, &way, service);
        check_pool(findings, &way, service);
        tunnels::check(findings, &way, service);
        check_maglev(findings, &way, service);
        quic::check(findings, &way, service);
        health::check(findings, &way, service);
        http::check(findings, &way, service);
    }
}

fn endpoint((vip, port, protocol): (IpAddr, Option<u16>, Transport)) -> String {
    match port {
        Some(port) => format!("{vip} {protocol} port {port}"),
        None => format!("{vip} {protocol} any port"),
    }
}

/// Backends of a stateless service at most: each needs an entry of its own.
const MOST_SHARES: usize = 4096;

fn check_stateless(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    if !service.stateless && service.by != StatelessKey::Source {
        let text = "only a stateless service is balanced by a hash alone; set stateless = true, or leave by out (a scheduler may hash, too)";
        findings.wrong(&way.key("by"), text);
    }
    if service.stateless && service.mode != Mode::Dsr {
        let text = format!(
            "in mode {} packets are changed in each connection's own way, so there must be connections; set mode = \"dsr\", or leave stateless out",
            service.mode.name()
        );
        findings.wrong(&way.key("stateless"), text);
    } else if service.stateless && service.backends.len() > MOST_SHARES {
        let text = format!(
            "at most {MOST_SHARES} backends can share the clients of a stateless service; leave some out"
        );
        findings.wrong(&way.key("stateless"), text);
    }
}

fn check_scheduler(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    if let Some(text) = service.scheduler.refusal(service.mode) {
        findings.wrong(&way.key("scheduler"), text);
    }
}

fn check_pool(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    let config = findings.config;
    match (service.mode, &service.pool) {
        (Mode::FullNat, None) => {
            let text =
                "the mode fullnat needs source addresses; set pool to the name of a [[pool]]";
            findings.wrong(&way.key("mode"), text);
        }
        (Mode::FullNat, Some(name)) => {
            let names = config.pools.iter().map(|pool| pool.name.as_str());
            if !findings.reference(&way.key("pool"), "pool", name, names) {
                return;
            }
            let v4 = service.vip.is_ipv4();
            let mut addresses = config
                .pools
                .iter()
                .filter(|pool| pool.name == *name)
                .flat_map(|pool| &pool.addresses);
            if !addresses.any(|address| address.is_ipv4() == v4) {
                let text = format!(
                    "pool '{name}' has no {} address, as the vip {} needs; add one to it, or name another pool",
                    family(v4),
                    service.vip
                );
                findings.wrong(&way.key("pool"), text);
            }
        }
        (_, Some(_)) => {
            let text = "a pool is used with the mode fullnat only; leave it out, or set mode = \"fullnat\"";
            findings.wrong(&way.key("pool"), text);
        }
        (_, None) => {}
    }
}

fn check_maglev(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    match check_maglev_size(service.maglev_size, service.backends.len()) {
        Ok(()) => {}
        Err(error @ MaglevSizeError::TooLarge { .. }) => {
            let text = format!("{error}; give the service fewer backends");
            findings.wrong(&way.key("maglev_size"), text);
        }
        Err(error) => findings.wrong(&way.key("maglev_size"), error.to_string()),
    }
}

/// The family's name.
pub(super) const fn family(v4: bool) -> &'static str {
    if v4 { "IPv4" } else { "IPv6" }
}
