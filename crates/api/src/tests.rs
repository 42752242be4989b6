//! The document against the implementation: every endpoint is asked, with right and
//! with random requests, and each answer must be one that the document allows.
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;

use axum::body::Body;
use axum::http::{Request as HttpRequest, StatusCode};
use config::{Config, Service};
use control::{Answered, Asked, Changed, InForce, Refusal, Reloaded, Request, Steered};
use http_body_util::BodyExt;
use proptest::prelude::*;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use status::{
    AnnounceStatus, CaptureBatch, CaptureStarted, ClientConnections, ConnectionList, OffloadCauses,
    PacketStories, ServiceStatus, Status,
};
use tower::ServiceExt;

use crate::endpoint::Endpoint;
use crate::engine::Engine;
use crate::openapi;
use crate::role::Role;
use crate::routes::{App, endpoints, nothing_here};

/// A load balancer that obeys everything about the service `web`, and knows no other.
pub(crate) fn obedient(stream: StdStream) {
    let mut write = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let Asked { id, request, .. } = serde_json::from_str(&line).unwrap();
        let answer = match request {
            Request::Status => to_raw_value(&state()),
            Request::Connection { .. } => to_raw_value(&ClientConnections::default()),
            Request::Drain { ref service, .. } | Request::Restore { ref service, .. }
                if service != "web" =>
            {
                let answer = Err(Refusal::NoService(service.clone()));
                write.write_all(&Answered::line((id, 1), &answer).unwrap()).unwrap();
                continue;
            }
            Request::Drain { .. } | Request::Restore { .. } => to_raw_value(&Steered::default()),
            Request::Connections(_) => to_raw_value(&ConnectionList::default()),
            Request::OffloadCauses => to_raw_value(&OffloadCauses::default()),
            Request::StartCapture(_) => to_raw_value(&CaptureStarted::default()),
            Request::TakeCapture { .. } | Request::StopCapture { .. } => {
                to_raw_value(&CaptureBatch::default())
            }
            Request::Announce { .. } => to_raw_value(&AnnounceStatus::default()),
            Request::Explain(_) => to_raw_value(&PacketStories::default()),
            Request::Change(_) => to_raw_value(&Changed::default()),
            Request::Configuration => to_raw_value(&in_force()),
            Request::Reload { .. } => to_raw_value(&Reloaded::default()),
        };
        if write.write_all(&Answered::line((id, 1), &Ok(answer.unwrap())).unwrap()).is_err() {
            return;
        }
    }
}

const TEXT: &str = include_str!("../../../examples/minimal.toml");

/// What it serves: a service `web`.
fn state() -> Status {
    let web = ServiceStatus { name: "web".to_owned(), ..ServiceStatus::default() };
    Status { services: vec![web], ..Status::default() }
}

/// Its configuration, which its file has, too.
fn in_force() -> InForce {
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/minimal.toml"));
    InForce { config: Config::parse(TEXT, &file).unwrap(), file }
}

/// A body that is right.
fn right_body(endpoint: &Endpoint) -> Option<String> {
    endpoint.body.as_ref()?;
    Some(match endpoint.path.rsplit('/').next() {
        Some("{service}") => {
            let service =
                Service { name: "web".to_owned(), ..in_force().config.services[0].clone() };
            serde_json::to_string(&service).unwrap()
        }
        Some("explain") => r#"{"packets": [{"frame": {"frame": "00"}}]}"#.to_owned(),
        Some("weight") => r#"{"weight": 2}"#.to_owned(),
        _ => "{}".to_owned(),
    })
}

/// The outcome of a request to the endpoints, by a client with `role`.
fn ask(role: Role, method: &str, path: &str, body: Option<&str>) -> (StatusCode, String, Vec<u8>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (ours, theirs) = StdStream::pair().unwrap();
        let thread = std::thread::spawn(move || obedient(theirs));
        let (engine, link) = Engine::new(ours).unwrap();
        let link = tokio::spawn(link);
        let router = Endpoint::router(endpoints())
            .fallback(nothing_here)
            .method_not_allowed_fallback(nothing_here)
            .with_state(App::new(engine));
        let mut request = HttpRequest::builder().method(method).uri(path).extension(role);
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Body::from(body.unwrap_or_default().to_owned())).unwrap();
        let answer = router.oneshot(request).await.unwrap();
        let code = answer.status();
        let media = answer.headers().get("content-type").map(|value| value.to_str().unwrap());
        let media = media.unwrap_or_default().to_owned();
        // The stream of events has no end.
        let bytes = match media.as_str() {
            "text/event-stream" => Vec::new(),
            _ => answer.into_body().collect().await.unwrap().to_bytes().to_vec(),
        };
        link.abort();
        let _ = link.await;
        thread.join().unwrap();
        (code, media, bytes)
    })
}

