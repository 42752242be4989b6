//! Rows of the same point made one.

use std::cmp::Ordering::Equal;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::report::row::UNIFORM;
use crate::report::{Estimate, Line, NEAR, Row, median};

/// A loss that counts: more than one packet in a hundred thousand.
const LOSS: f64 = 1e-5;

/// All repetitions of one point of a figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// As in [`Row`].
    pub figure: u8,
    /// As in [`Row`].
    pub system: String,
    /// As in [`Row`].
    pub backends: u16,
    /// As in [`Row`].
    pub queues: u16,
    /// As in [`Row`].
    pub connections: u64,
    /// As in [`Row`].
    pub packet_size: u16,
    /// As in [`Row`], median over the repetitions.
    pub offered_mpps: Option<f64>,
    /// As in [`Row`].
    pub traffic: String,
    /// As in [`Row`], over the repetitions.
    pub mpps: Estimate,
    /// As in [`Row`], over the repetitions.
    pub ns_per_packet: Estimate,
    /// As in [`Row`], over the repetitions.
    pub util: Estimate,
    /// As in [`Row`], over the repetitions.
    pub util_plus: Estimate,
    /// As in [`Row`], over the repetitions.
    pub loss: Estimate,
    /// As in [`Row`], over the repetitions.
    pub empty_polls: Estimate,
    /// As in [`Row`], over the repetitions.
    pub matched: Estimate,
    /// As in [`Row`], over the repetitions.
    pub stolen: Estimate,
    /// Whether the two cores were far apart in all repetitions. Otherwise those
    /// in which they were near are all that counts.
    pub far: bool,
}

/// Rows and the points they make.
#[derive(Debug, Clone, Default)]
pub struct Results {
    rows: Vec<Row>,
    points: Vec<Point>,
    /// The longest way between cores that are near each other.
    reach: f64,
}

impl Results {
    /// Groups rows by figure, system, traffic, connections, packet size and
    /// step of the offered rate: the n-th lowest rate of every repetition is
    /// one step, as a measured rate is never quite the same again. Points come
    /// in that order, systems in the order of their first row. Rows that have
    /// no finite number in one column make no point.
    #[must_use]
    pub fn of(rows: Vec<Row>) -> Self {
        let reach = reach(&rows);
        let mut systems: Vec<&str> = Vec::new();
        let mut series: BTreeMap<_, BTreeMap<u32, Vec<&Row>>> = BTreeMap::new();
        for row in &rows {
            let at = systems.iter().position(|name| *name == row.system).unwrap_or_else(|| {
                systems.push(&row.system);
                systems.len() - 1
            });
            let flows = (row.traffic != UNIFORM, &row.traffic, row.connections);
            let key = (row.figure, at, flows, row.packet_size, row.offered_mpps.is_some());
            series.entry(key).or_default().entry(row.repetition).or_default().push(row);
        }
        let points = series.into_values().flat_map(|rows| points(rows, reach)).collect();
        Self { points, rows, reach }
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The points.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The points of a figure, of uniform traffic as in the paper.
    pub fn figure(&self, figure: u8) -> impl Iterator<Item = &Point> {
        self.under(figure, UNIFORM)
    }

    /// The points of a figure under some traffic.
    pub fn under<'a>(&'a self, figure: u8, traffic: &'a str) -> impl Iterator<Item = &'a Point> {
        let wanted = move |point: &&Point| point.figure == figure && point.traffic == traffic;
        self.points.iter().filter(wanted)
    }

    /// The points of a figure of one system.
    pub fn of_system<'a>(&'a self, figure: u8, system: &'a str) -> impl Iterator<Item = &'a Point> {
        self.figure(figure).filter(move |point| point.system == system)
    }

    /// Median over the repetitions of one system's value divided by another's
    /// in the same repetition, where both have rows that `chosen` takes: what
    /// drifts over a run hits both and falls out.
    pub fn ratio(
        &self,
        [one, other]: [&str; 2],
        chosen: impl Fn(&Row) -> bool,
        value: impl Fn(&Row) -> f64,
    ) -> Option<f64> {
        let same = |row: &Row, other: &Row| {
            other.figure == row.figure
                && other.connections == row.connections
                && other.traffic == row.traffic
                && other.packet_size == row.packet_size
                && other.offered_mpps == row.offered_mpps
        };
        let of = |system| {
            let chosen = &chosen;
            move |row: &Row| row.system == system && chosen(row)
        };
        self.paired(of(one), of(other), same, value)
    }

    /// The same of one system's time per packet in figure 5 under two kinds of
    /// traffic.
    pub(crate) fn traffic_ratio(
        &self,
        system: &str,
        connections: u64,
        [one, other]: [&str; 2],
    ) -> Option<f64> {
        let of = |traffic| {
            move |row: &Row| {
                (row.figure, row.connections) == (5, connections)
                    && row.system == system
                    && row.traffic == traffic
            }
        };
        self.paired(of(one), of(other), |_, _| true, |row| row.ns_per_packet)
    }

    /// The median ratio of `value` over the pairs of one repetition of which
    /// `ours` and `theirs` take one each and that are the `same` otherwise.
    fn paired(
        &self,
        ours: impl Fn(&Row) -> bool,
        theirs: impl Fn(&Row) -> bool,
        same: impl Fn(&Row, &Row) -> bool,
        value: impl Fn(&Row) -> f64,
    ) -> Option<f64> {
        let theirs: Vec<&Row> = self.rows.iter().filter(|row| theirs(row)).collect();
        let ratios = self.rows.iter().filter(|row| ours(row)).filter_map(|row| {
            let mut others = theirs.iter().copied();
            let other =
                others.find(|other| other.repetition == row.repetition && same(row, other))?;
            let ratio = value(row) / value(other);
            ratio.is_finite().then(|| (self.are_near([row, other]), ratio))
        });
        let (near, far): (Vec<_>, Vec<_>) = ratios.partition(|(near, _)| *near);
        let counts = if near.is_empty() { far } else { near };
        median(&counts.into_iter().map(|(_, ratio)| ratio).collect::<Vec<_>>())
    }

    /// Whether all were measured while the cores were near each other.
    fn are_near(&self, rows: [&Row; 2]) -> bool {
        rows.iter().all(|row| row.distance_ns <= self.reach)
    }

    /// How many rows were measured while the cores were far apart.
    pub(crate) fn far(&self) -> usize {
        self.rows.iter().filter(|row| row.distance_ns > self.reach).count()
    }
}

/// The points of one series, from its rows by repetition.
fn points(mut repetitions: BTreeMap<u32, Vec<&Row>>, reach: f64) -> Vec<Point> {
    let mut steps: Vec<Vec<&Row>> = Vec::new();
    for rows in repetitions.values_mut() {
        rows.sort_by(|a, b| a.offered_mpps.partial_cmp(&b.offered_mpps).unwrap_or(Equal));
        // Several rows of one repetition at saturation are of one point.
        let one = rows.iter().all(|row| row.offered_mpps.is_none());
        for (at, row) in rows.iter().enumerate() {
            let step = if one { 0 } else { at };
            if steps.len() <= step {
                steps.push(Vec::new());
            }
            if let Some(rows) = steps.get_mut(step) {
                rows.push(row);
            }
        }
    }
    steps.iter().filter_map(|rows| point(rows, reach)).collect()
}

/// The longest way between cores that are near each other; 0 if none is known.
fn reach(rows: &[Row]) -> f64 {
    let known = rows.iter().map(|row| row.distance_ns).filter(|ns| *ns > 0.0);
    known.reduce(f64::min).unwrap_or(0.0) * NEAR
}

fn point(rows: &[&Row], reach: f64) -> Option<Point> {
    let near: Vec<&Row> = rows.iter().copied().filter(|row| row.distance_ns <= reach).collect();
    let far = near.is_empty();
    let rows = if far { rows } else { &near };
    let first = *rows.first()?;
    let of = |value: fn(&Row) -> f64| {
        Estimate::of(&rows.iter().map(|row| value(row)).collect::<Vec<_>>())
    };
    Some(Point {
        figure: first.figure,
        system: first.system.clone(),
        backends: first.backends,
        queues: first.queues,
        connections: first.connections,
        packet_size: first.packet_size,
        offered_mpps: median(&rows.iter().filter_map(|row| row.offered_mpps).collect::<Vec<_>>()),
        traffic: first.traffic.clone(),
        mpps: of(|row| row.mpps)?,
        ns_per_packet: of(|row| row.ns_per_packet)?,
        util: of(|row| row.util)?,
        util_plus: of(|row| row.util_plus)?,
        loss: of(|row| row.loss)?,
        empty_polls: of(|row| row.empty_polls)?,
        matched: of(|row| row.matched)?,
        stolen: of(|row| row.stolen)?,
        far,
    })
}

/// Points of one system at rising offered rates.
#[derive(Debug, Clone)]
pub(crate) struct Sweep<'a> {
    pub(crate) points: Vec<&'a Point>,
}

