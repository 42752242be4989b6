//! The status as metrics.
#[cfg(test)]
mod tests;

use status::Status;

use crate::open_metrics::{Kind, OpenMetrics};
use crate::{nic_metrics, service_metrics, worker_metrics};

/// The metrics of `status` in the format OpenMetrics.
pub(crate) fn render(status: &Status) -> String {
    let mut text = OpenMetrics::default();
    general(&mut text, status);
    worker_metrics::workers(&mut text, status);
    nic_metrics::ports(&mut text, &status.ports);
    nic_metrics::nic(&mut text, status);
    connections(&mut text, status);
    announced(&mut text, status);
    service_metrics::services(&mut text, status);
    text.end()
}

fn general(text: &mut OpenMetrics, status: &Status) {
    text.family(("hnlb_build", Kind::Info), None, "The program.")
        .sample(&[("version", &status.version)], 1.0);
    text.family(
        ("hnlb_ready", Kind::Gauge),
        None,
        "1 if every port runs and every backend's next hop has answered.",
    )
    .sample(&[], status.ready.into());
    text.family(
        ("hnlb_uptime_seconds", Kind::Gauge),
        Some("seconds"),
        "Since the workers started.",
    )
    .sample(&[], status.uptime_seconds);
    text.family(
        ("hnlb_rules_busy_seconds", Kind::Gauge),
        Some("seconds"),
        "For how long a driver has kept the thread that makes rules.",
    )
    .sample(&[], status.rules_busy_ms as f64 / 1000.0);
}

/// Which VIPs routers are told of; nothing without `[announce]`.
fn announced(text: &mut OpenMetrics, status: &Status) {
    let Some(announce) = &status.announce else { return };
    let mut vips =
        text.family(("hnlb_vip_announced", Kind::Gauge), None, "1 if routers are told of the VIP.");
    for own in &announce.vips {
        vips.sample(&[("vip", &own.vip)], own.announced.into());
    }
    text.family(
        ("hnlb_announce_failing", Kind::Gauge),
        None,
        "1 if the kernel refused a route of an announced VIP at the last attempt.",
    )
    .sample(&[], (!announce.error.is_empty()).into());
}

fn connections(text: &mut OpenMetrics, status: &Status) {
    let own = &status.connections;
    text.family(("hnlb_connections", Kind::Gauge), None, "Connections in the table.")
        .sample(&[], own.active as f64);
    text.family(("hnlb_connections_limit", Kind::Gauge), None, "Connections that the table holds.")
        .sample(&[("family", "ipv4")], own.capacity as f64)
        .sample(&[("family", "ipv6")], own.capacity_v6 as f64);
    text.family(("hnlb_connections_created", Kind::Counter), None, "Connections ever installed.")
        .sample(&[], own.created as f64);
    text.family(
        ("hnlb_connection_table_bytes", Kind::Gauge),
        Some("bytes"),
        "Memory of the connection table.",
    )
    .sample(&[], own.memory_bytes as f64);
}
