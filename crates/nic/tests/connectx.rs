//! The ConnectX profile: what mlx5 refuses and takes.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::net::{Ipv4Addr, Ipv6Addr};

use common::{
    Change, EXACT, Masks, Packet, check_refusals, nth, receive, receive_at, rule, tcp, udp,
};
use dpdk::flow::{
    Action, Attributes, EthFields, Field, FlowError, FlowErrorKind, FlowPort, HopField, Ipv4Fields,
    Ipv6Fields, Item, Match, Modify, PortFields, Rule, SetField, VlanFields,
};
use flow::CardProfile;
use nic::{DropReason, Nic, NicConfig, NicFlows};
use wire::Mac;

const MAC: Mac = Mac([2, 9, 8, 7, 6, 5]);

fn card() -> (Nic, NicFlows) {
    let config = NicConfig { switch: vec![0, 1], ..NicConfig::new(CardProfile::ConnectX, 4) };
    let nic = Nic::new(&config).unwrap();
    let flows = nic.flows();
    (nic, flows)
}

fn client() -> Packet {
    tcp("198.51.100.7:40000", "192.0.2.1:443")
}

fn ingress(group: u32) -> Attributes {
    Attributes { group, ingress: true, ..Attributes::default() }
}

fn transfer(group: u32) -> Attributes {
    Attributes { group, transfer: true, ..Attributes::default() }
}

/// The rule for the client's 5-tuple.
fn of(attributes: Attributes, actions: Vec<Action>) -> Rule {
    Rule { attributes, ..rule(&client(), EXACT, actions) }
}

/// A rule that matches everything.
fn all(attributes: Attributes, actions: Vec<Action>) -> Rule {
    Rule { attributes, pattern: vec![Item::Eth(Match::Present)], actions }
}

fn set_dst(port: u16) -> Vec<Action> {
    vec![
        Action::ModifyField(Modify::Set(SetField::Ipv4Dst(Ipv4Addr::new(10, 0, 0, 9)))),
        Action::ModifyField(Modify::Set(SetField::TcpDport(port))),
    ]
}

use FlowErrorKind::{Action as InAction, Attribute, Item as InItem, Unspecified};
const INVALID: i32 = FlowError::INVALID;
const UNSUPPORTED: i32 = FlowError::NOT_SUPPORTED;

fn ipv4(fields: Ipv4Fields) -> Item {
    Item::Ipv4(Match::Fields(fields))
}