impl<'a> Sweep<'a> {
    /// In the order of the rate; points without one are left out.
    pub(crate) fn of(points: impl Iterator<Item = &'a Point>) -> Self {
        let mut points: Vec<_> = points.filter(|point| point.offered_mpps.is_some()).collect();
        points.sort_by(|a, b| a.offered().total_cmp(&b.offered()));
        Self { points }
    }

    /// The lowest rate at which packets were lost in the median.
    pub(crate) fn first_loss(&self) -> Option<f64> {
        self.points.iter().find(|point| point.loss.median > LOSS).map(|point| point.offered())
    }

    /// How straight util+ is below the first loss.
    pub(crate) fn line(&self) -> Option<Line> {
        let end = self.first_loss().unwrap_or(f64::INFINITY);
        let below = self.points.iter().filter(|point| point.offered() < end);
        Line::fit(&below.map(|p| (p.offered(), p.util_plus.median)).collect::<Vec<_>>())
    }

    /// util+ at a rate, between its neighbours in proportion.
    pub(crate) fn util_plus_at(&self, rate: f64) -> Option<f64> {
        self.points.windows(2).find_map(|pair| {
            let [a, b] = pair else { return None };
            let (from, to) = (a.offered(), b.offered());
            let inside = from <= rate && rate <= to && from < to;
            let part = (rate - from) / (to - from);
            inside.then_some(a.util_plus.median + part * (b.util_plus.median - a.util_plus.median))
        })
    }
}

/// A saturated load balancer is busy for such a share of its time at least.
const BUSY: f64 = 0.9;
/// Others may have the measured core for such a share of the time.
const STOLEN: f64 = 0.2;

impl Point {
    /// Whether it says less than it should: at saturation the load balancer
    /// waited for the source, the cores were far apart, or another process had
    /// the measured one for much of the time.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        let waited = self.offered_mpps.is_none() && self.util.median < BUSY;
        waited || self.far || self.stolen.median > STOLEN
    }

    /// The offered rate; 0 if there was none.
    pub(crate) fn offered(&self) -> f64 {
        self.offered_mpps.unwrap_or(0.0)
    }
}
