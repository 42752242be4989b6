//! What a schema cannot say: references, duplicates, families, reachability.
mod access_log;
mod announce;
mod api;
mod backends;
mod devices;
mod findings;
mod headers;
mod health;
mod http;
mod interfaces;
mod pools;
mod quic;
mod reach;
mod routes;
mod service_tls;
mod services;
mod status;
mod tls;
mod tunnels;
mod usable;
mod workers;

pub(crate) use findings::Findings;
pub(crate) use reach::Reach;

/// Notes everything that is wrong with the configuration.
pub(crate) fn all(findings: &mut Findings<'_>) {
    devices::check(findings);
    interfaces::check(findings);
    routes::check(findings);
    workers::check(findings);
    pools::check(findings);
    services::check(findings);
    backends::check(findings);
    status::check(findings);
    api::check(findings);
    access_log::check(findings);
    announce::check(findings);
}
