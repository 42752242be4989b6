//! Rules for packets that the host receives.
use dpdk::flow::{
    Action, Attributes, EthFields, Field, Ipv4Fields, Item, Match, PortFields, Rule, VlanFields,
};
use wire::{Mac, Transport};

use super::packets::{CLIENT_V4, PORT, VIP_V4, VLAN, flow, packet};
use crate::card::Facts;
use crate::report::Area;
use crate::trial::{Expected, Trial};

/// The mark of the rules that have one.
const MARK: u32 = 4711;
/// Seconds of AGE.
const AGE_S: u32 = 60;
/// The flags that begin and end connections.
const EVENTS: u8 = 0x07;
/// No fragment.
pub(super) const WHOLE: Field<u16> = Field { spec: 0, mask: 0x3fff };

/// What rules match.
pub(crate) fn matches(facts: &Facts) -> Vec<Trial> {
    let queue = facts.queues.saturating_sub(1);
    let connections = [
        ("5-tuple, tcp over IPv4", Transport::Tcp, false),
        ("5-tuple, udp over IPv4", Transport::Udp, false),
        ("5-tuple, tcp over IPv6", Transport::Tcp, true),
        ("5-tuple, udp over IPv6", Transport::Udp, true),
    ];
    let mut trials = Vec::new();
    for (name, proto, ipv6) in connections {
        let Some(flow) = flow(proto, ipv6) else { continue };
        let rule = Rule::five_tuple(&flow, vec![Action::Queue(queue)]);
        let packet = packet(facts, &flow, None).map(|frame| (frame, Expected::Queue(queue)));
        let needed_for = "connections";
        trials.push(Trial { area: Area::Match, name, needed_for, rule, packet });
    }
    for (name, needed_for, pattern, vlan) in patterns(facts.mac) {
        let attributes = Attributes { ingress: true, ..Attributes::default() };
        let rule = Rule { attributes, pattern, actions: vec![Action::Queue(queue)] };
        let frame = flow(Transport::Tcp, false).and_then(|flow| packet(facts, &flow, vlan));
        let packet = frame.map(|frame| (frame, Expected::Queue(queue)));
        trials.push(Trial { area: Area::Match, name, needed_for, rule, packet });
    }
    trials
}

/// What is matched, what for, by which items, and the tag of such packets.
type Pattern = (&'static str, &'static str, Vec<Item>, Option<u16>);

/// Patterns of packets of TCP over IPv4 that are no 5-tuple.
fn patterns(station: Mac) -> Vec<Pattern> {
    let eth = Item::Eth(Match::Present);
    let ipv4 = |fields| Item::Ipv4(Match::Fields(fields));
    let source = Field { spec: CLIENT_V4.to_bits() & 0xff, mask: 0xff };
    let vip = Field { spec: VIP_V4.to_bits(), mask: u32::MAX };
    let dport = Field { spec: PORT, mask: u16::MAX };
    let own =
        EthFields { dst: Field { spec: station, mask: Mac::BROADCAST }, ..EthFields::default() };
    let tag = VlanFields { tci: Field { spec: VLAN, mask: 0xfff }, ..VlanFields::default() };
    let flags = Field { spec: 0, mask: EVENTS };
    vec![
        ("every packet", "encoding queue where misses are spread", vec![eth], None),
        (
            "destination and port",
            "stateless services",
            vec![
                eth,
                ipv4(Ipv4Fields { dst: vip, ..Ipv4Fields::default() }),
                Item::Tcp(Match::Fields(PortFields { dport, ..PortFields::default() })),
            ],
            None,
        ),
        (
            "low bits of the source",
            "stateless services",
            vec![eth, ipv4(Ipv4Fields { src: source, ..Ipv4Fields::default() })],
            None,
        ),
        ("Ethernet destination", "encoding rewrite", vec![Item::Eth(Match::Fields(own))], None),
        (
            "VLAN tag",
            "interfaces with a VLAN",
            vec![eth, Item::Vlan(Match::Fields(tag)), Item::Ipv4(Match::Present)],
            Some(VLAN),
        ),
        (
            "no fragment",
            "encoding rewrite, UDP",
            vec![eth, ipv4(Ipv4Fields { fragment: WHOLE, ..Ipv4Fields::default() })],
            None,
        ),
        (
            "TTL above 63",
            "encoding rewrite",
            vec![
                eth,
                ipv4(Ipv4Fields { ttl: Field { spec: 64, mask: 0xc0 }, ..Ipv4Fields::default() }),
            ],
            None,
        ),
        (
            "no SYN, FIN, RST",
            "encoding rewrite: ends of connections",
            vec![
                eth,
                Item::Ipv4(Match::Present),
                Item::Tcp(Match::Fields(PortFields { tcp_flags: flags, ..PortFields::default() })),
            ],
            None,
        ),
    ]
}

/// What rules do with packets of one connection.
pub(crate) fn actions(facts: &Facts) -> Vec<Trial> {
    let queue = facts.queues.saturating_sub(1);
    let to = Action::Queue(queue);
    let mark = Action::Mark(MARK);
    let all = || Action::Rss((0..facts.queues).collect());
    let kinds: [(&str, &str, Vec<Action>, Option<Expected>); 11] = [
        ("QUEUE", "encoding queue", vec![to.clone()], Some(Expected::Queue(queue))),
        (
            "QUEUE, MARK",
            "encoding mark",
            vec![to.clone(), mark.clone()],
            Some(Expected::QueueAndMark(queue, MARK)),
        ),
        ("MARK", "encoding mark, queue by RSS", vec![mark.clone()], Some(Expected::Mark(MARK))),
        (
            "MARK, RSS",
            "encoding mark, several workers",
            vec![mark.clone(), all()],
            Some(Expected::Mark(MARK)),
        ),
        (
            "MARK, PASSTHRU",
            "encoding mark, queue by RSS",
            vec![Action::Passthru, mark],
            Some(Expected::Mark(MARK)),
        ),
        ("RSS", "several workers", vec![all()], Some(Expected::Received)),
        ("PASSTHRU", "exceptions to other rules", vec![Action::Passthru], Some(Expected::Received)),
        ("DROP", "floods", vec![Action::Drop], Some(Expected::Lost)),
        (
            "QUEUE, COUNT",
            "counters by connection",
            vec![to.clone(), Action::Count],
            Some(Expected::Queue(queue)),
        ),
        (
            "QUEUE, AGE",
            "idle connections",
            vec![to, Action::Age { timeout_s: AGE_S }],
            Some(Expected::Queue(queue)),
        ),
        ("JUMP", "groups on the receive side", vec![Action::Jump(1)], None),
    ];
    let Some(flow) = flow(Transport::Tcp, false) else { return Vec::new() };
    let trial = |(name, needed_for, actions, expected): (_, _, _, Option<Expected>)| {
        let rule = Rule::five_tuple(&flow, actions);
        let packet = packet(facts, &flow, None).zip(expected);
        Trial { area: Area::Action, name, needed_for, rule, packet }
    };
    kinds.into_iter().map(trial).collect()
}
