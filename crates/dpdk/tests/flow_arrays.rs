//! Rules to C arrays and back; needs no EAL.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::ffi::c_void;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ptr::null;

use dpdk::flow::{
    Action, Attributes, EthFields, Field, FlowError, FlowErrorKind, HopField, Ipv4Fields,
    Ipv6Fields, Item, Match, Modify, NumberField, PortFields, RawRule, Rule, SetField, VlanFields,
    decode, decode_raw,
};
use dpdk_sys as sys;
use proptest::prelude::*;
use wire::Mac;

fn field<T: Arbitrary + Clone + 'static>() -> impl Strategy<Value = Field<T>> {
    any::<(T, T)>().prop_map(|(spec, mask)| Field { spec, mask })
}

fn mac() -> impl Strategy<Value = Field<Mac>> {
    any::<([u8; 6], [u8; 6])>().prop_map(|(spec, mask)| Field { spec: Mac(spec), mask: Mac(mask) })
}

fn matching<T: Clone + std::fmt::Debug + 'static>(
    fields: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Match<T>> {
    prop_oneof![
        1 => Just(Match::Present),
        6 => fields.prop_map(Match::Fields),
        1 => Just(Match::Range),
        1 => Just(Match::Unsupported),
    ]
}

fn item() -> impl Strategy<Value = Item> {
    let eth =
        (mac(), mac(), field()).prop_map(|(dst, src, ethertype)| EthFields { dst, src, ethertype });
    let vlan = (field(), field()).prop_map(|(tci, inner_type)| VlanFields { tci, inner_type });
    let ipv4 = (field(), field(), field(), field(), field(), field()).prop_map(
        |(src, dst, proto, tos, ttl, fragment)| Ipv4Fields { src, dst, proto, tos, ttl, fragment },
    );
    let ipv6 = (field(), field(), field(), field(), field()).prop_map(
        |(src, dst, proto, hop_limit, vtc_flow)| Ipv6Fields {
            src,
            dst,
            proto,
            hop_limit,
            vtc_flow,
        },
    );
    let tcp = (field(), field(), field()).prop_map(|(sport, dport, tcp_flags)| PortFields {
        sport,
        dport,
        tcp_flags,
    });
    let udp = (field(), field()).prop_map(|(sport, dport)| PortFields {
        sport,
        dport,
        tcp_flags: Field::default(),
    });
    prop_oneof![
        matching(eth).prop_map(Item::Eth),
        matching(vlan).prop_map(Item::Vlan),
        matching(ipv4).prop_map(Item::Ipv4),
        matching(ipv6).prop_map(Item::Ipv6),
        matching(tcp).prop_map(Item::Tcp),
        matching(udp).prop_map(Item::Udp),
        (1000_u32..).prop_map(Item::Other),
    ]
}

fn a_mac() -> impl Strategy<Value = Mac> {
    any::<[u8; 6]>().prop_map(Mac)
}

fn modify() -> impl Strategy<Value = Modify> {
    let hops = prop_oneof![Just(HopField::Ipv4Ttl), Just(HopField::Ipv6HopLimit)];
    let numbers =
        prop_oneof![Just(NumberField::TcpSequence), Just(NumberField::TcpAcknowledgement),];
    let set = prop_oneof![
        a_mac().prop_map(SetField::MacSrc),
        a_mac().prop_map(SetField::MacDst),
        any::<Ipv4Addr>().prop_map(SetField::Ipv4Src),
        any::<Ipv4Addr>().prop_map(SetField::Ipv4Dst),
        any::<Ipv6Addr>().prop_map(SetField::Ipv6Src),
        any::<Ipv6Addr>().prop_map(SetField::Ipv6Dst),
        any::<u16>().prop_map(SetField::TcpSport),
        any::<u16>().prop_map(SetField::TcpDport),
        any::<u16>().prop_map(SetField::UdpSport),
        any::<u16>().prop_map(SetField::UdpDport),
    ];
    prop_oneof![
        8 => set.prop_map(Modify::Set),
        1 => (hops.clone(), any::<u8>()).prop_map(|(field, by)| Modify::Add(field, by)),
        1 => (hops, any::<u8>()).prop_map(|(field, by)| Modify::Sub(field, by)),
        1 => (numbers, any::<u32>()).prop_map(|(field, by)| Modify::AddNumber(field, by)),
        1 => Just(Modify::Unsupported),
    ]
}

