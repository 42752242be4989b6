//! Rows of all repetitions of a point made one.
use std::cmp::Ordering::Equal;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::report::rows::UNIFORM;
use crate::report::{
    ChurnRow, Estimate, InstallRow, LatencyRow, Line, NewFlowRow, Row, WorkersRow, median,
};

/// Two cores are near each other if a cache line's way to the other and back
/// takes at most so many times the shortest of the run.
pub const NEAR: f64 = 2.0;
/// A loss that counts: more than one packet in a hundred thousand.
const LOSS: f64 = 1e-5;
/// A saturated load balancer is busy for such a share of its time at least.
const BUSY: f64 = 0.9;

/// The rows of one point, one for each repetition. There is at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Group<R> {
    /// The first row: what all rows have in common is read from it.
    pub first: R,
    rows: Vec<R>,
}

/// The points of the paper's figures.
pub type Point = Group<Row>;

impl<R> Group<R> {
    /// `value` over the repetitions; `None` if no row has a finite one.
    pub fn over<V: Into<Option<f64>>>(&self, value: impl Fn(&R) -> V) -> Option<Estimate> {
        Estimate::of(&self.rows.iter().filter_map(|row| value(row).into()).collect::<Vec<_>>())
    }

    /// The median of `value` over the repetitions.
    pub fn median<V: Into<Option<f64>>>(&self, value: impl Fn(&R) -> V) -> Option<f64> {
        self.over(value).map(|estimate| estimate.median)
    }

    /// How many rows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rows.len()
    }
}

