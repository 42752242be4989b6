//! The policy against true rates, faults, and what never may happen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod emulated;

use admission::{Admission, CardRefusal, Key, Reason, Settings, Standing};
use emulated::{Emulated, key};
use flow::AdmissionPolicy;
use proptest::prelude::*;
use traffic::{Rng, Zipf};

const SECOND: u64 = 1_000;

fn settings() -> Settings {
    Settings { policy: AdmissionPolicy::Heavy, tracked: 4_096, ..Settings::default() }
}

/// Rates by Zipf's law, the heaviest first.
fn zipf(connections: u32, samples_per_second: f64) -> Vec<f64> {
    let weights = (1..=connections).map(|rank| 1.0 / f64::from(rank));
    let all: f64 = weights.clone().sum();
    weights.map(|weight| weight / all * samples_per_second).collect()
}

#[test]
fn the_heaviest_are_in_and_the_share_is_nearly_the_oracles() {
    let rates = zipf(20_000, 20_000.0);
    let mut emulated = Emulated::new(settings(), 256, Some(500), rates.clone());
    emulated.run(10 * SECOND);
    let oracle: f64 = rates.iter().take(256).sum::<f64>() / rates.iter().sum::<f64>();
    let by_definition = Zipf::new(20_000, 1.0, 0).unwrap().share(256);
    assert!((oracle - by_definition).abs() < 1e-9);
    let share = emulated.share();
    assert!(share >= 0.95 * oracle, "{share} of {oracle}");
    assert!((0..32).all(|conn| emulated.has(conn)), "the very heaviest are all in");
    let counted = emulated.admission.counters().share_matched;
    assert!((counted - share).abs() < 0.03, "{counted} is told, {share} is true");
}

#[test]
fn a_changed_heavy_set_is_in_within_two_seconds() {
    let rates = zipf(20_000, 20_000.0);
    let mut emulated = Emulated::new(settings(), 256, Some(500), rates.clone());
    emulated.run(8 * SECOND);
    let oracle = rates.iter().take(256).sum::<f64>() / rates.iter().sum::<f64>();
    emulated.rates.reverse();
    assert!(emulated.share() < 0.05 * oracle);
    emulated.run(2 * SECOND);
    assert!(emulated.share() >= 0.95 * oracle, "{} of {oracle}", emulated.share());
}

#[test]
fn equal_rates_do_not_take_turns() {
    let mut emulated = Emulated::new(settings(), 256, None, vec![10.0; 1_024]);
    emulated.run(5 * SECOND);
    let before = emulated.admission.counters();
    assert_eq!(emulated.rules(), 256 - 256 / 50);
    emulated.run(20 * SECOND);
    let after = emulated.admission.counters();
    // Rates are measured, so a few seem to differ. Of 1024 times 200 samples
    // that is nothing.
    let swaps = after.evicted - before.evicted;
    assert!(swaps < 300, "{swaps} of 251 entries changed hands in 20 s");
    assert!(after.threshold > 0.0);
}

#[test]
fn a_newcomer_must_be_heavier_by_the_factor() {
    for (newcomers, swaps) in [(12.0, false), (80.0, true)] {
        let mut rates = vec![10.0; 100];
        rates.extend([0.0; 20]);
        let mut emulated = Emulated::new(settings(), 100, None, rates);
        emulated.regular = true;
        emulated.shrink(100);
        emulated.run(10 * SECOND);
        assert_eq!(emulated.rules(), 98);
        let before = emulated.admission.counters().evicted;
        emulated.rates[100..].fill(newcomers);
        emulated.run(10 * SECOND);
        let evicted = emulated.admission.counters().evicted - before;
        assert_eq!(evicted > 0, swaps, "{newcomers}: {evicted}");
        assert_eq!((100..120).all(|conn| emulated.has(conn)), swaps, "{newcomers}");
    }
}

#[test]
fn nobody_is_admitted_for_a_burst() {
    let mut emulated = Emulated::new(settings(), 100, None, vec![0.0; 4]);
    emulated.run(10);
    for _ in 0..1_000 {
        emulated.admission.seen(key(0), 64, emulated.now_ms);
    }
    emulated.run(200);
    assert_eq!(emulated.rules(), 0);
    let Standing::Software { reason: Reason::TooYoung { samples, .. }, .. } =
        emulated.admission.standing(key(0), emulated.now_ms)
    else {
        panic!("{:?}", emulated.admission.standing(key(0), emulated.now_ms));
    };
    assert_eq!(samples, 1_000);
}

#[test]
fn the_budget_holds_and_the_heaviest_come_first() {
    let rates = zipf(5_000, 20_000.0);
    let mut emulated = Emulated::new(settings(), 4_000, Some(100), rates);
    emulated.run(3 * SECOND);
    assert!(emulated.rules() <= 300 && emulated.rules() >= 240, "{}", emulated.rules());
    assert!((0..100).all(|conn| emulated.has(conn)));
    assert!(emulated.admission.counters().admitted_last_second <= 101);
}

#[test]
fn a_slow_card_gets_few_rules_and_those_it_gets_are_the_heaviest() {
    let mut emulated = Emulated::new(settings(), 4_000, Some(20_000), zipf(5_000, 20_000.0));
    emulated.cost_ns = 2_000_000;
    emulated.run(3 * SECOND);
    // A quarter of the time at 2 ms each: 125 a second.
    assert!((250..=400).contains(&emulated.rules()), "{}", emulated.rules());
    assert!((0..64).all(|conn| emulated.has(conn)));
}

