//! The emulated cards, tried out: what is said of them is what their tables are known to
//! take and hold.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::sync::atomic::{AtomicU64, Ordering};

use dpdk::flow::FlowPort;
use flow::{CardProfile, Encoding};
use nic::{Fault, Nic, NicConfig, Reta};
use prober::{
    Area, Card, EmulatedCard, Facts, Fate, Options, Passed, Report, TrialOutcome, Verdict, examine,
};

/// A microsecond passes between two looks at it.
fn clock() -> u64 {
    static NOW: AtomicU64 = AtomicU64::new(0);
    NOW.fetch_add(1000, Ordering::Relaxed)
}

const OPTIONS: Options = Options { most_rules: 4500, packets: 20 };

fn nic(profile: CardProfile, change: impl FnOnce(&mut NicConfig)) -> (Nic, NicConfig) {
    let switch = if profile.rewrites() { vec![0] } else { Vec::new() };
    let mut config = NicConfig {
        reta: Reta::Queues(1),
        switch,
        play_insertion: true,
        ..NicConfig::new(profile, 8)
    };
    change(&mut config);
    (Nic::new(&config).unwrap(), config)
}

fn report(profile: CardProfile, change: impl FnOnce(&mut NicConfig)) -> Report {
    let (nic, config) = nic(profile, change);
    let mut card = EmulatedCard::around(nic.clone(), &config, clock);
    let report = examine(&mut card, &OPTIONS, &|_| {});
    assert_eq!(nic.stats().rules, 0, "{profile} has rules that nobody destroys");
    assert_eq!(report.left_rules, 0);
    report
}

fn trial<'a>(report: &'a Report, name: &str) -> &'a TrialOutcome {
    report.trials.iter().find(|trial| trial.name == name).unwrap()
}

fn taken(report: &Report, name: &str) -> bool {
    let trial = trial(report, name);
    assert_eq!(trial.reason.is_none(), trial.verdict == Verdict::Taken, "{trial:?}");
    trial.verdict == Verdict::Taken
}

#[test]
fn packets_obey_every_rule_that_is_taken() {
    for profile in CardProfile::ALL {
        let report = report(*profile, |_| {});
        for trial in &report.trials {
            let tried = trial.verdict == Verdict::Taken && !trial.name.starts_with("JUMP");
            assert_eq!(trial.obeyed, tried.then_some(true), "{profile}: {trial:?}");
        }
        for table in &report.tables {
            assert!(table.steps.iter().all(|step| step.disobeyed == 0), "{profile}: {table:?}");
        }
    }
}

#[test]
fn cards_take_what_their_drivers_are_known_to_take() {
    use CardProfile::{BlueField3, ConnectX, E810, X550, Xl710};
    let known: [(&str, &[CardProfile]); 10] = [
        ("5-tuple, tcp over IPv4", &[X550, Xl710, E810, ConnectX, BlueField3]),
        ("5-tuple, udp over IPv6", &[Xl710, E810, ConnectX, BlueField3]),
        ("low bits of the source", &[ConnectX, BlueField3]),
        ("QUEUE, MARK", &[X550, Xl710, E810, ConnectX, BlueField3]),
        ("MARK", &[Xl710, E810]),
        ("RSS", &[ConnectX, BlueField3]),
        ("DROP", &[X550, Xl710, E810, ConnectX, BlueField3]),
        ("QUEUE, COUNT", &[E810, ConnectX, BlueField3]),
        ("QUEUE, AGE", &[ConnectX, BlueField3]),
        ("JUMP", &[ConnectX, BlueField3]),
    ];
    for profile in CardProfile::ALL {
        let report = report(*profile, |_| {});
        for (name, who) in known {
            assert_eq!(taken(&report, name), who.contains(profile), "{profile}: {name}");
        }
        // Intel's 10 GbE driver validates it and says no when the rule is created.
        if *profile == X550 {
            let source = trial(&report, "low bits of the source");
            assert_eq!(source.verdict, Verdict::ValidatedOnly);
        }
        let switched = report.trials.iter().filter(|trial| trial.area == Area::Switch).count();
        assert_eq!(switched > 0, profile.rewrites(), "{profile}");
        let wanted = if profile.rewrites() { Encoding::Rewrite } else { Encoding::Mark };
        assert_eq!(report.advice.encoding, wanted, "{profile}");
    }
}

