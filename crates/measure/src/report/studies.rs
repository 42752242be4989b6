//! Points of latency, new connections, rule installation and churn: the rows
//! of all repetitions made one, in the order of their first.

use serde::Serialize;

use crate::report::{ChurnRow, Estimate, InstallRow, LatencyRow, NewFlowRow};

/// Latencies of one system at one share of its maximum rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyPoint {
    /// As in [`LatencyRow`].
    pub system: String,
    /// As in [`LatencyRow`].
    pub share: f64,
    /// As in [`LatencyRow`], over the repetitions.
    pub rate_mpps: Estimate,
    /// The percentiles 50, 90, 99, 99.9 and 99.99 in microseconds.
    pub percentiles: [Estimate; 5],
    /// As in [`LatencyRow`], over the repetitions.
    pub loss: Estimate,
}

/// What a new connection costs, at one size and filling of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewFlowPoint {
    /// As in [`NewFlowRow`].
    pub path: String,
    /// As in [`NewFlowRow`].
    pub part: String,
    /// As in [`NewFlowRow`].
    pub table: u64,
    /// As in [`NewFlowRow`].
    pub fill: f64,
    /// As in [`NewFlowRow`], over the repetitions.
    pub ns: Estimate,
}

/// What the worker pays at one rate of installation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InstallPoint {
    /// As in [`InstallRow`].
    pub system: String,
    /// As in [`InstallRow`], over the repetitions.
    pub rules_per_second: Estimate,
    /// As in [`InstallRow`], over the repetitions.
    pub ns_per_packet: Estimate,
    /// As in [`InstallRow`], over the repetitions.
    pub mpps: Estimate,
}

/// One system at one rate of new connections.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChurnPoint {
    /// As in [`ChurnRow`].
    pub system: String,
    /// Whether it is the highest rate without loss.
    pub highest: bool,
    /// As in [`ChurnRow`], of the first repetition.
    pub bound: String,
    /// As in [`ChurnRow`], over the repetitions.
    pub arrivals_per_second: Estimate,
    /// As in [`ChurnRow`], over the repetitions.
    pub opened_per_second: Estimate,
    /// As in [`ChurnRow`], over the repetitions.
    pub removed_per_second: Estimate,
    /// As in [`ChurnRow`], over the repetitions.
    pub rules_made_per_second: Estimate,
    /// As in [`ChurnRow`], over the repetitions.
    pub rules_undone_per_second: Estimate,
    /// As in [`ChurnRow`], over the repetitions.
    pub connections: Estimate,
    /// As in [`ChurnRow`], over the repetitions.
    pub mpps: Estimate,
    /// As in [`ChurnRow`], over the repetitions.
    pub ns_per_packet: Estimate,
    /// As in [`ChurnRow`], over the repetitions.
    pub util: Estimate,
    /// As in [`ChurnRow`], over the repetitions.
    pub matched: Estimate,
    /// As in [`ChurnRow`], over the repetitions.
    pub loss: Estimate,
    /// As in [`ChurnRow`], over the repetitions.
    pub behind: Estimate,
}

