//! `protocol = "http"` and `"tls"`, `proxy_protocol`, `[[service.route]]` and the groups of backends.
use flow::{Affinity, Mode, Protocol, Scheduler};
use service::Reply;

use crate::Service;
use crate::health::field;
use crate::http::{HttpRoute, Maintenance, Redirect};
use crate::tree::Way;

use super::{Findings, headers, tls};

pub(super) fn check(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    super::service_tls::check(findings, way, service);
    if !service.protocol.is_routed() {
        check_others(findings, way, service);
        return check_proxy(findings, way, service);
    }
    check_service(findings, way, service);
    if service.protocol == Protocol::Tls {
        check_rebalance(findings, way, service);
        check_no_headers(findings, way, service);
    }
    headers::check(findings, way, service);
    let groups: Vec<&str> =
        service.backends.iter().filter_map(|own| own.group.as_deref()).collect();
    for (place, route) in service.routes.iter().enumerate() {
        let way = way.key("route").item(place);
        if let Some(group) = &route.group {
            check_group(findings, &way.key("group"), group, &groups);
        }
        if service.protocol == Protocol::Tls {
            tls::check_route(findings, &way, route, service.terminate);
        } else {
            tls::check_absence(findings, &way, route);
            check_goal(findings, &way, route);
            check_route(findings, &way, route);
        }
    }
    for (place, own) in service.backends.iter().enumerate() {
        let Some(group) = &own.group else { continue };
        if !service.routes.iter().any(|route| route.group.as_ref() == Some(group)) {
            let text = format!(
                "no route leads to group '{group}', so this backend gets no request; add a [[service.route]] with group = \"{group}\", or leave group out"
            );
            findings.wrong(&way.key("backend").item(place).key("group"), text);
        }
    }
}

/// Backends are in the group that a route names.
fn check_group(findings: &mut Findings<'_>, way: &Way, group: &str, groups: &[&str]) {
    if groups.is_empty() {
        let text = format!(
            "no backend is in a group; give those that are to get the requests of this route group = \"{group}\""
        );
        findings.wrong(way, text);
    } else {
        findings.reference(way, "group", group, groups.iter().copied());
    }
}

/// A route has one goal, and that is a right one.
fn check_goal(findings: &mut Findings<'_>, way: &Way, route: &HttpRoute) {
    let given = [route.group.is_some(), route.redirect.is_some(), route.maintenance.is_some()];
    match given.into_iter().filter(|given| *given).count() {
        0 => {
            let text = "the route does not say what becomes of the requests; give it a group, a redirect or a maintenance page";
            findings.wrong(way, text);
        }
        1 => {}
        _ => {
            let text = "a request gets one answer; give one of group, redirect and maintenance, and leave the others out";
            findings.wrong(way, text);
        }
    }
    if let Some(redirect) = &route.redirect {
        check_redirect(findings, &way.key("redirect"), redirect);
    }
    if let Some(page) = &route.maintenance {
        check_page(findings, &way.key("maintenance"), page);
    }
}

fn check_redirect(findings: &mut Findings<'_>, way: &Way, redirect: &Redirect) {
    let Redirect { location, status } = redirect;
    check_status(findings, way, *status, &Reply::REDIRECTS);
    let way = way.key("location");
    if !location.bytes().all(|byte| byte.is_ascii_graphic()) {
        let text =
            "a location has neither spaces nor letters beyond ASCII; write them as %20 and so on";
        return findings.wrong(&way, text);
    }
    let after_scheme = ["http://", "https://"].iter().find_map(|own| location.strip_prefix(own));
    let host = after_scheme.map(|rest| rest.split(['/', '?']).next().unwrap_or_default());
    // A path behind the first slash could be that of another host: //host/path.
    let local = location.strip_prefix('/').is_some_and(|rest| !rest.starts_with(['/', '{']));
    let named = host.is_some_and(|host| !host.is_empty() && !host.starts_with("{path}"));
    if !local && !named {
        let text = "a location is a URL with its host, as https://{host}{path}{query}, or a path of the same host, as /new{path}";
        findings.wrong(&way, text);
    } else if Reply::redirect(*status, location).is_err() {
        let text = "braces are for {host}, {path} and {query} only; write others as %7B and %7D";
        findings.wrong(&way, text);
    }
}

