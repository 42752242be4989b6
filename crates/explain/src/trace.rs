//! What became of a frame: where it arrived, its verdict, what left.
use std::collections::BTreeMap;
use std::fmt;

use packet::PacketBuf;
use serde::Serialize;
use state::{CounterKind, Metric};

use crate::fields::fields;
use crate::outbox::Sent;

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

impl Verdict {
    /// What became of the one frame that has raised these counters.
    #[must_use]
    pub fn of(raised: &[Metric]) -> Self {
        let kind = |kind| raised.iter().any(|metric| metric.kind == kind);
        if kind(CounterKind::Dropped) {
            Self::Dropped
        } else if kind(CounterKind::Forwarded) {
            Self::Forwarded
        } else if kind(CounterKind::Replied) {
            Self::Answered
        } else if kind(CounterKind::Held) {
            Self::Held
        } else {
            Self::Consumed
        }
    }
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
    /// The whole frame.
    #[serde(skip)]
    pub frame: Vec<u8>,
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

impl Departure {
    /// How `sent` differs from the frame that `arrived`.
    #[must_use]
    pub fn of(arrived: &[u8], sent: &Sent) -> Self {
        let left = sent.packet.bytes();
        let (from, to) = (fields(arrived), fields(left));
        let changes = to.into_iter().filter_map(|(field, to)| {
            let from = from.get(field).cloned().unwrap_or_else(|| "none".to_owned());
            (from != to).then_some(Change { field, from, to })
        });
        let (port, bytes) = (sent.port.0, left.len());
        Self { port, bytes, changes: changes.collect(), frame: left.to_vec() }
    }
}

/// Those of the counters `now` that are greater than `before`.
#[must_use]
pub fn raised(
    before: &BTreeMap<&'static str, Metric>,
    now: &BTreeMap<&'static str, Metric>,
) -> Vec<Metric> {
    let was = |name| before.get(name).map_or(0, |metric: &Metric| metric.value);
    let counts = now.values().filter(|metric| metric.kind != CounterKind::Level);
    counts.filter(|metric| metric.value > was(metric.name)).copied().collect()
}