const PATTERNS: &[(FlowErrorKind, i32, &str, Change)] = &[
    (Attribute, UNSUPPORTED, "priority out of range", |r| r.attributes.priority = 4),
    (Attribute, UNSUPPORTED, "priority out of range", |r| {
        r.attributes.group = 1;
        r.attributes.priority = 21_843;
    }),
    (Attribute, INVALID, "must specify exactly one", |r| r.attributes.ingress = false),
    (Attribute, INVALID, "must specify exactly one", |r| r.attributes.transfer = true),
    (Attribute, UNSUPPORTED, "egress rules are not modelled", |r| {
        r.attributes = Attributes { egress: true, ..Attributes::default() };
    }),
    (InItem, UNSUPPORTED, "item not supported", |r| r.pattern.push(Item::Other(99))),
    (InItem, UNSUPPORTED, "multiple L2 layers", |r| {
        r.pattern.insert(0, Item::Eth(Match::Present));
    }),
    (InItem, INVALID, "L2 layer should not follow L3", |r| r.pattern.swap(0, 1)),
    (InItem, INVALID, "VLAN cannot follow L3/L4 layer", |r| {
        r.pattern.push(Item::Vlan(Match::Present));
    }),
    (InItem, INVALID, "multiple VLAN layers", |r| {
        r.pattern.insert(1, Item::Vlan(Match::Present));
        r.pattern.insert(1, Item::Vlan(Match::Present));
    }),
    (InItem, INVALID, "IPv4 cannot follow L2/VLAN layer", |r| {
        let ethertype = Field { spec: 0x86dd, mask: 0xffff };
        r.pattern[0] = Item::Eth(Match::Fields(EthFields { ethertype, ..Default::default() }));
    }),
    (InItem, UNSUPPORTED, "multiple L3 layers", |r| {
        r.pattern.insert(1, Item::Ipv6(Match::Present));
    }),
    (InItem, INVALID, "L3 is mandatory to filter on L4", |r| {
        r.pattern.remove(1);
    }),
    (InItem, INVALID, "L3 is mandatory to filter on L4", |r| r.pattern.swap(1, 2)),
    (InItem, INVALID, "multiple L4 layers", |r| r.pattern.push(Item::Udp(Match::Present))),
    (InItem, INVALID, "partial mask is not supported for protocol", |r| {
        r.pattern[1] =
            ipv4(Ipv4Fields { proto: Field { spec: 6, mask: 0xf }, ..Default::default() });
    }),
    (InItem, INVALID, "protocol filtering not compatible with TCP layer", |r| {
        r.pattern[1] =
            ipv4(Ipv4Fields { proto: Field { spec: 17, mask: 0xff }, ..Default::default() });
    }),
    (InItem, INVALID, "must use full mask for fragment_offset", |r| {
        r.pattern[1] =
            ipv4(Ipv4Fields { fragment: Field { spec: 0, mask: 0x1fff }, ..Default::default() });
    }),
    (InItem, UNSUPPORTED, "match on first fragment not supported", |r| {
        let fragment = Field { spec: 0x2000, mask: 0x3fff };
        r.pattern[1] = ipv4(Ipv4Fields { fragment, ..Default::default() });
    }),
    (InItem, INVALID, "IPv6 proto (next header) should not", |r| {
        let proto = Field { spec: 44, mask: 0xff };
        r.pattern[1] = Item::Ipv6(Match::Fields(Ipv6Fields { proto, ..Default::default() }));
    }),
    (InItem, INVALID, "range is not valid", |r| r.pattern[2] = Item::Tcp(Match::Range)),
    (InItem, UNSUPPORTED, "mask enables non supported bits", |r| {
        r.pattern[1] = Item::Ipv4(Match::Unsupported);
    }),
];

