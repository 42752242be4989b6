//! The X550 profile: what ixgbe's Flow Director refuses and takes.
use crate::common;

use common::{
    Change, EXACT, Masks, Packet, check_refusals, nic, nth, packet, receive, rule, tcp, udp,
};
use dpdk::flow::{
    Action, EthFields, Field, FlowError, FlowErrorKind, FlowPort, Ipv4Fields, Item, Match,
    PortFields, Rule, VlanFields,
};
use flow::CardProfile;
use nic::{DropReason, Nic, NicConfig};

fn client() -> Packet {
    tcp("198.51.100.7:40000", "192.0.2.1:443")
}

fn exact(actions: &[Action]) -> Rule {
    rule(&client(), EXACT, actions.to_vec())
}

/// What is refused by the rule's format alone: kind, errno, the beginning of
/// the text, and the change that makes an acceptable rule so.
const FORMATS: &[(FlowErrorKind, i32, &str, Change)] = &[
    (FlowErrorKind::Attribute, FlowError::INVALID, "Only support ingress.", |r| {
        r.attributes.ingress = false;
    }),
    (FlowErrorKind::Attribute, FlowError::INVALID, "Not support egress.", |r| {
        r.attributes.egress = true;
    }),
    (FlowErrorKind::Attribute, FlowError::INVALID, "No support for transfer.", |r| {
        r.attributes.transfer = true;
    }),
    (FlowErrorKind::Attribute, FlowError::INVALID, "Not support priority.", |r| {
        r.attributes.priority = 1;
    }),
    (FlowErrorKind::Attribute, FlowError::INVALID, "Not support group.", |r| {
        r.attributes.group = 1;
    }),
    (FlowErrorKind::Item, FlowError::INVALID, "Not supported by fdir filter", |r| {
        r.pattern[0] = Item::Eth(Match::Fields(EthFields::default()));
    }),
    (FlowErrorKind::Item, FlowError::INVALID, "Not supported by fdir filter", |r| {
        r.pattern.insert(1, Item::Vlan(Match::Fields(VlanFields::default())));
    }),
    (FlowErrorKind::Item, FlowError::INVALID, "Not supported by fdir filter: perfect", |r| {
        r.pattern[1] = rule(&tcp("[::1]:1", "[::2]:2"), EXACT, vec![]).pattern[1];
    }),
    (FlowErrorKind::Item, FlowError::INVALID, "Not supported by fdir filter", |r| {
        r.pattern[1] = Item::Ipv4(Match::Present);
    }),
    (FlowErrorKind::Item, FlowError::INVALID, "Not supported by fdir filter", |r| {
        r.pattern[1] = Item::Ipv4(Match::Fields(Ipv4Fields {
            proto: Field { spec: 6, mask: 0xff },
            ..Ipv4Fields::default()
        }));
    }),
    (FlowErrorKind::Item, FlowError::INVALID, "Not supported by fdir filter", |r| {
        r.pattern[1] = Item::Ipv4(Match::Fields(Ipv4Fields {
            ttl: Field { spec: 6, mask: 1 },
            ..Ipv4Fields::default()
        }));
    }),
    (FlowErrorKind::Item, FlowError::INVALID, "Not supported by fdir filter", |r| {
        r.pattern[2] = Item::Tcp(Match::Present);
    }),
    (FlowErrorKind::Item, FlowError::INVALID, "Not supported by fdir filter", |r| {
        r.pattern[2] = Item::Tcp(Match::Fields(PortFields {
            tcp_flags: Field { spec: 2, mask: 2 },
            ..PortFields::default()
        }));
    }),
    (FlowErrorKind::Item, FlowError::INVALID, "Not supported by fdir filter", |r| {
        r.pattern[2] = Item::Other(99);
    }),
    (FlowErrorKind::Item, FlowError::INVALID, "Not supported by fdir filter", |r| {
        r.pattern.push(Item::Other(99));
    }),
    (FlowErrorKind::Item, FlowError::INVALID, "Not supported by fdir filter", |r| {
        r.pattern.clear();
    }),
    (FlowErrorKind::Unspecified, FlowError::INVALID, "Not supported last point for range", |r| {
        r.pattern[1] = Item::Ipv4(Match::Range);
    }),
    (FlowErrorKind::Unspecified, FlowError::INVALID, "Not supported last point for range", |r| {
        r.pattern[2] = Item::Tcp(Match::Range);
    }),
    (FlowErrorKind::Action, FlowError::INVALID, "Not supported action.", |r| r.actions.clear()),
    (FlowErrorKind::Action, FlowError::INVALID, "Not supported action.", |r| {
        r.actions.push(Action::Count);
    }),
    (FlowErrorKind::Action, FlowError::INVALID, "Not supported action.", |r| {
        r.actions = vec![Action::Mark(1), Action::Queue(1)];
    }),
    (FlowErrorKind::Action, FlowError::INVALID, "Not supported action.", |r| {
        r.actions = vec![Action::Passthru];
    }),
    (FlowErrorKind::Action, FlowError::INVALID, "Not supported action.", |r| {
        r.actions = vec![Action::Other(40)];
    }),
    (FlowErrorKind::Action, FlowError::INVALID, "Not supported action.", |r| {
        r.actions = vec![Action::Queue(1), Action::Queue(2)];
    }),
    (FlowErrorKind::Action, FlowError::INVALID, "Not supported action. The soft id", |r| {
        r.actions = vec![Action::Queue(1), Action::Mark(0x1_0000)];
    }),
    (FlowErrorKind::Action, FlowError::NOT_SUPPORTED, "Not supported by fdir filter", |r| {
        r.actions = vec![Action::Queue(4)];
    }),
];

