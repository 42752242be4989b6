//! The outcome as a page.
use std::fmt::Write as _;

use super::row::Summary;
use super::run::Outcome;
use super::spread::Spread;
use crate::report::columns::{Cell, Column, Table};

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
        page += &self.table().text();
        page + &self.verdict()
    }

    fn table(&self) -> Table {
        let percent = |runs: &[&Summary], of: &dyn Fn(&Summary) -> Option<f64>| {
            spread(runs, 1, |run| of(run).map(|share| share * 100.0))
        };
        let seconds = |runs: &[&Summary], of: fn(&Summary) -> Option<f64>| {
            spread(runs, 2, |run| of(run).or(Some(f64::INFINITY)))
        };
        let of_told = |run: &Summary| Some(run.after_2s / self.told(run)?.after_2s);
        let points = self.points();
        let named = points.iter().filter_map(|runs| Some((*runs.first()?, runs.as_slice())));
        let columns: &[Column<'_, (&Summary, &[&Summary])>] = &[
            ("alpha", &|(first, _)| first.alpha.to_string().into()),
            ("change", &|(first, _)| first.change.into()),
            ("policy", &|(first, _)| first.policy.into()),
            ("oracle, %", &|(first, _)| Cell::number(first.oracle * 100.0, 1)),
            ("before, %", &|(_, runs)| percent(runs, &|run| Some(run.before))),
            ("of oracle, %", &|(_, runs)| percent(runs, &|run| Some(run.before / run.oracle))),
            ("s to 95 %", &|(_, runs)| seconds(runs, |run| run.converged_s)),
            ("insert/s", &|(_, runs)| {
                let all = Spread::of(runs.iter().map(|run| Some(run.churn_per_second)));
                Cell::number(all.map(|spread| spread.median), 1)
            }),
            ("2 s after, %", &|(_, runs)| percent(runs, &|run| Some(run.after_2s))),
            ("of told, %", &|(_, runs)| percent(runs, &of_told)),
            ("s back to 95 %", &|(_, runs)| seconds(runs, |run| run.back_s)),
        ];
        Table::of("", named, columns)
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

/// Median and range over the seeds of `runs`.
fn spread(runs: &[&Summary], decimals: usize, of: impl Fn(&Summary) -> Option<f64>) -> Cell {
    let spread = Spread::of(runs.iter().map(|run| of(run)));
    Cell::count(spread.map_or_else(|| "-".to_owned(), |spread| spread.text(decimals)))
}