const ACTIONS: &[(FlowErrorKind, i32, &str, Change)] = &[
    (InAction, INVALID, "no fate action is found", |r| r.actions = vec![Action::Count]),
    (InAction, INVALID, "queue index out of range", |r| r.actions = vec![Action::Queue(4)]),
    (InAction, INVALID, "queue index out of range", |r| r.actions = vec![Action::Rss(vec![0, 9])]),
    (InAction, INVALID, "No queues configured", |r| r.actions = vec![Action::Rss(vec![])]),
    (InAction, INVALID, "can't have 2 fate actions", |r| r.actions.push(Action::Queue(1))),
    (InAction, INVALID, "can't have 2 fate actions", |r| r.actions.push(Action::Jump(2))),
    (InAction, INVALID, "Drop action is mutually-exclusive", |r| r.actions.push(Action::Drop)),
    (InAction, INVALID, "Drop action is mutually-exclusive", |r| {
        r.actions = vec![Action::Mark(1), Action::Drop];
    }),
    (InAction, INVALID, "Drop action is mutually-exclusive", |r| {
        r.actions = vec![Action::DecTtl, Action::Drop];
    }),
    (InAction, INVALID, "mark id must in", |r| r.actions.push(Action::Mark(0xff_fff0))),
    (InAction, INVALID, "can't have 2 mark actions", |r| {
        r.actions.extend([Action::Mark(1), Action::Mark(2)]);
    }),
    (InAction, INVALID, "duplicate count actions set", |r| {
        r.actions.extend([Action::Count, Action::Count]);
    }),
    (InAction, INVALID, "invalid timeout value 0", |r| {
        r.actions.push(Action::Age { timeout_s: 0 });
    }),
    (InAction, INVALID, "duplicate age actions set", |r| {
        r.actions.extend([Action::Age { timeout_s: 1 }, Action::Age { timeout_s: 1 }]);
    }),
    (InAction, UNSUPPORTED, "action not supported", |r| r.actions = vec![Action::Passthru]),
    (InAction, UNSUPPORTED, "action not supported", |r| r.actions.push(Action::Other(99))),
    (InAction, INVALID, "target group must be other", |r| {
        r.attributes.group = 3;
        r.actions = vec![Action::Jump(3)];
    }),
    (InAction, INVALID, "root table shouldn't be destination", |r| {
        r.attributes.group = 3;
        r.actions = vec![Action::Jump(0)];
    }),
    (Unspecified, UNSUPPORTED, "port action is valid in transfer", |r| {
        r.actions = vec![Action::RepresentedPort(1)];
    }),
    (InAction, INVALID, "can have only one fate actions", |r| {
        r.attributes = transfer(0);
        r.actions = vec![Action::PortId(1), Action::RepresentedPort(1)];
    }),
    (InAction, INVALID, "failed to obtain E-Switch port id", |r| {
        r.attributes = transfer(0);
        r.actions = vec![Action::RepresentedPort(2)];
    }),
    (InAction, UNSUPPORTED, "unsupported action QUEUE", |r| r.attributes = transfer(0)),
    (InAction, UNSUPPORTED, "unsupported action RSS", |r| {
        r.attributes = transfer(0);
        r.actions = vec![Action::Rss(vec![0])];
    }),
    (InAction, UNSUPPORTED, "unsupported action MARK", |r| {
        r.attributes = transfer(0);
        r.actions = vec![Action::Mark(1), Action::RepresentedPort(1)];
    }),
    (InAction, UNSUPPORTED, "sub operations are not supported", |r| {
        r.actions.push(Action::ModifyField(Modify::Sub(HopField::Ipv4Ttl, 1)));
    }),
    (InAction, UNSUPPORTED, "only whole fields", |r| {
        r.actions.push(Action::ModifyField(Modify::Unsupported));
    }),
    (InAction, INVALID, "no ipv6 item in pattern", |r| {
        r.actions.push(Action::SetIpv6Dst(Ipv6Addr::LOCALHOST));
    }),
    (InAction, INVALID, "no ipv4 item in pattern", |r| {
        r.pattern[1] = Item::Ipv6(Match::Present);
        r.actions.push(Action::SetIpv4Dst(Ipv4Addr::LOCALHOST));
    }),
    (InAction, INVALID, "no L2 item in pattern", |r| {
        r.pattern.remove(0);
        r.actions.push(Action::SetMacDst(MAC));
    }),
    (InAction, INVALID, "no transport layer in pattern", |r| {
        r.pattern.pop();
        r.actions.push(Action::SetTpDst(1));
    }),
    (InAction, INVALID, "no IP protocol in pattern", |r| {
        r.pattern.truncate(1);
        r.actions.push(Action::DecTtl);
    }),
    // 16 in the root group: four IPv6 addresses and one more.
    (InAction, UNSUPPORTED, "too many header modify actions", |r| {
        let set = Action::ModifyField(Modify::Set(SetField::Ipv6Dst(Ipv6Addr::LOCALHOST)));
        r.actions.extend(vec![set; 4]);
        r.actions.push(Action::DecTtl);
    }),
];

#[test]
fn formats_are_refused_in_the_drivers_words() {
    let (nic, mut flows) = card();
    let taken = of(ingress(0), vec![Action::Queue(3)]);
    check_refusals(&nic, &taken, PATTERNS.iter().chain(ACTIONS).copied());
    // Behind the root there is room for more modifications.
    let set = Action::ModifyField(Modify::Set(SetField::Ipv6Dst(Ipv6Addr::LOCALHOST)));
    let mut actions = vec![set; 5];
    actions.push(Action::Queue(0));
    flows.validate(&of(ingress(1), actions)).unwrap();
}