#[test]
fn formats_are_refused_in_the_drivers_words() {
    let nic = nic(CardProfile::X550, 4);
    check_refusals(&nic, &exact(&[Action::Queue(3)]), FORMATS.iter().copied());
}

/// The rule goes through the C arrays, where item 0 is END and item 1 VOID.
#[test]
fn void_items_are_skipped_and_end_ends_the_pattern() {
    let mut flows = nic(CardProfile::X550, 4).flows();
    let mut rule = exact(&[Action::Queue(3)]);
    rule.pattern.insert(1, Item::Other(1));
    rule.pattern.extend([Item::Other(0), Item::Other(99)]);
    flows.validate(&rule).unwrap();
}

#[test]
fn a_rule_without_transport_validates_but_cannot_be_programmed() {
    let mut flows = nic(CardProfile::X550, 4).flows();
    let mut rule = exact(&[Action::Queue(3)]);
    rule.pattern.pop();
    flows.validate(&rule).unwrap();
    let error = flows.create(&rule).unwrap_err();
    assert_eq!(error.errno, FlowError::NOT_SUPPORTED);
    assert!(error.message.contains("IPv4-other is not supported"));
}

#[test]
fn queue_mark_and_drop() {
    let nic = nic(CardProfile::X550, 4);
    let mut flows = nic.flows();
    let (a, b, c) = (nth(1), nth(2), nth(3));
    let queue = flows.create(&rule(&a, EXACT, vec![Action::Queue(3)])).unwrap();
    let _ = flows.create(&rule(&b, EXACT, vec![Action::Queue(2), Action::Mark(513)])).unwrap();
    let _ = flows.create(&rule(&c, EXACT, vec![Action::Drop])).unwrap();
    let got = receive(&nic, &a);
    assert_eq!((got.queue, got.mark, got.matched), (3, Some(0), true), "soft id 0 without MARK");
    let got = receive(&nic, &Packet { vlan: Some(9), ..b });
    assert_eq!((got.queue, got.mark, got.matched), (2, Some(513), true), "tags are stepped over");
    let got = receive(&nic, &c);
    assert_eq!((got.dropped, got.matched), (Some(DropReason::Rule), true));
    for other in
        [Packet { proto: 17, ..a }, Packet { fragment: true, ..a }, Packet { proto: 1, ..a }]
    {
        let got = receive(&nic, &other);
        assert_eq!((got.queue, got.mark, got.matched), (0, None, false), "{other:?}");
    }
    assert_eq!(flows.query(&queue).unwrap_err().errno, 38, "ixgbe has no query");
    let stats = nic.stats();
    assert_eq!((stats.received, stats.matched, stats.missed, stats.dropped), (6, 3, 3, 1));
    assert_eq!(stats.per_queue, [3, 0, 1, 1]);
}

#[test]
fn marks_stay_in_the_card_when_the_report_status_is_none() {
    let config = NicConfig { report_marks: false, ..NicConfig::new(CardProfile::X550, 4) };
    let nic = Nic::new(&config).unwrap();
    let _ = nic.flows().create(&exact(&[Action::Queue(2), Action::Mark(5)])).unwrap();
    let got = receive(&nic, &client());
    assert_eq!((got.queue, got.mark, got.matched), (2, None, true));
}

#[test]
fn one_mask_for_the_port_until_all_rules_are_gone() {
    let nic = nic(CardProfile::X550, 4);
    let mut flows = nic.flows();
    let loose = Masks { src: 0, sport: 0, ..EXACT };
    let first = flows.create(&exact(&[Action::Queue(1)])).unwrap();
    let second = flows.create(&rule(&nth(1), EXACT, vec![Action::Queue(2)])).unwrap();
    let third = rule(&udp("0.0.0.0:0", "192.0.2.9:53"), loose, vec![Action::Queue(3)]);
    let error = flows.create(&third).unwrap_err();
    assert_eq!((error.kind, error.errno), (FlowErrorKind::Handle, FlowError::INVALID));
    assert!(error.message.contains("only one global mask"), "{error}");
    flows.destroy(first).unwrap();
    assert_eq!(flows.create(&third).unwrap_err().errno, FlowError::INVALID);
    flows.destroy(second).unwrap();
    let _ = flows.create(&third).unwrap();
    assert_eq!(receive(&nic, &udp("1.2.3.4:5", "192.0.2.9:53")).queue, 3);
    assert!(!receive(&nic, &udp("1.2.3.4:5", "192.0.2.9:54")).matched);
    assert!(!receive(&nic, &tcp("1.2.3.4:5", "192.0.2.9:53")).matched);
    let error = flows.create(&exact(&[Action::Queue(1)])).unwrap_err();
    assert!(error.message.contains("only one global mask"), "{error}");
    assert_eq!(nic.stats().refused.mask, 3);
}

