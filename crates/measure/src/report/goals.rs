//! What was promised, and whether it was met.

use serde::Serialize;

use crate::report::claims::near;
use crate::report::rows::{IPV6, IPV6_CONNECTIONS, UNIFORM};
use crate::report::style::label;
use crate::report::{Findings, Results, Row, installs, new_flows};

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
/// A cost that is near none.
const NEAR_NONE: f64 = 1.05;

/// The goals that rows of figure 5 decide (64-byte packets, uniform traffic),
/// and of figure 6 for HNLB against our SLB. Ratios are medians over ratios in
/// the same repetition; interrupted rows decide nothing.
#[must_use]
pub fn goals(results: &Results) -> Vec<Goal> {
    let hnlb = ["hnlb-queue", "hnlb-mark"];
    let mut goals = vec![near_the_limit(results), flat(results)];
    for slb in ["slb-paper", "slb-bulk"] {
        goals.extend(hnlb.map(|system| {
            let ratio = results.ratio([system, slb], uniform(8000), |row| row.mpps);
            let text = format!("{system}: throughput over {}, 8000 connections", label(slb));
            Goal::at_least(&text, if slb == "slb-paper" { 1.5 } else { 1.0 }, "", ratio)
        }));
    }
    goals.extend(hnlb.map(|system| above_slb(results, system)));
    for (connections, name, bound) in [(8000, "8000", 45.0), (1_000_000, "1 M", 90.0)] {
        let slb = |row: &Row| row.system == "slb" && uniform(connections)(row);
        let time = results.median(slb, |row| row.ns_per_packet);
        let text = format!("our SLB: time per packet, {name} connections");
        goals.push(Goal::at_most(&text, bound, "ns", time));
    }
    goals.extend(hnlb.map(|system| ahead_under_zipf(results, system)));
    goals.extend(["slb", "hnlb-queue", "hnlb-mark"].map(|system| ipv6(results, system)));
    goals
}

/// Uniform rows of figure 5 with this many connections, or the next power of
/// two: 1 M may be 2^20.
fn uniform(connections: u64) -> impl Fn(&Row) -> bool {
    move |row| row.figure == 5 && row.traffic == UNIFORM && near(connections)(row)
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
    let zipf = |row: &Row| row.traffic == "zipf-1.2" && near(1_000_000)(row);
    let ratio = results.ratio([system, "slb"], zipf, |row| row.mpps);
    let text = format!("{system}: throughput over our SLB, 1 M connections, Zipf 1.2");
    let matched = results.median(|row| row.system == system && zipf(row), |row| Some(row.matched));
    let note = matched.map_or_else(String::new, |share| {
        format!("the heavy connections in the NIC carry {:.1} % of the packets", share * 100.0)
    });
    Goal::new(&text, "above 1".into(), "", ratio, |m| m > 1.0).note(note)
}

/// The worst over all numbers of connections that fit into the NIC.
fn near_the_limit(results: &Results) -> Goal {
    let sizes = results.values(5, |row| row.connections).into_iter();
    let worst = sizes.filter(|count| *count <= CAPACITY).filter_map(|count| {
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
    let time = |count| {
        let chosen = |row: &Row| row.system == "hnlb-mark" && uniform(count)(row);
        results.median(chosen, |row| row.ns_per_packet)
    };
    let ratio = time(8000).zip(time(100)).map(|(many, few)| many / few);
    Goal::at_most("hnlb-mark: time per packet, 8000 connections over 100", 1.05, "", ratio)
}

fn above_slb(results: &Results, system: &str) -> Goal {
    let points = [5, 6].into_iter().flat_map(|figure| results.of_system(figure, system));
    let least = points.filter_map(|point| {
        let point = &point.first;
        let chosen = |row: &Row| {
            (row.figure, row.traffic.as_str()) == (point.figure, UNIFORM)
                && (row.connections, row.packet_size) == (point.connections, point.packet_size)
        };
        Some((results.ratio([system, "slb"], chosen, |row| row.mpps)?, point))
    });
    let least = least.min_by(|a, b| a.0.total_cmp(&b.0));
    let text = format!("{system}: throughput over our SLB, least of all points");
    let ratio = least.map(|(ratio, _)| ratio);
    let goal = Goal::new(&text, "above 1".into(), "", ratio, |m| m > 1.0);
    goal.note(least.map_or_else(String::new, |(_, point)| {
        format!("least at {} connections, {} bytes", point.connections, point.packet_size)
    }))
}

/// The goals that rows beside the paper's figures decide.
pub(crate) fn study_goals(findings: &Findings) -> Vec<Goal> {
    let points = new_flows(&findings.new_flows);
    let software = points.iter().filter(|point| point.first.path == "software");
    let worst = software.filter_map(|point| Some((point.median(|row| row.ns)?, &point.first)));
    let worst = worst.max_by(|a, b| a.0.total_cmp(&b.0));
    let note = worst.map_or_else(String::new, |(_, row)| {
        format!("worst in a table of {}, {:.0} % full", row.table, row.fill * 100.0)
    });
    let text = "our SLB: time for a new connection, from the SYN to the table";
    let mut goals = vec![Goal::at_most(text, 250.0, "ns", worst.map(|(ns, _)| ns)).note(note)];
    let points = installs(&findings.installs);
    for system in ["hnlb-queue", "hnlb-mark"] {
        let own = points.iter().filter(|point| point.first.system == system);
        let times = own.filter_map(|point| {
            Some((
                point.median(|row| row.rules_per_second)?,
                point.median(|row| row.ns_per_packet)?,
            ))
        });
        let mut times: Vec<(f64, f64)> = times.collect();
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (several, note) = match times[..] {
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
