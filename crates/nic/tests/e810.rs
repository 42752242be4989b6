//! The E810 profile: what ice's Flow Director refuses and takes.
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
    (FlowErrorKind::Attribute, "Not support transfer.", |r| r.attributes.transfer = true),
    (FlowErrorKind::Attribute, "Not support priority.", |r| r.attributes.priority = 1),
    (FlowErrorKind::Attribute, "Not support group.", |r| r.attributes.group = 3),
    (FlowErrorKind::Item, "Not supported pattern", |r| r.pattern.clear()),
    (FlowErrorKind::Item, "Not supported pattern", |r| r.pattern.push(Item::Other(99))),
    (FlowErrorKind::Item, "Not supported pattern", |r| {
        r.pattern.remove(0);
    }),
    (FlowErrorKind::Item, "Not supported pattern", |r| r.pattern[2] = Item::Other(99)),
    (FlowErrorKind::Item, "Not supported pattern", |r| r.pattern[1] = Item::Vlan(Match::Present)),
    (FlowErrorKind::Item, "Not support range", |r| r.pattern[1] = Item::Ipv4(Match::Range)),
    (FlowErrorKind::Item, "Invalid input set: ETH", |r| {
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
    (FlowErrorKind::Item, "Invalid input set: a mask", |r| {
        *r = rule(&v4(), Masks { src: 0xffff_ff00, ..EXACT }, r.actions.clone());
    }),
    (FlowErrorKind::Item, "Invalid input set: a mask", |r| {
        *r = rule(&v6(), Masks { dport: 0xff00, ..EXACT }, r.actions.clone());
    }),
    (FlowErrorKind::Item, "Invalid input set: no field", |r| {
        *r = rule(&v6(), Masks { src: 0, dst: 0, sport: 0, dport: 0 }, r.actions.clone());
    }),
    (FlowErrorKind::Action, "Invalid queue for FDIR.", |r| r.actions = vec![Action::Queue(4)]),
    (FlowErrorKind::Action, "Unsupported action combination", |r| r.actions.push(Action::Drop)),
    (FlowErrorKind::Action, "Too many mark actions", |r| {
        r.actions.extend([Action::Mark(1), Action::Mark(2)]);
    }),
    (FlowErrorKind::Action, "Too many count actions", |r| {
        r.actions.extend([Action::Count, Action::Count]);
    }),
    (FlowErrorKind::Action, "Empty action", |r| r.actions.clear()),
    (FlowErrorKind::Action, "Invalid action.", |r| r.actions.push(Action::Other(40))),
];

#[test]
fn formats_are_refused_in_the_drivers_words() {
    let words =
        FORMATS.iter().map(|(kind, text, change)| (*kind, FlowError::INVALID, *text, *change));
    let taken = rule(&v4(), EXACT, vec![Action::Queue(3)]);
    check_refusals(&nic(CardProfile::E810, 4), &taken, words);
}

#[test]
fn both_families_match_with_queue_mark_drop_and_passthru() {
    let nic = nic(CardProfile::E810, 4);
    let mut flows = nic.flows();
    let (a, b) = (udp("[2001:db8::7]:1", "[2001:db8::1]:53"), udp("10.0.0.1:1", "10.0.0.2:53"));
    let _ = flows.create(&rule(&v4(), EXACT, vec![Action::Queue(1)])).unwrap();
    let _ = flows
        .create(&rule(&v6(), EXACT, vec![Action::Mark(0xdead_beef), Action::Queue(2)]))
        .unwrap();
    let _ = flows.create(&rule(&a, EXACT, vec![Action::Drop])).unwrap();
    let _ = flows.create(&rule(&b, EXACT, vec![Action::Mark(0xdead_beef)])).unwrap();
    let got = receive(&nic, &v4());
    assert_eq!((got.queue, got.mark, got.matched), (1, None, true));
    let got = receive(&nic, &Packet { vlan: Some(5), ..v6() });
    assert_eq!((got.queue, got.mark, got.matched), (2, Some(0xdead_beef), true));
    assert_eq!(receive(&nic, &a).dropped, Some(DropReason::Rule));
    let got = receive(&nic, &b);
    assert_eq!((got.queue, got.mark, got.matched), (0, Some(0xdead_beef), true));
    assert!(!receive(&nic, &Packet { fragment: true, ..v6() }).matched);
}

#[test]
fn one_input_set_per_flow_type() {
    let nic = nic(CardProfile::E810, 4);
    let mut flows = nic.flows();
    let loose = Masks { src: 0, sport: 0, ..EXACT };
    let first = flows.create(&rule(&v4(), EXACT, vec![Action::Queue(1)])).unwrap();
    let udp = udp("0.0.0.0:0", "192.0.2.1:53");
    let _ = flows.create(&rule(&udp, loose, vec![Action::Queue(2)])).unwrap();
    let _ = flows.create(&rule(&v6(), loose, vec![Action::Queue(3)])).unwrap();
    let other = rule(&tcp("0.0.0.0:0", "192.0.2.1:80"), loose, vec![Action::Queue(2)]);
    let error = flows.create(&other).unwrap_err();
    assert!(error.message.starts_with("Profile configure failed"), "{error}");
    assert_eq!((receive(&nic, &v4()).queue, receive(&nic, &udp).queue), (1, 2));
    assert_eq!(receive(&nic, &v6()).queue, 3);
    flows.destroy(first).unwrap();
    let _ = flows.create(&other).unwrap();
    assert_eq!(receive(&nic, &tcp("9.9.9.9:9", "192.0.2.1:80")).queue, 2);
}

#[test]
fn count_counts_packets_and_only_where_asked() {
    let nic = nic(CardProfile::E810, 4);
    let mut flows = nic.flows();
    let counted = flows.create(&rule(&v4(), EXACT, vec![Action::Queue(1), Action::Count])).unwrap();
    let plain = flows.create(&rule(&v6(), EXACT, vec![Action::Queue(1)])).unwrap();
    (0..5).for_each(|_| assert!(receive(&nic, &v4()).matched));
    let counters = flows.query(&counted).unwrap();
    assert_eq!((counters.packets, counters.bytes), (5, 0), "ice has no byte counter");
    let error = flows.query(&plain).unwrap_err();
    assert_eq!(error.message, "FDIR counters not available");
    flows.destroy(counted).unwrap();
    let again = flows.create(&rule(&v4(), EXACT, vec![Action::Queue(1), Action::Count])).unwrap();
    assert_eq!(flows.query(&again).unwrap().packets, 0);
}

#[test]
fn duplicates_are_refused_but_marks_need_not_be_unique() {
    let nic = nic(CardProfile::E810, 4);
    let mut flows = nic.flows();
    let _ = flows.create(&rule(&v4(), EXACT, vec![Action::Queue(1), Action::Mark(1)])).unwrap();
    let _ = flows.create(&rule(&v6(), EXACT, vec![Action::Queue(1), Action::Mark(1)])).unwrap();
    let error = flows.create(&rule(&v4(), EXACT, vec![Action::Queue(2)])).unwrap_err();
    assert_eq!((error.errno, &*error.message), (FlowError::EXISTS, "Rule already exists!"));
}

#[test]
fn the_capacity_is_the_configured_one() {
    let config = NicConfig { capacity: Some(3), ..NicConfig::new(CardProfile::E810, 2) };
    let nic = Nic::new(&config).unwrap();
    let mut flows = nic.flows();
    for n in 0..3 {
        let _ = flows.create(&rule(&common::nth(n), EXACT, vec![Action::Queue(1)])).unwrap();
    }
    let error = flows.create(&rule(&v6(), EXACT, vec![Action::Queue(1)])).unwrap_err();
    assert!(error.is_full() && error.message.starts_with("Add filter rule failed"), "{error}");
    assert_eq!((nic.stats().capacity, nic.stats().rx_buffer_kib), (3, None));
    let config = NicConfig { capacity: Some(0), ..config };
    assert!(matches!(Nic::new(&config), Err(NicError::CapacityRange { .. })));
}
