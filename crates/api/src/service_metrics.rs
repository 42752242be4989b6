//! Services and their backends as metrics.
use status::{BackendStatus, Status};

use crate::open_metrics::{Kind, OpenMetrics};
use crate::request_metrics::{histogram, requests};
use crate::traffic_metrics::traffic;

/// A metric of a backend: its name, its sentence, its value.
type OfBackend = (&'static str, &'static str, fn(&BackendStatus) -> f64);

/// What is known of each service and backend.
pub(crate) fn services(text: &mut OpenMetrics, status: &Status) {
    let families: [OfBackend; 4] = [
        ("hnlb_backend_connections", "Connections that the backend serves.", |own| {
            own.active as f64
        }),
        ("hnlb_backend_weight", "The backend's weight; 0 while it is drained.", |own| {
            own.weight.into()
        }),
        ("hnlb_backend_drained", "1 if the backend was drained by a command.", |own| {
            own.drained.into()
        }),
        ("hnlb_backend_next_hop_up", "1 if the next hop's Ethernet address is known.", |own| {
            own.next_hop.contains(':').into()
        }),
    ];
    for (name, help, value) in families {
        let mut family = text.family((name, Kind::Gauge), None, help);
        for service in &status.services {
            for own in service.backends.iter().chain(&service.departed) {
                let id = format!("{}.{}", own.id, own.generation);
                let labels =
                    [("service", service.name.as_str()), ("backend", &own.address), ("id", &id)];
                family.sample(&labels, value(own));
            }
        }
    }
    let mut embryonic = text.family(
        ("hnlb_service_embryonic_connections", Kind::Gauge),
        None,
        "Connections that their server has not answered, or their client not continued.",
    );
    for service in &status.services {
        embryonic.sample(&[("service", service.name.as_str())], service.embryonic.into());
    }
    traffic(text, status);
    requests(text, status);
    health(text, status);
    let mut answers = text.family(
        ("hnlb_backend_first_answer_seconds", Kind::Gauge),
        Some("seconds"),
        "From a connection's first packet to the backend's first answer, as a moving mean.",
    );
    for service in &status.services {
        for own in &service.backends {
            let Some(millis) = own.first_answer_ms else { continue };
            let labels = [("service", service.name.as_str()), ("backend", &own.address)];
            answers.sample(&labels, millis / 1000.0);
        }
    }
    let mut answers = text.family(
        ("hnlb_service_first_answer_seconds", Kind::Histogram),
        Some("seconds"),
        "From a connection's first packet to the first answer of its backend.",
    );
    for own in &status.services {
        histogram(&mut answers, &[("service", own.name.as_str())], &own.first_answers);
    }
    let shares = || {
        let stateless =
            status.services.iter().filter_map(|own| Some((own, own.stateless.as_ref()?)));
        stateless.flat_map(|(own, how)| how.shares.iter().map(|share| (own.name.as_str(), share)))
    };
    let mut packets = text.family(
        ("hnlb_stateless_packets", Kind::Counter),
        None,
        "Packets of a stateless service that NICs sent to a backend.",
    );
    for (service, share) in shares() {
        packets.sample(&[("service", service), ("backend", &share.address)], share.packets as f64);
    }
    let mut bytes = text.family(
        ("hnlb_stateless_bytes", Kind::Counter),
        Some("bytes"),
        "Bytes of a stateless service that NICs sent to a backend.",
    );
    for (service, share) in shares() {
        bytes.sample(&[("service", service), ("backend", &share.address)], share.bytes as f64);
    }
}

/// What health checks say of the backends that are checked.
fn health(text: &mut OpenMetrics, status: &Status) {
    let checked = || {
        let all = status
            .services
            .iter()
            .flat_map(|service| service.backends.iter().map(|own| (service.name.as_str(), own)));
        all.filter_map(|(service, own)| Some((service, own, own.health.as_ref()?)))
    };
    let mut up = text.family(
        ("hnlb_backend_up", Kind::Gauge),
        None,
        "1 if the backend's health checks pass, 0 if they fail; none before the first has ended.",
    );
    for (service, own, health) in checked().filter(|(.., health)| health.state != "unknown") {
        let labels = [("service", service), ("backend", own.address.as_str())];
        up.sample(&labels, (health.state == "up").into());
    }
    let mut weight = text.family(
        ("hnlb_backend_health_weight_ratio", Kind::Gauge),
        Some("ratio"),
        "The part of its configured weight that the backend has by its health checks; less than 1 in its slow start.",
    );
    for (service, own, health) in checked() {
        let labels = [("service", service), ("backend", own.address.as_str())];
        weight.sample(&labels, f64::from(health.percent) / 100.0);
    }
    let mut probes = text.family(
        ("hnlb_backend_probes", Kind::Counter),
        None,
        "Probes of the backend by their result.",
    );
    for (service, own, health) in checked() {
        for (result, count) in [("passed", health.passed), ("failed", health.failed)] {
            let labels =
                [("service", service), ("backend", own.address.as_str()), ("result", result)];
            probes.sample(&labels, count as f64);
        }
    }
    let mut transitions = text.family(
        ("hnlb_backend_health_transitions", Kind::Counter),
        None,
        "How often the backend has come up or gone down.",
    );
    for (service, own, health) in checked() {
        let labels = [("service", service), ("backend", own.address.as_str())];
        transitions.sample(&labels, health.transitions as f64);
    }
}
