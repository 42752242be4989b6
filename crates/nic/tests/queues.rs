//! Template tables and queues of operations, as mlx5 has them with hardware
//! steering.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{EXACT, nth, receive, receive_at, rule};
use dpdk::flow::{
    Action, Attributes, Completion, FlowError, FlowErrorKind, FlowPort, Item, Match, QueueConfig,
    Rule, RuleHandle, TableHandle, TableHash, Template,
};
use flow::CardProfile;
use nic::{DropReason, Fault, Nic, NicConfig, NicFlows};

const CONFIG: QueueConfig = QueueConfig { queues: 2, depth: 4, counters: 100, aging: 100 };

fn rule_of(n: u32) -> Rule {
    Rule {
        attributes: Attributes { ingress: true, ..Attributes::default() },
        ..rule(&nth(n), EXACT, vec![Action::Mark(n), Action::Queue(1)])
    }
}

fn template(rules: u32) -> Template {
    let Rule { attributes, pattern, actions } = rule_of(9);
    Template { attributes, pattern, actions, rules, hash: None }
}

fn setup(config: NicConfig) -> (Nic, NicFlows, TableHandle) {
    let nic = Nic::new(&config).unwrap();
    let mut flows = nic.flows();
    flows.configure_queues(&CONFIG).unwrap();
    let table = flows.create_table(&template(10)).unwrap();
    (nic, flows, table)
}

fn connectx() -> NicConfig {
    NicConfig::new(CardProfile::ConnectX, 4)
}

fn pulled(flows: &mut NicFlows, queue: u16) -> Vec<(u64, bool)> {
    let mut out = Vec::new();
    assert_eq!(flows.pull(queue, &mut out), Ok(out.len()));
    out.iter().map(|Completion { token, done, .. }| (*token, *done)).collect()
}

#[test]
fn rules_take_effect_when_pushed_and_complete_in_order() {
    let (nic, mut flows, table) = setup(connectx());
    let handles: Vec<RuleHandle> = (0..3)
        .map(|n| flows.enqueue_create(0, &table, &rule_of(n), 100 + u64::from(n)).unwrap())
        .collect();
    assert!(!receive(&nic, &nth(0)).matched, "not pushed");
    assert_eq!(pulled(&mut flows, 0), []);
    flows.push(0).unwrap();
    assert_eq!(receive(&nic, &nth(2)).mark, Some(2));
    assert_eq!(pulled(&mut flows, 1), []);
    assert_eq!(pulled(&mut flows, 0), [(100, true), (101, true), (102, true)]);
    let error = flows.destroy_table(table).unwrap_err();
    let table = error.0;
    for (n, handle) in (0..).zip(handles) {
        flows.enqueue_destroy(1, handle, 200 + n).unwrap();
    }
    assert!(receive(&nic, &nth(1)).matched, "not pushed");
    flows.push(1).unwrap();
    assert!(!receive(&nic, &nth(1)).matched);
    assert_eq!(pulled(&mut flows, 1), [(200, true), (201, true), (202, true)]);
    flows.destroy_table(table).unwrap();
    assert_eq!(nic.stats().rules, 0);
}

#[test]
fn a_queue_holds_its_depth_and_a_table_its_rules() {
    let (_, mut flows, table) = setup(connectx());
    let _handles: Vec<_> =
        (0..4).map(|n| flows.enqueue_create(0, &table, &rule_of(n), 0).unwrap()).collect();
    let error = flows.enqueue_create(0, &table, &rule_of(4), 0).unwrap_err();
    assert_eq!((error.kind, error.errno), (FlowErrorKind::Unspecified, 12));
    flows.push(0).unwrap();
    assert!(flows.enqueue_create(0, &table, &rule_of(4), 0).is_err(), "completions take room");
    assert_eq!(pulled(&mut flows, 0).len(), 4);
    let mut more = Vec::new();
    for n in 4..10 {
        more.push(flows.enqueue_create(0, &table, &rule_of(n), 0).unwrap());
        flows.push(0).unwrap();
        assert_eq!(pulled(&mut flows, 0), [(0, true)]);
    }
    let error = flows.enqueue_create(0, &table, &rule_of(10), 0).unwrap_err();
    assert!(error.message.contains("table is full"), "{error}");
    assert!(flows.enqueue_create(2, &table, &rule_of(10), 0).is_err(), "no such queue");
}

