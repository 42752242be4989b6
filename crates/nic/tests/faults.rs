//! Faults on order: each does what it says, in the NIC's time, repeatably.
use crate::common;

use common::{EXACT, Masks, nic, nth, receive, receive_at, rule, tcp, udp};
use dpdk::flow::{Action, FlowPort, RuleHandle};
use flow::CardProfile;
use nic::{Fault, Nic, NicFlows};

fn setup() -> (Nic, NicFlows) {
    let nic = nic(CardProfile::X550, 4);
    let flows = nic.flows();
    (nic, flows)
}

fn create(flows: &mut NicFlows, n: u32) -> Option<RuleHandle> {
    flows.create(&rule(&nth(n), EXACT, vec![Action::Queue(1), Action::Mark(n)])).ok()
}

#[test]
fn the_next_creates_are_refused() {
    let (nic, mut flows) = setup();
    nic.order_fault(Fault::RefuseCreates { count: 2 });
    let done: Vec<_> = (0..4).map(|n| create(&mut flows, n).is_some()).collect();
    assert_eq!(done, [false, false, true, true]);
    assert!(!receive(&nic, &nth(0)).matched);
    assert!(receive(&nic, &nth(2)).matched);
    let stats = nic.stats();
    assert_eq!(
        (stats.refused.fault, stats.faults.refused_creates, stats.refused.creates()),
        (2, 2, 2)
    );
}

#[test]
fn a_share_of_creates_is_refused_and_the_seed_says_which() {
    let run = |seed| {
        let (nic, mut flows) = setup();
        nic.order_fault(Fault::RefuseShare { per_mille: 250, seed });
        (0..1000).map(|n| create(&mut flows, n).is_some()).collect::<Vec<_>>()
    };
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
    let refused = first.iter().filter(|done| !**done).count();
    assert!((150..350).contains(&refused), "{refused}");
}

#[test]
fn the_table_is_full_early() {
    let (nic, mut flows) = setup();
    nic.order_fault(Fault::FullAt { at: 3 });
    let mut kept: Vec<_> = (0..3).map(|n| create(&mut flows, n).unwrap()).collect();
    let error = flows.create(&rule(&nth(3), EXACT, vec![Action::Queue(1)])).unwrap_err();
    assert!(error.is_full());
    flows.destroy(kept.remove(0)).unwrap();
    assert!(create(&mut flows, 3).is_some());
    nic.clear_faults();
    assert!(create(&mut flows, 4).is_some());
}

#[test]
fn a_full_table_can_keep_silent() {
    let (nic, mut flows) = setup();
    nic.order_fault(Fault::FullAt { at: 1 });
    nic.order_fault(Fault::SilentlyFull);
    let kept = [create(&mut flows, 0), create(&mut flows, 1)];
    assert!(kept.iter().all(Option::is_some));
    assert!(receive(&nic, &nth(0)).matched && !receive(&nic, &nth(1)).matched);
    for handle in kept.into_iter().flatten() {
        flows.destroy(handle).unwrap();
    }
    let stats = nic.stats();
    assert_eq!((stats.rules, stats.faults.lost, stats.destroyed), (0, 1, 2));
}

#[test]
fn a_rule_matches_late() {
    let (nic, mut flows) = setup();
    nic.advance(1000);
    nic.order_fault(Fault::LateCreate { ns: 500 });
    let handle = create(&mut flows, 0).unwrap();
    assert!(!receive_at(&nic, &nth(0), 1499).matched);
    assert!(receive_at(&nic, &nth(0), 1500).matched);
    assert!(receive_at(&nic, &nth(0), 10).matched, "the clock doesn't go back");
    flows.destroy(handle).unwrap();
    let early = create(&mut flows, 1).unwrap();
    flows.destroy(early).unwrap();
    assert!(!receive_at(&nic, &nth(1), 9000).matched, "gone before it came");
    assert_eq!((nic.stats().rules, nic.stats().faults.late_creates), (0, 2));
}

#[test]
fn a_destroyed_rule_matches_on() {
    let (nic, mut flows) = setup();
    nic.order_fault(Fault::LateDestroy { ns: 500 });
    let other = create(&mut flows, 1).unwrap();
    let handle = create(&mut flows, 0).unwrap();
    flows.destroy(handle).unwrap();
    assert_eq!(nic.stats().rules, 2);
    assert_eq!(receive_at(&nic, &nth(0), 499).mark, Some(0));
    assert!(!receive_at(&nic, &nth(0), 500).matched);
    assert_eq!(nic.stats().rules, 1);
    flows.destroy(other).unwrap();
    assert_eq!(nic.stats().faults.late_destroys, 2);
}

#[test]
fn a_new_mask_ends_the_filters_that_linger_under_the_old_one() {
    let (nic, mut flows) = setup();
    nic.order_fault(Fault::LateDestroy { ns: 500 });
    let old = create(&mut flows, 0).unwrap();
    flows.destroy(old).unwrap();
    assert!(receive(&nic, &nth(0)).matched, "it lingers");
    // With no rule left the next one sets the port's mask anew.
    let loose = Masks { src: 0, sport: 0, ..EXACT };
    let new = flows.create(&rule(&nth(1), loose, vec![Action::Queue(2), Action::Mark(1)])).unwrap();
    assert_eq!(nic.stats().rules, 1);
    flows.destroy(new).unwrap();
    let _ = create(&mut flows, 2).unwrap();
    assert!(!receive(&nic, &nth(0)).matched, "the first mask is back, its filter is not");
}

