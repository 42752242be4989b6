//! What is measured.
use serde::Serialize;

/// One policy at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What all that is by chance begins with.
    pub seed: u64,
    /// Zipf's exponent.
    pub alpha: f64,
    /// `heavy`, `all`, `all-by-packets` or `told`.
    pub policy: &'static str,
    /// How the rates change in the middle: `all` or `heaviest`.
    pub change: &'static str,
    /// Packets per second of all connections together.
    pub packets_per_second: u64,
    /// Seconds from the start.
    pub at_s: f64,
    /// Seconds since the change; negative before it.
    pub since_change_s: f64,
    /// The share of packets that is matched.
    pub share: f64,
    /// The share with the heaviest always installed.
    pub oracle: f64,
    /// Entries in use.
    pub rules: usize,
    /// Connections admitted so far.
    pub admitted: u64,
    /// Connections evicted so far.
    pub evicted: u64,
}

/// One policy's run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// As in [`Row`].
    pub seed: u64,
    /// Zipf's exponent.
    pub alpha: f64,
    /// As in [`Row`].
    pub policy: &'static str,
    /// As in [`Row`].
    pub change: &'static str,
    /// As in [`Row`].
    pub packets_per_second: u64,
    /// The share with the heaviest always installed.
    pub oracle: f64,
    /// The share just before the change.
    pub before: f64,
    /// The share right after the change.
    pub dropped_to: f64,
    /// The share 2 s after the change.
    pub after_2s: f64,
    /// The share at the end.
    pub end: f64,
    /// Seconds from the start to 95 % of the oracle's share.
    pub converged_s: Option<f64>,
    /// Seconds from the change to 95 % of the oracle's share.
    pub back_s: Option<f64>,
    /// Insertions a second from the start to the change, once converged (the last 5 s).
    pub churn_per_second: f64,
}

/// Within so much of the oracle's share a policy has converged.
const GOAL: f64 = 0.95;

impl Summary {
    /// Of the rows of one run, in the order of time.
    pub(super) fn of(rows: &[Row]) -> Option<Self> {
        let before = rows.iter().rfind(|row| row.since_change_s < 0.0)?;
        let after = |s: f64| rows.iter().find(|row| row.since_change_s >= s);
        let calm = rows.iter().rfind(|row| row.at_s <= before.at_s - 5.0);
        let churn = calm.map_or(0.0, |calm| {
            (before.admitted - calm.admitted) as f64 / (before.at_s - calm.at_s)
        });
        let good = |row: &&Row| row.share >= GOAL * row.oracle;
        let converged = rows.iter().find(good);
        let back = rows.iter().filter(|row| row.since_change_s >= 0.0).find(good);
        Some(Self {
            seed: before.seed,
            alpha: before.alpha,
            policy: before.policy,
            change: before.change,
            packets_per_second: before.packets_per_second,
            oracle: before.oracle,
            before: before.share,
            dropped_to: after(0.0)?.share,
            after_2s: after(2.0)?.share,
            end: rows.last()?.share,
            converged_s: converged.map(|row| row.at_s),
            back_s: back.map(|row| row.since_change_s),
            churn_per_second: churn,
        })
    }
}