#[test]
fn what_fails_is_reported_and_its_handle_must_still_go() {
    let (nic, mut flows, table) = setup(connectx());
    nic.order_fault(Fault::RefuseCreates { count: 1 });
    let failed = flows.enqueue_create(0, &table, &rule_of(1), 1).unwrap();
    let good = flows.enqueue_create(0, &table, &rule_of(2), 2).unwrap();
    let twice = flows.enqueue_create(0, &table, &rule_of(2), 3).unwrap();
    flows.push(0).unwrap();
    assert_eq!(pulled(&mut flows, 0), [(1, false), (2, true), (3, false)]);
    assert!(!receive(&nic, &nth(1)).matched);
    flows.enqueue_destroy(0, failed, 4).unwrap();
    flows.enqueue_destroy(0, twice, 5).unwrap();
    flows.push(0).unwrap();
    assert_eq!(pulled(&mut flows, 0), [(4, true), (5, true)]);
    assert!(receive(&nic, &nth(2)).matched);
    // A destroy that the card refuses gives the handle back.
    nic.order_fault(Fault::RefuseDestroys { count: 1 });
    flows.enqueue_destroy(0, good, 6).unwrap();
    flows.push(0).unwrap();
    let mut out = Vec::new();
    flows.pull(0, &mut out).unwrap();
    let Completion { token: 6, done: false, handle: Some(good) } = out.remove(0) else {
        panic!("a handle comes back")
    };
    flows.enqueue_destroy(0, good, 7).unwrap();
    flows.push(0).unwrap();
    assert_eq!(pulled(&mut flows, 0), [(7, true)]);
    assert_eq!((nic.stats().rules, nic.stats().refused.creates()), (0, 2));
}

#[test]
fn only_rules_of_the_template_and_only_through_queues() {
    let (_, mut flows, table) = setup(connectx());
    type Change = fn(&mut Rule);
    let changes: [(FlowErrorKind, Change); 4] = [
        (FlowErrorKind::Item, |r| r.attributes.group = 1),
        (FlowErrorKind::Item, |r| {
            r.pattern.pop();
        }),
        (FlowErrorKind::Action, |r| r.actions.push(Action::Count)),
        (FlowErrorKind::Action, |r| r.actions[1] = Action::Drop),
    ];
    for (kind, change) in changes {
        let mut rule = rule_of(1);
        change(&mut rule);
        assert_eq!(flows.enqueue_create(0, &table, &rule, 0).unwrap_err().kind, kind);
    }
    let mut far = rule_of(1);
    far.actions[1] = Action::Queue(77);
    assert_eq!(
        flows.enqueue_create(0, &table, &far, 0).unwrap_err().message,
        "queue index out of range"
    );
    let error = flows.create(&rule_of(1)).unwrap_err();
    assert_eq!(error.errno, FlowError::NOT_SUPPORTED, "{error}");
    for legacy in [Action::DecTtl, Action::SetTpDst(1), Action::PortId(0)] {
        let actions = vec![legacy, Action::Queue(0)];
        let error = flows.create_table(&Template { actions, ..template(1) }).unwrap_err();
        assert_eq!(error.message, "action not supported in template API");
    }
    let error = flows.create_table(&Template { actions: vec![], ..template(1) }).unwrap_err();
    assert_eq!(error.message, "no fate action is found");
}

#[test]
fn ports_without_queues_say_so() {
    for kind in [CardProfile::X550, CardProfile::E810] {
        let mut flows = common::nic(kind, 4).flows();
        let error = flows.configure_queues(&CONFIG).unwrap_err();
        assert_eq!(error.errno, FlowError::NOT_SUPPORTED);
        assert!(flows.query_age().is_err());
        let _ = flows.create(&rule(&nth(1), EXACT, vec![Action::Queue(1)])).unwrap();
    }
    let mut flows = common::nic(CardProfile::ConnectX, 4).flows();
    assert_eq!(flows.push(0).unwrap_err().message, "the flow engine is not configured");
    let _ = flows.create(&rule_of(1)).unwrap();
    assert!(flows.configure_queues(&CONFIG).unwrap_err().message.contains("has rules"));
}

#[test]
fn completions_come_in_the_cards_time() {
    let (nic, mut flows, table) = setup(NicConfig { play_insertion: true, ..connectx() });
    let _handles: Vec<_> =
        (0..3).map(|n| flows.enqueue_create(0, &table, &rule_of(n), n.into()).unwrap()).collect();
    flows.push(0).unwrap();
    assert_eq!(pulled(&mut flows, 0), []);
    nic.advance(2_000);
    assert_eq!(pulled(&mut flows, 0), [(0, true), (1, true)]);
    assert!(receive_at(&nic, &nth(1), 2_000).matched && !receive_at(&nic, &nth(2), 2_999).matched);
    nic.advance(3_000);
    assert_eq!(pulled(&mut flows, 0), [(2, true)]);
    nic.reset();
    assert_eq!(nic.stats().rules, 0);
    let _ = flows.enqueue_create(0, &table, &rule_of(1), 9).unwrap();
}

