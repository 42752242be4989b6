//! The views: which table each makes of a picture.
use status::{
    BackendPicture, BackendState, CounterPicture, Picture, PortPicture, RequestsPicture,
    TrafficPicture, WorkerPicture,
};

use crate::table::{Cell, Column, Table, Tone};
use crate::units::{bits, count, percent, rate};

/// util+ from which on a worker is marked, and from which on as overloaded.
const BUSY: f64 = 0.7;
const OVERLOADED: f64 = 0.9;

/// A table of the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// The services.
    Services,
    /// The backends of all services.
    #[default]
    Backends,
    /// The workers.
    Workers,
    /// The ports.
    Ports,
    /// Why packets were dropped.
    Drops,
    /// The counters of the data path and of rules.
    Counters,
}

impl View {
    /// All views, in the order of their keys, `1` and so on.
    pub const ALL: [Self; 6] =
        [Self::Services, Self::Backends, Self::Workers, Self::Ports, Self::Drops, Self::Counters];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Backends => "backends",
            Self::Workers => "workers",
            Self::Ports => "ports",
            Self::Drops => "drops",
            Self::Counters => "counters",
        }
    }

    /// The number of the column with this name.
    #[must_use]
    pub fn column(self, name: &str) -> Option<usize> {
        self.columns().iter().position(|own| own.name == name)
    }

    /// The names of its columns.
    pub fn column_names(self) -> impl Iterator<Item = &'static str> {
        self.columns().iter().map(|own| own.name)
    }

    pub(crate) const fn columns(self) -> &'static [Column] {
        const SERVICES: &[Column] = &[
            Column::text("service", 12),
            Column::text("vip", 20),
            Column::number("connections", 6),
            Column::number("serving", 4),
            Column::number("backends", 4),
            Column::text("state", 8),
            Column::number("new/s", 6),
            Column::number("packets/s", 8),
            Column::number("in bit/s", 8),
            Column::number("out bit/s", 8),
            Column::number("resets/s", 6),
            Column::number("responses/s", 6),
            Column::number("5xx/s", 6),
            Column::number("first byte", 6),
        ];
        const BACKENDS: &[Column] = &[
            Column::text("service", 12),
            Column::text("backend", 18),
            Column::text("state", 11),
            Column::number("weight", 4),
            Column::number("connections", 6),
            Column::number("first answer", 6),
            Column::text("why", 4),
            Column::number("new/s", 6),
            Column::number("packets/s", 8),
            Column::number("in bit/s", 8),
            Column::number("out bit/s", 8),
            Column::number("resets/s", 6),
            Column::number("responses/s", 6),
            Column::number("5xx/s", 6),
            Column::number("first byte", 6),
            Column::text("next hop", 17),
        ];
        const WORKERS: &[Column] = &[
            Column::text("worker", 4),
            Column::number("util", 7),
            Column::number("util+", 7),
            Column::number("packets/s", 8),
            Column::number("burst", 5),
            Column::number("drops/s", 6),
            Column::number("queues", 4),
        ];
        const PORTS: &[Column] = &[
            Column::text("port", 8),
            Column::text("link", 4),
            Column::number("in packets/s", 8),
            Column::number("in bit/s", 8),
            Column::number("out packets/s", 8),
            Column::number("out bit/s", 8),
            Column::number("past workers/s", 8),
            Column::number("lost/s", 6),
            Column::text("encoding", 8),
            Column::text("driver", 8),
        ];
        const COUNTED: &[Column] = &[
            Column::text("name", 24),
            Column::number("per second", 8),
            Column::number("total", 8),
        ];
        match self {
            Self::Services => SERVICES,
            Self::Backends => BACKENDS,
            Self::Workers => WORKERS,
            Self::Ports => PORTS,
            Self::Drops | Self::Counters => COUNTED,
        }
    }

    /// The column that the view is sorted by at first.
    pub(crate) const fn first_order(self) -> usize {
        match self {
            Self::Services => 2,
            Self::Backends => 4,
            Self::Workers | Self::Ports => 0,
            Self::Drops | Self::Counters => 1,
        }
    }

    pub(crate) fn table(self, picture: &Picture) -> Table {
        let rows = match self {
            Self::Services => picture.services.iter().map(service).collect(),
            Self::Backends => picture.backends.iter().map(backend).collect(),
            Self::Workers => picture.workers.iter().map(worker).collect(),
            Self::Ports => picture.ports.iter().map(port).collect(),
            Self::Drops => picture.drops.iter().map(counter).collect(),
            Self::Counters => picture.counters.iter().map(counter).collect(),
        };
        Table { columns: self.columns().to_vec(), rows }
    }
}

fn whole(value: u64) -> Cell {
    Cell::number(value as f64, value.to_string())
}

