//! Frames and rules for the tests, made by hand: nothing of the NIC's parser.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::net::SocketAddr;

use dpdk::flow::{
    Action, Attributes, Field, FlowErrorKind, FlowPort, Ipv4Fields, Ipv6Fields, Item, Match,
    PortFields, Rule,
};
use flow::CardProfile;
use nic::{Disposition, Nic, NicConfig};
use wire::{FlowKey, Transport};

/// What a test wants in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    pub src: SocketAddr,
    pub dst: SocketAddr,
    /// IP protocol; 6 and 17 get ports.
    pub proto: u8,
    /// VLAN id.
    pub vlan: Option<u16>,
    /// A first fragment.
    pub fragment: bool,
}

pub fn packet(proto: u8, src: &str, dst: &str) -> Packet {
    let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
    Packet { src, dst, proto, vlan: None, fragment: false }
}

pub fn tcp(src: &str, dst: &str) -> Packet {
    packet(6, src, dst)
}

pub fn udp(src: &str, dst: &str) -> Packet {
    packet(17, src, dst)
}

impl Packet {
    pub fn flow(&self) -> FlowKey {
        FlowKey::new(Transport::from_number(self.proto).unwrap(), self.src, self.dst).unwrap()
    }

    /// The bytes on the wire.
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if let Some(vlan) = self.vlan {
            frame.extend([0x81, 0x00]);
            frame.extend(vlan.to_be_bytes());
        }
        let mut transport = vec![];
        if self.proto == 6 || self.proto == 17 {
            transport.extend(self.src.port().to_be_bytes());
            transport.extend(self.dst.port().to_be_bytes());
        }
        transport.resize(24, 0);
        match (self.src, self.dst) {
            (SocketAddr::V4(src), SocketAddr::V4(dst)) => {
                frame.extend([0x08, 0x00, 0x45, 0]);
                frame.extend((20 + transport.len() as u16).to_be_bytes());
                frame.extend([0, 7, if self.fragment { 0x20 } else { 0 }, 0, 64, self.proto, 0, 0]);
                frame.extend(src.ip().octets());
                frame.extend(dst.ip().octets());
            }
            (SocketAddr::V6(src), SocketAddr::V6(dst)) => {
                let extension = if self.fragment { 8 } else { 0 };
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend((extension + transport.len() as u16).to_be_bytes());
                frame.extend([if self.fragment { 44 } else { self.proto }, 64]);
                frame.extend(src.ip().octets());
                frame.extend(dst.ip().octets());
                if self.fragment {
                    frame.extend([self.proto, 0, 0, 1, 0, 0, 0, 7]);
                }
            }
            _ => unreachable!(),
        }
        frame.extend(transport);
        frame
    }
}

pub fn nic(profile: CardProfile, queues: u16) -> Nic {
    Nic::new(&NicConfig::new(profile, queues)).unwrap()
}

/// What the NIC does with one packet, at time 0.
pub fn receive(nic: &Nic, packet: &Packet) -> Disposition {
    receive_at(nic, packet, 0)
}

pub fn receive_at(nic: &Nic, packet: &Packet, now_ns: u64) -> Disposition {
    let frame = packet.frame();
    let mut out = [Disposition::default()];
    assert_eq!(nic.receive_burst([frame.as_slice()], now_ns, &mut out), 1);
    let [disposition] = out;
    disposition
}

/// The masks of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masks {
    pub src: u128,
    pub dst: u128,
    pub sport: u16,
    pub dport: u16,
}

pub const EXACT: Masks = Masks { src: u128::MAX, dst: u128::MAX, sport: u16::MAX, dport: u16::MAX };

/// A rule for `packet`'s 5-tuple under `masks`; of IPv4 the low 32 bits count.
pub fn rule(packet: &Packet, masks: Masks, actions: Vec<Action>) -> Rule {
    let ip = match (packet.src, packet.dst) {
        (SocketAddr::V4(src), SocketAddr::V4(dst)) => Item::Ipv4(Match::Fields(Ipv4Fields {
            src: Field { spec: u32::from(*src.ip()), mask: masks.src as u32 },
            dst: Field { spec: u32::from(*dst.ip()), mask: masks.dst as u32 },
            ..Ipv4Fields::default()
        })),
        (SocketAddr::V6(src), SocketAddr::V6(dst)) => Item::Ipv6(Match::Fields(Ipv6Fields {
            src: Field { spec: u128::from(*src.ip()), mask: masks.src },
            dst: Field { spec: u128::from(*dst.ip()), mask: masks.dst },
            ..Ipv6Fields::default()
        })),
        _ => unreachable!(),
    };
    let ports = Match::Fields(PortFields {
        sport: Field { spec: packet.src.port(), mask: masks.sport },
        dport: Field { spec: packet.dst.port(), mask: masks.dport },
        tcp_flags: Field::default(),
    });
    let transport = if packet.proto == 6 { Item::Tcp(ports) } else { Item::Udp(ports) };
    Rule {
        attributes: Attributes { ingress: true, ..Attributes::default() },
        pattern: vec![Item::Eth(Match::Present), ip, transport],
        actions,
    }
}

/// The `n`th of many IPv4 TCP flows.
pub fn nth(n: u32) -> Packet {
    let address = std::net::Ipv4Addr::from(0x0a00_0000 | (n >> 4));
    let src = SocketAddr::from((address, 1024 + (n & 15) as u16));
    Packet { src, dst: "192.0.2.1:80".parse().unwrap(), proto: 6, vlan: None, fragment: false }
}

/// What makes a rule one that the card refuses.
pub type Change = fn(&mut Rule);

/// A change, and how the rule is refused then: the part that the driver objects to,
/// errno, and how the driver's words begin.
pub type Refusal<'a> = (FlowErrorKind, i32, &'a str, Change);

/// The card takes `rule`, and refuses it after each of the changes as it is said,
/// whether the rule is created or only validated.
pub fn check_refusals<'a>(nic: &Nic, rule: &Rule, refusals: impl IntoIterator<Item = Refusal<'a>>) {
    let mut flows = nic.flows();
    flows.validate(rule).unwrap();
    let mut cases = 0;
    for (index, (kind, errno, text, change)) in refusals.into_iter().enumerate() {
        let mut rule = rule.clone();
        change(&mut rule);
        let Err(error) = flows.create(&rule) else { panic!("case {index} is taken: {rule:?}") };
        assert_eq!((error.kind, error.errno), (kind, errno), "case {index}: {error}");
        assert!(error.message.starts_with(text), "case {index}: {error}");
        assert_eq!(flows.validate(&rule), Err(error), "case {index}");
        cases += 1;
    }
    let stats = nic.stats();
    assert_eq!((stats.refused.unsupported, stats.created, stats.rules), (cases, 0, 0));
}
