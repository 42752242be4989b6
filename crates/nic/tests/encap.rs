//! Tunnels that the NIC puts packets into, against headers made by etherparse.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common;

use common::{EXACT, nth, rule};
use dpdk::flow::{
    Action, Attributes, FlowError, FlowErrorKind, FlowPort, HopField, Item, Match, Modify,
    QueueConfig, Rule, Template,
};
use etherparse::{Ipv4Header, Ipv6Header, PacketBuilder, UdpHeader};
use flow::CardProfile;
use nic::{Disposition, Nic, NicConfig};
use packet::{HeapPacket, PacketBuf};
use proptest::prelude::*;

const OUT: [u8; 12] = [2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 9, 1];
const CONFIG: QueueConfig = QueueConfig { queues: 1, depth: 4, counters: 8, aging: 8 };

/// What is between the IP headers.
#[derive(Clone, Copy, Debug)]
enum Shim {
    Nothing,
    Gre,
    Udp,
}

/// A tunnel's headers in front of `inner` bytes of payload; `None`: as a rule
/// names them, without what follows from the length.
fn outer(v6: bool, shim: Shim, class: u8, inner: Option<usize>) -> Vec<u8> {
    let (number, between): (u8, Vec<u8>) = match shim {
        Shim::Nothing => (4, vec![]),
        Shim::Gre => (47, vec![0, 0, 8, 0]),
        Shim::Udp => {
            let length = inner.map_or(0, |inner| 8 + inner as u16);
            let ports =
                UdpHeader { source_port: 50_000, destination_port: 6080, length, checksum: 0 };
            (17, ports.to_bytes().to_vec())
        }
    };
    let payload = inner.map(|inner| (inner + between.len()) as u16);
    let ip = if v6 {
        Ipv6Header {
            traffic_class: class,
            flow_label: 0x1_2345.try_into().unwrap(),
            payload_length: payload.unwrap_or(0),
            next_header: number.into(),
            hop_limit: 60,
            source: [0xfd; 16],
            destination: [0xfe; 16],
        }
        .to_bytes()
        .to_vec()
    } else {
        let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let mut ip = Ipv4Header::new(payload.unwrap_or(0), 60, number.into(), src, dst).unwrap();
        ip.dscp = (class >> 2).try_into().unwrap();
        ip.ecn = (class & 3).try_into().unwrap();
        ip.dont_fragment = true;
        let mut bytes = ip.to_bytes().to_vec();
        match payload {
            Some(_) => ip.header_checksum = ip.calc_header_checksum(),
            None => bytes[2..4].fill(0),
        }
        bytes[10..12].copy_from_slice(&ip.header_checksum.to_be_bytes());
        bytes
    };
    let kind: [u8; 2] = if v6 { [0x86, 0xdd] } else { [8, 0] };
    [&OUT[..], &kind, &ip, &between].concat()
}

/// A frame that arrives, where its IP packet begins, and that packet with a hop
/// less.
fn arriving(v6: bool, tag: bool, payload: &[u8], padding: usize) -> (Vec<u8>, Vec<u8>) {
    let build = |hops: u8| {
        let step = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]);
        let mut frame = Vec::new();
        let tagged = |id: u16| id.try_into().unwrap();
        match (v6, tag) {
            (false, false) => step.ipv4([198, 51, 100, 7], [192, 0, 2, 1], hops),
            (true, false) => step.ipv6([1; 16], [2; 16], hops),
            (false, true) => {
                step.single_vlan(tagged(7)).ipv4([198, 51, 100, 7], [192, 0, 2, 1], hops)
            }
            (true, true) => step.single_vlan(tagged(7)).ipv6([1; 16], [2; 16], hops),
        }
        .udp(4000, 53)
        .write(&mut frame, payload)
        .unwrap();
        frame
    };
    let l3 = if tag { 18 } else { 14 };
    (([&build(9)[..], &vec![0; padding]]).concat(), build(8)[l3..].to_vec())
}

/// The rule for all of it.
fn into_tunnel(v6: bool, headers: Vec<u8>) -> Rule {
    let hops = if v6 { HopField::Ipv6HopLimit } else { HopField::Ipv4Ttl };
    let net = if v6 { Item::Ipv6(Match::Present) } else { Item::Ipv4(Match::Present) };
    Rule {
        attributes: Attributes { transfer: true, group: 1, ..Attributes::default() },
        pattern: vec![Item::Eth(Match::Present), net],
        actions: vec![
            Action::ModifyField(Modify::Add(hops, 255)),
            Action::RawDecap(vec![0; 14]),
            Action::RawEncap(headers),
            Action::Count,
            Action::RepresentedPort(1),
        ],
    }
}

fn template(rule: &Rule) -> Template {
    let Rule { attributes, pattern, actions } = rule.clone();
    Template { attributes, pattern, actions, rules: 4, hash: None }
}

