//! What the NIC makes of a frame is what the software makes of it, byte for
//! byte, and its checksums are what a computation from scratch gives.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use dpdk::flow::{
    Action, Attributes, FlowPort, HopField, Item, Match, Modify, NumberField, Rule, SetField,
};
use flow::CardProfile;
use nic::{Disposition, Nic, NicConfig};
use proptest::prelude::*;
use wire::{Headers, Mac, Rewrite, Side, checksum};

/// A frame with right checksums, and its endpoints.
#[derive(Clone, Debug)]
struct Sent {
    src: SocketAddr,
    dst: SocketAddr,
    tcp: bool,
    vlan: bool,
    /// Of UDP over IPv4: no checksum.
    unsummed: bool,
    ttl: u8,
    payload: Vec<u8>,
}

fn address(v6: bool) -> impl Strategy<Value = IpAddr> {
    // Sums of zero and of all ones among them.
    let edge = prop_oneof![Just(0_u128), Just(u128::MAX), any::<u128>()];
    edge.prop_map(move |bits| match v6 {
        false => IpAddr::V4(Ipv4Addr::from(bits as u32)),
        true => IpAddr::V6(Ipv6Addr::from(bits)),
    })
}

fn end(v6: bool) -> impl Strategy<Value = SocketAddr> {
    (address(v6), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

fn sent(v6: bool) -> impl Strategy<Value = Sent> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), 2_u8..);
    (end(v6), end(v6), flags, prop::collection::vec(any::<u8>(), 0..40)).prop_map(
        |(src, dst, (tcp, vlan, unsummed, ttl), payload)| Sent {
            src,
            dst,
            tcp,
            vlan,
            unsummed,
            ttl,
            payload,
        },
    )
}

/// Where the sum of the transport header stands in it.
fn sum_at(tcp: bool) -> usize {
    if tcp { 16 } else { 6 }
}

impl Sent {
    fn proto(&self) -> u8 {
        if self.tcp { 6 } else { 17 }
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes = vec![];
        bytes.extend(self.src.port().to_be_bytes());
        bytes.extend(self.dst.port().to_be_bytes());
        if self.tcp {
            bytes.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0x10, 0, 0, 0, 0, 0]);
        } else {
            bytes.extend((8 + self.payload.len() as u16).to_be_bytes());
            bytes.extend([0, 0]);
        }
        bytes.extend(&self.payload);
        let pseudo =
            checksum::pseudo(self.src.ip(), self.dst.ip(), self.proto(), bytes.len() as u16);
        let sum = match checksum::of(&bytes, pseudo.unwrap()) {
            _ if !self.tcp && self.unsummed && self.src.is_ipv4() => 0,
            0 if !self.tcp => 0xffff,
            sum => sum,
        };
        bytes[sum_at(self.tcp)..][..2].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if self.vlan {
            frame.extend([0x81, 0, 0x20, 7]);
        }
        let transport = self.transport();
        match (self.src.ip(), self.dst.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let mut ip = vec![0x45, 0];
                ip.extend((20 + transport.len() as u16).to_be_bytes());
                ip.extend([0, 7, 0x40, 0, self.ttl, self.proto(), 0, 0]);
                ip.extend(src.octets());
                ip.extend(dst.octets());
                let sum = checksum::of(&ip, 0);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
                frame.extend([0x08, 0]);
                frame.extend(ip);
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend((transport.len() as u16).to_be_bytes());
                frame.extend([self.proto(), self.ttl]);
                frame.extend(src.octets());
                frame.extend(dst.octets());
            }
            _ => unreachable!(),
        }
        frame.extend(transport);
        frame.extend([0; 4]); // Ethernet padding
        frame
    }
}

/// What the software does with the frame.
fn in_software(
    sent: &Sent,
    new: (SocketAddr, SocketAddr),
    side: Side,
    macs: (Mac, Mac),
) -> Vec<u8> {
    let mut frame = sent.frame();
    let headers = Headers::parse(&frame).unwrap();
    let rewrite = Rewrite::compile(side, Some(side), (sent.src, sent.dst), new).unwrap();
    assert!(rewrite.apply(&mut frame, &headers));
    assert!(wire::decrement_ttl(&mut frame, &headers));
    assert!(wire::ethernet::set_macs(&mut frame, macs.0, macs.1));
    frame
}

