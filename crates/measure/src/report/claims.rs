//! What the HNLB paper's text says of its figures, and the same from our rows.
//!
//! Only numbers that its section V gives in words; the plots themselves are
//! not read off.

use serde::Serialize;

use crate::report::summary::Sweep;
use crate::report::{Point, Results};

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
}

type Of = fn(&Results, &str) -> Option<String>;

/// The paper's statements, each with the function that answers for us.
const CLAIMS: [(u8, &str, &str, Of); 12] = [
    (4, "HNLB, maximum rate", "more than 13 Mpps", |r, hnlb| maximum(r, hnlb)),
    (4, "SLB, maximum rate", "loss from around 12 Mpps on", |r, _| maximum(r, SLB)),
    (4, "HNLB over SLB", "about 13 / 12 = 1.08", |r, hnlb| over(r, 4, hnlb, |_| true)),
    (5, "HNLB over SLB, 8000 connections", "1.5", |r, hnlb| over(r, 5, hnlb, near(8000))),
    (5, "HNLB, 100 connections over 1", "decreases", |r, hnlb| change(r, hnlb, [1, 100])),
    (5, "HNLB, 1000 connections over 100", "constant", |r, hnlb| change(r, hnlb, [100, 1000])),
    (5, "HNLB, 8000 connections over 1000", "increases very little", |r, hnlb| {
        change(r, hnlb, [1000, 8000])
    }),
    (5, "SLB, 8000 connections over 1", "decreases significantly", |r, _| {
        change(r, SLB, [1, 8000])
    }),
    (6, "HNLB over SLB, 128 bytes", "at least 1.43 (the generator's maximum)", |r, hnlb| {
        over(r, 6, hnlb, |point| point.packet_size == 128)
    }),
    (7, "first loss, 1000 connections: HNLB over SLB", "past 13 Mpps over 10 Mpps", |r, hnlb| {
        let (slb, hnlb) = (sweep(r, SLB).first_loss()?, sweep(r, hnlb).first_loss()?);
        Some(format!("{hnlb:.1} Mpps over {slb:.1} Mpps: {:.2}", hnlb / slb))
    }),
    (7, "HNLB's util+ where SLB is at its first loss, 1000 connections", "70 %", |r, hnlb| {
        let at = sweep(r, SLB).first_loss()?;
        Some(percent(sweep(r, hnlb).util_plus_at(at)?))
    }),
    (7, "HNLB's highest util+ with 1 connection", "always lower than 100 %", |r, hnlb| {
        let points = r.of_system(7, hnlb).filter(|point| point.connections == 1);
        points.map(|point| point.util_plus.median).max_by(f64::total_cmp).map(percent)
    }),
];

const SLB: &str = "slb-paper";

/// The paper's statements beside ours.
#[must_use]
pub fn claims(results: &Results) -> Vec<Claim> {
    let claim = |&(figure, what, paper, of): &(u8, &'static str, &'static str, Of)| {
        let ours = |hnlb| of(results, hnlb).unwrap_or_else(|| "not measured".into());
        Claim { figure, what, paper, queue: ours("hnlb-queue"), mark: ours("hnlb-mark") }
    };
    CLAIMS.iter().map(claim).collect()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Points with this many connections, or up to the next power of two.
fn near(connections: u64) -> impl Fn(&Point) -> bool {
    move |point| (connections..=connections.next_power_of_two()).contains(&point.connections)
}

fn mpps(
    results: &Results,
    figure: u8,
    system: &str,
    chosen: impl Fn(&Point) -> bool,
) -> Option<f64> {
    let point = results.of_system(figure, system).find(|point| chosen(point))?;
    Some(point.mpps.median)
}

fn maximum(results: &Results, system: &str) -> Option<String> {
    mpps(results, 4, system, |_| true).map(|mpps| format!("{mpps:.1} Mpps"))
}

fn over(
    results: &Results,
    figure: u8,
    hnlb: &str,
    chosen: impl Fn(&Point) -> bool,
) -> Option<String> {
    let (hnlb, slb) = (mpps(results, figure, hnlb, &chosen)?, mpps(results, figure, SLB, &chosen)?);
    Some(format!("{:.2}", hnlb / slb))
}

fn change(results: &Results, system: &str, [from, to]: [u64; 2]) -> Option<String> {
    let (from, to) = (mpps(results, 5, system, near(from))?, mpps(results, 5, system, near(to))?);
    Some(format!("{:.2}", to / from))
}

fn sweep<'a>(results: &'a Results, system: &'a str) -> Sweep<'a> {
    Sweep::of(results.of_system(7, system).filter(|point| point.connections == 1000))
}
