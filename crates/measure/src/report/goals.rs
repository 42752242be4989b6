//! What was promised, and whether it was met.

use serde::Serialize;

use crate::report::row::{IPV6, IPV6_CONNECTIONS, UNIFORM};
use crate::report::{Findings, Results, Row, installs, median, new_flows};

/// How a goal came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Met.
    Met,
    /// Missed.
    Missed,
    /// Its rows are not there.
    Unmeasured,
}

/// A goal with its figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Goal {
    /// What should be.
    pub text: String,
    /// The bound, for readers.
    pub wanted: String,
    /// What was measured, in the bound's unit.
    pub measured: Option<f64>,
    /// The unit, or empty for a ratio.
    pub unit: String,
    /// How it came out.
    pub verdict: Verdict,
    /// More about it, for instance where the worst value was seen.
    pub note: String,
}

impl Goal {
    /// A goal of at most `bound`.
    #[must_use]
    pub fn at_most(text: &str, bound: f64, unit: &str, measured: Option<f64>) -> Self {
        Self::new(text, format!("at most {bound} {unit}"), unit, measured, |m| m <= bound)
    }

    /// A goal of at least `bound`.
    #[must_use]
    pub fn at_least(text: &str, bound: f64, unit: &str, measured: Option<f64>) -> Self {
        Self::new(text, format!("at least {bound} {unit}"), unit, measured, |m| m >= bound)
    }

    fn new(
        text: &str,
        wanted: String,
        unit: &str,
        measured: Option<f64>,
        met: impl Fn(f64) -> bool,
    ) -> Self {
        let verdict = match measured {
            None => Verdict::Unmeasured,
            Some(value) if met(value) => Verdict::Met,
            Some(_) => Verdict::Missed,
        };
        let wanted = wanted.trim_end().to_owned();
        let (text, unit) = (text.to_owned(), unit.to_owned());
        Self { text, wanted, measured, unit, verdict, note: String::new() }
    }

    /// With a note.
    #[must_use]
    pub fn note(mut self, note: String) -> Self {
        self.note = note;
        self
    }
}

/// The most connections that the NIC's table has room for.
const CAPACITY: u64 = 8192;

/// The goals that rows of figure 5 decide (64-byte packets, uniform traffic),
/// and of figure 6 for HNLB against our SLB. Ratios are medians over ratios in
/// the same repetition.
#[must_use]
pub fn goals(results: &Results) -> Vec<Goal> {
    let mut goals = vec![near_the_limit(results), flat(results)];
    for system in ["hnlb-queue", "hnlb-mark"] {
        let ratio = results.ratio([system, "slb-paper"], |row| at(row, 8000), |row| row.mpps);
        let text = format!("{system}: throughput over SLB as in the paper, 8000 connections");
        goals.push(Goal::at_least(&text, 1.5, "", ratio));
    }
    goals.extend(["hnlb-queue", "hnlb-mark"].map(|system| above_slb(results, system)));
    for (connections, name, bound) in [(8000, "8000", 45.0), (1_000_000, "1 M", 90.0)] {
        let rows = results.rows().iter().filter(|row| row.system == "slb");
        let times: Vec<f64> =
            rows.filter(|row| at(row, connections)).map(|row| row.ns_per_packet).collect();
        let text = format!("our SLB: time per packet, {name} connections");
        goals.push(Goal::at_most(&text, bound, "ns", median(&times)));
    }
    goals.extend(["hnlb-queue", "hnlb-mark"].map(|system| ahead_under_zipf(results, system)));
    goals.extend(["slb", "hnlb-queue", "hnlb-mark"].map(|system| ipv6(results, system)));
    goals
}

/// IPv6 takes the fast path too; its headers have 20 bytes more.
fn ipv6(results: &Results, system: &str) -> Goal {
    let ratio = results.traffic_ratio(system, IPV6_CONNECTIONS, [IPV6, UNIFORM]);
    let text = format!("{system}: time per packet, IPv6 over IPv4, {IPV6_CONNECTIONS} connections");
    Goal::at_most(&text, 1.25, "", ratio)
}

/// A million connections of which few carry most of the packets, and room for
/// 8192 of them in the NIC.
fn ahead_under_zipf(results: &Results, system: &str) -> Goal {
    let zipf =
        |row: &Row| row.traffic == "zipf-1.2" && (1_000_000..=1 << 20).contains(&row.connections);
    let ratio = results.ratio([system, "slb"], zipf, |row| row.mpps);
    let text = format!("{system}: throughput over our SLB, 1 M connections, Zipf 1.2");
    let rows = results.rows().iter().filter(|row| row.system == system && zipf(row));
    let matched: Vec<f64> = rows.map(|row| row.matched).collect();
    let note = median(&matched).map_or_else(String::new, |share| {
        format!("the heavy connections in the NIC carry {:.1} % of the packets", share * 100.0)
    });
    Goal::new(&text, "above 1".into(), "", ratio, |m| m > 1.0).note(note)
}