/// The same as actions of a rule.
fn actions(
    sent: &Sent,
    new: (SocketAddr, SocketAddr),
    side: Side,
    macs: (Mac, Mac),
    legacy: bool,
) -> Vec<Action> {
    let mut actions = vec![];
    let mut put = |set: SetField, old: Action| {
        actions.push(if legacy { old } else { Action::ModifyField(Modify::Set(set)) });
    };
    put(SetField::MacDst(macs.0), Action::SetMacDst(macs.0));
    put(SetField::MacSrc(macs.1), Action::SetMacSrc(macs.1));
    if side.source() {
        match new.0.ip() {
            IpAddr::V4(ip) => put(SetField::Ipv4Src(ip), Action::SetIpv4Src(ip)),
            IpAddr::V6(ip) => put(SetField::Ipv6Src(ip), Action::SetIpv6Src(ip)),
        }
        let port = new.0.port();
        let field = if sent.tcp { SetField::TcpSport(port) } else { SetField::UdpSport(port) };
        put(field, Action::SetTpSrc(port));
    }
    if side.destination() {
        match new.1.ip() {
            IpAddr::V4(ip) => put(SetField::Ipv4Dst(ip), Action::SetIpv4Dst(ip)),
            IpAddr::V6(ip) => put(SetField::Ipv6Dst(ip), Action::SetIpv6Dst(ip)),
        }
        let port = new.1.port();
        let field = if sent.tcp { SetField::TcpDport(port) } else { SetField::UdpDport(port) };
        put(field, Action::SetTpDst(port));
    }
    let hop = if sent.src.is_ipv4() { HopField::Ipv4Ttl } else { HopField::Ipv6HopLimit };
    // mlx5 knows no SUB: adding 255 is taking one off.
    let decrement = Action::ModifyField(Modify::Add(hop, 255));
    actions.push(if legacy { Action::DecTtl } else { decrement });
    actions.push(Action::RepresentedPort(1));
    actions
}

/// The frame after the NIC has done what a rule with `actions` says.
fn in_hardware(sent: &Sent, actions: Vec<Action>) -> Vec<u8> {
    let config = NicConfig { switch: vec![0, 1], ..NicConfig::new(CardProfile::ConnectX, 1) };
    let nic = Nic::new(&config).unwrap();
    let net =
        if sent.src.is_ipv4() { Item::Ipv4(Match::Present) } else { Item::Ipv6(Match::Present) };
    let transport = if sent.tcp { Item::Tcp(Match::Present) } else { Item::Udp(Match::Present) };
    let rule = Rule {
        attributes: Attributes { transfer: true, ..Attributes::default() },
        pattern: vec![Item::Eth(Match::Present), net, transport],
        actions,
    };
    let _ = nic.flows().create(&rule).unwrap();
    let mut frame = sent.frame();
    let mut out = [Disposition::default()];
    nic.receive_burst([frame.as_slice()], 0, &mut out);
    assert_eq!(out[0].forward, Some(1));
    out[0].edits.apply(&mut frame);
    frame
}

/// The checksums of `frame`, if they are what a computation from scratch says.
fn check_sums(sent: &Sent, new: (SocketAddr, SocketAddr), frame: &[u8]) {
    let l3 = if sent.vlan { 18 } else { 14 };
    let l4 = if sent.src.is_ipv4() { l3 + 20 } else { l3 + 40 };
    if sent.src.is_ipv4() {
        assert_eq!(checksum::of(&frame[l3..l4], 0), 0, "the header sums up");
    }
    let transport = &frame[l4..frame.len() - 4];
    let field = &transport[sum_at(sent.tcp)..][..2];
    if !sent.tcp && sent.unsummed && sent.src.is_ipv4() {
        assert_eq!(field, [0, 0], "none stays none");
        return;
    }
    let pseudo = checksum::pseudo(new.0.ip(), new.1.ip(), sent.proto(), transport.len() as u16);
    assert_eq!(checksum::of(transport, pseudo.unwrap()), 0, "the segment sums up");
    assert!(sent.tcp || field != [0, 0], "UDP sends 0xffff for zero");
}