fn set() -> impl Strategy<Value = Action> {
    prop_oneof![
        a_mac().prop_map(Action::SetMacSrc),
        a_mac().prop_map(Action::SetMacDst),
        any::<Ipv4Addr>().prop_map(Action::SetIpv4Src),
        any::<Ipv4Addr>().prop_map(Action::SetIpv4Dst),
        any::<Ipv6Addr>().prop_map(Action::SetIpv6Src),
        any::<Ipv6Addr>().prop_map(Action::SetIpv6Dst),
        any::<u16>().prop_map(Action::SetTpSrc),
        any::<u16>().prop_map(Action::SetTpDst),
        Just(Action::DecTtl),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..80);
    prop_oneof![
        any::<u16>().prop_map(Action::Queue),
        any::<u32>().prop_map(Action::Mark),
        Just(Action::Drop),
        Just(Action::Count),
        Just(Action::Passthru),
        any::<u32>().prop_map(Action::Jump),
        (0..1_u32 << 24).prop_map(|timeout_s| Action::Age { timeout_s }),
        proptest::collection::vec(any::<u16>(), 0..9).prop_map(Action::Rss),
        any::<u16>().prop_map(Action::PortId),
        any::<u16>().prop_map(Action::RepresentedPort),
        modify().prop_map(Action::ModifyField),
        set(),
        bytes().prop_map(Action::RawEncap),
        bytes().prop_map(Action::RawDecap),
        (1000_u32..).prop_map(Action::Other),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let attributes = any::<(u32, u32, bool, bool, bool)>().prop_map(
        |(group, priority, ingress, egress, transfer)| Attributes {
            group,
            priority,
            ingress,
            egress,
            transfer,
        },
    );
    let lists =
        (proptest::collection::vec(item(), 0..7), proptest::collection::vec(action(), 0..9));
    (attributes, lists).prop_map(|(attributes, (pattern, actions))| Rule {
        attributes,
        pattern,
        actions,
    })
}

proptest! {
    #[test]
    fn a_rule_comes_back_as_it_went(rule in rule()) {
        let raw = RawRule::lower(&rule);
        let back = decode(&raw);
        prop_assert_eq!(back.as_ref(), Ok(&rule));
        // Moved elsewhere, the arrays still hold.
        let moved = Box::new(raw);
        prop_assert_eq!(decode(&moved), Ok(rule));
    }
}

/// A pattern item with these structures, read as the only one of its rule.
fn read<T>(
    type_: u32,
    spec: Option<&T>,
    last: Option<&T>,
    mask: Option<&T>,
) -> Result<Item, FlowError> {
    let lead = |to: Option<&T>| to.map_or(null(), |to| std::ptr::from_ref(to).cast::<c_void>());
    let end = sys::rte_flow_item {
        type_: sys::RTE_FLOW_ITEM_TYPE_END,
        spec: null(),
        last: null(),
        mask: null(),
    };
    let void = sys::rte_flow_item { type_: sys::RTE_FLOW_ITEM_TYPE_VOID, ..end };
    let item = sys::rte_flow_item { type_, spec: lead(spec), last: lead(last), mask: lead(mask) };
    let actions = [sys::rte_flow_action { type_: sys::RTE_FLOW_ACTION_TYPE_END, conf: null() }];
    // SAFETY: numbers only.
    let attr: sys::rte_flow_attr = unsafe { std::mem::zeroed() };
    let items = [void, item, void, end];
    // SAFETY: all are valid, complete and END-terminated.
    let rule = unsafe { decode_raw(&raw const attr, items.as_ptr(), actions.as_ptr()) }?;
    assert_eq!(rule.pattern.len(), 1, "VOID is skipped");
    Ok(rule.pattern[0])
}

const IPV4: u32 = sys::RTE_FLOW_ITEM_TYPE_IPV4;

/// An IPv4 header as RFC 791 draws it, aligned as C's structure.
#[derive(Clone, Copy)]
#[repr(C, align(4))]
struct Header([u8; 20]);

const TOS: usize = 1;
const TOTAL_LENGTH: usize = 2;
const PACKET_ID: usize = 4;
const TTL: usize = 8;
const CHECKSUM: usize = 10;

fn ten_one() -> Header {
    Header([0, 0xb8, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2])
}

#[test]
fn a_null_mask_is_the_default_mask() {
    let spec = ten_one();
    let exact = |spec| Field { spec, mask: u32::MAX };
    let wanted = Ipv4Fields {
        src: exact(0x0a00_0001),
        dst: exact(0x0a00_0002),
        proto: Field { spec: 6, mask: 0 },
        tos: Field { spec: 0xb8, mask: 0 },
        ttl: Field { spec: 64, mask: 0 },
        fragment: Field { spec: 0x4000, mask: 0 },
    };
    assert_eq!(read(IPV4, Some(&spec), None, None), Ok(Item::Ipv4(Match::Fields(wanted))));
}

#[test]
fn a_mask_without_spec_is_an_error() {
    let full = ten_one();
    for (last, mask) in [(None, Some(&full)), (Some(&full), None)] {
        let error = read(IPV4, None, last, mask).unwrap_err();
        assert_eq!((error.kind, error.errno), (FlowErrorKind::Item, FlowError::INVALID));
    }
    let none: Option<&Header> = None;
    assert_eq!(read(IPV4, none, none, none), Ok(Item::Ipv4(Match::Present)));
}

#[test]
fn only_a_last_that_differs_under_the_mask_is_a_range() {
    let spec = ten_one();
    let is_range = |last: &Header| {
        matches!(read(IPV4, Some(&spec), Some(last), None), Ok(Item::Ipv4(Match::Range)))
    };
    assert!(!is_range(&spec));
    assert!(!is_range(&Header([0; 20])), "zero means no range");
    let mut last = spec;
    last.0[TTL] = 65;
    assert!(!is_range(&last), "the default mask leaves the TTL out");
    last.0[19] = 9;
    assert!(is_range(&last));
    // One byte of a field that is zero is not the field.
    last = spec;
    last.0[12] = 0;
    last.0[15] = 9;
    assert!(is_range(&last));
}

#[test]
fn bits_that_no_field_carries_are_not_lost() {
    let spec = ten_one();
    let unsupported = |byte: usize| {
        let mut mask = Header([0; 20]);
        mask.0[byte] = 1;
        matches!(read(IPV4, Some(&spec), None, Some(&mask)), Ok(Item::Ipv4(Match::Unsupported)))
    };
    for byte in [0, TOTAL_LENGTH, TOTAL_LENGTH + 1, PACKET_ID, PACKET_ID + 1, CHECKSUM] {
        assert!(unsupported(byte), "byte {byte}");
    }
    for byte in [TOS, TTL, 6, 7, 9, 12, 19] {
        assert!(!unsupported(byte), "byte {byte}");
    }
}

#[test]
fn broken_arrays_are_errors() {
    // SAFETY: numbers only.
    let attr: sys::rte_flow_attr = unsafe { std::mem::zeroed() };
    let action = |type_| sys::rte_flow_action { type_, conf: null() };
    let end = [action(sys::RTE_FLOW_ACTION_TYPE_END)];
    let pattern = [sys::rte_flow_item {
        type_: sys::RTE_FLOW_ITEM_TYPE_END,
        spec: null(),
        last: null(),
        mask: null(),
    }];
    let decode = |attr, pattern, actions| {
        // SAFETY: each is null or complete; long arrays are cut after 64.
        unsafe { decode_raw(attr, pattern, actions) }.map_err(|error| error.kind)
    };
    let (attr, pattern) = (&raw const attr, pattern.as_ptr());
    assert!(decode(attr, pattern, end.as_ptr()).is_ok());
    assert_eq!(decode(null(), pattern, end.as_ptr()), Err(FlowErrorKind::Attribute));
    assert_eq!(decode(attr, null(), end.as_ptr()), Err(FlowErrorKind::Item));
    assert_eq!(decode(attr, pattern, null()), Err(FlowErrorKind::Action));
    for type_ in [
        sys::RTE_FLOW_ACTION_TYPE_QUEUE,
        sys::RTE_FLOW_ACTION_TYPE_MARK,
        sys::RTE_FLOW_ACTION_TYPE_JUMP,
        sys::RTE_FLOW_ACTION_TYPE_AGE,
        sys::RTE_FLOW_ACTION_TYPE_RSS,
        sys::RTE_FLOW_ACTION_TYPE_PORT_ID,
        sys::RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT,
        sys::RTE_FLOW_ACTION_TYPE_MODIFY_FIELD,
        sys::RTE_FLOW_ACTION_TYPE_SET_MAC_DST,
        sys::RTE_FLOW_ACTION_TYPE_SET_IPV4_SRC,
        sys::RTE_FLOW_ACTION_TYPE_SET_IPV6_DST,
        sys::RTE_FLOW_ACTION_TYPE_SET_TP_DST,
        sys::RTE_FLOW_ACTION_TYPE_RAW_ENCAP,
    ] {
        let bare = [action(type_), end[0]];
        assert_eq!(decode(attr, pattern, bare.as_ptr()), Err(FlowErrorKind::Action));
    }
    let endless = [action(sys::RTE_FLOW_ACTION_TYPE_DROP); 64];
    assert_eq!(decode(attr, pattern, endless.as_ptr()), Err(FlowErrorKind::Action));
}

/// One action read as the only one of its rule.
fn read_action<T>(type_: u32, conf: &T) -> Result<Action, FlowError> {
    let item = sys::rte_flow_item {
        type_: sys::RTE_FLOW_ITEM_TYPE_END,
        spec: null(),
        last: null(),
        mask: null(),
    };
    let action = |type_, conf| sys::rte_flow_action { type_, conf };
    let actions = [
        action(type_, std::ptr::from_ref(conf).cast()),
        action(sys::RTE_FLOW_ACTION_TYPE_END, null()),
    ];
    // SAFETY: numbers only.
    let attr: sys::rte_flow_attr = unsafe { std::mem::zeroed() };
    // SAFETY: all are valid, complete and END-terminated.
    let rule = unsafe { decode_raw(&raw const attr, &raw const item, actions.as_ptr()) }?;
    Ok(rule.actions[0].clone())
}

/// The layout that DPDK 22.11 documents, written by hand, not by our own code.
#[test]
fn a_modify_field_is_read_as_dpdk_draws_it() {
    let whole = |field, width: u32, value: [u8; 16]| {
        // SAFETY: numbers only.
        let mut conf: sys::rte_flow_action_modify_field = unsafe { std::mem::zeroed() };
        conf.dst.field = field;
        conf.src.field = sys::RTE_FLOW_FIELD_VALUE;
        conf.src.__bindgen_anon_1.value = value;
        conf.width = width;
        conf
    };
    let mut value = [0; 16];
    value[..4].copy_from_slice(&[192, 0, 2, 7]);
    let set = |conf: &sys::rte_flow_action_modify_field| {
        read_action(sys::RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, conf).unwrap()
    };
    let address = whole(sys::RTE_FLOW_FIELD_IPV4_DST, 32, value);
    let wanted = SetField::Ipv4Dst(Ipv4Addr::new(192, 0, 2, 7));
    assert_eq!(set(&address), Action::ModifyField(Modify::Set(wanted)));
    let unsupported = Action::ModifyField(Modify::Unsupported);
    assert_eq!(set(&whole(sys::RTE_FLOW_FIELD_IPV4_DST, 31, value)), unsupported, "a part of it");
    let number = whole(sys::RTE_FLOW_FIELD_TCP_SEQ_NUM, 32, value);
    assert_eq!(set(&number), unsupported, "a number is only added to");
    let add = sys::rte_flow_action_modify_field { operation: sys::RTE_FLOW_MODIFY_ADD, ..number };
    let wanted = Modify::AddNumber(NumberField::TcpSequence, 0xc000_0207);
    assert_eq!(set(&add), Action::ModifyField(wanted));
    let other_source = sys::rte_flow_action_modify_field {
        src: whole(sys::RTE_FLOW_FIELD_IPV4_SRC, 0, value).dst,
        ..address
    };
    assert_eq!(set(&other_source), unsupported, "another field as the source");
    let hops = sys::rte_flow_action_modify_field {
        operation: sys::RTE_FLOW_MODIFY_SUB,
        ..whole(sys::RTE_FLOW_FIELD_IPV6_HOPLIMIT, 8, [1; 16])
    };
    assert_eq!(set(&hops), Action::ModifyField(Modify::Sub(HopField::Ipv6HopLimit, 1)));
    let minus =
        sys::rte_flow_action_modify_field { operation: sys::RTE_FLOW_MODIFY_SUB, ..address };
    assert_eq!(set(&minus), unsupported, "addresses are only set");
}

#[test]
fn what_an_action_cannot_say_is_refused_not_dropped() {
    // SAFETY: numbers and pointers that may be null.
    let rss: sys::rte_flow_action_rss = unsafe { std::mem::zeroed() };
    let read = |rss: &sys::rte_flow_action_rss| read_action(sys::RTE_FLOW_ACTION_TYPE_RSS, rss);
    assert_eq!(read(&rss), Ok(Action::Rss(vec![])));
    for rss in [
        sys::rte_flow_action_rss { level: 2, ..rss },
        sys::rte_flow_action_rss { types: 1 << 60, ..rss },
        sys::rte_flow_action_rss { key_len: 40, ..rss },
        sys::rte_flow_action_rss { func: 1, ..rss },
    ] {
        assert_eq!(read(&rss).unwrap_err().errno, FlowError::NOT_SUPPORTED);
    }
    let far = [0_u32, 65_536];
    let error = read_action(sys::RTE_FLOW_ACTION_TYPE_PORT_ID, &far).unwrap_err();
    assert_eq!((error.kind, error.errno), (FlowErrorKind::Action, FlowError::NOT_SUPPORTED));
    let near = [0_u32, 65_535];
    assert_eq!(read_action(sys::RTE_FLOW_ACTION_TYPE_PORT_ID, &near), Ok(Action::PortId(65_535)));
}
