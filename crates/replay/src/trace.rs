//! The story of a frame: where it arrived, what became of it, what changed.
use std::collections::BTreeMap;
use std::fmt;

use capture::Captured;
use flow::PortId;
use packet::PacketBuf;
use serde::Serialize;
use state::{CounterKind, Metric};
use wire::{Headers, Mac};

use crate::outbox::Sent;
use crate::simulation::{Intake, Simulation};

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The NIC sent it on, past the workers.
    ForwardedByNic,
    /// A worker sent it on.
    Forwarded,
    /// It was answered.
    Answered,
    /// It was dropped.
    Dropped,
    /// What it says was taken in, as of an ARP reply.
    Consumed,
    /// It waits, as a fragment for the first of its datagram.
    Held,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ForwardedByNic => "forwarded by the NIC",
            Self::Forwarded => "forwarded",
            Self::Answered => "answered",
            Self::Dropped => "dropped",
            Self::Consumed => "consumed",
            Self::Held => "held",
        })
    }
}

/// The story of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// The frame's number in its capture, from 1, as Wireshark counts.
    pub frame: u64,
    /// The number of the port at which it arrived.
    pub port: u16,
    /// What became of it.
    pub verdict: Verdict,
    /// The counters that it raised, beside those of all frames.
    pub counters: Vec<&'static str>,
    /// What left at once, the frame itself or others.
    pub sent: Vec<Departure>,
}

/// A frame that left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Departure {
    /// The number of its port.
    pub port: u16,
    /// Its length in bytes.
    pub bytes: usize,
    /// How it differs from the frame that arrived.
    pub changes: Vec<Change>,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its name.
    pub field: &'static str,
    /// What arrived.
    pub from: String,
    /// What left.
    pub to: String,
}

/// The counters before a frame.
pub(crate) struct Before {
    counters: BTreeMap<&'static str, Metric>,
    intake: Intake,
}

impl Before {
    pub(crate) fn of(simulation: &Simulation) -> Self {
        Self { counters: simulation.metrics(), intake: simulation.intake() }
    }

    /// The story of `frame`, which arrived at `port` since then.
    pub(crate) fn story(
        &self,
        simulation: &Simulation,
        port: PortId,
        frame: &Captured,
        sent: &[Sent],
    ) -> Trace {
        let before = |name| self.counters.get(name).map_or(0, |metric| metric.value);
        let now = simulation.metrics();
        let raised: Vec<&Metric> =
            now.values().filter(|metric| metric.value > before(metric.name)).collect();
        let kind = |kind| raised.iter().any(|metric| metric.kind == kind);
        let (intake, mut counters) = (simulation.intake(), Vec::new());
        let verdict = if intake.nic_forwarded > self.intake.nic_forwarded {
            Verdict::ForwardedByNic
        } else if intake.nic_dropped > self.intake.nic_dropped {
            counters.push("nic_dropped");
            Verdict::Dropped
        } else if intake.queue_full > self.intake.queue_full {
            counters.push("queue_full");
            Verdict::Dropped
        } else if kind(CounterKind::Dropped) {
            Verdict::Dropped
        } else if kind(CounterKind::Forwarded) {
            Verdict::Forwarded
        } else if kind(CounterKind::Replied) {
            Verdict::Answered
        } else if kind(CounterKind::Held) {
            Verdict::Held
        } else {
            Verdict::Consumed
        };
        let telling = raised
            .iter()
            .filter(|metric| !matches!(metric.kind, CounterKind::In | CounterKind::Sent));
        counters.extend(telling.map(|metric| metric.name));
        let sent = sent.iter().map(|sent| Departure::of(&frame.frame, sent)).collect();
        Trace { frame: frame.number, port: port.0, verdict, counters, sent }
    }
}

impl Departure {
    fn of(arrived: &[u8], sent: &Sent) -> Self {
        let left = sent.packet.bytes();
        let (from, to) = (fields(arrived), fields(left));
        let changes = to.into_iter().filter_map(|(field, to)| {
            let from = from.get(field).cloned().unwrap_or_else(|| "none".to_owned());
            (from != to).then_some(Change { field, from, to })
        });
        Self { port: sent.port.0, bytes: left.len(), changes: changes.collect() }
    }
}

/// The fields of `frame` that the load balancer may change, as text.
fn fields(frame: &[u8]) -> BTreeMap<&'static str, String> {
    let mut fields = BTreeMap::from([("length", frame.len().to_string())]);
    let mac = |at: usize| frame.get(at..).and_then(|rest| rest.first_chunk()).copied().map(Mac);
    for (name, mac) in [("ethernet destination", mac(0)), ("ethernet source", mac(6))] {
        fields.extend(mac.map(|mac| (name, mac.to_string())));
    }
    let Ok(headers) = Headers::parse(frame) else { return fields };
    let (source, destination) = headers.ports(frame).unzip();
    let endpoint = |addr: std::net::IpAddr, port: Option<u16>| match port {
        Some(port) => std::net::SocketAddr::new(addr, port).to_string(),
        None => addr.to_string(),
    };
    let ends = [
        ("source", headers.src_addr(frame).map(|addr| endpoint(addr, source))),
        ("destination", headers.dst_addr(frame).map(|addr| endpoint(addr, destination))),
    ];
    let numbers = [
        ("vlan", headers.vlan.map(|vlan| vlan.to_string())),
        ("protocol", Some(headers.proto.to_string())),
        ("ttl", Some(headers.ttl.to_string())),
    ];
    fields.extend(ends.into_iter().chain(numbers).filter_map(|(name, text)| Some((name, text?))));
    fields
}