#[test]
fn without_a_switch_there_are_no_transfer_rules() {
    let mut flows = common::nic(CardProfile::ConnectX, 4).flows();
    let error = flows.create(&of(transfer(0), vec![Action::RepresentedPort(0)])).unwrap_err();
    assert_eq!((error.kind, error.errno), (Unspecified, UNSUPPORTED));
    assert_eq!(error.message, "E-Switch dr is not supported");
}

#[test]
fn groups_are_reached_by_jumps_and_drop_what_they_do_not_match() {
    let (nic, mut flows) = card();
    let behind = flows.create(&of(ingress(7), vec![Action::Queue(3), Action::Mark(9)])).unwrap();
    assert!(!receive(&nic, &client()).matched, "nobody jumps there");
    let jump = flows.create(&all(ingress(0), vec![Action::Jump(7)])).unwrap();
    let got = receive(&nic, &client());
    assert_eq!((got.queue, got.mark, got.matched), (3, Some(9), true));
    let got = receive(&nic, &nth(1));
    assert_eq!(got.dropped, Some(DropReason::Unmatched), "no rule of group 7");
    let lowest = Attributes { priority: 21_842, ..ingress(7) };
    let rest = flows.create(&all(lowest, vec![Action::Rss(vec![1])])).unwrap();
    assert_eq!((receive(&nic, &nth(1)).queue, receive(&nic, &client()).queue), (1, 3));
    let stats = nic.stats();
    assert_eq!((stats.matched, stats.missed, stats.unmatched), (3, 2, 1));
    assert_eq!(stats.per_queue.iter().sum::<u64>() + stats.unmatched, stats.received);
    // Round in circles there is no way out.
    flows.destroy(rest).unwrap();
    let _ = flows.create(&all(lowest, vec![Action::Jump(8)])).unwrap();
    let _ = flows.create(&all(ingress(8), vec![Action::Jump(7)])).unwrap();
    assert_eq!(receive(&nic, &nth(1)).dropped, Some(DropReason::Unmatched));
    flows.destroy(behind).unwrap();
    flows.destroy(jump).unwrap();
    assert!(!receive(&nic, &client()).matched);
}

#[test]
fn marks_stay_in_the_card_when_it_does_not_report_them() {
    for profile in [CardProfile::ConnectX, CardProfile::BlueField3] {
        let nic =
            Nic::new(&NicConfig { report_marks: false, ..NicConfig::new(profile, 4) }).unwrap();
        let rule = of(ingress(0), vec![Action::Queue(3), Action::Mark(9)]);
        let _ = nic.flows().create(&rule).unwrap();
        let got = receive(&nic, &client());
        assert_eq!((got.queue, got.mark, got.matched), (3, None, true), "{profile}");
    }
}

#[test]
fn groups_beyond_the_cards_last_are_refused() {
    for (profile, last) in [(CardProfile::ConnectX, 6553), (CardProfile::BlueField3, 15)] {
        let config = NicConfig { switch: vec![0, 1], ..NicConfig::new(profile, 4) };
        let mut flows = Nic::new(&config).unwrap().flows();
        let is_beyond = |refused: Result<(), FlowError>| {
            let error = refused.unwrap_err();
            assert_eq!((error.kind, error.errno), (Attribute, FlowError::INVALID), "{profile}");
            assert_eq!(error.message, "group index not supported");
        };
        for in_group in [ingress, transfer] {
            flows.validate(&of(in_group(last), vec![Action::Drop])).unwrap();
            flows.validate(&of(in_group(0), vec![Action::Jump(last)])).unwrap();
            is_beyond(flows.validate(&of(in_group(last + 1), vec![Action::Drop])));
            is_beyond(flows.validate(&of(in_group(0), vec![Action::Jump(last + 1)])));
            is_beyond(flows.create(&of(in_group(last + 1), vec![Action::Drop])).map(drop));
        }
    }
}