fn document() -> Value {
    openapi::document(&endpoints())
}

/// The answer must be one that `document` allows.
fn check(document: &Value, endpoint: &Endpoint, answer: &(StatusCode, String, Vec<u8>)) {
    let (code, media, bytes) = answer;
    let at = format!("{} {}: {code}", endpoint.method, endpoint.path);
    let operation = &document["paths"][endpoint.path][endpoint.method.to_ascii_lowercase()];
    let allowed = &operation["responses"][code.as_str()];
    assert!(allowed.is_object(), "{at}: {}", String::from_utf8_lossy(bytes));
    let content = &allowed["content"][media];
    assert!(content.is_object(), "{at}: {media} in {allowed}");
    if media == "application/json" {
        let value: Value = serde_json::from_slice(bytes).unwrap();
        let mut schema = content["schema"].clone();
        schema["components"] = document["components"].clone();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{at}: {errors:?}: {value}");
    }
}

/// The path with values that are right.
fn right_path(endpoint: &Endpoint) -> String {
    let path = endpoint.path.replace("{service}", "web").replace("{backend}", "10.0.0.1");
    path.replace("{client}", "192.0.2.1:80").replace("{id}", "7")
}

#[test]
fn every_endpoint_answers_as_the_document_says_and_the_document_has_no_other() {
    let (document, endpoints) = (document(), endpoints());
    let mut documented = 0;
    for path in document["paths"].as_object().unwrap().values() {
        documented += path.as_object().unwrap().len();
    }
    assert_eq!(documented, endpoints.len());
    for endpoint in &endpoints {
        let body = right_body(endpoint);
        let answer = ask(Role::Operator, endpoint.method, &right_path(endpoint), body.as_deref());
        assert_eq!(answer.0, StatusCode::OK, "{}: {answer:?}", endpoint.path);
        check(&document, endpoint, &answer);
    }
    let ids: std::collections::BTreeSet<String> = endpoints
        .iter()
        .map(|own| {
            let operation = &document["paths"][own.path][own.method.to_ascii_lowercase()];
            operation["operationId"].to_string()
        })
        .collect();
    assert_eq!(ids.len(), endpoints.len(), "{ids:?}");
}

#[test]
fn a_viewer_changes_nothing() {
    let document = document();
    for endpoint in &endpoints() {
        let body = right_body(endpoint);
        let answer = ask(Role::Viewer, endpoint.method, &right_path(endpoint), body.as_deref());
        let refused = answer.0 == StatusCode::FORBIDDEN;
        assert_eq!(refused, endpoint.role == Role::Operator, "{}", endpoint.path);
        check(&document, endpoint, &answer);
    }
}

#[test]
fn what_is_not_there_is_said_in_the_form_of_all_refusals() {
    for (method, path) in [("GET", "/none"), ("DELETE", "/v1/status"), ("GET", "/v1/reload")] {
        let (code, _, bytes) = ask(Role::Operator, method, path, None);
        assert_eq!(code, StatusCode::NOT_FOUND, "{path}");
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert!(value["error"].as_str().unwrap().contains("openapi.json"), "{value}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let names = prop_oneof!["file|dry_run|weight|port|address", "\\PC{0,6}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// As schemathesis does: no request is answered by what the document doesn't allow.
    #[test]
    fn any_request_is_answered_as_the_document_says(
        at in any::<prop::sample::Index>(),
        parts in prop::collection::vec("[!-~&&[^/?#%{}\"<>\\\\^`|]]{1,12}|web|10\\.0\\.0\\.1|%[0-9A-F]{2}", 4),
        body in prop_oneof![any_json().prop_map(|json| json.to_string()), "\\PC{0,20}"],
        query in "(|\\?[a-z]{0,6}=[a-z0-9]{0,6}(&(limit|client)=[0-9a-z.:]{0,9})?)",
    ) {
        let (document, endpoints) = (document(), endpoints());
        let endpoint = &endpoints[at.index(endpoints.len())];
        let mut path = endpoint.path.to_owned();
        for (name, part) in ["{service}", "{backend}", "{client}", "{id}"].iter().zip(&parts) {
            // These are no parts of a path.
            let part = if part == "." || part == ".." { "x" } else { part };
            path = path.replace(name, part);
        }
        let body = endpoint.body.is_some().then_some(body.as_str());
        let answer = ask(Role::Operator, endpoint.method, &(path + &query), body);
        check(&document, endpoint, &answer);
    }
}
