//! One part of a run, or all of them in a given time.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::report::Findings;

use crate::error::MeasureError;
use crate::evaluation::install;
use crate::evaluation::new_connections;
use crate::evaluation::options::Options;
use crate::evaluation::part::Part;
use crate::evaluation::repetitions::{Effort, MOST, Share};
use crate::testbed::ports::Testbed;

impl Testbed {
    /// Measures one part.
    ///
    /// # Errors
    /// Something needed is missing; see [`MeasureError`].
    pub fn part(&mut self, part: Part, options: &Options) -> Result<Findings, MeasureError> {
        let mut findings = Findings::default();
        match part {
            Part::Figure(figure) => findings.rows = self.run(figure, options)?,
            Part::Latency => findings.latency = self.latency(options)?,
            Part::Churn => findings.churn = self.churn(options)?,
            Part::Workers => {
                let half = Options { deadline: options.until(2), ..options.clone() };
                findings.workers = self.workers(&half)?;
                findings.workers.extend(self.elephants(options)?);
            }
            Part::New => {
                let installs = install::SYSTEMS.len() * install::RATES.len();
                let tables = new_connections::tables(options.quick).len() + 1;
                let all = tables + installs * options.repetitions.max(1) as usize;
                let done = AtomicUsize::new(0);
                let tell = || {
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    options.tell(Part::New, done, all);
                };
                // Half of the time for each.
                let half = Options { deadline: options.until(2), ..options.clone() };
                findings.new_flows = self.new_flows(&half, &tell)?;
                findings.installs = self.installs(options, &tell)?;
                options.tell(Part::New, 1, 1);
            }
        }
        Ok(findings)
    }

    /// Measures the parts of `shares` one after the other. Of the time that an
    /// effort has, a part that is late takes from those behind it in proportion,
    /// and one that is early gives to them.
    ///
    /// # Errors
    /// Something needed is missing; see [`MeasureError`].
    pub fn whole(
        &mut self,
        shares: &[Share],
        effort: Effort,
        options: &Options,
    ) -> Result<Findings, MeasureError> {
        let start = Instant::now();
        let mut findings = Findings::default();
        let mut left: u32 = shares.iter().map(|share| share.percent).sum();
        for share in shares.iter().take_while(|_| !options.stopped()) {
            let (deadline, repetitions) = match effort {
                Effort::Repetitions(repetitions) => (None, repetitions.max(1)),
                Effort::Within(budget) => {
                    let rest = budget.saturating_sub(start.elapsed());
                    (Some(Instant::now() + rest * share.percent / left.max(1)), MOST)
                }
            };
            let point_ms = share.point_ms;
            let own = Options { deadline, repetitions, point_ms, ..options.clone() };
            findings.extend(self.part(share.part, &own)?);
            left -= share.percent;
        }
        Ok(findings)
    }
}
