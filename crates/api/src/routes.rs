//! Every endpoint, and what it does.
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use control::{Refusal, Reloaded, Request, Steered};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use status::{ClientConnections, Status};

use crate::endpoint::Endpoint;
use crate::engine::{Engine, Outcome};
use crate::extract::{Body, Path};
use crate::metrics;
use crate::open_metrics::MEDIA;
use crate::openapi;
use crate::refused::Refused;
use crate::role::Role;

/// What handlers need.
#[derive(Clone, Debug)]
pub(crate) struct App {
    engine: Engine,
    document: Arc<Value>,
}

impl App {
    /// Handlers that ask `engine`.
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, document: Arc::new(openapi::document(&endpoints())) }
    }
}

/// Every endpoint.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    let steering = [StatusCode::NOT_FOUND, StatusCode::CONFLICT];
    vec![
        Endpoint::get("/v1/openapi.json", "This document.", document)
            .answers::<Map<String, Value>>(),
        Endpoint::get("/v1/status", "The state and the counters of everything.", status)
            .answers::<Status>(),
        Endpoint::get(
            "/v1/clients/{client}/connections",
            "The connections of a client's address and port, and why they are in the NIC or not.",
            connections_of_client,
        )
        .answers::<ClientConnections>(),
        Endpoint::post(
            "/v1/services/{service}/backends/{backend}/drain",
            "Send a backend no new connections.",
            drain,
        )
        .answers::<Steered>()
        .refuses(&steering),
        Endpoint::post(
            "/v1/services/{service}/backends/{backend}/restore",
            "Send a drained backend new connections again.",
            restore,
        )
        .answers::<Steered>()
        .refuses(&steering),
        Endpoint::post(
            "/v1/reload",
            "Read the configuration again, or show what that would change.",
            reload,
        )
        .takes::<ReloadBody>()
        .answers::<Reloaded>()
        .refuses(&[StatusCode::CONFLICT]),
        Endpoint::get("/metrics", "Metrics for Prometheus, in the format OpenMetrics.", metrics)
            .answers_text(MEDIA),
    ]
}

/// The body of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReloadBody {
    /// The file, with its whole path; by default the one that is in force.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// Whether nothing is to change.
    #[serde(default)]
    pub dry_run: bool,
}

/// Lets operators through, and refuses all others.
pub(crate) async fn operators_only(request: HttpRequest, next: Next) -> Response {
    match request.extensions().get::<Role>() {
        Some(Role::Operator) => next.run(request).await,
        _ => Refused::from(Refusal::Forbidden).into_response(),
    }
}

/// The answer to what nothing is served at.
pub(crate) async fn nothing_here() -> Response {
    let what = "nothing is served at this path with this method; see /v1/openapi.json";
    (StatusCode::NOT_FOUND, Json(Refused::malformed(what))).into_response()
}

async fn document(State(app): State<App>) -> Json<Value> {
    Json(Value::clone(&app.document))
}

async fn status(State(app): State<App>) -> Response {
    answer(app.engine.ask(Request::Status).await)
}

async fn connections_of_client(State(app): State<App>, Path(client): Path<SocketAddr>) -> Response {
    answer(app.engine.ask(Request::Connection { client }).await)
}

async fn drain(
    State(app): State<App>,
    Path((service, backend)): Path<(String, IpAddr)>,
) -> Response {
    answer(app.engine.ask(Request::Drain { service, backend }).await)
}

async fn restore(
    State(app): State<App>,
    Path((service, backend)): Path<(String, IpAddr)>,
) -> Response {
    answer(app.engine.ask(Request::Restore { service, backend }).await)
}

async fn reload(State(app): State<App>, Body(body): Body<ReloadBody>) -> Response {
    let ReloadBody { file, dry_run } = body;
    answer(app.engine.ask(Request::Reload { file, dry_run }).await)
}

async fn metrics(State(app): State<App>) -> Result<impl IntoResponse, Refused> {
    let status: Status = app.engine.ask_for(Request::Status).await?;
    Ok(([(CONTENT_TYPE, MEDIA)], metrics::render(&status)))
}

/// The load balancer's answer as it came.
fn answer(outcome: Outcome) -> Response {
    match outcome {
        Ok(answer) => {
            let text = Box::<str>::from(answer).into_string();
            ([(CONTENT_TYPE, "application/json")], text).into_response()
        }
        Err(refusal) => Refused::from(refusal).into_response(),
    }
}
