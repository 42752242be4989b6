//! One part of a run, or all of them in a given time.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::report::Findings;

use crate::error::MeasureError;
use crate::evaluation::install;
use crate::evaluation::new_connections;
use crate::evaluation::options::Options;
use crate::evaluation::part::Part;
use crate::evaluation::repetitions::Grant;
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

    /// Measures all parts, as often as was granted; within `budget`, if there is
    /// one: then points and repetitions that turn out slower than planned cost
    /// later repetitions.
    ///
    /// # Errors
    /// Something needed is missing; see [`MeasureError`].
    pub fn whole(
        &mut self,
        grants: &[Grant],
        budget: Option<Duration>,
        options: &Options,
    ) -> Result<Findings, MeasureError> {
        let start = Instant::now();
        let mut findings = Findings::default();
        let mut left: Duration = grants.iter().map(Grant::time).sum();
        for grant in grants.iter().take_while(|_| !options.stopped()) {
            // A part that is late takes from those behind it in proportion, and
            // one that is early gives to them.
            let share = grant.time().as_secs_f64() / left.as_secs_f64().max(1e-9);
            let own = |budget: Duration| {
                let rest = budget.saturating_sub(start.elapsed());
                Instant::now() + rest.mul_f64(share.min(1.0))
            };
            let own = Options {
                deadline: budget.map(own),
                repetitions: grant.repetitions,
                point_ms: grant.wish.point_ms,
                ..options.clone()
            };
            findings.extend(self.part(grant.wish.part, &own)?);
            left = left.saturating_sub(grant.time());
        }
        Ok(findings)
    }
}