#[test]
fn a_jump_alone_is_no_match() {
    let (nic, mut flows) = card();
    let _ = flows.create(&all(transfer(0), vec![Action::Count, Action::Jump(1)])).unwrap();
    let got = receive(&nic, &client());
    assert_eq!((got.forward, got.matched), (None, false));
    let _ = flows.create(&of(transfer(1), vec![Action::PortId(1)])).unwrap();
    assert_eq!(receive(&nic, &client()).forward, Some(1));
    let stats = nic.stats();
    assert_eq!((stats.matched, stats.missed, stats.forwarded), (1, 1, 1));
}

#[test]
fn the_switch_comes_first_and_its_rest_reaches_the_port() {
    let (nic, mut flows) = card();
    let _ = flows.create(&of(ingress(0), vec![Action::Queue(2)])).unwrap();
    let mut actions = set_dst(8443);
    actions.push(Action::RepresentedPort(1));
    let out = flows.create(&of(transfer(0), actions)).unwrap();
    let got = receive(&nic, &client());
    assert_eq!((got.forward, got.dropped, got.matched), (Some(1), None, true));
    let mut frame = client().frame();
    got.edits.apply(&mut frame);
    assert_eq!((&frame[30..34], &frame[36..38]), (&[10, 0, 0, 9][..], &8443_u16.to_be_bytes()[..]));
    let stats = nic.stats();
    assert_eq!((stats.forwarded, stats.forwarded_bytes), (1, frame.len() as u64));
    assert_eq!(stats.per_queue.iter().sum::<u64>(), 0);
    // A group of the switch without a match: on to the port's own rules.
    flows.destroy(out).unwrap();
    let _ = flows.create(&all(transfer(0), vec![Action::Jump(1)])).unwrap();
    assert_eq!(receive(&nic, &client()).queue, 2);
    let _ = flows.create(&of(transfer(1), vec![Action::PortId(0)])).unwrap();
    assert_eq!(receive(&nic, &client()).forward, Some(0), "back out of the same port");
    assert_eq!(receive(&nic, &nth(1)).forward, None);
}

#[test]
fn later_groups_and_rss_see_the_rewritten_packet() {
    let (nic, mut flows) = card();
    let mut actions = set_dst(8443);
    actions.extend([Action::SetMacDst(MAC), Action::DecTtl, Action::Jump(1)]);
    let _ = flows.create(&of(ingress(0), actions)).unwrap();
    let rewritten = Item::Ipv4(Match::Fields(Ipv4Fields {
        dst: Field { spec: 0x0a00_0009, mask: u32::MAX },
        ttl: Field { spec: 63, mask: 0xff },
        ..Default::default()
    }));
    let tcp = Item::Tcp(Match::Fields(PortFields {
        dport: Field { spec: 8443, mask: u16::MAX },
        ..Default::default()
    }));
    let ether =
        EthFields { dst: Field { spec: MAC, mask: Mac([0xff; 6]) }, ..EthFields::default() };
    let rule = Rule {
        attributes: ingress(1),
        pattern: vec![Item::Eth(Match::Fields(ether)), rewritten, tcp],
        actions: vec![Action::Queue(3)],
    };
    let _ = flows.create(&rule).unwrap();
    let got = receive(&nic, &client());
    assert_eq!((got.queue, got.dropped), (3, None));
    assert!(!got.edits.is_empty(), "the host gets the rewritten packet");
}

