//! What the HNLB paper's text says of its figures, and the same from our rows.
//!
//! Only numbers that its section V gives in words; the plots themselves are
//! not read off.
use serde::Serialize;

use crate::report::Results;
use crate::report::points::Sweep;
use crate::report::rows::Row;

/// One statement of the paper beside ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// The figure it is about.
    pub figure: u8,
    /// What is compared.
    pub what: &'static str,
    /// What the paper's text says.
    pub paper: &'static str,
    /// Ours with the paper's pair: `hnlb-queue` and `slb-paper`.
    pub queue: String,
    /// Ours with `hnlb-mark` and `slb-paper`.
    pub mark: String,
    /// Ours with `hnlb-mark` and `slb-bulk`.
    pub bulk: String,
}

/// Nanoseconds that receiving and sending a packet cost a core with a card's
/// driver (descriptors, buffers taken and given back), an estimate: 20 to 40.
/// The rings of a measurement hand over pointers and cost nearly nothing.
pub(crate) const DRIVER_NS: f64 = 30.0;

/// Answers for HNLB and a software load balancer, by their names.
type Of = fn(&Results, &str, &str) -> Option<String>;

/// The paper's statements, each with the function that answers for us.
const CLAIMS: [(u8, &str, &str, Of); 12] = [
    (4, "HNLB, maximum rate", "more than 13 Mpps", |r, hnlb, _| maximum(r, hnlb)),
    (4, "SLB, maximum rate", "loss from around 12 Mpps on", |r, _, slb| maximum(r, slb)),
    (4, "HNLB over SLB", "about 13 / 12 = 1.08", |r, h, s| over(r, 4, [h, s], |_| true)),
    (5, "HNLB over SLB, 8000 connections", "1.5", |r, h, s| over(r, 5, [h, s], near(8000))),
    (5, "HNLB, 100 connections over 1", "decreases", |r, hnlb, _| change(r, hnlb, [1, 100])),
    (5, "HNLB, 1000 connections over 100", "constant", |r, hnlb, _| change(r, hnlb, [100, 1000])),
    (5, "HNLB, 8000 connections over 1000", "increases very little", |r, hnlb, _| {
        change(r, hnlb, [1000, 8000])
    }),
    (5, "SLB, 8000 connections over 1", "decreases significantly", |r, _, slb| {
        change(r, slb, [1, 8000])
    }),
    (6, "HNLB over SLB, 128 bytes", "at least 1.43 (the generator's maximum)", |r, h, s| {
        over(r, 6, [h, s], |row| row.packet_size == 128)
    }),
    (7, "first loss, 1000 connections: HNLB over SLB", "past 13 Mpps over 10 Mpps", |r, h, s| {
        let (slb, hnlb) = (sweep(r, s).first_loss()?, sweep(r, h).first_loss()?);
        Some(format!("{hnlb:.1} Mpps over {slb:.1} Mpps: {:.2}", hnlb / slb))
    }),
    (7, "HNLB's util+ where SLB is at its first loss, 1000 connections", "70 %", |r, h, s| {
        let at = sweep(r, s).first_loss()?;
        Some(percent(sweep(r, h).util_plus_at(at)?))
    }),
    (7, "HNLB's highest util+ with 1 connection", "always lower than 100 %", |r, hnlb, _| {
        let points = r.of_system(7, hnlb).filter(|point| point.first.connections == 1);
        let highest = points.filter_map(|point| point.median(|row| row.util_plus));
        highest.max_by(f64::total_cmp).map(percent)
    }),
];

/// The paper's statements beside ours.
#[must_use]
pub fn claims(results: &Results) -> Vec<Claim> {
    let claim = |&(figure, what, paper, of): &(u8, &'static str, &'static str, Of)| {
        let ours = |hnlb, slb| of(results, hnlb, slb).unwrap_or_else(|| "not measured".into());
        let (queue, mark) = (ours("hnlb-queue", "slb-paper"), ours("hnlb-mark", "slb-paper"));
        Claim { figure, what, paper, queue, mark, bulk: ours("hnlb-mark", "slb-bulk") }
    };
    CLAIMS.iter().map(claim).collect()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Rows with this many connections, or up to the next power of two.
pub(crate) fn near(connections: u64) -> impl Fn(&Row) -> bool {
    move |row| (connections..=connections.next_power_of_two()).contains(&row.connections)
}

/// The median of `value` in a point at saturation.
pub(crate) fn saturated(
    results: &Results,
    figure: u8,
    system: &str,
    chosen: impl Fn(&Row) -> bool,
    value: impl Fn(&Row) -> Option<f64>,
) -> Option<f64> {
    let mut points = results.of_system(figure, system);
    let point = points.find(|point| point.first.saturates() && chosen(&point.first))?;
    point.median(value)
}

fn maximum(results: &Results, system: &str) -> Option<String> {
    let mpps = saturated(results, 4, system, |_| true, |row| row.mpps)?;
    let lossless = Sweep::of(results.of_system(4, system)).lossless();
    let lossless = lossless.map(|mpps| format!("; {mpps:.1} Mpps without loss"));
    Some(format!("{mpps:.1} Mpps in a closed loop{}", lossless.unwrap_or_default()))
}

/// A ratio of throughputs, measured and with a card's driver.
fn over(
    results: &Results,
    figure: u8,
    systems: [&str; 2],
    chosen: impl Fn(&Row) -> bool,
) -> Option<String> {
    let of = |value: fn(&Row) -> Option<f64>| {
        let [hnlb, slb] = systems.map(|system| saturated(results, figure, system, &chosen, value));
        hnlb.zip(slb)
    };
    let ((hnlb, slb), (hnlb_ns, slb_ns)) = (of(|row| row.mpps)?, of(|row| row.ns_per_packet)?);
    let with_driver = (slb_ns + DRIVER_NS) / (hnlb_ns + DRIVER_NS);
    Some(format!("{:.2} ({with_driver:.2} with a driver's {DRIVER_NS} ns for each)", hnlb / slb))
}

fn change(results: &Results, system: &str, [from, to]: [u64; 2]) -> Option<String> {
    let mpps = |connections| saturated(results, 5, system, near(connections), |row| row.mpps);
    Some(format!("{:.2}", mpps(to)? / mpps(from)?))
}

fn sweep<'a>(results: &'a Results, system: &'a str) -> Sweep<'a> {
    Sweep::of(results.of_system(7, system).filter(|point| point.first.connections == 1000))
}