#[test]
fn the_table_is_full_where_the_card_is() {
    for (profile, capacity) in [(CardProfile::X550, 2048), (CardProfile::Xl710, 1024)] {
        let change = |config: &mut NicConfig| config.capacity = Some(capacity);
        let report = report(profile, change);
        let [table] = &report.tables[..] else { panic!("{profile}: {:?}", report.tables) };
        assert_eq!(table.rules as usize, capacity, "{profile}");
        assert!(table.refusal.is_some());
        let steps: Vec<u32> = table.steps.iter().map(|step| step.rules).collect();
        let powers = (7..).map(|power| 1 << power).take_while(|rules| *rules <= table.rules);
        let wanted: Vec<u32> = [0, 1].into_iter().chain(powers).collect();
        assert_eq!(steps, wanted, "{profile}");
        assert!(table.steps.iter().all(|step| step.latency.is_some_and(|times| times.count == 20)));
    }
    let small = report(CardProfile::E810, |config| config.capacity = Some(1000));
    assert_eq!(small.tables[0].rules, 1000);
    assert_eq!(small.tables[0].steps.last().unwrap().rules, 1000);
    let large = report(CardProfile::ConnectX, |_| {});
    assert!(large.tables.iter().all(|table| table.refusal.is_none() && table.rules == 4500));
}

#[test]
fn insertion_takes_the_time_that_the_card_takes() {
    let report = report(CardProfile::ConnectX, |_| {});
    let published = nic::rates(CardProfile::ConnectX);
    let rewrite = report.tables.iter().filter(|table| table.encoding == Encoding::Rewrite);
    let [one_by_one, queued] = &rewrite.collect::<Vec<_>>()[..] else { panic!("{report:?}") };
    assert!(!one_by_one.queued && queued.queued);
    let last = one_by_one.steps.last().unwrap().insertion.unwrap();
    // The clock itself counts a few looks.
    assert!(last.p50_ns.abs_diff(published.insert_ns) < 20_000, "{last:?}");
    let rate = queued.steps.last().unwrap().per_second.unwrap();
    let most = 1e9 / published.queued_insert_ns as f64;
    assert!(rate > 1e9 / published.insert_ns as f64 && rate <= most, "{rate}");
    let lines = &report.advice.configuration;
    let advised = lines.lines().find_map(|line| line.strip_prefix("insertions = ")).unwrap();
    assert!(advised.parse::<f64>().unwrap() <= 0.8 * most, "{lines}");
}

#[test]
fn a_mark_that_does_not_arrive_is_seen_and_not_advised() {
    let report = report(CardProfile::X550, |config| config.report_marks = false);
    let marked = trial(&report, "QUEUE, MARK");
    assert_eq!((marked.verdict, marked.obeyed), (Verdict::Taken, Some(false)));
    assert_eq!(report.advice.encoding, Encoding::Queue);
    assert!(report.advice.configuration.contains("encoding = \"queue\""));
    assert!(report.to_string().contains("DIFFERS"));
}

#[test]
fn what_else_is_known_of_a_card_stands_above_its_rules() {
    let mut report = report(CardProfile::X550, |_| {});
    report.card.notes = vec!["XDP: eth1 has no card beneath it".to_owned()];
    let page = report.to_string();
    let at = |words| page.find(words).unwrap();
    assert!(at("\nXDP: eth1 has no card beneath it\n") < at("\nmatches"), "{page}");
}

