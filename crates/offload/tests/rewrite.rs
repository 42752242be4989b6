//! Encoding `rewrite` on the emulated ConnectX and BlueField-3: rules in the card are
//! the rules believed, and they go when nobody needs them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use common::rewriting::{FRAME, OUTPUTS, Run, ask, nic};
use common::world::{Ours, State, TIMEOUT_MS};
use conntrack::ConnId;
use dpdk::flow::{Action, Attributes, FlowPort, Item, Match, Rule, RuleHandle};
use flow::{CardProfile, Direction, Encoding, EncodingChoice};
use nic::{Fault, Nic, NicFlows};
use offload::{OffloadConfig, Offloader, PortConfig};
use state::Offload;

#[test]
fn the_probe_prefers_rewrite_where_there_is_a_switch_and_says_why_not() {
    for profile in [CardProfile::ConnectX, CardProfile::BlueField3] {
        let card = nic(profile, &[0, 1]);
        let probe = ask(&card, EncodingChoice::Auto);
        assert_eq!(probe.encoding, Encoding::Rewrite, "{:#?}", probe.reasons);
        let rewrite = probe.rewrite.unwrap();
        assert_eq!(rewrite.types, [true; 4]);
        assert_eq!(rewrite.outputs, OUTPUTS);
        assert!(!rewrite.style.legacy && rewrite.style.age && rewrite.style.flags);
        assert_eq!((card.stats().rules, probe.left.len()), (0, 0));
        // One port of the two is not in the switch.
        let rewrite = ask(&nic(profile, &[1]), EncodingChoice::Auto).rewrite.unwrap();
        assert_eq!(rewrite.outputs, [None, Some(1)]);
        let probe = ask(&nic(profile, &[]), EncodingChoice::Auto);
        assert_eq!(probe.encoding, Encoding::Mark);
        assert!(probe.reasons.iter().any(|r| r.contains("no rewrite: ")), "{:#?}", probe.reasons);
    }
    let probe = ask(&nic(CardProfile::E810, &[]), EncodingChoice::Fixed(Encoding::Rewrite));
    assert_eq!(probe.encoding, Encoding::Off, "{:#?}", probe.reasons);
}

#[test]
fn an_idle_connections_rules_are_gone_within_its_timeout_and_a_busy_ones_stay() {
    for age in [true, false] {
        let mut run = Run::new(CardProfile::ConnectX);
        if !age {
            // Counters alone must do.
            run.offloader = Run::without_age(&run);
        }
        run.open(1);
        run.open(2);
        run.pass(5);
        assert!(run.packet(1, Direction::Forward) && run.packet(2, Direction::Reply));
        let timeout = u64::from(TIMEOUT_MS);
        for ms in 0..timeout + 400 {
            if ms % 1000 == 0 {
                assert!(run.packet(2, Direction::Reply), "a busy connection stays in hardware");
            }
            run.tick(1);
            let idle = |n: u32| {
                let seen = run.world.conns.borrow()[&n].seen_ms;
                run.now_ms.saturating_sub(seen) >= timeout
            };
            // What the ager would say; it asks again in every round.
            for n in [1, 2] {
                if idle(n) && run.world.state(n) != Some(State::None) {
                    run.offloader.withdraw(ConnId::from_raw(n));
                }
            }
        }
        assert_eq!(
            run.world.state(1),
            Some(State::None),
            "age {age}: {:#?}",
            run.offloader.stats()
        );
        assert_eq!(run.offloader.stats().done().aged, 1);
        assert_eq!(run.in_cards(), 2 * FRAME + 2, "connection 2 has its rules");
        let hops = run.world.used.borrow().clone();
        assert!(hops.contains(&1000), "the hop of a busy connection is kept fresh: {hops:?}");
    }
}

/// A counter that the card can't read at the moment says nothing about its rule.
#[test]
fn a_refused_query_is_no_lost_rule() {
    let mut run = Run::new(CardProfile::ConnectX);
    run.open(1);
    run.pass(5);
    run.nics.iter().for_each(|nic| nic.order_fault(Fault::RefuseQueries { count: 100 }));
    for _ in 0..u64::from(TIMEOUT_MS) / 500 {
        assert!(run.packet(1, Direction::Forward) && run.packet(1, Direction::Reply));
        run.pass(500);
    }
    let done = run.offloader.stats().done();
    assert_eq!((done.lost, done.destroyed), (0, 0), "{done:#?}");
}

impl Run {
    fn without_age(run: &Run) -> Offloader<Ours> {
        let mut ports = Vec::new();
        for nic in &run.nics {
            let mut card = ask(nic, EncodingChoice::Fixed(Encoding::Rewrite)).rewrite.unwrap();
            card.style.age = false;
            ports.push(PortConfig {
                encoding: Encoding::Rewrite,
                queues: vec![0],
                shared_queues: Vec::new(),
                workers: 1,
                rewrite: Some(card),
                mark_instead: true,
            });
        }
        let config = OffloadConfig { ports, ..OffloadConfig::default() };
        Offloader::new(config, run.world.clone())
    }
}

