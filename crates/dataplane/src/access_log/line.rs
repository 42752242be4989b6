//! A line of the access log.
use std::net::SocketAddr;
use std::time::SystemTime;

use serde::Serialize;
use service::ServiceTable;
use splice::Record;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// What a line says. Docs: docs/user/l7.md.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    /// When the header of the request was whole, in UTC.
    time: String,
    client: SocketAddr,
    service: &'a str,
    /// The number of the route in the configuration, from 1 on.
    route: Option<u16>,
    group: Option<&'a str>,
    backend: Option<SocketAddr>,
    method: &'a str,
    host: &'a str,
    path: &'a str,
    status: Option<u16>,
    bytes_in: u64,
    bytes_out: u64,
    first_byte_ms: Option<u32>,
    duration_ms: u64,
    /// As the backend got it in `X-Request-Id`.
    request_id: Option<String>,
    why: Option<&'static str>,
}

impl<'a> Line<'a> {
    /// The line of a request that began at `at`.
    pub(super) fn new(record: &'a Record, at: SystemTime, services: &'a ServiceTable) -> Self {
        let service = services.service(record.service);
        Self {
            time: rfc3339(at),
            client: record.client,
            service: service.map_or("", |own| own.name()),
            route: record.route.map(|place| place + 1),
            group: service.zip(record.route).and_then(|(own, place)| own.group_of_route(place)),
            backend: record.backend.map(|own| own.at),
            method: &record.method,
            host: &record.host,
            path: &record.path,
            status: (record.status > 0).then_some(record.status),
            bytes_in: record.bytes[0],
            bytes_out: record.bytes[1],
            first_byte_ms: record.first_byte_ms,
            duration_ms: record.duration_ms,
            request_id: (record.id != 0).then(|| format!("{:016x}", record.id)),
            why: (!record.why.is_empty()).then_some(record.why),
        }
    }
}

/// A time in UTC, to the millisecond.
fn rfc3339(at: SystemTime) -> String {
    let at = OffsetDateTime::from(at);
    let whole = at.replace_millisecond(at.millisecond()).unwrap_or(at);
    whole.format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_in_utc_to_the_millisecond() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
        assert_eq!(rfc3339(at), "2023-11-14T22:13:20.123Z");
    }
}
