//! The XL710 profile: what i40e's Flow Director refuses and takes.
use crate::common;

use common::{Change, EXACT, Masks, Packet, check_refusals, nic, receive, rule, tcp, udp};
use dpdk::flow::{
    Action, EthFields, Field, FlowError, FlowErrorKind, FlowPort, Ipv4Fields, Item, Match,
    PortFields,
};
use flow::CardProfile;
use nic::{DropReason, Nic, NicConfig, NicError};

fn v4() -> Packet {
    tcp("198.51.100.7:40000", "192.0.2.1:443")
}

fn v6() -> Packet {
    tcp("[2001:db8::7]:40000", "[2001:db8::1]:443")
}

const FORMATS: &[(FlowErrorKind, &str, Change)] = &[
    (FlowErrorKind::Attribute, "Only support ingress.", |r| r.attributes.ingress = false),
    (FlowErrorKind::Attribute, "Not support egress.", |r| r.attributes.egress = true),
    (FlowErrorKind::Attribute, "Not support priority.", |r| r.attributes.priority = 1),
    (FlowErrorKind::Attribute, "Not support group.", |r| r.attributes.group = 3),
    (FlowErrorKind::Item, "Unsupported pattern", |r| r.pattern.clear()),
    (FlowErrorKind::Item, "Unsupported pattern", |r| r.pattern[2] = Item::Other(99)),
    (FlowErrorKind::Item, "Not support range", |r| r.pattern[2] = Item::Tcp(Match::Range)),
    (FlowErrorKind::Item, "Invalid MAC_addr mask.", |r| {
        r.pattern[0] = Item::Eth(Match::Fields(EthFields::default()));
    }),
    (FlowErrorKind::Item, "Invalid IPv4 mask.", |r| {
        r.pattern[1] = Item::Ipv4(Match::Fields(Ipv4Fields {
            fragment: Field { spec: 0, mask: 0x3fff },
            ..Ipv4Fields::default()
        }));
    }),
    (FlowErrorKind::Item, "Invalid TCP mask", |r| {
        r.pattern[2] = Item::Tcp(Match::Fields(PortFields {
            tcp_flags: Field { spec: 2, mask: 2 },
            ..PortFields::default()
        }));
    }),
    (FlowErrorKind::Item, "Invalid pattern mask: a mask", |r| {
        *r = rule(&v4(), Masks { src: 0xffff_ff00, ..EXACT }, r.actions.clone());
    }),
    (FlowErrorKind::Item, "Invalid pattern mask: no field", |r| {
        *r = rule(&v6(), Masks { src: 0, dst: 0, sport: 0, dport: 0 }, r.actions.clone());
    }),
    (FlowErrorKind::Action, "Invalid queue ID for FDIR.", |r| r.actions = vec![Action::Queue(4)]),
    (FlowErrorKind::Action, "Invalid action.", |r| r.actions.clear()),
    (FlowErrorKind::Action, "Invalid action.", |r| r.actions.push(Action::Drop)),
    // No counters.
    (FlowErrorKind::Action, "Invalid action.", |r| r.actions.push(Action::Count)),
    // MARK first means PASSTHRU, so that nothing may follow.
    (FlowErrorKind::Action, "Invalid action.", |r| {
        r.actions = vec![Action::Mark(1), Action::Queue(1)];
    }),
    (FlowErrorKind::Action, "Invalid action.", |r| {
        r.actions = vec![Action::Mark(1), Action::Mark(2)];
    }),
    (FlowErrorKind::Action, "Invalid action.", |r| {
        r.actions.extend([Action::Mark(1), Action::Mark(2)]);
    }),
    // No rewriting.
    (FlowErrorKind::Action, "Invalid action.", |r| r.actions = vec![Action::Other(40)]),
];

#[test]
fn formats_are_refused_in_the_drivers_words() {
    let words =
        FORMATS.iter().map(|(kind, text, change)| (*kind, FlowError::INVALID, *text, *change));
    let taken = rule(&v4(), EXACT, vec![Action::Queue(3)]);
    check_refusals(&nic(CardProfile::Xl710, 4), &taken, words);
}