/// The goals that rows beside the paper's figures decide.
pub(crate) fn study_goals(findings: &Findings) -> Vec<Goal> {
    let points = new_flows(&findings.new_flows);
    let software = points.iter().filter(|point| point.first.path == "software");
    let worst = software
        .map(|point| (point.median(|row| row.ns), point.first))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let note = worst.map_or_else(String::new, |(_, row)| {
        format!("worst in a table of {}, {:.0} % full", row.table, row.fill * 100.0)
    });
    let text = "our SLB: time for a new connection, from the SYN to the table";
    let ns = worst.map(|(ns, _)| ns);
    let mut goals = vec![Goal::at_most(text, 250.0, "ns", ns).note(note)];
    let points = installs(&findings.installs);
    for system in ["hnlb-queue", "hnlb-mark"] {
        let own = points.iter().filter(|point| point.first.system == system);
        let mut rates: Vec<(f64, f64)> = own
            .map(|p| (p.median(|row| row.rules_per_second), p.median(|row| row.ns_per_packet)))
            .collect();
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (several, note) = match rates[..] {
            [(_, none), .., (rules, most)] => {
                (Some(most / none), format!("{rules:.0} rules a second"))
            }
            _ => (None, String::new()),
        };
        let text = format!(
            "{system}: the worker's time per packet while rules are installed, over that without"
        );
        goals.push(Goal::at_most(&text, NEAR_NONE, "", several).note(note));
    }
    goals
}

/// A cost that is near none.
const NEAR_NONE: f64 = 1.05;

/// Uniform rows of figure 5 with this many connections, or the next power of
/// two: 1 M may be 2^20.
fn at(row: &Row, connections: u64) -> bool {
    row.figure == 5
        && row.traffic == UNIFORM
        && (connections..=connections.next_power_of_two()).contains(&row.connections)
}

/// All numbers of connections in figure 5, ascending.
fn measured(results: &Results) -> Vec<u64> {
    let mut all: Vec<u64> = results.figure(5).map(|point| point.connections).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn near_the_limit(results: &Results) -> Goal {
    let worst =
        measured(results).into_iter().filter(|count| *count <= CAPACITY).filter_map(|count| {
            let chosen =
                |row: &Row| row.figure == 5 && row.traffic == UNIFORM && row.connections == count;
            let ratio = results.ratio(["hnlb-mark", "limit"], chosen, |row| row.ns_per_packet)?;
            Some((ratio, count))
        });
    let worst = worst.max_by(|a, b| a.0.total_cmp(&b.0));
    let text = "hnlb-mark: time per packet over the limit's, worst case up to the table's capacity";
    let goal = Goal::at_most(text, 1.15, "", worst.map(|(ratio, _)| ratio));
    goal.note(worst.map_or_else(String::new, |(_, count)| format!("worst at {count} connections")))
}

fn flat(results: &Results) -> Goal {
    let time = |connections: u64| {
        let mut points = results.of_system(5, "hnlb-mark");
        let point = points
            .find(|p| (connections..=connections.next_power_of_two()).contains(&p.connections));
        point.map(|point| point.ns_per_packet.median)
    };
    let ratio = time(8000).zip(time(100)).map(|(many, few)| many / few);
    Goal::at_most("hnlb-mark: time per packet, 8000 connections over 100", 1.05, "", ratio)
}

fn above_slb(results: &Results, system: &str) -> Goal {
    let points = results.points().iter().filter(|p| [5, 6].contains(&p.figure));
    let points = points.filter(|p| p.system == system && p.traffic == UNIFORM);
    let least = points.filter_map(|point| {
        let chosen = |row: &Row| {
            row.figure == point.figure
                && row.traffic == point.traffic
                && row.connections == point.connections
                && row.packet_size == point.packet_size
        };
        let ratio = results.ratio([system, "slb"], chosen, |row| row.mpps)?;
        Some((ratio, point))
    });
    let least = least.min_by(|a, b| a.0.total_cmp(&b.0));
    let text = format!("{system}: throughput over our SLB, least of all points");
    let ratio = least.map(|(ratio, _)| ratio);
    let goal = Goal::new(&text, "above 1".into(), "", ratio, |m| m > 1.0);
    goal.note(least.map_or_else(String::new, |(_, point)| {
        format!("least at {} connections, {} bytes", point.connections, point.packet_size)
    }))
}
