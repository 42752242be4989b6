//! Every endpoint, and what it does.
use std::sync::Arc;

use axum::Json;
use axum::extract::Request as HttpRequest;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use config::Service;
use control::{CaptureOrder, Changed, Filter, InForce, Question, Refusal, Reloaded, Steered};
use serde_json::{Map, Value};
use status::{
    AnnounceStatus, AutoscalingStatus, CaptureBatch, CaptureStarted, ClientConnections,
    ConnectionList, OffloadCauses, PacketStories, Picture, ServiceStatus, Status,
};
use tokio::sync::Semaphore;

use crate::bodies::{Access, BackendBody, PictureQuery, ReloadBody, WeightBody};
use crate::endpoint::Endpoint;
use crate::engine::Engine;
use crate::handlers::{
    access, announced, autoscaling, configuration, connections, connections_of_client, document,
    drain, events, explain, metrics, offload_causes, picture, reload, remove_backend,
    remove_service, restore, resume, save, service, services, set_backend, set_service, set_weight,
    start_capture, status, stop_capture, take_capture, withdraw,
};
use crate::open_metrics::MEDIA;
use crate::refused::Refused;
use crate::role::Role;
use crate::sampler::Sampler;
use crate::save::Saved;
use crate::{events, openapi};

/// What handlers need.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) document: Arc<Value>,
    pub(crate) sampler: Arc<Sampler>,
    /// Places for clients that listen to events.
    pub(crate) listeners: Arc<Semaphore>,
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