/// Rows with the same key, in the order of their first.
fn grouped<'r, T, K: PartialEq>(rows: &'r [T], key: impl Fn(&'r T) -> K) -> Vec<(K, Vec<&'r T>)> {
    let mut groups: Vec<(K, Vec<&T>)> = Vec::new();
    for row in rows {
        let key = key(row);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups
}

fn over<T>(rows: &[&T], value: impl Fn(&T) -> f64) -> Option<Estimate> {
    Estimate::of(&rows.iter().map(|row| value(row)).collect::<Vec<_>>())
}

/// The points of latencies.
#[must_use]
pub fn latencies(rows: &[LatencyRow]) -> Vec<LatencyPoint> {
    let groups = grouped(rows, |row| (row.system.as_str(), row.share));
    let point = |((system, share), rows): ((&str, f64), Vec<&LatencyRow>)| {
        Some(LatencyPoint {
            system: system.to_owned(),
            share,
            rate_mpps: over(&rows, |row| row.rate_mpps)?,
            percentiles: [
                over(&rows, |row| row.p50_us)?,
                over(&rows, |row| row.p90_us)?,
                over(&rows, |row| row.p99_us)?,
                over(&rows, |row| row.p999_us)?,
                over(&rows, |row| row.p9999_us)?,
            ],
            loss: over(&rows, |row| row.loss)?,
        })
    };
    groups.into_iter().filter_map(point).collect()
}

/// The points of new connections.
#[must_use]
pub fn new_flows(rows: &[NewFlowRow]) -> Vec<NewFlowPoint> {
    let key = |row: &'_ NewFlowRow| (row.path.clone(), row.part.clone(), row.table, row.fill);
    let point = |((path, part, table, fill), rows): (_, Vec<&NewFlowRow>)| {
        Some(NewFlowPoint { path, part, table, fill, ns: over(&rows, |row| row.ns)? })
    };
    grouped(rows, key).into_iter().filter_map(point).collect()
}

/// The points of rule installation: the n-th lowest rate of every repetition
/// is one point, as a measured rate is never quite the same again.
#[must_use]
pub fn installs(rows: &[InstallRow]) -> Vec<InstallPoint> {
    let mut points = Vec::new();
    for (system, rows) in grouped(rows, |row| row.system.as_str()) {
        let mut steps: Vec<Vec<&InstallRow>> = Vec::new();
        let mut repetitions: Vec<u32> = rows.iter().map(|row| row.repetition).collect();
        repetitions.sort_unstable();
        repetitions.dedup();
        for repetition in repetitions {
            let mut own: Vec<&InstallRow> =
                rows.iter().copied().filter(|row| row.repetition == repetition).collect();
            own.sort_by(|a, b| a.rules_per_second.total_cmp(&b.rules_per_second));
            for (at, row) in own.into_iter().enumerate() {
                match steps.get_mut(at) {
                    Some(step) => step.push(row),
                    None => steps.push(vec![row]),
                }
            }
        }
        points.extend(steps.iter().filter_map(|rows| {
            Some(InstallPoint {
                system: system.to_owned(),
                rules_per_second: over(rows, |row| row.rules_per_second)?,
                ns_per_packet: over(rows, |row| row.ns_per_packet)?,
                mpps: over(rows, |row| row.mpps)?,
            })
        }));
    }
    points
}

/// The points of churn.
#[must_use]
pub fn churns(rows: &[ChurnRow]) -> Vec<ChurnPoint> {
    // The highest rate is another in each repetition.
    let groups = grouped(rows, |row| {
        (row.system.as_str(), (!row.highest).then_some(row.arrivals_per_second))
    });
    let point = |((system, rate), rows): ((&str, Option<f64>), Vec<&ChurnRow>)| {
        Some(ChurnPoint {
            system: system.to_owned(),
            highest: rate.is_none(),
            bound: rows.first()?.bound.clone(),
            arrivals_per_second: over(&rows, |row| row.arrivals_per_second)?,
            opened_per_second: over(&rows, |row| row.opened_per_second)?,
            removed_per_second: over(&rows, |row| row.removed_per_second)?,
            rules_made_per_second: over(&rows, |row| row.rules_made_per_second)?,
            rules_undone_per_second: over(&rows, |row| row.rules_undone_per_second)?,
            connections: over(&rows, |row| row.connections as f64)?,
            mpps: over(&rows, |row| row.mpps)?,
            ns_per_packet: over(&rows, |row| row.ns_per_packet)?,
            util: over(&rows, |row| row.util)?,
            matched: over(&rows, |row| row.matched)?,
            loss: over(&rows, |row| row.loss)?,
            behind: over(&rows, |row| row.behind)?,
        })
    };
    groups.into_iter().filter_map(point).collect()
}
