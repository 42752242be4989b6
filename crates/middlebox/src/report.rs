//! What the server shows of itself.
use std::collections::BTreeMap;

use nf::{Drop, FunctionCounters, Health, Middlebox, PortCounters};
use packet::PacketBuf;
use serde::{Deserialize, Serialize};

/// A picture of the server, in the order of the configuration.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Seconds since the start.
    pub uptime_s: f64,
    /// The algorithm.
    pub algorithm: String,
    /// The ports.
    pub ports: Vec<PortReport>,
    /// The functions.
    pub functions: Vec<FunctionReportRow>,
    /// The function of each bucket, by position.
    pub map: Vec<u16>,
    /// Buckets that have moved.
    pub moves: u64,
    /// Moves that were given up since frames would have waited for too long.
    pub moves_abandoned: u64,
    /// Frames that wait for a move.
    pub held: u64,
    /// Frames that were dropped, by name.
    pub drops: BTreeMap<String, u64>,
    /// Busy share of the polling thread in percent since the report before.
    pub busy_percent: f64,
}

/// A port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PortReport {
    /// Its name.
    pub name: String,
    /// Whether it has a link.
    pub link: bool,
    /// Its counters.
    #[serde(flatten)]
    pub counters: PortCounters,
}

/// A function.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FunctionReportRow {
    /// Its name.
    pub name: String,
    /// Whether it gets frames, and if not, why.
    pub health: Health,
    /// Buckets that it has.
    pub buckets: usize,
    /// Its longest average stay of a bucket's frames in microseconds.
    pub latency_us: f64,
    /// Its counters.
    #[serde(flatten)]
    pub counters: FunctionCounters,
}

impl Report {
    /// The picture of `server`; names and links in the order of its ports.
    pub(crate) fn of<P: PacketBuf>(
        server: &Middlebox<P>,
        ports: impl Iterator<Item = (String, bool)>,
        functions: &[String],
    ) -> Self {
        let latencies: Vec<u32> = server.latencies().collect();
        let row = |(number, name): (u16, &String)| {
            let (health, counters) = server.function(number)?;
            let own = server.map().iter().zip(&latencies).filter(|(of, _)| **of == number);
            let own: Vec<u32> = own.map(|(_, latency)| *latency).collect();
            Some(FunctionReportRow {
                name: name.clone(),
                health,
                buckets: own.len(),
                latency_us: f64::from(own.into_iter().max().unwrap_or(0)) / 1000.0,
                counters: *counters,
            })
        };
        let dropped =
            Drop::ALL.into_iter().map(|name| (name.name().to_owned(), server.dropped(name)));
        let (moves, moves_abandoned) = server.moves();
        Self {
            ports: (0..)
                .zip(ports)
                .filter_map(|(number, (name, link))| {
                    Some(PortReport { name, link, counters: *server.port(number)? })
                })
                .collect(),
            functions: (0..).zip(functions).filter_map(row).collect(),
            map: server.map().to_vec(),
            moves,
            moves_abandoned,
            held: server.held(),
            drops: dropped.filter(|(_, frames)| *frames > 0).collect(),
            ..Self::default()
        }
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "up {:.0} s, algorithm {}, {:.0} % busy, {} moves ({} abandoned), {} frames held",
            self.uptime_s,
            self.algorithm,
            self.busy_percent,
            self.moves,
            self.moves_abandoned,
            self.held
        )?;
        writeln!(f, "\n{:<12} {:<5} {:>12} {:>12} {:>10}", "port", "link", "in", "out", "passed")?;
        for PortReport { name, link, counters } in &self.ports {
            let PortCounters { in_packets, out_packets, passed, .. } = counters;
            let link = if *link { "up" } else { "down" };
            writeln!(f, "{name:<12} {link:<5} {in_packets:>12} {out_packets:>12} {passed:>10}")?;
        }
        writeln!(
            f,
            "\n{:<12} {:<9} {:>7} {:>10} {:>12} {:>12} {:>7} {:>8}",
            "function", "health", "buckets", "us", "to", "from", "lost", "failures"
        )?;
        for row in &self.functions {
            let health = format!("{:?}", row.health).to_lowercase();
            let FunctionCounters { to_packets, from_packets, lost, failures, .. } = row.counters;
            writeln!(
                f,
                "{:<12} {health:<9} {:>7} {:>10.1} {to_packets:>12} {from_packets:>12} {lost:>7} \
                 {failures:>8}",
                row.name, row.buckets, row.latency_us
            )?;
        }
        if !self.drops.is_empty() {
            writeln!(f, "\ndropped")?;
        }
        for (name, frames) in &self.drops {
            writeln!(f, "{name:<22} {frames:>12}")?;
        }
        Ok(())
    }
}