#[test]
fn the_redirection_table_is_as_before() {
    let (nic, config) = nic(CardProfile::X550, |config| config.reta = Reta::Queues(3));
    let before = nic.reta();
    let mut card = EmulatedCard::around(nic.clone(), &config, clock);
    let report = examine(&mut card, &OPTIONS, &|_| {}).redirection;
    assert_eq!(report.entries as usize, before.len());
    assert_eq!(report.reads_back, Some(true));
    assert!(report.one_entry.is_some() && report.all_entries.is_some());
    assert_eq!(report.refusal, None);
    assert_eq!(nic.reta(), before);
    assert_eq!(nic.stats().reta_updates, 2 * 256 + 1);
}

/// The first table of a card on which `fault` is ordered.
fn faulty(fault: Fault) -> Report {
    let (nic, config) = nic(CardProfile::X550, |_| {});
    nic.order_fault(fault);
    let mut card = EmulatedCard::around(nic.clone(), &config, clock);
    examine(&mut card, &OPTIONS, &|_| {})
}

#[test]
fn rules_that_are_taken_and_never_match_are_found() {
    let report = faulty(Fault::SilentlyFull);
    let table = &report.tables[0];
    assert_eq!(table.rules, OPTIONS.most_rules, "no refusal");
    let differ = |step: &&prober::TableStep| step.disobeyed > 0;
    let from = table.steps.iter().find(differ).unwrap().rules;
    assert_eq!(from, 4096, "the table holds 2048");
    let reasons = report.advice.reasons.join("\n");
    assert!(reasons.contains("4096 rules"), "{reasons}");
}

#[test]
fn a_rule_that_matches_after_its_end_asks_for_a_longer_quarantine() {
    let report = faulty(Fault::LateDestroy { ns: 6_000_000 });
    let seen = report.tables[0].matched_after_destruction_ns.unwrap();
    assert!((5_990_000..=6_000_000).contains(&seen), "{seen}");
    assert!(report.advice.configuration.contains("settle_ms = 12\n"), "{report}");
}

#[test]
fn rules_that_the_card_keeps_are_told_of() {
    let report = faulty(Fault::RefuseDestroys { count: 1_000_000 });
    assert!(report.left_rules > 0);
    assert!(report.to_string().contains("would not destroy"));
}

/// A card that reports the mark of the rule beside the one that matches, but for the marks
/// of the trials, which are above those of the table.
struct Confused(EmulatedCard);

impl Card for Confused {
    fn facts(&self) -> &Facts {
        self.0.facts()
    }

    fn flows(&mut self) -> &mut dyn FlowPort {
        self.0.flows()
    }

    fn now_ns(&mut self) -> u64 {
        self.0.now_ns()
    }

    fn pass(&mut self, frame: &[u8]) -> Option<Passed> {
        let mut passed = self.0.pass(frame)?;
        if let Fate::Received { mark: Some(mark), .. } = &mut passed.fate
            && *mark < OPTIONS.most_rules
        {
            *mark ^= 1;
        }
        Some(passed)
    }

    fn redirect(&mut self, entries: &[(u16, u16)]) -> Result<(), String> {
        self.0.redirect(entries)
    }

    fn redirection(&mut self) -> Result<Vec<u16>, String> {
        self.0.redirection()
    }
}

#[test]
fn the_mark_of_another_rule_is_found() {
    let (nic, config) = nic(CardProfile::E810, |_| {});
    let mut card = Confused(EmulatedCard::around(nic, &config, clock));
    let report = examine(&mut card, &OPTIONS, &|_| {});
    assert_eq!(trial(&report, "QUEUE, MARK").obeyed, Some(true));
    let [table] = &report.tables[..] else { panic!("{:?}", report.tables) };
    assert_eq!(table.encoding, Encoding::Mark);
    for step in &table.steps {
        assert_eq!(step.disobeyed, if step.rules == 0 { 0 } else { OPTIONS.packets }, "{step:?}");
    }
}
