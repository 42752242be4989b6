//! Changes of headers, and the sticky cookie.
use flow::SameSite;

use crate::headers::{Headers, Sticky};
use crate::health::field;
use crate::tree::Way;
use crate::{Service, checks::Findings};

/// Fields that say how long a message is or what its connection does.
const FRAMING: [&str; 8] = [
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "trailer",
    "te",
    "keep-alive",
    "proxy-connection",
];

pub(super) fn check(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    let both = [
        ("request_headers", &service.request_headers, true),
        ("response_headers", &service.response_headers, false),
    ];
    for (key, headers, of_request) in both {
        check_headers(findings, &way.key(key), headers, of_request);
    }
    if let Some(sticky) = &service.sticky {
        check_sticky(findings, &way.key("sticky"), sticky);
    }
}

fn check_headers(findings: &mut Findings<'_>, way: &Way, headers: &Headers, of_request: bool) {
    for (key, texts) in [("set", &headers.set), ("add", &headers.add)] {
        for (at, text) in texts.iter().enumerate() {
            let way = way.key(key).item(at);
            match field(text) {
                None => {
                    let text = "this is not a field of a header; write it as X-Frame-Options: DENY";
                    findings.wrong(&way, text);
                }
                Some((name, _)) => check_name(findings, &way, name, of_request && key == "add"),
            }
        }
    }
    for (at, name) in headers.remove.iter().enumerate() {
        let way = way.key("remove").item(at);
        if field(&format!("{name}:")).is_none() || name.contains(':') {
            findings.wrong(&way, "this is not the name of a field; write it as Server");
        } else {
            check_name(findings, &way, name, of_request);
        }
    }
    let length: usize = headers.set.iter().chain(&headers.add).map(|text| text.len() + 3).sum();
    if length > Headers::LONGEST {
        let text = format!(
            "these fields have {length} bytes, of the {} that a header may grow by; leave some out",
            Headers::LONGEST
        );
        findings.wrong(way, text);
    }
}

/// `one`: a request must have exactly one Host.
fn check_name(findings: &mut Findings<'_>, way: &Way, name: &str, one: bool) {
    if FRAMING.iter().any(|own| own.eq_ignore_ascii_case(name)) {
        let text = format!(
            "{name} says where a message ends or what its connection does, which HNLB keeps as it is; leave it out"
        );
        findings.wrong(way, text);
    } else if one && name.eq_ignore_ascii_case("host") {
        let text = "a request has exactly one Host; set it, or leave it out";
        findings.wrong(way, text);
    }
}

fn check_sticky(findings: &mut Findings<'_>, way: &Way, sticky: &Sticky) {
    let Sticky { cookie, path, domain, secure, same_site, .. } = sticky;
    if field(&format!("{cookie}:")).is_none() || cookie.contains(':') || cookie.len() > 64 {
        let text =
            "this is not the name of a cookie; write it with at most 64 letters, digits, - and _";
        findings.wrong(&way.key("cookie"), text);
    }
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';');
    if !path.starts_with('/') || !plain(path) {
        let text = "a cookie's path begins with / and has neither spaces nor semicolons";
        findings.wrong(&way.key("path"), text);
    }
    let is_domain = |text: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        !text.is_empty() && text.bytes().all(inner)
    };
    if domain.as_deref().is_some_and(|domain| !is_domain(domain)) {
        findings.wrong(&way.key("domain"), "this is not a domain; write it as example.com");
    }
    if *same_site == SameSite::None && !secure {
        let text = "browsers take a cookie with same_site = \"none\" only with secure = true; set that, or take lax";
        findings.wrong(&way.key("same_site"), text);
    }
}