/// Rules that are not ours: in the same root, and in a group of their own.
fn foreign(flows: &mut NicFlows, group: u32) -> RuleHandle {
    let attributes = Attributes { group, priority: 7, ingress: true, ..Attributes::default() };
    let pattern = vec![Item::Eth(Match::Present), Item::Ipv4(Match::Present)];
    flows.create(&Rule { attributes, pattern, actions: vec![Action::Queue(0)] }).unwrap()
}

#[test]
fn a_crash_in_the_middle_leaves_nothing_of_ours_and_touches_nothing_of_others() {
    let mut run = Run::new(CardProfile::BlueField3);
    // Before the queues are set up, as a neighbour would.
    let theirs = foreign(&mut run.flows[0], 7);
    run.now_ms += 1;
    (0..500).for_each(|n| run.open(n));
    let [a, b] = &mut run.flows;
    for _ in 0..20 {
        run.now_ms += 1;
        run.offloader.tick(run.now_ms, &mut [a, b]);
    }
    (0..40).for_each(|n| run.offloader.withdraw(ConnId::from_raw(n)));
    assert!(run.in_cards() > 800, "{}", run.in_cards());
    // The process ends; its successor finds cards with rules.
    run.offloader = Run::offloader(&run.world, &run.nics);
    run.now_ms += 1;
    let [a, b] = &mut run.flows;
    run.offloader.tick(run.now_ms, &mut [a, b]);
    let stats = run.offloader.stats();
    assert_eq!(stats.now().rules, 2 * FRAME, "{stats:#?}");
    assert!(stats.done().reconciled > 800, "{stats:#?}");
    assert_eq!(run.in_cards(), 2 * FRAME + 1, "ours and the one of others");
    assert!(run.flows[0].query(&theirs).is_err_and(|e| e.errno != 2), "theirs is still there");
    // And it works.
    (0..10).for_each(|n| run.offloader.request(ConnId::from_raw(n), Offload::Wanted));
    let [a, b] = &mut run.flows;
    for _ in 0..5 {
        run.now_ms += 1;
        run.offloader.tick(run.now_ms, &mut [a, b]);
    }
    assert!(run.packet(3, Direction::Forward));
}

#[test]
fn rules_follow_a_next_hop_that_moves_and_go_with_one_that_is_forgotten() {
    let mut run = Run::new(CardProfile::ConnectX);
    run.open(1);
    run.open(2);
    run.pass(5);
    let moves = |run: &Run, hop: u32, last: Option<u8>| {
        run.world.macs.borrow_mut().insert(hop, last);
        run.world.hop_changes.set(run.world.hop_changes.get() + 1);
    };
    // Something changed, but not the address: it has become stale.
    moves(&run, 1, Some(1));
    run.pass(2);
    assert!(run.packet(1, Direction::Forward) && run.packet(2, Direction::Forward));
    // The backend of connection 1 has another address.
    moves(&run, 1, Some(9));
    run.pass(2);
    assert!(!run.packet(1, Direction::Forward), "served in software, by the new address");
    assert!(run.packet(2, Direction::Forward), "another backend's");
    run.pass(50);
    assert_eq!(run.world.state(1), Some(State::None), "it may ask again");
    run.world.set_state(1, State::Wanted);
    run.offloader.request(ConnId::from_raw(1), Offload::Wanted);
    run.pass(5);
    assert!(run.packet(1, Direction::Forward));
    // The clients' hop is forgotten.
    moves(&run, 1000, None);
    run.pass(50);
    assert!(!run.packet(2, Direction::Reply));
    assert_eq!(run.offloader.stats().done().rerouted, 3);
    assert_eq!(run.in_cards(), 2 * FRAME);
}

#[test]
fn a_gateway_that_moves_takes_a_turn_no_longer_than_any_other() {
    let mut run = Run::new(CardProfile::ConnectX);
    (0..2500).for_each(|n| run.open(n));
    run.pass(10);
    assert!((0..2500).all(|n| run.world.state(n) == Some(State::Installed)));
    // The clients' next hop is everybody's.
    run.world.macs.borrow_mut().insert(1000, Some(9));
    run.world.hop_changes.set(run.world.hop_changes.get() + 1);
    let mut withdrawn = vec![0];
    while *withdrawn.last().unwrap() < 2500 {
        run.tick(1);
        withdrawn.push(run.offloader.stats().withdrawn);
    }
    assert_eq!(withdrawn, [0, 1024, 2048, 2500]);
    run.pass(50);
    assert_eq!(run.offloader.stats().done().rerouted, 2500);
    assert_eq!(run.in_cards(), 2 * FRAME);
}