#[test]
fn who_was_refused_by_the_card_waits_and_is_told() {
    let mut emulated = Emulated::new(settings(), 100, None, vec![10.0; 4]);
    emulated.refuse = Some(2);
    emulated.run(5 * SECOND);
    let counters = emulated.admission.counters();
    assert_eq!((emulated.rules(), counters.refused_by_card), (3, 1), "asked once, not again");
    let standing = emulated.admission.standing(key(2), emulated.now_ms);
    let Standing::Software { reason: Reason::Refused { why, again_in_ms }, .. } = standing else {
        panic!("{standing:?}");
    };
    assert!(why == CardRefusal::Failed && again_in_ms <= 10 * SECOND);
    emulated.refuse = None;
    emulated.run(10 * SECOND);
    assert_eq!(emulated.rules(), 4);
}

#[test]
fn a_card_that_holds_fewer_than_before_keeps_the_heaviest() {
    let rates = zipf(1_000, 20_000.0);
    let mut emulated = Emulated::new(settings(), 200, None, rates);
    emulated.run(5 * SECOND);
    emulated.shrink(100);
    emulated.run(3 * SECOND);
    assert_eq!(emulated.rules(), 98);
    assert!((0..32).all(|conn| emulated.has(conn)));
}

#[test]
fn one_that_has_gone_silent_is_not_admitted_and_one_with_an_id_used_before_starts_anew() {
    let mut emulated = Emulated::new(settings(), 100, Some(1), vec![50.0; 8]);
    emulated.run(SECOND / 2);
    emulated.rates.fill(0.0);
    emulated.run(3 * SECOND);
    let before = emulated.rules();
    emulated.run(20 * SECOND);
    assert_eq!(emulated.rules(), before, "silent connections have no turn");
    assert!(before < 8);
    let next = Key { generation: 9, ..key(3) };
    let standing = emulated.admission.standing(next, emulated.now_ms);
    assert!(matches!(standing, Standing::Software { reason: Reason::Unseen { .. }, .. }));
}

/// What is said of a connection that the sketch has no counter for: its rate is below
/// that of the lightest one that has.
#[test]
fn an_unseen_connection_is_below_the_lightest_that_is_tracked() {
    let mut admission = Admission::new(Settings { tracked: 64, ..settings() });
    let (samples_per_second, packets) = (10, 8);
    let mut now_ms = 0;
    for _ in 0..60 * samples_per_second {
        now_ms += SECOND / samples_per_second;
        (0..64).for_each(|conn| admission.seen(key(conn), packets, now_ms));
    }
    let standing = admission.standing(key(1_000), now_ms);
    let Standing::Software { reason: Reason::Unseen { below }, .. } = standing else {
        panic!("{standing:?}");
    };
    assert!((70.0..90.0).contains(&below), "80 packets/s each, not {below}");
}

#[test]
fn off_and_all_decide_nothing() {
    for policy in [AdmissionPolicy::Off, AdmissionPolicy::All] {
        let settings = Settings { policy, ..settings() };
        let mut emulated = Emulated::new(settings, 100, None, vec![10.0; 10]);
        emulated.run(3 * SECOND);
        assert_eq!(emulated.rules(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// With any rates, card and faults: entries are never more than the card
    /// holds, the card is full but for the reserve once it was full, nobody has
    /// two entries, and what is told of each connection is where it is.
    #[test]
    fn entries_are_used_and_never_overrun(
        seed in any::<u64>(),
        entries in 2usize..60,
        budget in prop_oneof![Just(None), (20u32..2_000).prop_map(Some)],
        reserve_percent in 0u8..60,
        changes in 0usize..4,
    ) {
        let mut rng = Rng::new(seed);
        let mut rates = |_| (0..200).map(|_| 0.5 * 1.05_f64.powi(rng.below(100) as i32)).collect();
        let settings = Settings { reserve_percent, stay_ms: 300, ..settings() };
        let mut emulated = Emulated::new(settings, entries, budget, rates(0));
        for change in 0..=changes {
            emulated.rates = rates(change);
            emulated.run(4 * SECOND);
            emulated.check();
        }
        emulated.run(6 * SECOND);
        let reserve = (entries * usize::from(reserve_percent) / 100).max(1).min(entries / 2);
        prop_assert!(emulated.fewest_since_full.is_none_or(|fewest| fewest + reserve + emulated.most_leaving >= entries),
            "{:?} of {entries}, reserve {reserve}", emulated.fewest_since_full);
        prop_assert!(emulated.rules() >= entries - reserve, "{} of {entries}", emulated.rules());
    }
}

#[test]
fn every_measured_rate_is_that_of_its_standing() {
    let rates = zipf(2_000, 5_000.0);
    let mut emulated = Emulated::new(settings(), 64, Some(500), rates);
    emulated.run(5 * SECOND);
    let now_ms = 5 * SECOND;
    let known: Vec<(Key, f64)> = emulated.admission.rates(now_ms).collect();
    let keys: std::collections::BTreeSet<Key> = known.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys.len(), known.len(), "none comes twice");
    let counters = emulated.admission.counters();
    assert!(known.len() > counters.held && known.len() <= counters.held + counters.tracked);
    for (key, rate) in known {
        let told = match emulated.admission.standing(key, now_ms) {
            Standing::Software { rate, .. } => rate,
            Standing::InLine { rate, .. }
            | Standing::Hardware { rate, .. }
            | Standing::Leaving { rate, .. } => Some(rate),
        };
        assert_eq!(told, Some(rate));
        assert_eq!(emulated.admission.rate(key, now_ms), Some(rate));
    }
    assert_eq!(emulated.admission.rate(key(1_000_000), now_ms), None);
}
