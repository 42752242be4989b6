//! Every endpoint, and what it does.
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, ETAG};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use config::{ServerIds, Service};
use control::{
    BackendChange, CaptureOrder, Change, Changed, Filter, InForce, Question, Refusal, Reloaded,
    Request, Steered,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use status::{
    AnnounceStatus, AutoscalingStatus, CaptureBatch, CaptureStarted, ClientConnections,
    ConnectionList, OffloadCauses, PacketStories, Picture, ServiceStatus, Status,
};

use tokio::sync::Semaphore;

use crate::endpoint::Endpoint;
use crate::engine::{Engine, Reply};
use crate::events;
use crate::extract::{Body, IfMatch, Path, Query};
use crate::metrics;
use crate::open_metrics::MEDIA;
use crate::openapi;
use crate::refused::Refused;
use crate::role::Role;
use crate::sampler::Sampler;
use crate::save::{self, Saved};

/// What handlers need.
#[derive(Clone, Debug)]
pub(crate) struct App {
    engine: Engine,
    document: Arc<Value>,
    sampler: Arc<Sampler>,
    /// Places for clients that listen to events.
    listeners: Arc<Semaphore>,
}

impl App {
    /// Handlers that ask `engine`.
    pub(crate) fn new(engine: Engine) -> Self {
        Self {
            engine,
            document: Arc::new(openapi::document(&endpoints())),
            sampler: Arc::default(),
            listeners: Arc::new(Semaphore::new(events::LISTENERS)),
        }
    }
}

/// Every endpoint.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    let steering = [StatusCode::NOT_FOUND, StatusCode::CONFLICT];
    let changing = [StatusCode::NOT_FOUND, StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY];
    vec![
        Endpoint::get("/v1/openapi.json", "This document.", document)
            .answers::<Map<String, Value>>(),
        Endpoint::get("/v1/status", "The state and the counters of everything.", status)
            .answers::<Status>(),
        Endpoint::get(
            "/v1/picture",
            "What happens now, with a rate for everything that is counted: what the web page shows.",
            picture,
        )
        .takes_query::<PictureQuery>()
        .answers::<Picture>()
        .refuses(&[StatusCode::NOT_FOUND]),
        Endpoint::get("/v1/access", "What the client may do.", access).answers::<Access>(),
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
        .versioned()
        .refuses(&steering),
        Endpoint::post(
            "/v1/services/{service}/backends/{backend}/restore",
            "Send a drained backend new connections again.",
            restore,
        )
        .answers::<Steered>()
        .versioned()
        .refuses(&steering),
        Endpoint::post(
            "/v1/reload",
            "Read the configuration again, or show what that would change.",
            reload,
        )
        .takes::<ReloadBody>()
        .answers::<Reloaded>()
        .versioned()
        .refuses(&[StatusCode::CONFLICT]),
        Endpoint::get(
            "/v1/connections",
            "The connections in the table, those of a client, service or backend, or the heaviest, page by page.",
            connections,
        )
        .takes_query::<Filter>()
        .answers::<ConnectionList>()
        .refuses(&[StatusCode::NOT_FOUND, StatusCode::CONFLICT]),
        Endpoint::get(
            "/v1/autoscaling",
            "The load of the busiest worker, for an autoscaler such as KEDA's metrics-api.",
            autoscaling,
        )
        .answers::<AutoscalingStatus>(),
        Endpoint::post(
            "/v1/captures",
            "Capture what workers receive and send. One capture can go on at a time.",
            start_capture,
        )
        .takes::<CaptureOrder>()
        .answers::<CaptureStarted>()
        .refuses(&[StatusCode::NOT_FOUND, StatusCode::CONFLICT]),
        Endpoint::get(
            "/v1/captures/{id}",
            "The frames that a capture has caught since this was last asked.",
            take_capture,
        )
        .for_operators()
        .answers::<CaptureBatch>()
        .refuses(&[StatusCode::NOT_FOUND]),
        Endpoint::delete(
            "/v1/captures/{id}",
            "End a capture; its last frames.",
            stop_capture,
        )
        .answers::<CaptureBatch>()
        .refuses(&[StatusCode::NOT_FOUND]),
        Endpoint::get("/v1/announce", "Which VIPs routers are told of.", announced)
            .answers::<AnnounceStatus>()
            .refuses(&[StatusCode::NOT_FOUND]),
        Endpoint::post(
            "/v1/announce/withdraw",
            "Withdraw all VIPs, so that routers send new packets to other load balancers.",
            withdraw,
        )
        .answers::<AnnounceStatus>()
        .refuses(&[StatusCode::NOT_FOUND]),
        Endpoint::post(
            "/v1/announce/resume",
            "Announce the VIPs that can serve again.",
            resume,
        )
        .answers::<AnnounceStatus>()
        .refuses(&[StatusCode::NOT_FOUND]),
        Endpoint::get(
            "/v1/offload/causes",
            "How many connections the NIC matches, and why it does not match the others.",
            offload_causes,
        )
        .answers::<OffloadCauses>(),
        Endpoint::post(
            "/v1/explain",
            "What becomes of packets, and why: service, backend, entry of the table, rules, and the bytes that leave. Nothing changes.",
            explain,
        )
        .for_viewers()
        .takes::<Question>()
        .answers::<PacketStories>(),
        Endpoint::get(
            "/v1/events",
            "What happens from now on: a stream of server-sent events, each an object of JSON with kind, about and now.",
            events,
        )
        .answers_text("text/event-stream"),
        Endpoint::get("/v1/services", "All services and their backends.", services)
            .answers::<Vec<ServiceStatus>>(),
        Endpoint::get("/v1/services/{service}", "A service and its backends.", service)
            .answers::<ServiceStatus>()
            .refuses(&[StatusCode::NOT_FOUND]),
        Endpoint::put(
            "/v1/services/{service}",
            "A service begins, or takes the place of the one with its name.",
            set_service,
        )
        .takes::<Service>()
        .answers::<Changed>()
        .versioned()
        .refuses(&changing),
        Endpoint::delete("/v1/services/{service}", "A service ends.", remove_service)
            .answers::<Changed>()
            .versioned()
            .refuses(&changing),
        Endpoint::put(
            "/v1/services/{service}/backends/{backend}",
            "A backend begins to serve, or takes the place of the one with its address and port.",
            set_backend,
        )
        .takes::<BackendBody>()
        .answers::<Changed>()
        .versioned()
        .refuses(&changing),
        Endpoint::delete(
            "/v1/services/{service}/backends/{backend}",
            "A backend leaves the service, with all its ports.",
            remove_backend,
        )
        .answers::<Changed>()
        .versioned()
        .refuses(&changing),
        Endpoint::put(
            "/v1/services/{service}/backends/{backend}/weight",
            "A backend gets another weight, on all its ports.",
            set_weight,
        )
        .takes::<WeightBody>()
        .answers::<Changed>()
        .versioned()
        .refuses(&changing),
        Endpoint::get(
            "/v1/config",
            "The configuration in force, keys included: the file and what the API has changed since.",
            configuration,
        )
        .for_operators()
        .answers::<InForce>(),
        Endpoint::post(
            "/v1/config/save",
            "Write the services in force into the configuration file, whose comments stay.",
            save,
        )
        .answers::<Saved>()
        .refuses(&[StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY]),
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

/// Which backends a picture has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PictureQuery {
    /// Those of the service with this name; by default none.
    #[serde(default)]
    service: Option<String>,
}

/// What the client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Access {
    /// Its role.
    role: Role,
}