#[test]
fn both_families_match_with_queue_mark_drop_and_passthru() {
    let nic = nic(CardProfile::Xl710, 4);
    let mut flows = nic.flows();
    let (a, b) = (udp("[2001:db8::7]:1", "[2001:db8::1]:53"), udp("10.0.0.1:1", "10.0.0.2:53"));
    let _ = flows.create(&rule(&v4(), EXACT, vec![Action::Queue(1)])).unwrap();
    let _ = flows
        .create(&rule(&v6(), EXACT, vec![Action::Queue(2), Action::Mark(0xdead_beef)]))
        .unwrap();
    let _ = flows.create(&rule(&a, EXACT, vec![Action::Drop])).unwrap();
    let _ = flows.create(&rule(&b, EXACT, vec![Action::Mark(7)])).unwrap();
    let got = receive(&nic, &v4());
    assert_eq!((got.queue, got.mark, got.matched), (1, None, true));
    let got = receive(&nic, &v6());
    assert_eq!((got.queue, got.mark, got.matched), (2, Some(0xdead_beef), true));
    assert_eq!(receive(&nic, &a).dropped, Some(DropReason::Rule));
    let got = receive(&nic, &b);
    assert_eq!((got.queue, got.mark, got.matched), (0, Some(7), true));
    assert!(!receive(&nic, &Packet { fragment: true, ..v6() }).matched);
}

#[test]
fn the_first_rule_of_a_packet_type_sets_its_input_set() {
    let nic = nic(CardProfile::Xl710, 4);
    let mut flows = nic.flows();
    let loose = Masks { src: 0, sport: 0, ..EXACT };
    let first = flows.create(&rule(&v4(), EXACT, vec![Action::Queue(1)])).unwrap();
    let _ = flows.create(&rule(&v6(), loose, vec![Action::Queue(3)])).unwrap();
    let other = rule(&tcp("0.0.0.0:0", "192.0.2.1:80"), loose, vec![Action::Queue(2)]);
    let error = flows.create(&other).unwrap_err();
    assert_eq!(error.message, "Conflict with the first rule's input set.");
    flows.destroy(first).unwrap();
    let _ = flows.create(&other).unwrap();
    assert_eq!(receive(&nic, &tcp("9.9.9.9:9", "192.0.2.1:80")).queue, 2);
}

#[test]
fn marks_may_repeat_and_rules_may_not() {
    let nic = nic(CardProfile::Xl710, 4);
    let mut flows = nic.flows();
    let _ = flows.create(&rule(&v4(), EXACT, vec![Action::Queue(1), Action::Mark(1)])).unwrap();
    let again = flows.create(&rule(&v6(), EXACT, vec![Action::Queue(1), Action::Mark(1)])).unwrap();
    let error = flows.create(&rule(&v4(), EXACT, vec![Action::Queue(2)])).unwrap_err();
    assert!(error.message.ends_with("Conflict with existing flow director rules!"), "{error}");
    assert!(flows.query(&again).is_err(), "no counters");
}

#[test]
fn there_are_8192_filters_and_64_queues() {
    let full = NicConfig::new(CardProfile::Xl710, 64);
    assert_eq!(Nic::new(&full).unwrap().stats().capacity, 8192);
    let capacity = NicConfig { capacity: Some(8193), ..full.clone() };
    assert!(matches!(Nic::new(&capacity), Err(NicError::CapacityRange { max: 8192, .. })));
    let queues = NicConfig { queues: 65, ..full };
    assert!(matches!(Nic::new(&queues), Err(NicError::Queues { max: 64, .. })));
    let nic = Nic::new(&NicConfig { capacity: Some(2), ..NicConfig::new(CardProfile::Xl710, 2) });
    let nic = nic.unwrap();
    let mut flows = nic.flows();
    for n in 0..2 {
        let _ = flows.create(&rule(&common::nth(n), EXACT, vec![Action::Queue(1)])).unwrap();
    }
    let error = flows.create(&rule(&v6(), EXACT, vec![Action::Queue(1)])).unwrap_err();
    assert!(error.is_full(), "{error}");
}
