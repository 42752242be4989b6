//! The outcome as a page.
use std::fmt::Write as _;

use super::row::Summary;
use super::run::Outcome;
use super::spread::Spread;
use crate::report::columns::{Cell, Table};

/// Within so much of the oracle's share `heavy` should be, and so soon back.
const WITHIN: f64 = 0.95;
const SOON_S: f64 = 2.0;

impl Outcome {
    /// A table for people: medians over the seeds, the range in brackets.
    #[must_use]
    pub fn page(&self) -> String {
        let o = &self.options;
        let mut page = format!(
            "{} connections, {} packets/s, {} entries, {} insertions/s, 1 in 64 packets sampled\n\
             the rates change after {} s; shares of packets matched; medians over {} seeds, \
             [least, most]\n\n",
            o.connections,
            o.packets_per_second,
            o.entries,
            o.insertions_per_second,
            o.before_s,
            o.seeds.len()
        );
        let head = [
            "alpha",
            "change",
            "policy",
            "oracle, %",
            "before, %",
            "of oracle, %",
            "s to 95 %",
            "insert/s",
            "2 s after, %",
            "of told, %",
            "s back to 95 %",
        ];
        let points = self.points();
        let rows = points.iter().filter_map(|runs| self.line(runs));
        page += &Table::new("", 3, &head).rows(rows).text();
        page + &self.verdict()
    }

    /// The runs that differ by their seed only, all seeds of a point together.
    fn points(&self) -> Vec<Vec<&Summary>> {
        let mut points: Vec<Vec<&Summary>> = Vec::new();
        for run in &self.summaries {
            let same = |other: &&Summary| {
                (other.alpha, other.change, other.policy) == (run.alpha, run.change, run.policy)
            };
            match points.iter_mut().find(|point| point.first().is_some_and(same)) {
                Some(point) => point.push(run),
                None => points.push(vec![run]),
            }
        }
        points
    }

    fn line(&self, runs: &[&Summary]) -> Option<Vec<Cell>> {
        let first = runs.first()?;
        let percent = |of: &dyn Fn(&Summary) -> Option<f64>| {
            Spread::of(runs.iter().map(|run| of(run).map(|share| share * 100.0)))
                .map_or_else(String::new, |spread| spread.text(1))
        };
        let seconds = |of: fn(&Summary) -> Option<f64>| {
            let all = runs.iter().map(|run| of(run).or(Some(f64::INFINITY)));
            Spread::of(all).map_or_else(String::new, |spread| spread.text(2))
        };
        let of_told = |run: &Summary| Some(run.after_2s / self.told(run)?.after_2s);
        let inserts = Spread::of(runs.iter().map(|run| Some(run.churn_per_second)));
        Some(vec![
            first.alpha.into(),
            first.change.into(),
            first.policy.into(),
            Cell::number(Some(first.oracle * 100.0), 1),
            percent(&|run| Some(run.before)).into(),
            percent(&|run| Some(run.before / run.oracle)).into(),
            seconds(|run| run.converged_s).into(),
            Cell::number(inserts.map(|spread| spread.median), 1),
            percent(&|run| Some(run.after_2s)).into(),
            percent(&of_told).into(),
            seconds(|run| run.back_s).into(),
        ])
    }

    /// The run of the one that is told the rates, beside `run`.
    fn told(&self, run: &Summary) -> Option<&Summary> {
        self.summaries.iter().find(|told| {
            told.policy == "told"
                && (told.alpha, told.change, told.seed) == (run.alpha, run.change, run.seed)
        })
    }

    /// Whether what is promised of `heavy` holds with every seed.
    fn verdict(&self) -> String {
        let heavy = || self.summaries.iter().filter(|run| run.policy == "heavy");
        let near = |run: &&Summary| run.before >= WITHIN * run.oracle;
        let least = heavy().map(|run| run.before / run.oracle).fold(f64::INFINITY, f64::min);
        let changed = || heavy().filter(|run| run.change == "heaviest");
        let soon = |run: &&Summary| run.back_s.is_some_and(|back| back <= SOON_S);
        let latest = changed().map(|run| run.back_s.unwrap_or(f64::INFINITY));
        let mut text = String::from("\n");
        if heavy().next().is_some() {
            let _ = writeln!(
                text,
                "heavy within 5 % of the oracle before the change: {} of {} runs; least {:.1} %",
                heavy().filter(near).count(),
                heavy().count(),
                least * 100.0
            );
        }
        if changed().next().is_some() {
            let _ = writeln!(
                text,
                "heavy back at 95 % of the oracle within {SOON_S} s of a change of the heaviest: {} \
                 of {} runs; latest {:.2} s",
                changed().filter(soon).count(),
                changed().count(),
                latest.fold(0.0, f64::max)
            );
        }
        text
    }
}
