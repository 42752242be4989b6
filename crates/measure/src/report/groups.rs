//! Rows of all repetitions made one point: latency, new connections, rule
//! installation and churn, in the order of their first row.
use crate::report::{ChurnRow, Estimate, InstallRow, LatencyRow, NewFlowRow};

/// The rows of one point, one for each repetition. There is at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Group<'r, R> {
    /// The first row: what all rows have in common is read from it.
    pub first: &'r R,
    rows: Vec<&'r R>,
}

impl<R> Group<'_, R> {
    /// `value` over the repetitions; `None` if no row has a finite one.
    pub fn over(&self, value: impl Fn(&R) -> f64) -> Option<Estimate> {
        Estimate::of(&self.rows.iter().map(|row| value(row)).collect::<Vec<_>>())
    }

    /// The median of `value` over the repetitions; 0 if there is none.
    pub fn median(&self, value: impl Fn(&R) -> f64) -> f64 {
        self.over(value).map_or(0.0, |estimate| estimate.median)
    }

    /// How many rows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rows.len()
    }
}

/// Rows with the same key, in the order of their first.
fn grouped<R, K: PartialEq>(rows: &[R], key: impl Fn(&R) -> K) -> Vec<Group<'_, R>> {
    let mut groups: Vec<(K, Group<'_, R>)> = Vec::new();
    for row in rows {
        let key = key(row);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.rows.push(row),
            None => groups.push((key, Group { first: row, rows: vec![row] })),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The points of latencies: a system at a share of its maximum rate.
#[must_use]
pub fn latencies(rows: &[LatencyRow]) -> Vec<Group<'_, LatencyRow>> {
    grouped(rows, |row| (row.system.clone(), row.share))
}

/// The points of new connections: a part of a path, at one size and filling of
/// the table.
#[must_use]
pub fn new_flows(rows: &[NewFlowRow]) -> Vec<Group<'_, NewFlowRow>> {
    grouped(rows, |row| (row.path.clone(), row.part.clone(), row.table, row.fill))
}

/// The points of rule installation: a system at the n-th lowest rate of every
/// repetition, as a measured rate is never quite the same again.
#[must_use]
pub fn installs(rows: &[InstallRow]) -> Vec<Group<'_, InstallRow>> {
    let step = |row: &InstallRow| {
        let lower = |other: &&InstallRow| {
            (&other.system, other.repetition) == (&row.system, row.repetition)
                && other.rules_per_second < row.rules_per_second
        };
        (row.system.clone(), rows.iter().filter(lower).count())
    };
    grouped(rows, step)
}

/// The points of churn: a system at one rate of new connections, or at the
/// highest, which is another in each repetition.
#[must_use]
pub fn churns(rows: &[ChurnRow]) -> Vec<Group<'_, ChurnRow>> {
    grouped(rows, |row| (row.system.clone(), (!row.highest).then_some(row.arrivals_per_second)))
}
