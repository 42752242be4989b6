//! What each endpoint does: a question to the load balancer, and its answer as it comes.
use std::net::{IpAddr, SocketAddr};

use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, ETAG};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use config::Service;
use control::{BackendChange, CaptureOrder, Change, Filter, InForce, Question, Refusal, Request};
use serde_json::Value;
use status::{AutoscalingStatus, Picture, ServiceStatus, Status};

use crate::bodies::{Access, BackendBody, PictureQuery, ReloadBody, WeightBody};
use crate::engine::Reply;
use crate::events;
use crate::extract::{Body, IfMatch, Path, Query};
use crate::metrics;
use crate::open_metrics::MEDIA;
use crate::refused::Refused;
use crate::role::Role;
use crate::routes::App;
use crate::save::{self, Saved};

pub(crate) async fn document(State(app): State<App>) -> Json<Value> {
    Json(Value::clone(&app.document))
}

pub(crate) async fn status(State(app): State<App>) -> Response {
    answer(app.engine.ask(Request::Status).await)
}

pub(crate) async fn picture(
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

pub(crate) async fn access(Extension(role): Extension<Role>) -> Json<Access> {
    Json(Access { role })
}

pub(crate) async fn events(State(app): State<App>) -> Result<impl IntoResponse, Refused> {
    Ok(events::listen(app.engine, app.listeners).await?)
}

pub(crate) async fn services(State(app): State<App>) -> Result<Json<Vec<ServiceStatus>>, Refused> {
    let status: Status = app.engine.ask_for(Request::Status).await?;
    Ok(Json(status.services))
}

pub(crate) async fn service(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<ServiceStatus>, Refused> {
    let status: Status = app.engine.ask_for(Request::Status).await?;
    let found = status.services.into_iter().find(|own| own.name == name && !own.removed);
    Ok(found.map(Json).ok_or(Refusal::NoService(name))?)
}

pub(crate) async fn connections(State(app): State<App>, Query(filter): Query<Filter>) -> Response {
    answer(app.engine.ask(Request::Connections(filter)).await)
}

pub(crate) async fn autoscaling(
    State(app): State<App>,
) -> Result<Json<AutoscalingStatus>, Refused> {
    let status: Status = app.engine.ask_for(Request::Status).await?;
    Ok(Json(status.autoscaling))
}

pub(crate) async fn start_capture(
    State(app): State<App>,
    Body(order): Body<CaptureOrder>,
) -> Response {
    answer(app.engine.ask(Request::StartCapture(order)).await)
}

pub(crate) async fn take_capture(State(app): State<App>, Path(id): Path<u64>) -> Response {
    answer(app.engine.ask(Request::TakeCapture { id }).await)
}

pub(crate) async fn stop_capture(State(app): State<App>, Path(id): Path<u64>) -> Response {
    answer(app.engine.ask(Request::StopCapture { id }).await)
}

pub(crate) async fn announced(State(app): State<App>) -> Response {
    announce(&app, None).await
}

pub(crate) async fn withdraw(State(app): State<App>) -> Response {
    announce(&app, Some(true)).await
}

pub(crate) async fn resume(State(app): State<App>) -> Response {
    announce(&app, Some(false)).await
}

async fn announce(app: &App, withdraw: Option<bool>) -> Response {
    answer(app.engine.ask(Request::Announce { withdraw }).await)
}

pub(crate) async fn offload_causes(State(app): State<App>) -> Response {
    answer(app.engine.ask(Request::OffloadCauses).await)
}

pub(crate) async fn explain(State(app): State<App>, Body(question): Body<Question>) -> Response {
    answer(app.engine.ask(Request::Explain(question)).await)
}

pub(crate) async fn connections_of_client(
    State(app): State<App>,
    Path(client): Path<SocketAddr>,
) -> Response {
    answer(app.engine.ask(Request::Connection { client }).await)
}

pub(crate) async fn drain(
    State(app): State<App>,
    Path((service, backend)): Path<(String, IpAddr)>,
    IfMatch(version): IfMatch,
) -> Response {
    answer(app.engine.ask_of(Request::Drain { service, backend }, version).await)
}

pub(crate) async fn restore(
    State(app): State<App>,
    Path((service, backend)): Path<(String, IpAddr)>,
    IfMatch(version): IfMatch,
) -> Response {
    answer(app.engine.ask_of(Request::Restore { service, backend }, version).await)
}

pub(crate) async fn reload(
    State(app): State<App>,
    IfMatch(version): IfMatch,
    Body(body): Body<ReloadBody>,
) -> Response {
    let ReloadBody { file, dry_run } = body;
    answer(app.engine.ask_of(Request::Reload { file, dry_run }, version).await)
}

pub(crate) async fn set_service(
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

pub(crate) async fn remove_service(
    State(app): State<App>,
    Path(service): Path<String>,
    IfMatch(version): IfMatch,
) -> Response {
    change(&app, Change::RemoveService { service }, version).await
}

pub(crate) async fn set_backend(
    State(app): State<App>,
    Path((service, address)): Path<(String, IpAddr)>,
    IfMatch(version): IfMatch,
    Body(body): Body<BackendBody>,
) -> Response {
    let BackendBody { port, weight, backup, server_ids } = body;
    let backend = BackendChange { address, port, weight, backup, server_ids };
    change(&app, Change::SetBackend { service, backend }, version).await
}

pub(crate) async fn remove_backend(
    State(app): State<App>,
    Path((service, backend)): Path<(String, IpAddr)>,
    IfMatch(version): IfMatch,
) -> Response {
    change(&app, Change::RemoveBackend { service, backend }, version).await
}

pub(crate) async fn set_weight(
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

pub(crate) async fn configuration(State(app): State<App>) -> Response {
    answer(app.engine.ask(Request::Configuration).await)
}

pub(crate) async fn save(State(app): State<App>) -> Result<Json<Saved>, Refused> {
    let InForce { file, config } = app.engine.ask_for(Request::Configuration).await?;
    Ok(Json(save::write(&file, &config)?))
}

pub(crate) async fn metrics(State(app): State<App>) -> Result<impl IntoResponse, Refused> {
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
