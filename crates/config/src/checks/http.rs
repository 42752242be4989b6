//! `protocol = "http"`, `[[service.route]]` and the groups of backends.
use flow::{Affinity, Mode, Protocol, Scheduler};

use crate::health::field;
use crate::tree::Way;
use crate::{HttpRoute, Service};

use super::Findings;

pub(super) fn check(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    if service.protocol != Protocol::Http {
        return check_others(findings, way, service);
    }
    check_service(findings, way, service);
    let groups: Vec<&str> =
        service.backends.iter().filter_map(|own| own.group.as_deref()).collect();
    for (place, route) in service.routes.iter().enumerate() {
        let way = way.key("route").item(place);
        findings.reference(&way.key("group"), "group", &route.group, groups.iter().copied());
        check_route(findings, &way, route);
    }
    for (place, own) in service.backends.iter().enumerate() {
        let Some(group) = &own.group else { continue };
        if !service.routes.iter().any(|route| route.group == *group) {
            let text = format!(
                "no route leads to group '{group}', so this backend gets no request; add a [[service.route]] with group = \"{group}\", or leave group out"
            );
            findings.wrong(&way.key("backend").item(place).key("group"), text);
        }
    }
}

/// A service of connections has no requests to be routed.
fn check_others(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    if !service.routes.is_empty() {
        let text =
            "only requests have routes; set protocol = \"http\", or leave the route tables out";
        findings.wrong(&way.key("route"), text);
    }
    for (place, own) in service.backends.iter().enumerate() {
        if own.group.is_some() {
            let text =
                "groups are for routes of requests; set protocol = \"http\", or leave group out";
            findings.wrong(&way.key("backend").item(place).key("group"), text);
        }
    }
}

/// What a service of requests can't have.
fn check_service(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    let protocol = way.key("protocol");
    if service.mode != Mode::Nat {
        let text = format!(
            "the requests of protocol http pass HNLB in both directions, which mode {} does not do; set mode = \"nat\"",
            service.mode.name()
        );
        findings.wrong(&way.key("mode"), text);
    }
    if service.port.is_none() {
        let text = "a service of protocol http answers at one port; set port, mostly to 80";
        findings.wrong(&protocol, text);
    }
    if service.affinity != Affinity::FiveTuple {
        let text = "QUIC runs over UDP; leave affinity out";
        findings.wrong(&way.key("affinity"), text);
    }
    if matches!(service.scheduler, Scheduler::LeastConnections | Scheduler::LeastLatency) {
        let text = format!(
            "the scheduler {} measures connections in the connection table, which those of protocol http are not in; use weighted-round-robin, round-robin, maglev or source-hash",
            service.scheduler.name()
        );
        findings.wrong(&way.key("scheduler"), text);
    }
}

fn check_route(findings: &mut Findings<'_>, way: &Way, route: &HttpRoute) {
    let HttpRoute { host, path, header, cookie, .. } = route;
    if host.is_none() && path.is_none() && header.is_none() && cookie.is_none() {
        let text = "this route has no condition, so it would take every request; give it host, path, header or cookie, or leave the route out and its backends without a group";
        findings.wrong(way, text);
    }
    if host.as_deref().is_some_and(|host| !is_host(host)) {
        let text = "this is not a host; write it as example.com, or *.example.com for all names below, without a port";
        findings.wrong(&way.key("host"), text);
    }
    let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if path.as_deref().is_some_and(|path| !path.starts_with('/') || !visible(path)) {
        let text = "a path begins with / and has neither spaces nor letters beyond ASCII; write it as /api";
        findings.wrong(&way.key("path"), text);
    } else if path.as_deref().is_some_and(|path| path.contains(['?', '#'])) {
        let text = "routes look at the path before the query; leave out what begins with ? or #";
        findings.wrong(&way.key("path"), text);
    }
    let is_header = |text: &str| field(text).is_some() || field(&format!("{text}:")).is_some();
    if header.as_deref().is_some_and(|header| !is_header(header)) {
        let text = "this is not a header of HTTP; write it as x-beta: yes, or x-beta for any value";
        findings.wrong(&way.key("header"), text);
    }
    let is_cookie = |text: &str| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte);
        !name.is_empty() && name.bytes().chain(value.bytes()).all(plain)
    };
    if cookie.as_deref().is_some_and(|cookie| !is_cookie(cookie)) {
        let text = "this is not a cookie; write it as beta=yes, or beta for any value";
        findings.wrong(&way.key("cookie"), text);
    }
}

/// A domain name, perhaps with `*.` in front, or an IP address as URLs have it.
fn is_host(host: &str) -> bool {
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(address) = bracketed {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    let label = |label: &str| {
        (1..64).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253 && name.split('.').all(label)
}