fn check_page(findings: &mut Findings<'_>, way: &Way, page: &Maintenance) {
    check_status(findings, way, page.status, &Reply::PAGES);
    match (&page.text, &page.file) {
        (Some(_), Some(_)) => {
            findings.wrong(way, "the page is given twice; leave text or file out");
        }
        (None, None) => findings.wrong(way, "there is no page; give it as text, or name its file"),
        _ => {}
    }
    if page.page().len() > Maintenance::LONGEST {
        let text = format!(
            "the page has more than the {} bytes that HNLB sends without waiting; make it shorter, its pictures can come from elsewhere",
            Maintenance::LONGEST
        );
        findings.wrong(&way.key(if page.file.is_some() { "file" } else { "text" }), text);
    }
    let media = &page.content_type;
    let is_media = media.split_once('/').is_some_and(|(kind, rest)| {
        !kind.is_empty() && !rest.is_empty() && field(&format!("{kind}:")).is_some()
    });
    if !is_media || field(&format!("a:{media}")).is_none() {
        let text = "this is no media type; write it as text/html; charset=utf-8";
        findings.wrong(&way.key("content_type"), text);
    }
}

fn check_status(findings: &mut Findings<'_>, way: &Way, status: u16, known: &[u16]) {
    if !known.contains(&status) {
        let known: Vec<String> = known.iter().map(u16::to_string).collect();
        let text = format!("{status} is not one of {}", known.join(", "));
        findings.wrong(&way.key("status"), text);
    }
}

fn check_rebalance(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    if !service.rebalance.is_never() {
        let text = "connections keep their backend; set protocol = \"http\" for requests that do not, or leave rebalance out";
        findings.wrong(&way.key("rebalance"), text);
    }
}

/// What is not read has no headers.
fn check_no_headers(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    let given = [
        ("request_headers", !service.request_headers.is_empty()),
        ("response_headers", !service.response_headers.is_empty()),
        ("sticky", service.sticky.is_some()),
    ];
    for (key, _) in given.into_iter().filter(|(_, given)| *given) {
        let text = "only requests and responses have headers; set protocol = \"http\" or \"https\", or leave this out";
        findings.wrong(&way.key(key), text);
    }
}

/// A service of connections has no requests to be routed.
fn check_others(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    check_rebalance(findings, way, service);
    if !service.routes.is_empty() {
        let text = "only requests and TLS connections have routes; set protocol = \"http\" or \"tls\", or leave the route tables out";
        findings.wrong(&way.key("route"), text);
    }
    check_no_headers(findings, way, service);
    for (place, own) in service.backends.iter().enumerate() {
        if own.group.is_some() {
            let text =
                "groups are for routes; set protocol = \"http\" or \"tls\", or leave group out";
            findings.wrong(&way.key("backend").item(place).key("group"), text);
        }
    }
}

/// A service of connections that begin with a header of the PROXY protocol.
fn check_proxy(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    if service.proxy_protocol.is_none() {
        return;
    }
    if service.protocol == Protocol::Udp {
        let text =
            "the header stands in front of a stream, and UDP has none; leave proxy_protocol out";
        return findings.wrong(&way.key("proxy_protocol"), text);
    }
    check_service(findings, way, service);
}

/// What a service with routes can't have.
fn check_service(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    let protocol = way.key("protocol");
    let (name, port) = (service.protocol.name(), usual_port(service.protocol));
    let what = match service.protocol.is_routed() {
        true => format!("a service of protocol {name}"),
        false => "a service with proxy_protocol".to_owned(),
    };
    if service.mode != Mode::Nat {
        let text = format!(
            "connections of {what} pass HNLB in both directions, and their packets are changed, which mode {} does not do; set mode = \"nat\"",
            service.mode.name()
        );
        findings.wrong(&way.key("mode"), text);
    }
    if service.port.is_none() {
        let text = format!("{what} answers at one port; set port{port}");
        findings.wrong(&protocol, text);
    }
    if service.affinity != Affinity::FiveTuple {
        let text = "QUIC runs over UDP; leave affinity out";
        findings.wrong(&way.key("affinity"), text);
    }
    if matches!(service.scheduler, Scheduler::LeastConnections | Scheduler::LeastLatency) {
        let text = format!(
            "the scheduler {} measures connections in the connection table, which those of {what} are not in; use weighted-round-robin, round-robin, maglev or source-hash",
            service.scheduler.name()
        );
        findings.wrong(&way.key("scheduler"), text);
    }
}

const fn usual_port(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tls | Protocol::Https => ", mostly to 443",
        Protocol::Http => ", mostly to 80",
        Protocol::Tcp | Protocol::Udp => "",
    }
}

fn check_route(findings: &mut Findings<'_>, way: &Way, route: &HttpRoute) {
    let HttpRoute { host, path, header, cookie, .. } = route;
    if !route.has_condition() && route.group.is_some() {
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
    bracketed.map_or_else(|| is_name(host), |own| own.parse::<std::net::Ipv6Addr>().is_ok())
}

/// A domain name, perhaps with `*.` in front.
pub(super) fn is_name(host: &str) -> bool {
    let name = host.strip_prefix("*.").unwrap_or(host);
    let label = |label: &str| {
        (1..64).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253 && name.split('.').all(label)
}
