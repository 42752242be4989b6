//! What is found at a point, and the goals.
use nf::Hash;
use serde::{Deserialize, Serialize};

use crate::MeasureError;
use crate::laslb::experiment::Point;
use crate::laslb::outcome::Outcome;
use crate::laslb::system::{CPUS, System};
use crate::statistics::{Estimate, deviation, five_numbers};

/// One system at one load, over all draws.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LaslbRow {
    /// The thesis' section, or `bursty`.
    pub experiment: String,
    /// rss, slb, low2, max, rsspp, dsw, even.
    pub algorithm: String,
    /// Whether it is HNLB's default.
    pub default: bool,
    /// The traffic: 1, 2, 3 or bursty.
    pub set: String,
    /// Where both directions of a flow go: to one processor (symmetric), or each by itself
    /// (thesis).
    pub hash: Hash,
    /// Where service times are from: model, recorded, or forwarder.
    pub service: String,
    /// Offered load.
    pub load_gbps: f64,
    /// Achieved load, the mean over the draws.
    pub throughput_gbps: f64,
    /// Latency of ICMP probes, which are spread over buckets evenly: the thesis' average.
    pub probe_mean_us: f64,
    /// Latency of all packets of all draws.
    pub mean_us: f64,
    /// The half of all packets of all draws is as fast.
    pub p50_us: f64,
    /// 90 % are.
    pub p90_us: f64,
    /// 95 % are.
    pub p95_us: f64,
    /// 99 % are.
    pub p99_us: f64,
    /// The median of the draws' own 99th percentiles.
    pub p99_draw_us: f64,
    /// Its interval of at least 95 % from 6 draws on.
    pub p99_low_us: f64,
    /// The interval's other end.
    pub p99_high_us: f64,
    /// 95th percentiles of the draws: the least, the quartiles with the median between
    /// them, the greatest.
    pub p95_draws_us: [f64; 5],
    /// Loads of the processors of all draws in percent, as the five above.
    pub cpu_five: [f64; 5],
    /// Shares of packets of the processors of all draws in percent, as the five above.
    pub share_five: [f64; 5],
    /// The mean load of the processors in percent.
    pub cpu_mean: f64,
    /// The standard deviation over processors, the mean over draws.
    pub cpu_sd: f64,
    /// The standard deviation of the share of packets over processors, in percent.
    pub share_sd: f64,
    /// The least and the greatest share of a processor, in percent, means over draws.
    pub share_range: [f64; 2],
    /// Packets that found a full queue, in percent.
    pub dropped_percent: f64,
    /// Buckets that changed their processor, a second.
    pub moves_per_s: f64,
    /// Packets that were overtaken by a later one of their flow.
    pub out_of_order: u64,
    /// Time between triggers, where there are any.
    pub trigger_us: Option<u64>,
    /// The distribution of all latencies: percent, microseconds.
    pub cdf: Vec<[f64; 2]>,
    /// Draws of addresses.
    pub draws: u32,
}

/// Percentiles of the CDF.
const PERCENTS: [f64; 14] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.9];

