//! The experiment on a small scale: an eighth of the connections, entries and
//! insertions, and of the packets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use measure::admission::{Change, Options, Outcome, Summary, run};

fn small(alpha: f64, change: Change) -> Outcome {
    let options = Options {
        connections: 125_000,
        entries: 1_024,
        insertions_per_second: 125,
        packets_per_second: 625_000,
        alphas: vec![alpha],
        changes: vec![change],
        before_s: 20,
        after_s: 10,
        seeds: vec![3],
    };
    run(&options, &mut |_, _| {}).unwrap()
}

fn of<'a>(outcome: &'a Outcome, policy: &str) -> &'a Summary {
    outcome.summaries.iter().find(|summary| summary.policy == policy).unwrap()
}

#[test]
fn heavy_is_within_five_percent_of_the_oracle_and_all_is_far_from_it() {
    for alpha in [1.0, 1.2] {
        let outcome = small(alpha, Change::Heaviest(128));
        let (heavy, all) = (of(&outcome, "heavy"), of(&outcome, "all"));
        assert!(heavy.before >= 0.95 * heavy.oracle, "{heavy:?}");
        assert!(all.before < 0.5 * all.oracle, "{all:?}");
        assert!(heavy.back_s.is_some_and(|back| back <= 2.0), "{heavy:?}");
        assert!(of(&outcome, "told").before <= heavy.oracle + 1e-9, "nobody beats the oracle");
    }
}

/// The card takes fewer rules in 2 s than the oracle's share needs, so what can
/// be had is what one gets that is told the new rates at once.
#[test]
fn after_all_rates_have_changed_it_is_nearly_as_fast_as_one_that_is_told() {
    let outcome = small(1.2, Change::All);
    let (heavy, told) = (of(&outcome, "heavy"), of(&outcome, "told"));
    assert!(heavy.dropped_to < 0.1, "{heavy:?}");
    assert!(told.after_2s < 0.99 * told.oracle, "{told:?}");
    assert!(heavy.after_2s >= 0.92 * told.after_2s, "{heavy:?} {told:?}");
    assert!(of(&outcome, "all").end < 0.1, "first come, first served for ever");
}

#[test]
fn no_policy_inserts_more_than_the_card_takes() {
    let outcome = small(1.1, Change::All);
    for rows in outcome.rows.windows(2) {
        let [before, after] = rows else { continue };
        if after.policy == before.policy && after.at_s > before.at_s {
            let most = 125.0 * (after.at_s - before.at_s) + 2.0;
            assert!((after.admitted - before.admitted) as f64 <= most, "{before:?} {after:?}");
            assert!(after.rules <= 1_024);
        }
    }
}