/// A NIC with `rule`, to which all that arrives is sent.
fn card(rule: &Rule) -> Nic {
    let config = NicConfig { switch: vec![0, 1], ..NicConfig::new(CardProfile::ConnectX, 1) };
    let nic = Nic::new(&config).unwrap();
    let mut flows = nic.flows();
    flows.configure_queues(&CONFIG).unwrap();
    let lead = Rule {
        attributes: Attributes { transfer: true, ..Attributes::default() },
        pattern: vec![Item::Eth(Match::Present)],
        actions: vec![Action::Jump(1)],
    };
    for (token, rule) in (0..).zip([&lead, rule]) {
        let table = flows.create_table(&template(rule)).unwrap();
        let _ = flows.enqueue_create(0, &table, rule, token).unwrap();
    }
    flows.push(0).unwrap();
    nic
}

fn delivered(nic: &Nic, frame: &[u8]) -> Disposition {
    let mut out = [Disposition::default()];
    nic.receive_burst([frame], 0, &mut out);
    let [disposition] = out;
    disposition
}

fn shim() -> impl Strategy<Value = Shim> {
    prop_oneof![Just(Shim::Nothing), Just(Shim::Gre), Just(Shim::Udp)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn the_outer_headers_are_right(
        [v6_in, v6_out, tag] in any::<[bool; 3]>(),
        (shim, class) in (shim(), any::<u8>()),
        payload in prop::collection::vec(any::<u8>(), 0..1400),
        padding in 0_usize..20,
    ) {
        let nic = card(&into_tunnel(v6_in, outer(v6_out, shim, class, None)));
        let (frame, inner) = arriving(v6_in, tag, &payload, padding);
        let disposition = delivered(&nic, &frame);
        prop_assert_eq!(disposition.forward, Some(1));
        let mut packet = HeapPacket::new(&frame);
        prop_assert!(disposition.change(&mut packet));
        let wanted = [outer(v6_out, shim, class, Some(inner.len())), inner, vec![0; padding]];
        prop_assert_eq!(packet.bytes(), wanted.concat());
    }

    /// Headers that are none, around bytes that are no packet.
    #[test]
    fn nothing_panics(
        headers in prop::collection::vec(any::<u8>(), 34..120),
        ip in prop::sample::select(vec![None, Some([8_u8, 0]), Some([0x86, 0xdd]), Some([0x81, 0])]),
        frame in prop::collection::vec(any::<u8>(), 0..90),
    ) {
        let mut headers = headers;
        if let Some(kind) = ip {
            headers[12..14].copy_from_slice(&kind);
        }
        let rule = Rule {
            pattern: vec![],
            ..into_tunnel(false, headers.clone())
        };
        let disposition = delivered(&card(&rule), &frame);
        let mut packet = HeapPacket::new(&frame);
        prop_assert!(disposition.change(&mut packet));
        prop_assert!(packet.bytes().len() >= headers.len());
        prop_assert_eq!(&packet.bytes()[..12], &headers[..12]);
    }
}

#[test]
fn ethernet_and_ipv4_alone_are_a_tunnel_through_queues_only() {
    let rule = into_tunnel(false, outer(false, Shim::Nothing, 0, None));
    let config = NicConfig { switch: vec![0, 1], ..NicConfig::new(CardProfile::ConnectX, 1) };
    let mut flows = Nic::new(&config).unwrap().flows();
    let error = flows.create(&rule).unwrap_err();
    assert_eq!(error.errno, FlowError::NOT_SUPPORTED);
    flows.configure_queues(&CONFIG).unwrap();
    let table = flows.create_table(&template(&rule)).unwrap();
    // Headers of another length are another template's.
    let longer = into_tunnel(false, outer(false, Shim::Gre, 0, None));
    let error = flows.enqueue_create(0, &table, &longer, 1).unwrap_err();
    assert_eq!(error.message, "the rule's actions are not its table's");
    let _ = flows.enqueue_create(0, &table, &rule, 1).unwrap();
    let mut short = rule.clone();
    short.actions[2] = Action::RawEncap(vec![0; 33]);
    assert!(flows.create_table(&template(&short)).is_err());
}

/// A frame without room in front.
struct Tight(Vec<u8>);

impl PacketBuf for Tight {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn mark(&self) -> Option<u32> {
        None
    }
    fn prepend(&mut self, _: usize) -> bool {
        false
    }
    fn cut_front(&mut self, _: usize) -> bool {
        false
    }
    fn resize(&mut self, len: usize) -> bool {
        self.0.resize(len, 0);
        true
    }
}

#[test]
fn without_room_in_front_there_is_no_frame() {
    let nic = card(&into_tunnel(false, outer(true, Shim::Udp, 0, None)));
    let (frame, _) = arriving(false, false, b"x", 0);
    assert!(!delivered(&nic, &frame).change(&mut Tight(frame)));
}

#[test]
fn the_traffic_class_of_ipv6_is_matched() {
    use dpdk::flow::{Field, Ipv6Fields};
    let nic = Nic::new(&NicConfig::new(CardProfile::ConnectX, 4)).unwrap();
    let class = |spec: u32, mask: u32| Rule {
        pattern: vec![
            Item::Eth(Match::Present),
            Item::Ipv6(Match::Fields(Ipv6Fields {
                vtc_flow: Field { spec, mask },
                ..Ipv6Fields::default()
            })),
        ],
        ..rule(&nth(0), EXACT, vec![Action::Queue(3)])
    };
    let mut flows = nic.flows();
    let error = flows.create(&class(0, 0xfff_ffff)).unwrap_err();
    assert!(error.message.starts_with("of version, traffic class"), "{error}");
    let _ = flows.create(&class(0x0a50_0000, 0x0ff0_0000)).unwrap();
    let (mut frame, _) = arriving(true, false, b"x", 0);
    assert_eq!(delivered(&nic, &frame).queue, 0);
    (frame[14], frame[15]) = (0x6a, 0x5f);
    assert_eq!(delivered(&nic, &frame).queue, 3);
}

/// Makes `rule` one that takes headers of `off` bytes off and puts `on` bytes in
/// front.
fn tunnel(rule: &mut Rule, off: usize, on: usize) {
    rule.attributes = Attributes { transfer: true, group: 1, ..Attributes::default() };
    let headers = |len: usize| vec![0; len];
    rule.actions = vec![
        Action::RawDecap(headers(off)),
        Action::RawEncap(headers(on)),
        Action::RepresentedPort(1),
    ];
}

type Change = fn(&mut Rule);

const INVALID: i32 = FlowError::INVALID;
const UNSUPPORTED: i32 = FlowError::NOT_SUPPORTED;

const REFUSED: &[(i32, &str, Change)] = &[
    (INVALID, "raw encap data cannot be empty", |r| tunnel(r, 14, 0)),
    (INVALID, "raw encap data is too long", |r| tunnel(r, 14, 133)),
    // Ethernet and IPv4 alone: to the driver that is no tunnel.
    (UNSUPPORTED, "unsupported too small raw decap and", |r| tunnel(r, 14, 34)),
    (UNSUPPORTED, "encap and decap combination aren't", |r| tunnel(r, 35, 35)),
    (UNSUPPORTED, "decapsulation is not modelled", |r| tunnel(r, 35, 14)),
    (UNSUPPORTED, "decapsulation is not modelled", |r| {
        tunnel(r, 14, 50);
        r.actions.remove(1);
    }),
    (UNSUPPORTED, "decapsulation is not modelled", |r| {
        tunnel(r, 14, 50);
        // Not right behind it.
        r.actions.insert(1, Action::Count);
    }),
    (UNSUPPORTED, "small raw encap size", |r| {
        tunnel(r, 14, 34);
        r.actions.remove(0);
    }),
    (UNSUPPORTED, "encapsulation of whole frames is not", |r| {
        tunnel(r, 14, 50);
        r.actions.remove(0);
    }),
    (INVALID, "more than one encap action", |r| {
        tunnel(r, 14, 50);
        let twice = r.actions[..2].to_vec();
        r.actions.splice(0..0, twice);
    }),
    (INVALID, "can't have encap action before modify action", |r| {
        tunnel(r, 14, 50);
        r.actions.push(Action::ModifyField(Modify::Add(HopField::Ipv4Ttl, 255)));
    }),
    (INVALID, "can't have encap action before modify action", |r| {
        tunnel(r, 14, 50);
        r.actions.push(Action::DecTtl);
    }),
    (UNSUPPORTED, "encap is not supported for ingress traffic", |r| {
        tunnel(r, 14, 50);
        r.attributes = Attributes { ingress: true, group: 1, ..Attributes::default() };
        r.actions[2] = Action::Queue(1);
    }),
    (INVALID, "Drop action is mutually-exclusive", |r| {
        tunnel(r, 14, 50);
        r.actions[2] = Action::Drop;
    }),
    (UNSUPPORTED, "what becomes of a tunnel's packets", |r| {
        tunnel(r, 14, 50);
        r.actions[2] = Action::Jump(9);
    }),
];

#[test]
fn formats_are_refused_in_the_drivers_words() {
    let config = NicConfig { switch: vec![0, 1], ..NicConfig::new(CardProfile::ConnectX, 4) };
    let mut flows = Nic::new(&config).unwrap().flows();
    let mut rule = rule(&nth(0), EXACT, vec![]);
    for (index, (errno, text, change)) in REFUSED.iter().enumerate() {
        change(&mut rule);
        let Err(error) = flows.create(&rule) else { panic!("case {index} is taken: {rule:?}") };
        assert_eq!((error.kind, error.errno), (FlowErrorKind::Action, *errno), "{index}: {error}");
        assert!(error.message.starts_with(text), "case {index}: {error}");
        assert_eq!(flows.validate(&rule), Err(error), "case {index}");
    }
    tunnel(&mut rule, 34, 132);
    flows.validate(&rule).unwrap();
}