/// A row for each section that shows a point's run.
pub(crate) fn rows(
    point: &Point,
    system: System,
    hash: Hash,
    outcomes: &[Outcome],
) -> Result<Vec<LaslbRow>, MeasureError> {
    let Some(first) = outcomes.first() else { return Ok(Vec::new()) };
    let mut all = Outcome::new(first.length_ns)?;
    for outcome in outcomes {
        let merged =
            all.latency.add(&outcome.latency).and_then(|()| all.probes.add(&outcome.probes));
        merged.map_err(|error| MeasureError::Histogram(error.to_string()))?;
        all.bytes += outcome.bytes;
        all.dropped += outcome.dropped;
        all.moves += outcome.moves;
        all.out_of_order += outcome.out_of_order;
    }
    let us = |percent: f64| all.latency.value_at_percentile(percent) as f64 / 1e3;
    let of_draws = |percent: f64| -> Vec<f64> {
        outcomes.iter().map(|one| one.latency.value_at_percentile(percent) as f64 / 1e3).collect()
    };
    let mean =
        |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64;
    let ends = |values: &[f64]| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        (least, values.iter().copied().fold(0.0, f64::max))
    };
    let p99 = Estimate::of(&of_draws(99.0));
    let processors = |of: &dyn Fn(&Outcome) -> [f64; CPUS as usize]| {
        five_numbers(&outcomes.iter().flat_map(of).collect::<Vec<_>>())
    };
    let seconds = first.length_ns as f64 * outcomes.len() as f64 / 1e9;
    let packets = all.latency.len() + all.dropped;
    let row = LaslbRow {
        algorithm: system.name().to_owned(),
        default: system.is_default(),
        set: point.traffic().to_owned(),
        hash,
        service: point.function.name().to_owned(),
        load_gbps: point.gbps,
        throughput_gbps: all.bytes as f64 * 8.0 / seconds / 1e9,
        probe_mean_us: all.probes.mean() / 1e3,
        mean_us: all.latency.mean() / 1e3,
        p50_us: us(50.0),
        p90_us: us(90.0),
        p95_us: us(95.0),
        p99_us: us(99.0),
        p99_draw_us: p99.map_or(0.0, |p99| p99.median),
        p99_low_us: p99.map_or(0.0, |p99| p99.low),
        p99_high_us: p99.map_or(0.0, |p99| p99.high),
        p95_draws_us: five_numbers(&of_draws(95.0)),
        cpu_five: processors(&Outcome::loads),
        share_five: processors(&Outcome::shares),
        cpu_mean: mean(&|one| one.loads().iter().sum::<f64>() / one.loads().len() as f64),
        cpu_sd: mean(&|one| deviation(&one.loads()).unwrap_or(0.0)),
        share_sd: mean(&|one| deviation(&one.shares()).unwrap_or(0.0)),
        share_range: [mean(&|one| ends(&one.shares()).0), mean(&|one| ends(&one.shares()).1)],
        dropped_percent: 100.0 * all.dropped as f64 / packets.max(1) as f64,
        moves_per_s: all.moves as f64 / seconds,
        out_of_order: all.out_of_order,
        trigger_us: system.trigger_ns().map(|ns| ns / 1000),
        cdf: PERCENTS.map(|percent| [percent, us(percent)]).to_vec(),
        draws: outcomes.len() as u32,
        ..LaslbRow::default()
    };
    let sections = point.sections().iter();
    Ok(sections
        .map(|section| LaslbRow { experiment: (*section).to_owned(), ..row.clone() })
        .collect())
}

/// A goal of the default algorithm, and whether it is met.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaslbGoal {
    /// What is wanted.
    pub goal: &'static str,
    /// Whether it holds everywhere.
    pub met: bool,
    /// Where it is closest to failing, or fails.
    pub worst: String,
}

/// The least advantage at which a percentile counts as worse: the histogram's two digits.
const RESOLUTION: f64 = 0.01;

/// The goals over the rows of all points.
#[must_use]
pub fn goals(rows: &[LaslbRow]) -> Vec<LaslbGoal> {
    let ours = || {
        let shown = |row: &&LaslbRow| row.default && ["6.1", "bursty"].contains(&&*row.experiment);
        rows.iter().filter(shown)
    };
    let others = |row: &LaslbRow, names: &'static [&'static str]| {
        let (experiment, set, load) = (row.experiment.clone(), row.set.clone(), row.load_gbps);
        rows.iter().filter(move |other| {
            other.experiment == experiment
                && other.set == set
                && other.load_gbps == load
                && names.contains(&&*other.algorithm)
        })
    };
    let place = |row: &LaslbRow| format!("set {} at {} Gbit/s", row.set, row.load_gbps);
    let worst = |values: Vec<(f64, String)>, bound: f64, goal: &'static str| {
        let worst = values.into_iter().max_by(|one, other| one.0.total_cmp(&other.0));
        let (value, at) = worst.unwrap_or((f64::NAN, "nothing was run".to_owned()));
        LaslbGoal { goal, met: value <= bound, worst: format!("{value:.3} ({at})") }
    };
    let ratio = |names: &'static [&'static str], wanted: &dyn Fn(&LaslbRow) -> bool| {
        let pairs = ours().filter(|row| wanted(row)).flat_map(|row| {
            others(row, names).map(move |other| {
                (row.p99_us / other.p99_us, format!("{} against {}", place(row), other.algorithm))
            })
        });
        pairs.collect::<Vec<_>>()
    };
    let breaks = |row: &LaslbRow| row.set == "2" && (13.0..=17.0).contains(&row.load_gbps);
    vec![
        worst(
            ratio(&["max", "low2", "rsspp", "dsw"], &|_| true),
            1.0 + RESOLUTION,
            "p99 over that of the best of MAX, LOW2, RSS++ and DSW: at most 1",
        ),
        worst(
            ratio(&["max", "low2"], &breaks),
            0.75,
            "p99 over that of MAX and LOW2, imbalanced, 13 to 17 Gbit/s: at most 0.75",
        ),
        worst(
            ours().map(|row| (row.moves_per_s, place(row))).collect(),
            20.0,
            "moves a second: fewer than 20",
        ),
        worst(
            ours().map(|row| (row.out_of_order as f64, place(row))).collect(),
            0.0,
            "packets out of order: 0",
        ),
    ]
}
