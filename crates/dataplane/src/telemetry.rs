//! The status as commands of DPDK's telemetry socket.
//!
//! EAL's thread for a client asks the control thread over a link, as the control API
//! does; no worker is asked. A report serves all clients for a second.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use control::Request;
use dpdk::telemetry::{Answer, Command, Telemetry, Value};
use serde::Serialize;
use serde_json::Value as Json;
use status::{BackendStatus, ServiceStatus, Status, WorkerStatus};

use crate::link::{Caller, Connector};

/// How long a report serves everyone who asks.
const FRESH: Duration = Duration::from_millis(900);
/// How long the control thread may take for one.
const PATIENCE: Duration = Duration::from_secs(5);
/// Names in a list; their texts stay below DPDK's 16 KiB of an answer.
const PAGE: usize = 200;

const COMMANDS: [Command; 14] = [
    ("/hnlb/status", "The whole load balancer: ready, uptime, connections, load. No parameters"),
    ("/hnlb/counters", "Counters of the data path, all workers together. No parameters"),
    ("/hnlb/nic", "Rules, their limit, what match tables did. No parameters"),
    ("/hnlb/offload", "Counts of the life of rules, refusals among them. No parameters"),
    ("/hnlb/admission", "Who gets a rule, and what one takes. No parameters"),
    ("/hnlb/balance", "Moves of redirection table entries. No parameters"),
    ("/hnlb/workers", "The workers. No parameters"),
    ("/hnlb/worker", "A worker: util, util+, naps, cycles. Parameters: worker"),
    ("/hnlb/worker_counters", "A worker's counters. Parameters: worker"),
    ("/hnlb/ports", "The ports. No parameters"),
    ("/hnlb/port", "A port's link and counters. Parameters: port"),
    ("/hnlb/services", "The services, 200 at a time. Parameters: [first]"),
    ("/hnlb/service", "What a service has carried. Parameters: service"),
    (
        "/hnlb/backend",
        "A service's backends, 200 at a time, or one. Parameters: service[,first or address:port]",
    ),
];

/// Serves the commands until what it returns is dropped, and logs where.
pub(crate) fn serve(connector: Connector) -> Result<Telemetry, dpdk::telemetry::TelemetryError> {
    let reports = std::cell::RefCell::new(Reports { connector, caller: None, last: None });
    let answers = move |command: &str, parameter: &str| {
        let mut reports = reports.borrow_mut();
        answer(reports.status()?, command, parameter)
    };
    let telemetry = Telemetry::serve(&COMMANDS, Box::new(answers))?;
    match telemetry.socket() {
        Some(socket) => tracing::info!(socket = %socket.display(), "DPDK's telemetry is served"),
        None => tracing::warn!("DPDK listens at no telemetry socket"),
    }
    Ok(telemetry)
}

/// Reports of the control thread.
struct Reports {
    connector: Connector,
    caller: Option<Caller>,
    last: Option<(Instant, Status)>,
}

impl Reports {
    /// What is known now; `None` if the control thread does not answer.
    fn status(&mut self) -> Option<&Status> {
        let stale = self.last.as_ref().is_none_or(|(at, _)| at.elapsed() >= FRESH);
        if stale {
            // Nothing old is told as if it were true now.
            self.last = None;
            // A caller whose answer came late would read it as the next one.
            let mut caller = self.caller.take().or_else(|| self.connect())?;
            match caller.ask(&Request::Status) {
                Ok(status) => {
                    self.last = Some((Instant::now(), status));
                    self.caller = Some(caller);
                }
                Err(error) => tracing::debug!(%error, "no report for the telemetry socket"),
            }
        }
        self.last.as_ref().map(|(_, status)| status)
    }

    fn connect(&self) -> Option<Caller> {
        let stream = self.connector.connect().ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(Caller::new(stream))
    }
}