#[test]
fn a_new_mask_of_one_flow_type_leaves_the_filters_of_others() {
    let nic = nic(CardProfile::E810, 4);
    let mut flows = nic.flows();
    nic.order_fault(Fault::LateDestroy { ns: 500 });
    let others = [udp("10.0.0.1:1", "192.0.2.1:80"), tcp("[2001:db8::1]:1", "[2001:db8::2]:80")];
    let queue = |packet| rule(packet, EXACT, vec![Action::Queue(1)]);
    for packet in others.iter().chain([&nth(0)]) {
        let handle = flows.create(&queue(packet)).unwrap();
        flows.destroy(handle).unwrap();
    }
    let loose = Masks { sport: 0, ..EXACT };
    let _ = flows.create(&rule(&nth(1), loose, vec![Action::Queue(2)])).unwrap();
    assert!(others.iter().all(|packet| receive(&nic, packet).matched));
    assert_eq!(nic.stats().rules, 3, "the new one, and those of the other types");
}

#[test]
fn a_new_rule_takes_the_place_of_one_that_lingers() {
    let (nic, mut flows) = setup();
    let other = create(&mut flows, 1);
    nic.order_fault(Fault::LateDestroy { ns: 500 });
    let handle = create(&mut flows, 0).unwrap();
    flows.destroy(handle).unwrap();
    let newer = flows.create(&rule(&nth(0), EXACT, vec![Action::Queue(2), Action::Mark(9)]));
    assert_eq!(receive_at(&nic, &nth(0), 400).mark, Some(9));
    assert_eq!(receive_at(&nic, &nth(0), 600).mark, Some(9), "the old rule's end isn't its own");
    assert_eq!(nic.stats().rules, 2);
    drop((other, newer));
}

#[test]
fn a_share_of_rules_is_lost_silently() {
    let (nic, mut flows) = setup();
    nic.order_fault(Fault::SilentLoss { per_mille: 500, seed: 3 });
    let handles: Vec<_> = (0..200).map(|n| create(&mut flows, n).unwrap()).collect();
    let lost = (0..200).filter(|n| !receive(&nic, &nth(*n)).matched).count();
    assert!((50..150).contains(&lost), "{lost}");
    assert_eq!((nic.stats().faults.lost, nic.stats().rules), (lost as u64, 200 - lost));
    handles.into_iter().for_each(|handle| flows.destroy(handle).unwrap());
    assert_eq!(nic.stats().rules, 0);
}

#[test]
fn slow_creates_queue_up_in_the_nics_time() {
    let (nic, mut flows) = setup();
    nic.order_fault(Fault::SlowCreate { ns: 300, sleep: false });
    let handles: Vec<_> = (0..3).map(|n| create(&mut flows, n).unwrap()).collect();
    assert_eq!(flows.last_create_ns(), 300);
    let matched = |now| (0..3).filter(|n| receive_at(&nic, &nth(*n), now).matched).count();
    assert_eq!(
        [matched(299), matched(300), matched(600), matched(899), matched(900)],
        [0, 1, 2, 2, 3]
    );
    assert_eq!((nic.stats().create_ns, nic.stats().faults.slow_creates), (900, 3));
    drop(handles);
}

#[test]
fn destroys_are_refused_and_the_rule_stays() {
    let (nic, mut flows) = setup();
    nic.order_fault(Fault::RefuseDestroys { count: 1 });
    let handle = create(&mut flows, 0).unwrap();
    let (handle, error) = flows.destroy(handle).unwrap_err();
    assert_eq!(error.message, "Failed to destroy flow");
    assert!(receive(&nic, &nth(0)).matched);
    flows.destroy(handle).unwrap();
    assert!(!receive(&nic, &nth(0)).matched);
    assert_eq!((nic.stats().refused.destroy, nic.stats().faults.refused_destroys), (1, 1));
}

#[test]
fn they_take_effect_in_steering_tables_too() {
    let nic = nic(CardProfile::ConnectX, 4);
    let mut flows = nic.flows();
    let to = |queue| rule(&nth(7), EXACT, vec![Action::Queue(queue)]);
    nic.order_fault(Fault::LateCreate { ns: 500 });
    nic.order_fault(Fault::LateDestroy { ns: 700 });
    let first = flows.create(&to(1)).unwrap();
    assert!(!receive_at(&nic, &nth(7), 499).matched);
    assert_eq!(receive_at(&nic, &nth(7), 500).queue, 1);
    flows.destroy(first).unwrap();
    assert_eq!(receive_at(&nic, &nth(7), 1_199).queue, 1, "it matches on");
    nic.order_fault(Fault::LateCreate { ns: 0 });
    let second = flows.create(&to(2)).unwrap();
    assert_eq!(receive_at(&nic, &nth(7), 1_199).queue, 2, "in the place of the first");
    assert_eq!(receive_at(&nic, &nth(7), 1_300).queue, 2, "the first's end isn't its own");
    flows.destroy(second).unwrap();
    assert!(!receive_at(&nic, &nth(7), 2_000).matched);
    assert_eq!(nic.stats().rules, 0);
    nic.clear_faults();
    nic.order_fault(Fault::SilentLoss { per_mille: 1000, seed: 1 });
    let lost = flows.create(&to(1)).unwrap();
    assert!(!receive_at(&nic, &nth(7), 2_000).matched);
    assert_eq!((nic.stats().faults.lost, nic.stats().rules), (1, 0));
    flows.destroy(lost).unwrap();
    nic.order_fault(Fault::SilentLoss { per_mille: 0, seed: 1 });
    nic.order_fault(Fault::RefuseDestroys { count: 1 });
    let kept = flows.create(&to(3)).unwrap();
    let (kept, _) = flows.destroy(kept).unwrap_err();
    assert_eq!(receive_at(&nic, &nth(7), 2_000).queue, 3);
    flows.destroy(kept).unwrap();
    assert!(!receive_at(&nic, &nth(7), 2_000).matched);
}
