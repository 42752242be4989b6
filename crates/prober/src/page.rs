//! The report as a page of text.
use std::fmt;

use crate::report::{Area, RedirectionReport, Report, TableReport, TrialOutcome, Verdict};
use crate::spread::Spread;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let card = &self.card;
        writeln!(
            f,
            "{}: {}, {} of {} receive queues",
            card.device, card.driver, card.queues, card.most_queues
        )?;
        match &card.packets {
            Some(way) => writeln!(f, "packets: {way}")?,
            None => writeln!(f, "packets: none, so it was not tried whether they obey (--peer)")?,
        }
        writeln!(f, "times: {}", card.clock)?;
        card.notes.iter().try_for_each(|note| writeln!(f, "{note}"))?;
        trials(f, &self.trials)?;
        for table in &self.tables {
            write!(f, "\n{table}")?;
        }
        write!(f, "\n{}", self.redirection)?;
        writeln!(f, "\nencoding: {}", self.advice.encoding)?;
        for reason in &self.advice.reasons {
            writeln!(f, "  {reason}")?;
        }
        if self.left_rules > 0 {
            writeln!(
                f,
                "the card would not destroy {} rules; they are there until the port is closed",
                self.left_rules
            )?;
        }
        write!(f, "\nfor the configuration:\n\n{}", self.advice.configuration)
    }
}

fn trials(f: &mut fmt::Formatter<'_>, trials: &[TrialOutcome]) -> fmt::Result {
    let mut area = None;
    for trial in trials {
        if area != Some(trial.area) {
            area = Some(trial.area);
            writeln!(
                f,
                "\n{:<34} {:<10} {:<8} needed for",
                heading(trial.area),
                "driver",
                "packet"
            )?;
        }
        let verdict = match trial.verdict {
            Verdict::Taken => "taken",
            Verdict::ValidatedOnly => "not made",
            Verdict::Refused => "refused",
        };
        let obeyed = match trial.obeyed {
            Some(true) => "obeys",
            Some(false) => "DIFFERS",
            None => "-",
        };
        writeln!(f, "{:<34} {verdict:<10} {obeyed:<8} {}", trial.name, trial.needed_for)?;
        if let Some(reason) = &trial.reason {
            writeln!(f, "    {reason}")?;
        }
    }
    Ok(())
}

const fn heading(area: Area) -> &'static str {
    match area {
        Area::Match => "matches",
        Area::Action => "actions",
        Area::Switch => "in the switch",
        Area::Tunnel => "tunnels",
    }
}

impl fmt::Display for TableReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.queued { "through a queue" } else { "one by one" };
        let Self { encoding, rules, .. } = self;
        match &self.refusal {
            Some(reason) => writeln!(
                f,
                "rules of encoding {encoding}, {way}: the table holds {rules}: {reason}"
            )?,
            None => {
                writeln!(f, "rules of encoding {encoding}, {way}: the table holds {rules} or more")?
            }
        }
        writeln!(
            f,
            "{:>9} {:>10} {:>27} {:>27} {:>8}",
            "rules", "per second", "insertion µs p50/p99/max", "latency µs p50/p99/max", "differ"
        )?;
        for step in &self.steps {
            let rate = step.per_second.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
            let (insertion, latency) = (times(step.insertion), times(step.latency));
            let differ =
                step.latency.map_or_else(|| "-".to_owned(), |_| step.disobeyed.to_string());
            writeln!(f, "{:>9} {rate:>10} {insertion:>27} {latency:>27} {differ:>8}", step.rules)?;
        }
        if let Some(destruction) = self.destruction {
            writeln!(f, "destruction µs p50/p99/max: {}", times(Some(destruction)))?;
        }
        if let Some(ns) = self.matched_after_destruction_ns {
            writeln!(f, "a destroyed rule matched for {:.1} µs more at most", ns as f64 / 1e3)?;
        }
        Ok(())
    }
}

impl fmt::Display for RedirectionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refusal = self.refusal.as_deref().unwrap_or_default();
        if self.one_entry.is_none() {
            return writeln!(f, "redirection table: {refusal}");
        }
        let read = match self.reads_back {
            Some(true) => "it says what was written",
            Some(false) => "it DOES NOT say what was written",
            None => "it can't be read",
        };
        writeln!(f, "redirection table of {} entries; {read}", self.entries)?;
        writeln!(f, "one entry µs p50/p99/max: {}", times(self.one_entry))?;
        writeln!(f, "all entries µs p50/p99/max: {}", times(self.all_entries))?;
        if !refusal.is_empty() {
            writeln!(f, "{refusal}")?;
        }
        Ok(())
    }
}

fn times(spread: Option<Spread>) -> String {
    let micros = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    spread.map_or_else(
        || "-".to_owned(),
        |spread| {
            format!(
                "{} / {} / {}",
                micros(spread.p50_ns),
                micros(spread.p99_ns),
                micros(spread.max_ns)
            )
        },
    )
}