#[test]
fn a_connection_whose_rules_are_lost_does_not_stay_installed() {
    // By a reset, with everything; or silently.
    for reset in [true, false] {
        let mut run = Run::new(CardProfile::ConnectX);
        run.pass(2);
        if !reset {
            run.nics.iter().for_each(|nic| {
                nic.order_fault(Fault::SilentLoss { per_mille: 1000, seed: 3 });
            });
        }
        run.open(1);
        let [a, b] = &mut run.flows;
        for _ in 0..5 {
            run.now_ms += 1;
            run.offloader.tick(run.now_ms, &mut [&mut *a, &mut *b]);
        }
        if reset {
            assert!(run.packet(1, Direction::Forward));
            run.nics.iter().for_each(Nic::reset);
        }
        assert_eq!(run.world.state(1), Some(State::Installed));
        for _ in 0..2000 {
            run.now_ms += 1;
            run.nics.iter().for_each(|nic| nic.advance(run.now_ms * 1_000_000));
            let [a, b] = &mut run.flows;
            run.offloader.tick(run.now_ms, &mut [a, b]);
            (0..4).for_each(|q| run.world.ports.iter().for_each(|p| p.queue_epochs.polled(q, 0)));
            if run.now_ms % 50 == 0 {
                assert!(!run.packet(1, Direction::Forward));
            }
        }
        assert_eq!(run.world.state(1), Some(State::None), "{:#?}", run.offloader.stats());
        assert_eq!(run.offloader.stats().done().astray, 1);
        run.nics.iter().for_each(Nic::clear_faults);
        run.world.set_state(1, State::Wanted);
        run.offloader.request(ConnId::from_raw(1), Offload::Wanted);
        run.pass(2000);
        assert!(run.packet(1, Direction::Forward), "reset {reset}: in hardware again");
    }
}

/// Software must see all of the new handshake.
#[test]
fn a_connection_that_is_opened_anew_goes_back_to_software() {
    let mut run = Run::new(CardProfile::ConnectX);
    run.open(1);
    run.pass(5);
    assert!(run.packet(1, Direction::Forward) && run.packet(1, Direction::Reply));
    run.offloader.request(ConnId::from_raw(1), Offload::Reopened);
    run.pass(30);
    assert!(!run.packet(1, Direction::Forward) && !run.packet(1, Direction::Reply));
    assert_eq!((run.in_cards(), run.world.state(1)), (2 * FRAME, Some(State::None)));
    // Once it is established it may have rules again.
    run.world.set_state(1, State::Wanted);
    run.offloader.request(ConnId::from_raw(1), Offload::Wanted);
    run.pass(5);
    assert!(run.packet(1, Direction::Forward) && run.packet(1, Direction::Reply));
}

/// `n` connections come and go, a few hundred at a time; rules in the cards are
/// the rules believed at every tick, and none is left in the end.
fn churn(n: u32) {
    let mut run = Run::new(CardProfile::ConnectX);
    // Long after the time at which idle connections were last seen.
    run.now_ms = 100_000;
    let mut oldest = 0;
    for next in 0..n {
        run.open(next);
        if next % 100 == 0 {
            run.tick(1);
        }
        while next - oldest > 400 {
            let raw = ConnId::from_raw(oldest);
            match oldest % 3 {
                0 => run.offloader.request(raw, Offload::Closing),
                1 => {
                    run.world.conns.borrow_mut().get_mut(&oldest).unwrap().seen_ms = 0;
                    run.offloader.withdraw(raw);
                }
                _ => {
                    run.offloader.request(raw, Offload::Closing);
                    run.offloader.request(raw, Offload::Reopened);
                }
            }
            oldest += 1;
        }
        if next % 100 == 0 {
            let gone: Vec<u32> =
                run.world.conns.borrow().range(..oldest).map(|(n, _)| *n).collect();
            for n in gone {
                run.world.remove(n);
            }
        }
    }
    let open: Vec<u32> = run.world.conns.borrow().keys().copied().collect();
    open.into_iter().for_each(|n| run.offloader.request(ConnId::from_raw(n), Offload::Closing));
    run.pass(300);
    let stats = run.offloader.stats();
    assert_eq!(stats.orphaned, 0);
    assert!(stats.done().created >= u64::from(n), "{stats:#?}");
    assert_eq!((stats.now().rules, run.in_cards()), (2 * FRAME, 2 * FRAME), "{stats:#?}");
    let [a, b] = &mut run.flows;
    assert_eq!(run.offloader.shutdown(&mut [a, b]), 0);
    assert_eq!(run.in_cards(), 0);
    println!("{n} connections, {} rules created, none left", stats.done().created);
}

#[test]
fn no_rule_leaks() {
    churn(20_000);
}

/// `HNLB_SOAK=1000000 cargo test --release -p offload --test offload rewrite::soak`
#[test]
fn soak() {
    let n = std::env::var("HNLB_SOAK").ok().and_then(|n| n.parse().ok());
    churn(n.unwrap_or(2_000));
}