/// New connections, packets, bits to backends and to clients, RSTs.
fn traffic(own: &TrafficPicture) -> [Cell; 5] {
    [
        Cell::maybe(own.opened, rate),
        Cell::maybe(own.packets, rate),
        Cell::maybe(own.bytes_to_backend, bits),
        Cell::maybe(own.bytes_to_client, bits),
        Cell::maybe(own.resets, rate),
    ]
}

fn milliseconds(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2} ms"))
}

/// Responses, those of the class 5xx, the mean time to the first byte.
fn requests(own: &RequestsPicture) -> [Cell; 3] {
    [
        Cell::maybe(own.responses, rate),
        Cell::maybe(own.server_errors, rate),
        Cell::maybe(own.first_byte_ms, milliseconds),
    ]
}

fn service(own: &status::ServicePicture) -> Vec<Cell> {
    let (state, tone) = match own {
        own if own.removed => ("removed", Tone::Warning),
        own if own.serving == 0 => ("no backend", Tone::Bad),
        own if own.serving < own.backends => ("degraded", Tone::Warning),
        _ => ("up", Tone::Good),
    };
    let [opened, packets, to_backend, to_client, resets] = traffic(&own.traffic);
    let [responses, errors, first_byte] = requests(&own.requests);
    vec![
        Cell::text(&own.name),
        Cell::text(&own.vip),
        if own.stateless { Cell::maybe(None, rate) } else { whole(own.connections) },
        whole(own.serving as u64),
        whole(own.backends as u64),
        told(own, state, tone),
        opened,
        packets,
        to_backend,
        to_client,
        resets,
        responses,
        errors,
        first_byte,
    ]
}

/// A service's state, and whether routers are told of its VIP.
fn told(own: &status::ServicePicture, state: &str, tone: Tone) -> Cell {
    match own.announced.as_deref() {
        None => Cell::text(state).marked(tone),
        Some("announced") => Cell::text(format!("{state}, announced")).marked(tone),
        Some(why) => {
            let tone = if tone == Tone::Good { Tone::Warning } else { tone };
            Cell::text(format!("{state}, not announced: {why}")).marked(tone)
        }
    }
}

fn backend(own: &BackendPicture) -> Vec<Cell> {
    let tone = match own.state {
        BackendState::Up => Tone::Good,
        BackendState::Down | BackendState::NoNextHop => Tone::Bad,
        _ => Tone::Warning,
    };
    let [opened, packets, to_backend, to_client, resets] = traffic(&own.traffic);
    let [responses, errors, first_byte] = requests(&own.requests);
    vec![
        Cell::text(&own.service),
        Cell::text(&own.address),
        Cell::text(own.state.words()).marked(tone),
        whole(own.weight.into()),
        whole(own.connections),
        Cell::maybe(own.first_answer_ms, milliseconds),
        Cell::text(&own.why),
        opened,
        packets,
        to_backend,
        to_client,
        resets,
        responses,
        errors,
        first_byte,
        Cell::text(&own.next_hop),
    ]
}

/// How a worker with this util+ is marked.
pub(crate) fn load_tone(util_plus: f64) -> Tone {
    match util_plus {
        load if load >= OVERLOADED => Tone::Bad,
        load if load >= BUSY => Tone::Warning,
        _ => Tone::Plain,
    }
}

fn worker(own: &WorkerPicture) -> Vec<Cell> {
    let burst =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.1}"));
    vec![
        whole(own.worker as u64),
        Cell::number(own.util, percent(own.util)),
        Cell::number(own.util_plus, percent(own.util_plus)).marked(load_tone(own.util_plus)),
        Cell::maybe(own.packets, rate),
        Cell::maybe(own.burst, burst),
        Cell::maybe(own.dropped, rate),
        whole(own.queues as u64),
    ]
}

fn port(own: &PortPicture) -> Vec<Cell> {
    let (link, tone) = if own.link_up { ("up", Tone::Good) } else { ("down", Tone::Bad) };
    let lost = if own.lost.is_some_and(|lost| lost > 0.0) { Tone::Bad } else { Tone::Plain };
    vec![
        Cell::text(&own.name),
        Cell::text(link).marked(tone),
        Cell::maybe(own.rx_packets, rate),
        Cell::maybe(own.rx_bytes, bits),
        Cell::maybe(own.tx_packets, rate),
        Cell::maybe(own.tx_bytes, bits),
        Cell::maybe(own.past_workers, rate),
        Cell::maybe(own.lost, rate).marked(lost),
        Cell::text(&own.encoding),
        Cell::text(&own.driver),
    ]
}

fn counter(own: &CounterPicture) -> Vec<Cell> {
    let per_second = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), count);
    vec![Cell::text(&own.name), Cell::maybe(own.rate, per_second), whole(own.total)]
}
