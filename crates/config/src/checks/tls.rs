//! `[[service.route]]` of services with `protocol = "tls"`.
use crate::http::HttpRoute;
use crate::tree::Way;

use super::Findings;
use super::http::is_name;

/// A protocol has so many bytes at most (RFC 7301 section 3.1).
const LONGEST_PROTOCOL: usize = 255;

/// A route of TLS connections: by what stands in the ClientHello, to a group.
pub(super) fn check_route(
    findings: &mut Findings<'_>,
    way: &Way,
    route: &HttpRoute,
    terminates: bool,
) {
    let HttpRoute { path, header, cookie, server_name, alpn, .. } = route;
    for (key, given) in [("path", path), ("header", header), ("cookie", cookie)] {
        if given.is_some() {
            let text = if terminates {
                format!(
                    "what is in the records is not read; set protocol = \"https\", or route by server_name or alpn and leave {key} out"
                )
            } else {
                format!(
                    "the {key} is encrypted, and HNLB does not decrypt; route by server_name or alpn, or leave {key} out"
                )
            };
            findings.wrong(&way.key(key), text);
        }
    }
    check_answers(findings, way, route, terminates);
    let answers = route.redirect.is_some() || route.maintenance.is_some();
    if route.group.is_none() && !answers {
        let text = "the route does not say where the connections go; give it a group";
        findings.wrong(way, text);
    }
    if route.group.is_some() && !route.has_condition() {
        let text = "this route has no condition, so it would take every connection; give it server_name or alpn, or leave the route out and its backends without a group";
        findings.wrong(way, text);
    }
    if server_name.as_deref().is_some_and(|name| !is_server_name(name)) {
        let text = "this is not a server name; write it as example.com, or *.example.com for all names below, without a port; clients name no addresses (RFC 6066)";
        findings.wrong(&way.key("server_name"), text);
    }
    if alpn.as_deref().is_some_and(|own| !is_protocol(own)) {
        findings.wrong(&way.key("alpn"), NO_PROTOCOL);
    }
}

/// What only HTTP has.
fn check_answers(findings: &mut Findings<'_>, way: &Way, route: &HttpRoute, terminates: bool) {
    if route.host.is_some() {
        let text = if terminates {
            "what is in the records is not read; give the name that the client asks for in its ClientHello, as server_name"
        } else {
            "the Host field is encrypted; give the name that the client asks for in its ClientHello, as server_name"
        };
        findings.wrong(&way.key("host"), text);
    }
    for (key, given) in
        [("redirect", route.redirect.is_some()), ("maintenance", route.maintenance.is_some())]
    {
        if given {
            let text = if terminates {
                "only HTTP has answers; set protocol = \"https\", or give the route a group"
            } else {
                "HNLB has no key of the server's, and can't answer within TLS; give the route a group"
            };
            findings.wrong(&way.key(key), text);
        }
    }
}

pub(super) const NO_PROTOCOL: &str =
    "this is not a protocol of ALPN; write it as h2, http/1.1 or acme-tls/1";

/// Whether ALPN can name it.
pub(super) fn is_protocol(name: &str) -> bool {
    (1..=LONGEST_PROTOCOL).contains(&name.len())
}

/// A route of requests has no conditions of TLS.
pub(super) fn check_absence(findings: &mut Findings<'_>, way: &Way, route: &HttpRoute) {
    for (key, given, instead) in
        [("server_name", &route.server_name, "give host"), ("alpn", &route.alpn, "leave alpn out")]
    {
        if given.is_some() {
            let text = format!(
                "requests of protocol http come without TLS; {instead}, or set protocol = \"tls\""
            );
            findings.wrong(&way.key(key), text);
        }
    }
}

fn is_server_name(name: &str) -> bool {
    is_name(name) && name.parse::<std::net::Ipv4Addr>().is_err()
}