/// The answer to `command` by `status`; `None` if there is no such thing.
fn answer(status: &Status, command: &str, parameter: &str) -> Option<Answer> {
    let of = |part: &str| Some(parameter).filter(|_| command == part);
    if let Some(name) = of("/hnlb/worker").or_else(|| of("/hnlb/worker_counters")) {
        let worker = status.workers.iter().find(|own| own.worker.to_string() == name)?;
        return Some(match command {
            "/hnlb/worker" => table(&WorkerStatus { counters: BTreeMap::new(), ..worker.clone() }),
            _ => table(&worker.counters),
        });
    }
    Some(match command {
        "/hnlb/status" => table(&whole(status)),
        "/hnlb/counters" => table(&status.counters),
        "/hnlb/nic" => table(&status.nic),
        "/hnlb/offload" => table(&status.offload),
        "/hnlb/admission" => table(&status.admission),
        "/hnlb/balance" => table(&status.balance),
        "/hnlb/workers" => list(status.workers.iter().map(|own| own.worker.to_string()), "")?,
        "/hnlb/ports" => list(status.ports.iter().map(|own| own.name.clone()), "")?,
        "/hnlb/port" => table(status.ports.iter().find(|own| own.name == parameter)?),
        "/hnlb/services" => list(status.services.iter().map(|own| own.name.clone()), parameter)?,
        "/hnlb/service" => table(&alone(service(status, parameter)?)),
        "/hnlb/backend" => {
            let (name, rest) = parameter.split_once(',').unwrap_or((parameter, ""));
            let service = service(status, name)?;
            match service.backends.iter().find(|own| own.address == rest) {
                Some(backend) => table(&of_backend(service, backend)),
                None => list(service.backends.iter().map(|own| own.address.clone()), rest)?,
            }
        }
        _ => return None,
    })
}

fn service<'a>(status: &'a Status, name: &str) -> Option<&'a ServiceStatus> {
    status.services.iter().find(|own| own.name == name)
}

/// What holds for the whole load balancer and has no command of its own.
#[derive(Serialize)]
struct Whole<'a> {
    version: &'a str,
    ready: bool,
    uptime_seconds: u64,
    rules_busy_ms: u64,
    connections: &'a status::ConnectionStatus,
    autoscaling: &'a status::AutoscalingStatus,
    announced: usize,
}

fn whole(status: &Status) -> Whole<'_> {
    let announce = status.announce.as_ref();
    Whole {
        version: &status.version,
        ready: status.ready,
        uptime_seconds: status.uptime_seconds as u64,
        rules_busy_ms: status.rules_busy_ms,
        connections: &status.connections,
        autoscaling: &status.autoscaling,
        announced: announce.map_or(0, |own| own.vips.iter().filter(|vip| vip.announced).count()),
    }
}

/// The service without its backends.
fn alone(service: &ServiceStatus) -> ServiceStatus {
    ServiceStatus {
        id: service.id,
        generation: service.generation,
        removed: service.removed,
        name: service.name.clone(),
        vip: service.vip.clone(),
        embryonic: service.embryonic,
        traffic: service.traffic,
        first_answers: service.first_answers.clone(),
        requests: service.requests.clone(),
        ..ServiceStatus::default()
    }
}

/// The backend, and what NICs sent it if its service is stateless.
#[derive(Serialize)]
struct OfBackend<'a> {
    #[serde(flatten)]
    backend: &'a BackendStatus,
    stateless: Option<&'a status::ShareStatus>,
}

