//! Which requests a rule matches, and which of two rules decides.
use super::{RequestView, RouteSpec};

impl RouteSpec {
    /// Of two routes that match, the one with the greater rank decides: a host before any
    /// host and a whole host before names below it, then the longer path, then the route
    /// that asks for more.
    pub(super) fn rank(&self) -> (u8, usize, usize, u8) {
        let (kind, length) = match &self.host {
            None => (0, 0),
            Some(host) if host.starts_with("*.") => (1, host.len()),
            Some(host) => (2, host.len()),
        };
        let conditions = [self.header.is_some(), self.cookie.is_some(), self.alpn.is_some()];
        let more = conditions.into_iter().map(u8::from).sum();
        (kind, length, self.path.as_ref().map_or(0, String::len), more)
    }

    pub(super) fn has_name(&self, name: &str) -> bool {
        self.host.as_deref().is_none_or(|host| matches_host(host, name))
    }

    pub(super) fn matches(&self, request: &impl RequestView) -> bool {
        self.has_name(bare(request.host()))
            && self.path.as_deref().is_none_or(|path| begins_with(request.path(), path))
            && self
                .header
                .as_ref()
                .is_none_or(|(name, value)| request.has_header(name, value.as_deref()))
            && self
                .cookie
                .as_ref()
                .is_none_or(|(name, value)| request.has_cookie(name, value.as_deref()))
    }
}

/// The host without its port and without the dot at the end of a whole domain name.
pub(crate) fn bare(host: &str) -> &str {
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

fn matches_host(pattern: &str, host: &str) -> bool {
    let Some(suffix) = pattern.strip_prefix('*') else {
        return host.eq_ignore_ascii_case(pattern);
    };
    let Some(at) = host.len().checked_sub(suffix.len()).filter(|at| *at > 0) else { return false };
    host.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

/// Whether `path` is `prefix` or below it.
fn begins_with(path: &str, prefix: &str) -> bool {
    let Some(rest) = path.strip_prefix(prefix) else { return false };
    rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reply;

    struct Asked(&'static str, &'static str);

    impl RequestView for Asked {
        fn host(&self) -> &str {
            self.0
        }
        fn path(&self) -> &str {
            self.1
        }
        fn query(&self) -> &str {
            "?q"
        }
        fn has_header(&self, name: &str, value: Option<&str>) -> bool {
            name == "beta" && value.is_none_or(|value| value == "1")
        }
        fn has_cookie(&self, _: &str, _: Option<&str>) -> bool {
            false
        }
    }

    fn route(host: &str, path: &str) -> RouteSpec {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        RouteSpec { host: given(host), path: given(path), ..RouteSpec::default() }
    }

    #[test]
    fn hosts_and_paths_match_in_whole_names_and_segments() {
        for (host, path, asked, matches) in [
            ("a.b", "", Asked("A.b:80", "/"), true),
            ("a.b", "", Asked("a.b.", "/"), true),
            ("a.b", "", Asked("xa.b", "/"), false),
            ("*.b", "", Asked("x.a.b", "/"), true),
            ("*.b", "", Asked("b", "/"), false),
            ("*.b", "", Asked(".b", "/"), false),
            ("[::1]", "", Asked("[::1]:8", "/"), true),
            ("", "/a", Asked("", "/a"), true),
            ("", "/a", Asked("", "/a/b"), true),
            ("", "/a", Asked("", "/ab"), false),
            ("", "/a/", Asked("", "/a"), false),
            ("", "/", Asked("", "/x"), true),
        ] {
            let found = route(host, path).matches(&asked);
            assert_eq!(found, matches, "{host}{path} and {}{}", asked.0, asked.1);
        }
        let beta = |value: Option<&str>| RouteSpec {
            header: Some(("beta".to_owned(), value.map(str::to_owned))),
            ..RouteSpec::default()
        };
        let asked = Asked("", "/");
        assert!(beta(None).matches(&asked) && beta(Some("1")).matches(&asked));
        assert!(!beta(Some("2")).matches(&asked));
    }

    #[test]
    fn a_whole_host_is_before_a_wildcard_and_a_longer_path_before_a_shorter() {
        let mut all = [
            route("", "/long/path"),
            route("*.b", "/long"),
            route("a.b", ""),
            route("a.b", "/x"),
            route("*.a.b", ""),
        ];
        all.sort_by_key(|route| std::cmp::Reverse(route.rank()));
        let order: Vec<_> = all
            .iter()
            .map(|own| (own.host.as_deref().unwrap_or(""), own.path.as_deref().unwrap_or("")))
            .collect();
        let wanted =
            [("a.b", "/x"), ("a.b", ""), ("*.a.b", ""), ("*.b", "/long"), ("", "/long/path")];
        assert_eq!(order, wanted);
    }

    #[test]
    fn a_redirect_names_what_was_asked_for() {
        let written = |location: &str, asked: &Asked| {
            Reply::redirect(308, location).map(|own| own.pieces(asked).collect::<String>())
        };
        let asked = Asked("a.b:80", "/x");
        let text = written("https://{host}{path}{query}", &asked).unwrap();
        let line = "HTTP/1.1 308 Permanent Redirect\r\nLocation: https://a.b/x?q\r\n";
        assert!(text.starts_with(line) && text.ends_with("\r\n\r\n"), "{text}");
        let star = written("/old{path}", &Asked("", "*")).unwrap();
        assert!(star.contains("Location: /old/\r\n"), "{star}");
        for wrong in ["/{", "/}", "/{hosts}", "/{ host }", "/{{host}}"] {
            assert_eq!(written(wrong, &asked), Err(crate::BadPlace), "{wrong}");
        }
    }
}
