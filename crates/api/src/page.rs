//! The web page: one file of HTML, one of CSS, one of JavaScript, which ask nothing of
//! any other host.
use axum::Router;
use axum::http::HeaderName;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::IntoResponse;
use axum::routing::get;

/// The page loads its own files, asks its own origin, and is shown in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Path, media type and text of each file.
const FILES: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("page/page.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
];

/// The page's files. There is nothing of the load balancer in them.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.into_iter().fold(Router::new(), |router, (path, media, text)| {
        router.route(path, get(move || async move { answer(media, text) }))
    })
}

/// Whether the page has a file at this path.
pub(crate) fn has(path: &str) -> bool {
    FILES.iter().any(|(own, ..)| *own == path)
}

fn answer(media: &'static str, text: &'static str) -> impl IntoResponse {
    let headers: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, media),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_asks_anything_of_another_host() {
        for (path, _, text) in FILES {
            // The name of SVG's elements is no address that is asked.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("//") || path == "/page.js", "{path}");
            assert!(!text.contains("http:") && !text.contains("https:"), "{path}");
            assert!(has(path));
        }
        assert!(!has("/v1/status"));
    }
}
