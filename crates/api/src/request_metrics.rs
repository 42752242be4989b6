//! What became of requests, as metrics.
use status::{FirstAnswers, RequestsStatus, ServiceStatus, Status};

use crate::open_metrics::{Family, Kind, OpenMetrics};

/// The services that read requests.
fn reading(status: &Status) -> impl Iterator<Item = (&ServiceStatus, &RequestsStatus)> {
    status.services.iter().filter_map(|own| Some((own, own.requests.as_ref()?)))
}

/// The responses of services and backends, by class, by status code and by time.
pub(crate) fn requests(text: &mut OpenMetrics, status: &Status) {
    let mut family = text.family(
        ("hnlb_service_responses", Kind::Counter),
        None,
        "Responses to requests by the class of their status code, and by whom: a backend, or HNLB itself.",
    );
    for (service, own) in reading(status) {
        for (by, classes) in [("backend", &own.responses), ("hnlb", &own.own)] {
            for (class, count) in classes.all() {
                let labels = [("service", service.name.as_str()), ("by", by), ("class", class)];
                family.sample(&labels, count as f64);
            }
        }
    }
    let mut family = text.family(
        ("hnlb_service_status_codes", Kind::Counter),
        None,
        "Responses to requests by status code, and by whom. Codes without a response have no series.",
    );
    for (service, own) in reading(status) {
        for (by, codes) in [("backend", &own.codes), ("hnlb", &own.own_codes)] {
            for (code, count) in codes {
                let labels = [("service", service.name.as_str()), ("by", by), ("code", code)];
                family.sample(&labels, *count as f64);
            }
        }
    }
    let mut family = text.family(
        ("hnlb_service_first_byte_seconds", Kind::Histogram),
        Some("seconds"),
        "From the departure of a request to a backend to the end of the response's header.",
    );
    for (service, own) in reading(status) {
        histogram(&mut family, &[("service", service.name.as_str())], &own.first_bytes);
    }
    of_backends(text, status);
}

fn of_backends(text: &mut OpenMetrics, status: &Status) {
    let all = || {
        let services = reading(status).map(|(service, _)| service);
        services.flat_map(|service| {
            let backends = service.backends.iter().chain(&service.departed);
            backends.filter_map(|own| Some((&service.name, own, own.requests.as_ref()?)))
        })
    };
    let mut family = text.family(
        ("hnlb_backend_responses", Kind::Counter),
        None,
        "Responses of the backend to requests, by the class of their status code.",
    );
    for (service, own, requests) in all() {
        let id = format!("{}.{}", own.id, own.generation);
        for (class, count) in requests.responses.all() {
            let labels = [
                ("service", service.as_str()),
                ("backend", &own.address),
                ("id", &id),
                ("class", class),
            ];
            family.sample(&labels, count as f64);
        }
    }
    let mut family = text.family(
        ("hnlb_backend_status_codes", Kind::Counter),
        None,
        "Responses of the backend to requests by status code. Codes without a response have no series.",
    );
    for (service, own, requests) in all() {
        let id = format!("{}.{}", own.id, own.generation);
        for (code, count) in &requests.codes {
            let labels = [
                ("service", service.as_str()),
                ("backend", &own.address),
                ("id", &id),
                ("code", code),
            ];
            family.sample(&labels, *count as f64);
        }
    }
    let mut family = text.family(
        ("hnlb_backend_first_byte_seconds", Kind::Histogram),
        Some("seconds"),
        "From the departure of a request to the backend to the end of the response's header.",
    );
    for (service, own, requests) in all() {
        let id = format!("{}.{}", own.id, own.generation);
        let labels = [("service", service.as_str()), ("backend", &own.address), ("id", &id)];
        histogram(&mut family, &labels, &requests.first_bytes);
    }
}

/// A histogram of milliseconds, in seconds.
pub(crate) fn histogram(family: &mut Family<'_>, labels: &[(&str, &str)], own: &FirstAnswers) {
    let FirstAnswers { count, sum_ms, below } = own;
    let below = below.iter().map(|own| (f64::from(own.ms) / 1000.0, own.count));
    family.histogram(labels, below, (*count, *sum_ms as f64 / 1000.0));
}
