//! What follows for the configuration.
use std::fmt::Write as _;

use flow::Encoding;
use offload::Probe;

use crate::card::Facts;
use crate::examine::is_for;
use crate::report::{Advice, TableReport};

/// The part of the measured rate of insertions that HNLB may use: the driver serves
/// destructions and queries, too.
const SHARE: f64 = 0.8;
/// The bounds of `[offload] insertions`.
const INSERTIONS: (f64, f64) = (10.0, 10_000_000.0);
/// `[offload] settle_ms` without a key, and its most.
const SETTLE_MS: (u64, u64) = (10, 10_000);

/// The encoding that HNLB would choose, and the lines of the configuration.
pub(crate) fn advise(facts: &Facts, probe: Probe, tables: &[TableReport]) -> Advice {
    let encoding = probe.encoding;
    let mut configuration = format!("[[port]]\nname = \"port0\"\n{}\n[offload]\n", facts.lines);
    let _ = writeln!(configuration, "encoding = \"{encoding}\"");
    if encoding != Encoding::Off {
        if let Some(rate) = insertions(encoding, tables) {
            let _ = writeln!(configuration, "insertions = {rate}");
        }
        let settle = tables.iter().filter_map(|table| table.matched_after_destruction_ns).max();
        if let Some(settle_ms) = settle.map(settle_ms).filter(|ms| *ms > SETTLE_MS.0) {
            let _ = writeln!(configuration, "settle_ms = {settle_ms}");
        }
    }
    let mut reasons = probe.reasons;
    for table in tables {
        reasons.extend(misses(table));
    }
    Advice { encoding, reasons, configuration }
}

/// From which number of rules on packets differ from what their rules say.
fn misses(table: &TableReport) -> Option<String> {
    let first = table.steps.iter().find(|step| step.disobeyed > 0)?;
    Some(format!(
        "with {} rules of encoding {} in the table {} of {} packets were not treated as their rules say",
        first.rules,
        table.encoding,
        first.disobeyed,
        first.latency.map_or(0, |times| times.count),
    ))
}

/// The rate of the fullest table, since cards slow down as they fill; through a queue,
/// if there is one.
fn insertions(encoding: Encoding, tables: &[TableReport]) -> Option<u64> {
    let own = tables.iter().filter(|table| is_for(table, encoding));
    let table = own.max_by_key(|table| table.queued)?;
    let rates = table.steps.iter().filter(|step| step.rules > 1).filter_map(|step| step.per_second);
    let slowest = rates.fold(f64::INFINITY, f64::min);
    slowest.is_finite().then(|| two_digits((slowest * SHARE).clamp(INSERTIONS.0, INSERTIONS.1)))
}

/// The number, cut to two digits and zeros.
fn two_digits(number: f64) -> u64 {
    let number = number as u64;
    let zeros = 10_u64.pow(number.max(1).ilog10().saturating_sub(1));
    number / zeros * zeros
}

/// Twice what was seen, in whole milliseconds.
fn settle_ms(seen_ns: u64) -> u64 {
    (2 * seen_ns).div_ceil(1_000_000).min(SETTLE_MS.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_the_configuration_are_round() {
        let cases = [(10.0, 10), (99.9, 99), (123.0, 120), (98_765.4, 98_000), (1e7, 10_000_000)];
        for (number, round) in cases {
            assert_eq!(two_digits(number), round, "{number}");
        }
        assert_eq!(settle_ms(7_300_000), 15);
        assert_eq!(settle_ms(u64::from(u32::MAX) * 1000), 10_000);
    }
}
