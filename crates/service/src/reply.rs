//! Answers to HTTP requests that no backend gives: redirects and pages.
use std::sync::Arc;

use crate::RequestView;

/// What is answered to the requests of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    status: u16,
    parts: Arc<[Part]>,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Host,
    Path,
    Query,
}

/// The words in braces that stand for parts of the request.
const PLACES: [(&str, Part); 3] =
    [("{host}", Part::Host), ("{path}", Part::Path), ("{query}", Part::Query)];

/// A brace in a location that is none of `{host}`, `{path}` and `{query}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPlace;

impl Reply {
    /// Status codes of redirects with a location (RFC 9110 section 15.4).
    pub const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

    /// Status codes of pages.
    pub const PAGES: [u16; 6] = [200, 403, 404, 410, 429, 503];

    /// A redirect to `location`, in which `{host}` stands for the host of the request
    /// without its port, `{path}` for its path, and `{query}` for its query with the `?`.
    ///
    /// # Errors
    /// There is another brace in the location.
    pub fn redirect(status: u16, location: &str) -> Result<Self, BadPlace> {
        let head = format!("HTTP/1.1 {status} {}\r\nLocation: ", reason(status));
        let mut parts = vec![Part::Text(head)];
        let mut rest = location;
        while let Some(at) = rest.find(['{', '}']) {
            let (text, behind) = rest.split_at_checked(at).ok_or(BadPlace)?;
            let place = PLACES.iter().find(|(word, _)| behind.starts_with(word));
            let (word, part) = place.ok_or(BadPlace)?;
            parts.extend([Part::Text(text.to_owned()), part.clone()]);
            rest = behind.get(word.len()..).ok_or(BadPlace)?;
        }
        let tail = "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        parts.push(Part::Text(format!("{rest}{tail}")));
        Ok(Self { status, parts: parts.into() })
    }

    /// A page, with the seconds after which the client may ask again if they are given.
    #[must_use]
    pub fn page(status: u16, media: &str, body: &str, retry_after: Option<u32>) -> Self {
        let retry = retry_after.map_or_else(String::new, |s| format!("Retry-After: {s}\r\n"));
        let head = format!(
            "HTTP/1.1 {status} {}\r\nContent-Type: {media}\r\nContent-Length: {}\r\n{retry}\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            reason(status),
            body.len(),
        );
        Self { status, parts: [Part::Text(head + body)].into() }
    }

    /// Its status code.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// Whether it names the host of the request, which must have one then.
    #[must_use]
    pub fn names_host(&self) -> bool {
        self.parts.contains(&Part::Host)
    }

    /// Its pieces for `request`, in order.
    pub fn pieces<'a>(&'a self, request: &'a impl RequestView) -> impl Iterator<Item = &'a str> {
        self.parts.iter().map(|part| match part {
            Part::Text(text) => text.as_str(),
            Part::Host => crate::routing::bare(request.host()),
            // `OPTIONS *` asks for no path.
            Part::Path if !request.path().starts_with('/') => "/",
            Part::Path => request.path(),
            Part::Query => request.query(),
        })
    }
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        403 => "Forbidden",
        404 => "Not Found",
        410 => "Gone",
        429 => "Too Many Requests",
        _ => "Service Unavailable",
    }
}