fn of_backend<'a>(service: &'a ServiceStatus, backend: &'a BackendStatus) -> OfBackend<'a> {
    let own = |share: &&status::ShareStatus| {
        let rest = backend.address.strip_prefix(share.address.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    let shares = service.stateless.as_ref().map(|own| own.shares.as_slice());
    OfBackend { backend, stateless: shares.unwrap_or_default().iter().find(own) }
}

/// Some of `names`, from the number `first` on; `None` if that is no number.
fn list(names: impl Iterator<Item = String>, first: &str) -> Option<Answer> {
    let first = if first.is_empty() { 0 } else { first.parse().ok()? };
    Some(Answer::List(names.skip(first).take(PAGE).collect()))
}

/// `part` as lines: the names of what is within another thing follow its name and a
/// slash.
fn table(part: &impl Serialize) -> Answer {
    let mut lines = Vec::new();
    // What is no JSON has no lines; the status is.
    flatten(&serde_json::to_value(part).unwrap_or_default(), String::new(), &mut lines);
    Answer::Table(lines)
}

fn flatten(json: &Json, name: String, lines: &mut Vec<(String, Value)>) {
    let within = |part: &str| match name.is_empty() {
        true => part.to_owned(),
        false => format!("{name}/{part}"),
    };
    match json {
        Json::Null => {}
        Json::Bool(is) => lines.push((name, Value::Number((*is).into()))),
        Json::Number(number) => lines.push(match number.as_u64() {
            Some(whole) => (name, Value::Number(whole)),
            // The socket has no fractions.
            None => (
                format!("{name}_ppm"),
                Value::Number((number.as_f64().unwrap_or_default() * 1e6) as u64),
            ),
        }),
        Json::String(text) => lines.push((name, Value::Text(text.clone()))),
        Json::Array(parts) => {
            for (at, part) in parts.iter().enumerate() {
                match (part.get("ms"), part.get("count")) {
                    // A line of a histogram.
                    (Some(bound), Some(count)) => {
                        flatten(count, within(&format!("{bound}_ms")), lines);
                    }
                    _ => flatten(part, within(&at.to_string()), lines),
                }
            }
        }
        Json::Object(parts) => {
            parts.iter().for_each(|(part, json)| flatten(json, within(part), lines));
        }
    }
}

#[cfg(test)]
mod tests {
    use status::{AnswersBelow, ConnectionStatus, FirstAnswers, HealthStatus, TrafficStatus};

    use super::*;

    fn status() -> Status {
        let backend = |number: u16| BackendStatus {
            address: format!("10.0.{}.{}:80", number >> 8, number & 255),
            traffic: TrafficStatus { opened: number.into(), ..TrafficStatus::default() },
            health: (number == 1)
                .then(|| HealthStatus { state: "down".to_owned(), ..HealthStatus::default() }),
            ..BackendStatus::default()
        };
        let below = vec![AnswersBelow { ms: 5, count: 7 }];
        let web = ServiceStatus {
            name: "web".to_owned(),
            first_answers: FirstAnswers { count: 8, sum_ms: 9, below },
            backends: (0..450).map(backend).collect(),
            ..ServiceStatus::default()
        };
        let counters =
            |value| state::Counter::ALL.iter().map(move |own| (own.name().into(), value));
        let worker = |worker, util_plus| WorkerStatus {
            worker,
            util_plus,
            counters: counters(worker as u64).collect(),
            ..WorkerStatus::default()
        };
        Status {
            ready: true,
            connections: ConnectionStatus { active: 3, ..ConnectionStatus::default() },
            services: vec![web],
            workers: vec![worker(0, 0.25), worker(1, 1.0)],
            counters: counters(1).collect(),
            ..Status::default()
        }
    }

    fn lines(command: &str, parameter: &str) -> BTreeMap<String, Value> {
        match answer(&status(), command, parameter) {
            Some(Answer::Table(lines)) => lines.into_iter().collect(),
            other => panic!("{command},{parameter}: {other:?}"),
        }
    }

    fn names(command: &str, parameter: &str) -> Vec<String> {
        match answer(&status(), command, parameter) {
            Some(Answer::List(names)) => names,
            other => panic!("{command},{parameter}: {other:?}"),
        }
    }

    #[test]
    fn every_part_of_the_status_has_its_lines() {
        let number = |value| Some(Value::Number(value));
        assert_eq!(lines("/hnlb/status", "").remove("connections/active"), number(3));
        assert_eq!(lines("/hnlb/status", "").remove("ready"), number(1));
        assert_eq!(lines("/hnlb/worker", "0").remove("util_plus_ppm"), number(250_000));
        assert_eq!(lines("/hnlb/worker_counters", "1").remove("received"), number(1));
        let web = lines("/hnlb/service", "web");
        assert_eq!(web.get("first_answers/below/5_ms"), Some(&Value::Number(7)));
        let one = lines("/hnlb/backend", "web,10.0.0.1:80");
        assert_eq!(one.get("traffic/opened"), Some(&Value::Number(1)));
        assert_eq!(one.get("health/state"), Some(&Value::Text("down".to_owned())));
        for (command, parameter) in [
            ("/hnlb/worker", "2"),
            ("/hnlb/port", "none"),
            ("/hnlb/service", "none"),
            ("/hnlb/backend", "none,0"),
            ("/hnlb/backend", "web,10.9.9.9:80"),
            ("/hnlb/none", ""),
        ] {
            assert_eq!(answer(&status(), command, parameter), None, "{command},{parameter}");
        }
    }

    #[test]
    fn no_table_is_longer_than_dpdk_takes() {
        for (command, _) in COMMANDS {
            let parameter = match command {
                "/hnlb/worker" | "/hnlb/worker_counters" => "0",
                "/hnlb/service" => "web",
                "/hnlb/backend" => "web,10.0.0.1:80",
                _ => "",
            };
            if let Some(Answer::Table(lines)) = answer(&status(), command, parameter) {
                assert!(lines.len() <= 256, "{command}: {}", lines.len());
                let bytes: usize = lines.iter().map(|(name, _)| name.len() + 24).sum();
                assert!(bytes < 16_000, "{command}: {bytes}");
            }
        }
    }

    #[test]
    fn pages_have_each_backend_once() {
        let pages: Vec<Vec<String>> = ["web", "web,200", "web,400", "web,450"]
            .map(|page| names("/hnlb/backend", page))
            .into();
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [200, 200, 50, 0]);
        let all: Vec<String> = pages.concat();
        let expected = status().services.remove(0).backends;
        assert_eq!(all, expected.into_iter().map(|own| own.address).collect::<Vec<_>>());
    }
}