#[test]
fn guards_of_higher_priority_keep_the_last_hops_from_a_decrement() {
    let (nic, mut flows) = card();
    let first = |ttl: u8, priority| Rule {
        attributes: Attributes { priority, ..transfer(0) },
        pattern: vec![
            Item::Eth(Match::Present),
            Item::Ipv4(Match::Fields(Ipv4Fields {
                // TTL 0 and 1: all bits but the lowest are zero.
                ttl: Field { spec: ttl, mask: 0xfe },
                ..Default::default()
            })),
        ],
        actions: vec![Action::Jump(5)],
    };
    let _ = flows.create(&first(0, 0)).unwrap();
    let mut rule = of(transfer(0), vec![Action::DecTtl, Action::RepresentedPort(1)]);
    rule.attributes.priority = 1;
    let _ = flows.create(&rule).unwrap();
    for ttl in [0, 1, 2, 64, 255] {
        let mut frame = client().frame();
        frame[22] = ttl;
        let mut out = [nic::Disposition::default()];
        nic.receive_burst([frame.as_slice()], 0, &mut out);
        assert_eq!(out[0].forward, (ttl > 1).then_some(1), "TTL {ttl}");
        out[0].edits.apply(&mut frame);
        assert_eq!(frame[22], if ttl > 1 { ttl - 1 } else { ttl });
    }
}

#[test]
fn tcp_flags_vlans_and_low_bits_of_addresses() {
    let (nic, mut flows) = card();
    let flags = Item::Tcp(Match::Fields(PortFields {
        tcp_flags: Field { spec: 0x02, mask: 0x07 },
        ..Default::default()
    }));
    let pattern = vec![Item::Eth(Match::Present), Item::Ipv4(Match::Present), flags];
    let _ = flows
        .create(&Rule { attributes: ingress(0), pattern, actions: vec![Action::Queue(1)] })
        .unwrap();
    let mut frame = client().frame();
    for (bits, queue) in [(0x02, 1), (0x12, 1), (0x03, 0), (0x10, 0)] {
        frame[47] = bits;
        let mut out = [nic::Disposition::default()];
        nic.receive_burst([frame.as_slice()], 0, &mut out);
        assert_eq!(out[0].queue, queue, "flags {bits:#x}");
    }
    // XenoFlow: the low bits of the source address.
    for (low, queue) in [(0_u128, 2), (1, 3)] {
        let net = Masks { src: 1, dst: 0, sport: 0, dport: 0 };
        let source = udp(&format!("0.0.0.{low}:0"), "0.0.0.0:0");
        let _ = flows.create(&rule(&source, net, vec![Action::Queue(queue)])).unwrap();
    }
    assert_eq!(receive(&nic, &udp("10.1.2.4:5", "192.0.2.1:53")).queue, 2);
    assert_eq!(receive(&nic, &udp("10.1.2.5:5", "192.0.2.1:53")).queue, 3);
    // Rules without a VLAN item match tagged packets too.
    let tagged = Packet { vlan: Some(77), ..udp("10.1.2.5:5", "192.0.2.1:53") };
    assert_eq!(receive(&nic, &tagged).queue, 3);
    let vlan = Item::Vlan(Match::Fields(VlanFields {
        tci: Field { spec: 77, mask: 0xfff },
        ..Default::default()
    }));
    let pattern = vec![Item::Eth(Match::Present), vlan];
    let _ = flows
        .create(&Rule {
            attributes: Attributes { priority: 0, ..ingress(0) },
            pattern,
            actions: vec![Action::Drop],
        })
        .unwrap();
    let other = Packet { vlan: Some(77), ..nth(3) };
    assert_eq!(receive(&nic, &other).dropped, Some(DropReason::Rule));
    assert!(!receive(&nic, &Packet { vlan: Some(78), ..nth(3) }).matched);
}