fn case() -> impl Strategy<Value = (Sent, (SocketAddr, SocketAddr), Side, (Mac, Mac))> {
    let side = prop_oneof![Just(Side::Source), Just(Side::Destination), Just(Side::Both)];
    let mac = || any::<[u8; 6]>().prop_map(Mac);
    any::<bool>()
        .prop_flat_map(|v6| (sent(v6), (end(v6), end(v6))))
        .prop_flat_map(move |(sent, new)| (Just(sent), Just(new), side.clone(), (mac(), mac())))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn hardware_equals_software((sent, new, side, macs) in case(), legacy: bool) {
        let expected = in_software(&sent, new, side, macs);
        let got = in_hardware(&sent, actions(&sent, new, side, macs, legacy));
        prop_assert_eq!(&got, &expected);
        let kept = (
            if side.source() { new.0 } else { sent.src },
            if side.destination() { new.1 } else { sent.dst },
        );
        check_sums(&sent, kept, &got);
        let l3 = if sent.vlan { 18 } else { 14 };
        prop_assert_eq!(&got[12..l3 - 2], &sent.frame()[12..l3 - 2], "tags stay");
    }

    /// Two connections spliced by the card: it adds to TCP's numbers, and to nothing else.
    #[test]
    fn numbers_are_added_modulo_two_to_the_32((sent, new, side, macs) in case(), by: [u32; 2], again: u32) {
        let sent = Sent { tcp: true, ..sent };
        let expected = in_software(&sent, new, side, macs);
        let mut list = actions(&sent, new, side, macs, false);
        let [sequence, acknowledgement] = by;
        let parts = [
            (NumberField::TcpSequence, sequence),
            (NumberField::TcpAcknowledgement, acknowledgement),
            (NumberField::TcpSequence, again),
        ];
        list.splice(0..0, parts.map(|(field, by)| Action::ModifyField(Modify::AddNumber(field, by))));
        let mut got = in_hardware(&sent, list);
        let kept = (
            if side.source() { new.0 } else { sent.src },
            if side.destination() { new.1 } else { sent.dst },
        );
        check_sums(&sent, kept, &got);
        let l4 = 14 + if sent.vlan { 4 } else { 0 } + if sent.src.is_ipv4() { 20 } else { 40 };
        let number = |at: usize| u32::from_be_bytes(got[l4 + at..l4 + at + 4].try_into().unwrap());
        let sequence = sequence.wrapping_add(again).wrapping_add(1);
        prop_assert_eq!((number(4), number(8)), (sequence, acknowledgement.wrapping_add(2)));
        for range in [l4 + 4..l4 + 12, l4 + 16..l4 + 18] {
            got[range.clone()].copy_from_slice(&expected[range]);
        }
        prop_assert_eq!(got, expected, "nothing else changes");
    }

    /// Edits of fields that a frame hasn't, and bytes that are no packet.
    #[test]
    fn nothing_panics_and_lengths_stay(bytes in prop::collection::vec(any::<u8>(), 0..90), (sent, new, side, macs) in case()) {
        let config = NicConfig { switch: vec![0, 1], ..NicConfig::new(CardProfile::ConnectX, 1) };
        let nic = Nic::new(&config).unwrap();
        let rule = Rule {
            attributes: Attributes { transfer: true, ..Attributes::default() },
            pattern: vec![],
            actions: actions(&sent, new, side, macs, false),
        };
        let _ = nic.flows().create(&rule).unwrap();
        let mut frame = bytes.clone();
        let mut out = [Disposition::default()];
        nic.receive_burst([frame.as_slice()], 0, &mut out);
        out[0].edits.apply(&mut frame);
        prop_assert_eq!(frame.len(), bytes.len());
        prop_assert!(frame.len() < 12 || (frame[..6] == macs.0.0 && frame[6..12] == macs.1.0));
    }
}

#[test]
fn a_hop_field_wraps_round_as_the_card_does() {
    let sent = Sent {
        src: "10.0.0.1:1".parse().unwrap(),
        dst: "10.0.0.2:2".parse().unwrap(),
        tcp: true,
        vlan: false,
        unsummed: false,
        ttl: 0,
        payload: vec![],
    };
    let frame = in_hardware(&sent, vec![Action::DecTtl, Action::RepresentedPort(1)]);
    assert_eq!(frame[22], 255, "no card looks at it: guard rules must");
    check_sums(&sent, (sent.src, sent.dst), &frame);
}