/// The body of a backend. What it leaves out stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackendBody {
    /// Its port; by default the port that the client asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// Its share of new connections compared with the others'; of a new backend by default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// Whether it gets new connections only while no other backend does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<bool>,
    /// The server ids that it writes into QUIC connection ids, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_ids: Option<ServerIds>,
}

/// The body of a weight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightBody {
    /// The share of new connections compared with the others'; 0: none.
    pub weight: u16,
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

async fn picture(
    State(app): State<App>,
    Query(PictureQuery { service }): Query<PictureQuery>,
) -> Result<Json<Picture>, Refused> {
    let mut picture = app.sampler.picture(&app.engine).await?;
    let Some(name) = service else { return Ok(Json(picture.without_backends())) };
    if !picture.services.iter().any(|own| own.name == name) {
        return Err(Refusal::NoService(name).into());
    }
    picture.backends.retain(|own| own.service == name);
    Ok(Json(picture))
}

async fn access(Extension(role): Extension<Role>) -> Json<Access> {
    Json(Access { role })
}

async fn events(State(app): State<App>) -> Result<impl IntoResponse, Refused> {
    Ok(events::listen(app.engine, app.listeners).await?)
}

async fn services(State(app): State<App>) -> Result<Json<Vec<ServiceStatus>>, Refused> {
    let status: Status = app.engine.ask_for(Request::Status).await?;
    Ok(Json(status.services))
}

