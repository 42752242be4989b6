//! Why a packet has its backend, or none.
use flow::{BackendId, Direction, Scheduler};
use service::{Service, ServiceTable};
use state::{CounterKind, Metric, Shared};
use wire::FlowKey;

use crate::ground::{Ground, Known};

/// Which service and backend a packet has, and why.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reason {
    pub(crate) why: String,
    pub(crate) service: Option<String>,
    pub(crate) backend: Option<String>,
}

/// The reason for what became of a packet that has raised these counters. It has
/// `opened` a connection, or belongs to the one that `ground` knows, or to none.
pub(crate) fn reason(
    ground: &Ground,
    opened: Option<&Known>,
    shared: &Shared,
    raised: &[Metric],
) -> Reason {
    let snapshot = shared.snapshot();
    let services = &snapshot.services;
    let dropped = raised.iter().find(|metric| metric.kind == CounterKind::Dropped);
    let reason = match (ground.known.as_ref(), opened, &ground.flow) {
        (Some(known), ..) => of_known(known, ground.flow.is_none(), services),
        (None, Some(opened), _) => of_opened(opened, services, shared),
        (None, None, Some(flow)) => of_none(flow, services, raised),
        (None, None, None) => Reason::default(),
    };
    match dropped {
        Some(metric) => {
            let why = format!("dropped, {}: {}", metric.name, sentence(metric.help));
            let backend = reason.backend.filter(|_| ground.known.is_some());
            Reason { why, backend, ..reason }
        }
        None if reason.why.is_empty() => Reason { why: by_counters(raised), ..reason },
        None => reason,
    }
}

/// Of a connection that the table had before.
fn of_known(known: &Known, is_error: bool, services: &ServiceTable) -> Reason {
    let binding = &known.binding;
    let service = services.service(binding.service);
    let idle = known.idle_ms as f64 / 1000.0;
    let what = if is_error { "ICMP error" } else { "packet" };
    let side = match known.direction {
        Direction::Forward => "from the client",
        Direction::Reply => "from the backend",
    };
    let why = format!(
        "{what} {side} of a connection in the table ({:?}, idle {idle:.1} s), which keeps its backend{}",
        known.state,
        standing(services, service, binding.backend),
    );
    Reason { why, service: name(service), backend: Some(address(services, binding.backend)) }
}

/// Of the connection that the packet opens.
fn of_opened(opened: &Known, services: &ServiceTable, shared: &Shared) -> Reason {
    let binding = &opened.binding;
    let service = services.service(binding.service);
    let chosen = binding.backend;
    let why = match service {
        None => "new connection".to_owned(),
        Some(service) if opened.direction == Direction::Reply => format!(
            "answer of a backend of '{}' to a connection that the table has lost; it is taken up",
            service.name()
        ),
        Some(service) => format!("new connection: {}", choice(service, chosen, shared)),
    };
    Reason { why, service: name(service), backend: Some(address(services, chosen)) }
}

/// Of a packet without an entry in the table.
fn of_none(flow: &FlowKey, services: &ServiceTable, raised: &[Metric]) -> Reason {
    let has = |counter: &str| raised.iter().any(|metric| metric.name == counter);
    let forwarded = raised.iter().any(|metric| metric.kind == CounterKind::Forwarded);
    if let Some(service) = services.lookup(flow) {
        let hashed = services.hashed(service, flow).filter(|_| forwarded);
        let why = match (forwarded, service.is_stateless()) {
            (false, _) => by_counters(raised),
            (true, true) => {
                "stateless service: bits of the client's address, or of the flow's hash, choose the backend".to_owned()
            }
            (true, false) => {
                "no connection in the table, and none is made for this packet: Maglev's hash of the 5-tuple chooses the backend".to_owned()
            }
        };
        let backend = hashed.map(|backend| address(services, backend));
        return Reason { why, service: name(Some(service)), backend };
    }
    if has("stateless_reply") {
        let claimant = services.claimant(flow);
        let why = "answer of a backend, of no connection in the table: it goes back through the one service that claims it".to_owned();
        return Reason {
            why,
            service: claimant.and_then(|(service, _)| name(Some(service))),
            backend: claimant.map(|(_, backend)| address(services, backend)),
        };
    }
    Reason::default()
}

/// How the scheduler of `service` came to `chosen`.
fn choice(service: &Service, chosen: BackendId, shared: &Shared) -> String {
    let serving = service.backends().iter().filter(|own| service.serves(own.id)).count();
    // The connection itself is counted by now.
    let open = shared.loads().connections(chosen).saturating_sub(1);
    match service.scheduler() {
        Scheduler::Maglev => {
            format!("Maglev's hash of the 5-tuple, among {serving} backends that take connections")
        }
        Scheduler::SourceHash => {
            format!(
                "the hash of the client's address, among {serving} backends that take connections"
            )
        }
        own @ (Scheduler::RoundRobin | Scheduler::WeightedRoundRobin) => format!(
            "next in turn by {own} among {serving} backends that take connections; every worker has a turn of its own, so that the backend may be another one"
        ),
        Scheduler::LeastConnections => format!(
            "fewest connections for its weight among {serving} backends that take connections: {open} are open; of equals each worker takes the next in turn"
        ),
        Scheduler::LeastLatency => {
            let ms = f64::from(shared.loads().latency(chosen)) / 256.0;
            format!(
                "the sooner of two backends that are picked by the 5-tuple, among {serving}: it answers after {ms:.1} ms"
            )
        }
    }
}

/// That the backend of a connection gets no others, and why.
fn standing(services: &ServiceTable, service: Option<&Service>, backend: BackendId) -> String {
    let Some(service) = service else { return String::new() };
    if services.departed().iter().any(|own| own.id == backend) {
        return "; the backend has left the configuration".to_owned();
    }
    if service.serves(backend) {
        return String::new();
    }
    let why = match (service.is_drained(backend), service.is_down(backend)) {
        (true, _) => "it is drained",
        (false, true) => "its health checks fail",
        (false, false) => "its weight is 0, or it is a backup",
    };
    format!("; the backend gets no new connections: {why}")
}

/// The sentences of the counters that say something of one packet.
fn by_counters(raised: &[Metric]) -> String {
    let telling = raised
        .iter()
        .filter(|metric| !matches!(metric.kind, CounterKind::In | CounterKind::Sent))
        .map(|metric| format!("{}: {}", metric.name, sentence(metric.help)));
    telling.collect::<Vec<_>>().join("; ")
}

fn sentence(help: &str) -> &str {
    help.trim_end_matches('.')
}

fn name(service: Option<&Service>) -> Option<String> {
    service.map(|service| service.name().to_owned())
}

fn address(services: &ServiceTable, backend: BackendId) -> String {
    let mut all = services.all_backends();
    match all.find(|own| own.id == backend) {
        None => "unknown".to_owned(),
        Some(own) => match own.port {
            Some(port) => std::net::SocketAddr::new(own.address, port).to_string(),
            None => own.address.to_string(),
        },
    }
}