fn switch(profile: CardProfile) -> NicFlows {
    let config = NicConfig { switch: vec![0], ..NicConfig::new(profile, 4) };
    let mut flows = Nic::new(&config).unwrap().flows();
    flows.configure_queues(&CONFIG).unwrap();
    flows
}

/// A table of rules by index in group 1 of the receive side.
fn by_hash(rows: u32, hash: TableHash) -> Template {
    let group = Attributes { group: 1, ..template(rows).attributes };
    Template { attributes: group, hash: Some(hash), ..template(rows) }
}

#[test]
fn a_table_of_rules_by_index_finds_them_by_the_hash_of_the_masked_fields() {
    let nic = Nic::new(&NicConfig::new(CardProfile::BlueField3, 4)).unwrap();
    let mut flows = nic.flows();
    flows.configure_queues(&QueueConfig { depth: 64, ..CONFIG }).unwrap();
    // The driver with such tables makes rules one by one as well.
    let jump = Rule {
        attributes: Attributes { ingress: true, ..Attributes::default() },
        pattern: vec![Item::Eth(Match::Present)],
        actions: vec![Action::Jump(1)],
    };
    let _ = flows.create(&jump).unwrap();
    let table = flows.create_table(&by_hash(16, TableHash::Crc32)).unwrap();
    let actions = |row: u32| [Action::Mark(row), Action::Queue(1)];
    let rows: Vec<_> = (0..15)
        .map(|row| flows.enqueue_create_by_index(0, &table, row, &actions(row), 0).unwrap())
        .collect();
    flows.push(0).unwrap();
    let mut seen = [0; 16];
    for n in 0..400 {
        let packet = nth(n);
        let row = packet.flow().crc32() & 15;
        seen[row as usize] += 1;
        let got = receive(&nic, &packet);
        let expected =
            if row < 15 { (Some(row), None) } else { (None, Some(DropReason::Unmatched)) };
        assert_eq!((got.mark, got.dropped), expected, "{packet:?}");
        let told = flows.table_hash(&table, &rule_of(n).pattern).unwrap();
        assert_eq!(told, packet.flow().crc32());
    }
    assert!(seen.iter().all(|packets| *packets > 5), "{seen:?}");
    assert_eq!(pulled(&mut flows, 0).len(), 15);
    for row in rows {
        flows.enqueue_destroy(0, row, 1).unwrap();
    }
    flows.push(0).unwrap();
    assert!(pulled(&mut flows, 0).iter().all(|(_, done)| *done));
    assert_eq!(receive(&nic, &nth(0)).dropped, Some(DropReason::Unmatched));
    flows.destroy_table(table).unwrap();
}

#[test]
fn rules_by_index_are_refused_where_the_driver_has_none() {
    let refused = |profile, template: Template| {
        let error = switch(profile).create_table(&template).unwrap_err();
        assert_eq!(error.errno, FlowError::NOT_SUPPORTED);
        error.message
    };
    let crc = by_hash(16, TableHash::Crc32);
    assert_eq!(refused(CardProfile::ConnectX, crc.clone()), "rules by index need DPDK 23.03");
    let bluefield = |template| refused(CardProfile::BlueField3, template);
    let crc16 = bluefield(by_hash(16, TableHash::Crc16));
    assert_eq!(crc16, "16-bit checksum hash type is not supported");
    assert!(bluefield(by_hash(16, TableHash::Linear)).starts_with("linear"));
    let root = Template { hash: crc.hash, ..template(16) };
    assert_eq!(bluefield(root), "the root table has no rules by index");
    // A table takes rules one way only, and as many as it has rows.
    let mut flows = switch(CardProfile::BlueField3);
    let by_index = flows.create_table(&by_hash(9, TableHash::Crc32)).unwrap();
    let by_value = flows.create_table(&template(9)).unwrap();
    let actions = rule_of(0).actions;
    let _ = flows.enqueue_create_by_index(0, &by_index, 15, &actions, 0).unwrap();
    assert!(flows.enqueue_create_by_index(0, &by_index, 16, &actions, 0).is_err());
    assert!(flows.enqueue_create_by_index(0, &by_index, 0, &[Action::Drop], 0).is_err());
    assert!(flows.enqueue_create_by_index(0, &by_value, 0, &actions, 0).is_err());
    let in_group = Rule { attributes: crc.attributes, ..rule_of(0) };
    assert!(flows.enqueue_create(0, &by_index, &in_group, 0).is_err());
}
