//! Which names the API answers to, so that no page of another site uses a browser to
//! ask it: neither under another name for its address (DNS rebinding) nor across
//! origins.
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName};

/// What browsers say of where a request comes from (Fetch Metadata, section 2.3).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a request with these headers may be answered. `names`: the host names that
/// are the API's beside `localhost` and all addresses.
///
/// # Errors
/// Why it may not: the host is another one, or a page of another site asks.
pub(crate) fn check(headers: &HeaderMap, names: &[String]) -> Result<(), String> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST).unwrap_or_default();
    if !is_ours(name_of(host), names) {
        return Err(format!(
            "the host '{host}' is none of this API's; ask by address or as localhost, or name it in [api] names"
        ));
    }
    let is_foreign = text(ORIGIN).is_some_and(|origin| {
        origin.split_once("://").is_none_or(|(_, theirs)| !theirs.eq_ignore_ascii_case(host))
    });
    if is_foreign || text(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site") {
        return Err("pages of other sites may not use this API".to_owned());
    }
    Ok(())
}

/// The name in front of the port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Addresses are no names: what DNS says can't lead to them.
fn is_ours(name: &str, names: &[String]) -> bool {
    // The commands' own, and that of clients that give none (HTTP/1.0).
    let known = ["hnlb", "localhost", ""];
    known.iter().any(|own| name.eq_ignore_ascii_case(own))
        || names.iter().any(|own| name.eq_ignore_ascii_case(own))
        || name.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(HeaderName, &str)]) -> Result<(), String> {
        let headers = pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        check(&headers.collect(), &["lb1.example.net".to_owned()])
    }

    #[test]
    fn a_name_that_dns_may_have_lent_is_refused() {
        for host in [
            "hnlb",
            "localhost:8443",
            "192.0.2.1",
            "192.0.2.1:8443",
            "[2001:db8::1]:8443",
            "[2001:db8::1]",
            "LB1.example.net:8443",
        ] {
            assert_eq!(asked(&[(HOST, host)]), Ok(()), "{host}");
        }
        for host in ["evil.example", "evil.example:8443", "localhost.evil.example", "hnlb.example"]
        {
            let refusal = asked(&[(HOST, host)]).unwrap_err();
            assert!(refusal.contains(host) && refusal.contains("[api] names"), "{refusal}");
        }
    }

    #[test]
    fn a_page_of_another_site_is_refused() {
        let host = (HOST, "localhost:8443");
        for origin in ["https://localhost:8443", "http://localhost:8443"] {
            assert_eq!(asked(&[host.clone(), (ORIGIN, origin)]), Ok(()), "{origin}");
        }
        for origin in ["https://evil.example", "null", "http://localhost:8444", "localhost:8443"] {
            assert!(asked(&[host.clone(), (ORIGIN, origin)]).is_err(), "{origin}");
        }
        assert!(asked(&[host.clone(), (SEC_FETCH_SITE, "cross-site")]).is_err());
        assert_eq!(asked(&[host, (SEC_FETCH_SITE, "same-origin")]), Ok(()));
    }
}