async fn service(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<ServiceStatus>, Refused> {
    let status: Status = app.engine.ask_for(Request::Status).await?;
    let found = status.services.into_iter().find(|own| own.name == name && !own.removed);
    Ok(found.map(Json).ok_or(Refusal::NoService(name))?)
}

async fn connections(State(app): State<App>, Query(filter): Query<Filter>) -> Response {
    answer(app.engine.ask(Request::Connections(filter)).await)
}

async fn autoscaling(State(app): State<App>) -> Result<Json<AutoscalingStatus>, Refused> {
    let status: Status = app.engine.ask_for(Request::Status).await?;
    Ok(Json(status.autoscaling))
}

async fn start_capture(State(app): State<App>, Body(order): Body<CaptureOrder>) -> Response {
    answer(app.engine.ask(Request::StartCapture(order)).await)
}

async fn take_capture(State(app): State<App>, Path(id): Path<u64>) -> Response {
    answer(app.engine.ask(Request::TakeCapture { id }).await)
}

async fn stop_capture(State(app): State<App>, Path(id): Path<u64>) -> Response {
    answer(app.engine.ask(Request::StopCapture { id }).await)
}

async fn announced(State(app): State<App>) -> Response {
    announce(&app, None).await
}

async fn withdraw(State(app): State<App>) -> Response {
    announce(&app, Some(true)).await
}

async fn resume(State(app): State<App>) -> Response {
    announce(&app, Some(false)).await
}

async fn announce(app: &App, withdraw: Option<bool>) -> Response {
    answer(app.engine.ask(Request::Announce { withdraw }).await)
}

async fn offload_causes(State(app): State<App>) -> Response {
    answer(app.engine.ask(Request::OffloadCauses).await)
}

async fn explain(State(app): State<App>, Body(question): Body<Question>) -> Response {
    answer(app.engine.ask(Request::Explain(question)).await)
}

async fn connections_of_client(State(app): State<App>, Path(client): Path<SocketAddr>) -> Response {
    answer(app.engine.ask(Request::Connection { client }).await)
}

async fn drain(
    State(app): State<App>,
    Path((service, backend)): Path<(String, IpAddr)>,
    IfMatch(version): IfMatch,
) -> Response {
    answer(app.engine.ask_of(Request::Drain { service, backend }, version).await)
}

async fn restore(
    State(app): State<App>,
    Path((service, backend)): Path<(String, IpAddr)>,
    IfMatch(version): IfMatch,
) -> Response {
    answer(app.engine.ask_of(Request::Restore { service, backend }, version).await)
}

async fn reload(
    State(app): State<App>,
    IfMatch(version): IfMatch,
    Body(body): Body<ReloadBody>,
) -> Response {
    let ReloadBody { file, dry_run } = body;
    answer(app.engine.ask_of(Request::Reload { file, dry_run }, version).await)
}

async fn set_service(
    State(app): State<App>,
    Path(name): Path<String>,
    IfMatch(version): IfMatch,
    Body(service): Body<Service>,
) -> Response {
    if service.name != name {
        let what = format!("the path names the service '{name}', and the body '{}'", service.name);
        return Refused::malformed(what).into_response();
    }
    change(&app, Change::SetService(Box::new(service)), version).await
}

async fn remove_service(
    State(app): State<App>,
    Path(service): Path<String>,
    IfMatch(version): IfMatch,
) -> Response {
    change(&app, Change::RemoveService { service }, version).await
}

async fn set_backend(
    State(app): State<App>,
    Path((service, address)): Path<(String, IpAddr)>,
    IfMatch(version): IfMatch,
    Body(body): Body<BackendBody>,
) -> Response {
    let BackendBody { port, weight, backup, server_ids } = body;
    let backend = BackendChange { address, port, weight, backup, server_ids };
    change(&app, Change::SetBackend { service, backend }, version).await
}

async fn remove_backend(
    State(app): State<App>,
    Path((service, backend)): Path<(String, IpAddr)>,
    IfMatch(version): IfMatch,
) -> Response {
    change(&app, Change::RemoveBackend { service, backend }, version).await
}

async fn set_weight(
    State(app): State<App>,
    Path((service, backend)): Path<(String, IpAddr)>,
    IfMatch(version): IfMatch,
    Body(WeightBody { weight }): Body<WeightBody>,
) -> Response {
    change(&app, Change::SetWeight { service, backend, weight }, version).await
}

async fn change(app: &App, change: Change, version: Option<u64>) -> Response {
    answer(app.engine.ask_of(Request::Change(change), version).await)
}

async fn configuration(State(app): State<App>) -> Response {
    answer(app.engine.ask(Request::Configuration).await)
}

async fn save(State(app): State<App>) -> Result<Json<Saved>, Refused> {
    let InForce { file, config } = app.engine.ask_for(Request::Configuration).await?;
    Ok(Json(save::write(&file, &config)?))
}

async fn metrics(State(app): State<App>) -> Result<impl IntoResponse, Refused> {
    let status: Status = app.engine.ask_for(Request::Status).await?;
    Ok(([(CONTENT_TYPE, MEDIA)], metrics::render(&status)))
}

/// The load balancer's answer as it came, with the version of the configuration.
fn answer(reply: Reply) -> Response {
    let mut response = match reply.outcome {
        Ok(answer) => {
            let text = Box::<str>::from(answer).into_string();
            ([(CONTENT_TYPE, "application/json")], text).into_response()
        }
        Err(refusal) => Refused::from(refusal).into_response(),
    };
    let tag = reply.version.and_then(|version| format!("\"{version}\"").parse().ok());
    if let Some(tag) = tag {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}