#[test]
fn duplicates_and_full_tables() {
    let config = NicConfig { capacity: Some(3), ..NicConfig::new(CardProfile::BlueField3, 4) };
    let nic = Nic::new(&config).unwrap();
    let mut flows = nic.flows();
    let first = flows.create(&of(ingress(1), vec![Action::Queue(1)])).unwrap();
    let error = flows.create(&of(ingress(1), vec![Action::Drop])).unwrap_err();
    assert_eq!(error.errno, FlowError::EXISTS);
    let _ = flows.create(&of(ingress(2), vec![Action::Queue(1)])).unwrap();
    let lower = Attributes { priority: 1, ..ingress(1) };
    let _ = flows.create(&of(lower, vec![Action::Queue(1)])).unwrap();
    assert!(flows.create(&of(ingress(3), vec![Action::Drop])).unwrap_err().is_full());
    flows.destroy(first).unwrap();
    let _ = flows.create(&of(ingress(1), vec![Action::Queue(1)])).unwrap();
    let more = NicConfig { capacity: Some(262_145), ..config };
    assert!(Nic::new(&more).is_err(), "XenoFlow: 256k entries");
    // The root group has fewer.
    let (nic, mut flows) = card();
    for n in 0..65_536 {
        let _ = flows.create(&rule(&nth(n), EXACT, vec![Action::Queue(0)])).unwrap();
    }
    assert!(flows.create(&of(ingress(0), vec![Action::Drop])).unwrap_err().is_full());
    let _ = flows.create(&of(ingress(1), vec![Action::Drop])).unwrap();
    assert_eq!(nic.stats().rules, 65_537);
    // And a group has a bounded number of masks.
    let masked = |bits: u32| {
        let net = Masks { src: u128::from(bits), dst: 0, sport: 0, dport: 0 };
        Rule { attributes: ingress(2), ..rule(&nth(0), net, vec![Action::Drop]) }
    };
    let handles: Vec<_> = (0..64).map(|bits| flows.create(&masked(bits)).unwrap()).collect();
    assert_eq!(flows.create(&masked(64)).unwrap_err().message, "cannot create matcher");
    handles.into_iter().for_each(|handle| flows.destroy(handle).unwrap());
    let _ = flows.create(&masked(64)).unwrap();
}

#[test]
fn count_and_age() {
    const SECOND: u64 = 1_000_000_000;
    let (nic, mut flows) = card();
    let age = vec![Action::Age { timeout_s: 5 }, Action::Queue(1)];
    let aging = flows.create(&of(ingress(0), age)).unwrap();
    let counting =
        flows.create(&rule(&nth(1), EXACT, vec![Action::Count, Action::Queue(1)])).unwrap();
    assert_eq!(flows.query(&aging).unwrap_err().errno, FlowError::INVALID, "no COUNT, no count");
    for _ in 0..3 {
        receive(&nic, &nth(1));
    }
    let counters = flows.query(&counting).unwrap();
    assert_eq!((counters.packets, counters.bytes), (3, 3 * nth(1).frame().len() as u64));
    nic.advance(4 * SECOND);
    receive_at(&nic, &client(), 4 * SECOND);
    nic.advance(9 * SECOND - 1);
    assert_eq!(flows.query_age(), Ok(vec![]));
    nic.advance(9 * SECOND);
    assert_eq!(flows.query_age(), Ok(vec![aging.port_value()]));
    receive_at(&nic, &client(), 9 * SECOND);
    assert_eq!(flows.query_age(), Ok(vec![aging.port_value()]), "aged out for good");
    flows.destroy(aging).unwrap();
    assert_eq!(flows.query_age(), Ok(vec![]));
}

#[test]
fn insertion_takes_the_cards_time_if_that_is_played() {
    let config = NicConfig { play_insertion: true, ..NicConfig::new(CardProfile::ConnectX, 4) };
    let nic = Nic::new(&config).unwrap();
    let mut flows = nic.flows();
    let handles: Vec<_> = (0..3)
        .map(|n| flows.create(&rule(&nth(n), EXACT, vec![Action::Queue(1)])).unwrap())
        .collect();
    assert_eq!(flows.last_create_ns(), 305_000);
    let matched = |now| (0..3).filter(|n| receive_at(&nic, &nth(*n), now).matched).count();
    assert_eq!(
        [matched(304_999), matched(305_000), matched(914_999), matched(915_000)],
        [0, 1, 2, 3]
    );
    drop(handles);
    nic.reset();
    assert!(!receive(&nic, &nth(0)).matched, "rules don't survive a stop");
}
