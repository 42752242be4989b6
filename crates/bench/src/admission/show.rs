//! The outcome as a page.
use std::fmt::Write as _;

use super::run::Outcome;

impl Outcome {
    /// A table for people.
    #[must_use]
    pub fn page(&self) -> String {
        let o = &self.options;
        let mut page = format!(
            "{} connections, {} packets/s, {} entries, {} insertions/s, 1 in 64 packets sampled\n\
             the rates change after {} s; shares of packets matched\n\n",
            o.connections, o.packets_per_second, o.entries, o.insertions_per_second, o.before_s
        );
        page += "alpha change    policy          oracle  before of orac  s to 95% insert/s   +0s   +2s  of told   end  s back\n";
        for s in &self.summaries {
            let told = self
                .summaries
                .iter()
                .find(|t| t.policy == "told" && t.alpha == s.alpha && t.change == s.change);
            let of_told = told.map_or(0.0, |told| s.after_2s / told.after_2s);
            let seconds = |s: Option<f64>| s.map_or_else(|| "-".to_owned(), |s| format!("{s:.2}"));
            let _ = writeln!(
                page,
                "{:<5} {:<9} {:<15} {:>5.1}%  {:>5.1}%  {:>5.1}%  {:>8} {:>8.1} {:>4.1}% {:>4.1}%  {:>5.1}% {:>4.1}%  {:>6}",
                s.alpha,
                s.change,
                s.policy,
                s.oracle * 100.0,
                s.before * 100.0,
                s.before / s.oracle * 100.0,
                seconds(s.converged_s),
                s.churn_per_second,
                s.dropped_to * 100.0,
                s.after_2s * 100.0,
                of_told * 100.0,
                s.end * 100.0,
                seconds(s.back_s),
            );
        }
        page
    }
}