#[test]
fn bit_masks_are_taken_and_without_ports_any_protocol_matches() {
    let nic = nic(CardProfile::X550, 4);
    let masks = Masks { src: 0, dst: 0xffff_ff00, sport: 0, dport: 0 };
    let _ = nic.flows().create(&rule(&client(), masks, vec![Action::Queue(1)])).unwrap();
    assert!(receive(&nic, &udp("9.9.9.9:1", "192.0.2.77:2")).matched);
    assert!(receive(&nic, &packet(1, "9.9.9.9:0", "192.0.2.77:0")).matched);
    assert!(!receive(&nic, &udp("9.9.9.9:1", "192.0.3.77:2")).matched);
}

#[test]
fn duplicates_of_rules_and_of_soft_ids_are_refused() {
    let nic = nic(CardProfile::X550, 4);
    let mut flows = nic.flows();
    let first = flows.create(&exact(&[Action::Queue(1), Action::Mark(7)])).unwrap();
    let error = flows.create(&exact(&[Action::Queue(2), Action::Mark(8)])).unwrap_err();
    assert_eq!(error.errno, FlowError::EXISTS);
    assert_eq!(error.message, "Conflict with existing fdir filter!");
    let other = rule(&nth(1), EXACT, vec![Action::Queue(1), Action::Mark(7)]);
    let error = flows.create(&other).unwrap_err();
    assert_eq!(error.errno, FlowError::EXISTS);
    assert!(error.message.contains("soft id"), "{error}");
    flows.destroy(first).unwrap();
    let handle = flows.create(&other).unwrap();
    assert_eq!(receive(&nic, &client()).mark, None);
    assert_eq!(receive(&nic, &nth(1)).mark, Some(7));
    flows.destroy(handle).unwrap();
    for n in 0..3 {
        let _ = flows.create(&rule(&nth(n), EXACT, vec![Action::Queue(1)])).unwrap();
    }
    let stats = nic.stats();
    assert_eq!((stats.refused.duplicate, stats.refused.soft_id, stats.rules), (1, 1, 3));
}

#[test]
fn the_table_holds_its_capacity_and_says_when_it_is_full() {
    for (capacity, buffer) in [(None, 320), (Some(4096), 256), (Some(8192), 128)] {
        let config = NicConfig { capacity, ..NicConfig::new(CardProfile::X550, 4) };
        let nic = Nic::new(&config).unwrap();
        let mut flows = nic.flows();
        let capacity = capacity.unwrap_or(2048) as u32;
        let mut handles: Vec<_> = (0..capacity)
            .map(|n| flows.create(&rule(&nth(n), EXACT, vec![Action::Queue(1)])).unwrap())
            .collect();
        let extra = rule(&nth(capacity), EXACT, vec![Action::Queue(2)]);
        let error = flows.create(&extra).unwrap_err();
        assert!(error.is_full() && error.message.contains("table is full"), "{error}");
        flows.validate(&extra).unwrap();
        assert!((0..capacity).all(|n| receive(&nic, &nth(n)).queue == 1));
        assert!(!receive(&nic, &nth(capacity)).matched);
        flows.destroy(handles.swap_remove(5)).unwrap();
        assert!(!receive(&nic, &nth(5)).matched);
        let _ = flows.create(&extra).unwrap();
        assert_eq!(receive(&nic, &nth(capacity)).queue, 2);
        let stats = nic.stats();
        assert_eq!((stats.rules, stats.capacity), (capacity as usize, capacity as usize));
        assert_eq!((stats.rx_buffer_kib, stats.refused.full), (Some(buffer), 1));
    }
}

#[test]
fn rules_do_not_survive_a_port_stop() {
    let nic = nic(CardProfile::X550, 4);
    let mut flows = nic.flows();
    let handle = flows.create(&exact(&[Action::Queue(1), Action::Mark(7)])).unwrap();
    nic.stop();
    assert_eq!(receive(&nic, &client()).dropped, Some(DropReason::Stopped));
    assert!(flows.create(&exact(&[Action::Queue(1)])).unwrap_err().message.contains("stopped"));
    nic.start();
    assert!(!receive(&nic, &client()).matched);
    let (handle, error) = flows.destroy(handle).unwrap_err();
    assert_eq!(error.errno, FlowError::NOT_FOUND);
    let _ = flows.create(&exact(&[Action::Queue(2), Action::Mark(7)])).unwrap();
    assert!(flows.destroy(handle).is_err(), "an old handle is not the new rule's");
    nic.reset();
    assert_eq!(nic.stats().rules, 0);
}