/// Rows with the same key, in the order of their first.
fn grouped<R: Clone, K: PartialEq>(rows: &[R], key: impl Fn(&R) -> K) -> Vec<Group<R>> {
    let mut groups: Vec<(K, Group<R>)> = Vec::new();
    for row in rows {
        let key = key(row);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.rows.push(row.clone()),
            None => groups.push((key, Group { first: row.clone(), rows: vec![row.clone()] })),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The points of latencies: a system at a share of its maximum rate.
#[must_use]
pub fn latencies(rows: &[LatencyRow]) -> Vec<Group<LatencyRow>> {
    grouped(rows, |row| (row.system.clone(), row.share))
}

/// The points of new connections: a part of a path, at one size and filling of
/// the table.
#[must_use]
pub fn new_flows(rows: &[NewFlowRow]) -> Vec<Group<NewFlowRow>> {
    grouped(rows, |row| (row.path.clone(), row.part.clone(), row.table, row.fill))
}

/// The points of rule installation: a system at the n-th lowest rate of every
/// repetition, as a measured rate is never quite the same again.
#[must_use]
pub fn installs(rows: &[InstallRow]) -> Vec<Group<InstallRow>> {
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
pub fn churns(rows: &[ChurnRow]) -> Vec<Group<ChurnRow>> {
    grouped(rows, |row| (row.system.clone(), (!row.highest).then_some(row.arrivals_per_second)))
}

/// The points of several workers: a system with so many at one packet size.
#[must_use]
pub fn workers(rows: &[WorkersRow]) -> Vec<Group<WorkersRow>> {
    grouped(rows, |row| (row.system.clone(), row.workers, row.packet_size))
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
    /// in that order, systems in the order of their first row. Of a point that
    /// was measured with near cores, rows with distant ones don't count.
    #[must_use]
    pub fn of(rows: Vec<Row>) -> Self {
        // The shortest way that is known; 0 if none is.
        let known = rows.iter().filter_map(|row| row.distance_ns);
        let reach = known.reduce(f64::min).unwrap_or(0.0) * NEAR;
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
        let points = series.into_values().flat_map(steps);
        let points = points.filter_map(|step| point(&step, reach)).collect();
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
        let wanted = move |row: &Row| row.figure == figure && row.traffic == traffic;
        self.points.iter().filter(move |point| wanted(&point.first))
    }

    /// The points of a figure of one system.
    pub fn of_system<'a>(&'a self, figure: u8, system: &'a str) -> impl Iterator<Item = &'a Point> {
        self.figure(figure).filter(move |point| point.first.system == system)
    }

    /// All values of `of` in the points of a figure, ascending.
    pub(crate) fn values(&self, figure: u8, of: impl Fn(&Row) -> u64) -> Vec<u64> {
        let mut all: Vec<u64> = self.figure(figure).map(|point| of(&point.first)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Median over the repetitions of one system's value divided by another's
    /// in the same repetition, where both have rows that `chosen` takes: what
    /// drifts over a run hits both and falls out.
    pub fn ratio(
        &self,
        [one, other]: [&str; 2],
        chosen: impl Fn(&Row) -> bool,
        value: impl Fn(&Row) -> Option<f64>,
    ) -> Option<f64> {
        let same = |row: &Row, other: &Row| {
            other.figure == row.figure
                && other.connections == row.connections
                && other.traffic == row.traffic
                && other.packet_size == row.packet_size
                && other.offered_mpps == row.offered_mpps
        };
        let ours = |row: &Row| row.system == one && chosen(row);
        self.paired(ours, |row| row.system == other && chosen(row), same, value)
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
    /// Interrupted rows are in no pair; pairs with distant cores count where
    /// there are no others.
    fn paired(
        &self,
        ours: impl Fn(&Row) -> bool,
        theirs: impl Fn(&Row) -> bool,
        same: impl Fn(&Row, &Row) -> bool,
        value: impl Fn(&Row) -> Option<f64>,
    ) -> Option<f64> {
        let calm = || self.rows.iter().filter(|row| !row.is_interrupted());
        let theirs: Vec<&Row> = calm().filter(|row| theirs(row)).collect();
        let ratios = calm().filter(|row| ours(row)).filter_map(|row| {
            let mut others = theirs.iter().copied();
            let other =
                others.find(|other| other.repetition == row.repetition && same(row, other))?;
            let ratio = value(row)? / value(other)?;
            let near = [row, other].iter().all(|row| is_near(row, self.reach));
            ratio.is_finite().then_some((near, ratio))
        });
        let (near, far): (Vec<_>, Vec<_>) = ratios.partition(|(near, _)| *near);
        let counts = if near.is_empty() { far } else { near };
        median(&counts.into_iter().map(|(_, ratio)| ratio).collect::<Vec<_>>())
    }

    /// The median of `value` over the rows that `chosen` takes and that were not
    /// interrupted.
    pub(crate) fn median(
        &self,
        chosen: impl Fn(&Row) -> bool,
        value: impl Fn(&Row) -> Option<f64>,
    ) -> Option<f64> {
        let rows = self.rows.iter().filter(|row| !row.is_interrupted() && chosen(row));
        median(&rows.filter_map(value).collect::<Vec<_>>())
    }

    /// How many rows were measured while the cores were far apart.
    pub(crate) fn far(&self) -> usize {
        self.rows.iter().filter(|row| !is_near(row, self.reach)).count()
    }

    /// Whether all rows of `point` were measured while the cores were far apart.
    #[must_use]
    pub fn is_far(&self, point: &Point) -> bool {
        point.rows.iter().all(|row| !is_near(row, self.reach))
    }

    /// Whether the point says less than it should: at saturation the load
    /// balancer waited for the source, the cores were far apart, or another
    /// process had the measured one for much of the time.
    #[must_use]
    pub fn is_doubtful(&self, point: &Point) -> bool {
        let util = point.median(|row| row.util);
        let waited = point.first.saturates() && util.is_none_or(|util| util < BUSY);
        let stolen = point.rows.iter().filter(|row| row.is_interrupted()).count();
        waited || self.is_far(point) || 2 * stolen > point.count()
    }
}

fn is_near(row: &Row, reach: f64) -> bool {
    row.distance_ns.is_none_or(|ns| ns <= reach)
}

/// The rows of each step of the offered rate, from those of one series by
/// repetition; several rows of one repetition at saturation are of one point.
fn steps(mut repetitions: BTreeMap<u32, Vec<&Row>>) -> Vec<Vec<&Row>> {
    let mut steps: Vec<Vec<&Row>> = Vec::new();
    for rows in repetitions.values_mut() {
        rows.sort_by(|a, b| a.offered_mpps.partial_cmp(&b.offered_mpps).unwrap_or(Equal));
        for (at, row) in rows.iter().enumerate() {
            let step = if row.saturates() { 0 } else { at };
            if steps.len() <= step {
                steps.push(Vec::new());
            }
            if let Some(rows) = steps.get_mut(step) {
                rows.push(row);
            }
        }
    }
    steps
}

fn point(rows: &[&Row], reach: f64) -> Option<Point> {
    let near: Vec<&Row> = rows.iter().copied().filter(|row| is_near(row, reach)).collect();
    let counts = if near.is_empty() { rows } else { &near };
    let rows: Vec<Row> = counts.iter().map(|row| (*row).clone()).collect();
    Some(Group { first: rows.first()?.clone(), rows })
}

/// What rows of a point differ in, beside the offered rate.
const MEASURED: [&str; 8] =
    ["mpps", "ns_per_packet", "util", "util_plus", "loss", "empty_polls", "matched", "stolen"];

impl Results {
    /// The points as JSON: what a point's rows have in common, and for each
    /// measured value the median with its interval.
    pub(crate) fn json_points(&self) -> Result<Vec<Value>, serde_json::Error> {
        let json = |point: &Point| {
            let rows: Result<Vec<Value>, _> = point.rows.iter().map(serde_json::to_value).collect();
            let rows = rows?;
            let Some(Value::Object(mut json)) = rows.first().cloned() else {
                return Ok(Value::Null);
            };
            for name in ["repetition", "dropped", "distance_ns"] {
                json.remove(name);
            }
            for name in MEASURED {
                let values = rows.iter().filter_map(|row| row.get(name)?.as_f64());
                let estimate = Estimate::of(&values.collect::<Vec<_>>());
                json.insert(name.to_owned(), serde_json::to_value(estimate)?);
            }
            let offered = point.median(|row| row.offered_mpps);
            json.insert("offered_mpps".to_owned(), offered.into());
            json.insert("far".to_owned(), self.is_far(point).into());
            Ok(Value::Object(json))
        };
        self.points.iter().map(json).collect()
    }
}

/// Points of one system at rising offered rates.
#[derive(Debug, Clone)]
pub(crate) struct Sweep<'a> {
    pub(crate) points: Vec<&'a Point>,
}

/// The median offered rate of a point; 0 if there was none.
pub(crate) fn offered(point: &Point) -> f64 {
    point.median(|row| row.offered_mpps).unwrap_or(0.0)
}

impl<'a> Sweep<'a> {
    /// In the order of the rate; points without one are left out.
    pub(crate) fn of(points: impl Iterator<Item = &'a Point>) -> Self {
        let mut points: Vec<_> = points.filter(|point| !point.first.saturates()).collect();
        points.sort_by(|a, b| offered(a).total_cmp(&offered(b)));
        Self { points }
    }

    fn loses(point: &Point) -> bool {
        point.median(|row| row.loss).is_some_and(|loss| loss > LOSS)
    }

    /// The lowest rate at which packets were lost in the median.
    pub(crate) fn first_loss(&self) -> Option<f64> {
        self.points.iter().find(|point| Self::loses(point)).map(|point| offered(point))
    }

    /// The highest rate below that.
    pub(crate) fn lossless(&self) -> Option<f64> {
        self.points.iter().take_while(|point| !Self::loses(point)).last().map(|at| offered(at))
    }

    /// How straight util+ is below the first loss; `None` if points are too few.
    pub(crate) fn line(&self) -> Option<Line> {
        let end = self.first_loss().unwrap_or(f64::INFINITY);
        let below = self.points.iter().filter(|point| offered(point) < end);
        let points = below.filter_map(|p| Some((offered(p), p.median(|row| row.util_plus)?)));
        Line::fit(&points.collect::<Vec<_>>())
    }

    /// util+ at a rate, between its neighbours in proportion.
    pub(crate) fn util_plus_at(&self, rate: f64) -> Option<f64> {
        self.points.windows(2).find_map(|pair| {
            let [a, b] = pair else { return None };
            let (from, to) = (offered(a), offered(b));
            let inside = from <= rate && rate <= to && from < to;
            let part = (rate - from) / (to - from);
            let [low, high] = [a.median(|row| row.util_plus)?, b.median(|row| row.util_plus)?];
            inside.then_some(low + part * (high - low))
        })
    }
}

/// util+ of one curve of figure 7 or 8 against the offered rate: how linear it
/// is (condition iii of the paper's section IV).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Linearity {
    /// The figure.
    pub figure: u8,
    /// The system.
    pub system: String,
    /// Connections in figure 7, packet size in bytes in figure 8.
    pub parameter: u64,
    /// The lowest offered rate at which packets were lost in the median.
    pub first_loss_mpps: Option<f64>,
    /// The line through the points below the first loss; `None` if they are
    /// too few.
    pub line: Option<Line>,
}

/// The parameter of a curve of figure 7 or 8: a number of connections or a
/// packet size.
pub(crate) fn parameter(row: &Row) -> u64 {
    if row.figure == 7 { row.connections } else { row.packet_size.into() }
}

/// All curves of figure 7 or 8, systems in the order of their first row.
#[must_use]
pub fn linearity(results: &Results, figure: u8) -> Vec<Linearity> {
    let mut systems: Vec<&str> = results.figure(figure).map(|p| p.first.system.as_str()).collect();
    systems.dedup();
    let parameters = results.values(figure, parameter);
    let curves =
        systems.into_iter().flat_map(|system| parameters.iter().map(move |at| (system, *at)));
    let found = curves.filter_map(|(system, at)| {
        let points = results.of_system(figure, system);
        let sweep = Sweep::of(points.filter(|point| parameter(&point.first) == at));
        (!sweep.points.is_empty()).then(|| Linearity {
            figure,
            system: system.to_owned(),
            parameter: at,
            first_loss_mpps: sweep.first_loss(),
            line: sweep.line(),
        })
    });
    found.collect()
}
