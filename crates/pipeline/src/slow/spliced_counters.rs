//! What the L7 agent's events are counted as.
use splice::{Event, Refusal, Rejection};
use state::Counter;

/// The counters of an event.
pub(crate) const fn of_event(event: Event) -> [Option<Counter>; 2] {
    let counter = match event {
        Event::Opened => Counter::HttpConnections,
        Event::Cookie => Counter::HttpCookies,
        Event::Request => Counter::HttpRequests,
        Event::BackendFailed => Counter::HttpBackendFailed,
        Event::Owned => Counter::HttpOwned,
        Event::NoRoom => Counter::HttpNoRoom,
        Event::Congested => Counter::HttpCongested,
        Event::Reset => Counter::HttpReset,
        Event::Switched => Counter::HttpSwitched,
        Event::Evicted => Counter::HttpEvicted,
        Event::Silent => Counter::HttpSilent,
        Event::Unlogged => Counter::AccessLogLost,
        Event::Answered(300..400) => Counter::HttpRedirected,
        Event::Answered(_) => Counter::HttpPages,
        // Counted when it leaves.
        Event::Made => return [None; 2],
        Event::Hello => Counter::TlsHellos,
        Event::ProxyHeader => Counter::ProxyHeaders,
        Event::Unserved => Counter::ProxyUnserved,
        Event::Rejected(rejection) => of_rejection(rejection),
        Event::Refused(refusal) => {
            return [Some(of_status(refusal.status().0)), of_refusal(refusal)];
        }
    };
    [Some(counter), None]
}

/// The counter of the requests that the agent has answered with `status`.
const fn of_status(status: u16) -> Counter {
    match status {
        400 => Counter::Http400,
        404 => Counter::Http404,
        408 => Counter::Http408,
        431 => Counter::Http431,
        502 => Counter::Http502,
        503 => Counter::Http503,
        504 => Counter::Http504,
        _ => Counter::HttpOther,
    }
}

/// The counter of the requests that were refused for this; `None`: their status says it.
const fn of_refusal(refusal: Refusal) -> Option<Counter> {
    Some(match refusal {
        Refusal::RequestLine => Counter::HttpRefusedRequestLine,
        Refusal::Version => Counter::HttpRefusedVersion,
        Refusal::Target => Counter::HttpRefusedTarget,
        Refusal::Connect => Counter::HttpRefusedConnect,
        Refusal::BareLine => Counter::HttpRefusedBareLine,
        Refusal::Folded => Counter::HttpRefusedFolded,
        Refusal::FieldName => Counter::HttpRefusedFieldName,
        Refusal::FieldValue => Counter::HttpRefusedFieldValue,
        Refusal::ManyHosts => Counter::HttpRefusedManyHosts,
        Refusal::NoHost => Counter::HttpRefusedNoHost,
        Refusal::Host => Counter::HttpRefusedHost,
        Refusal::HostMismatch => Counter::HttpRefusedHostMismatch,
        Refusal::Length => Counter::HttpRefusedLength,
        Refusal::ManyLengths => Counter::HttpRefusedManyLengths,
        Refusal::LengthAndCoding => Counter::HttpRefusedLengthAndCoding,
        Refusal::Chunks => Counter::HttpRefusedChunks,
        Refusal::Coding => Counter::HttpRefusedCoding,
        Refusal::CodingBefore11 => Counter::HttpRefusedCodingBefore11,
        Refusal::Connection => Counter::HttpRefusedConnection,
        Refusal::TooManyFields => Counter::HttpRefusedTooManyFields,
        Refusal::TooLong
        | Refusal::Slow
        | Refusal::NoRoute
        | Refusal::NoBackend
        | Refusal::BackendRefused
        | Refusal::BackendSilent => return None,
    })
}

/// The counter of the TLS connections that the agent has ended.
const fn of_rejection(rejection: Rejection) -> Counter {
    match rejection {
        Rejection::NotTls => Counter::TlsNotTls,
        Rejection::NotHello | Rejection::Malformed | Rejection::Twice | Rejection::Name => {
            Counter::TlsBadHello
        }
        Rejection::TooLong => Counter::TlsTooLong,
        Rejection::Slow => Counter::TlsSlow,
        Rejection::NoRoute => Counter::TlsNoRoute,
        Rejection::NoProtocol => Counter::TlsNoProtocol,
        Rejection::NoBackend => Counter::TlsNoBackend,
        Rejection::BackendRefused => Counter::TlsBackendRefused,
        Rejection::BackendSilent => Counter::TlsBackendSilent,
    }
}
