//! The whole server against functions that delay, drop, copy and die.
#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, VecDeque};

use balance::{Kind, Marks, Order, Settings as Balance};
use etherparse::PacketBuilder;
use nf::{
    AllDown, Drop, Hash, Health, Middlebox, Outbox, Settings, Silence, Stamp, Streams, Tagging,
    Traffic,
};
use packet::{HeapPacket, PacketBuf};
use proptest::prelude::*;

/// Frames that have left the server.
#[derive(Default)]
struct Out {
    ports: Vec<(u8, HeapPacket)>,
    functions: Vec<(u16, HeapPacket)>,
}

impl Outbox<HeapPacket> for Out {
    fn to_port(&mut self, port: u8, packet: HeapPacket) {
        self.ports.push((port, packet));
    }

    fn to_function(&mut self, function: u16, packet: HeapPacket) {
        self.functions.push((function, packet));
    }
}

fn settings(functions: u16, order: Order, stamp: Stamp, algorithm: Kind) -> Settings {
    let tagging = [Tagging::Mac, Tagging::Vlan];
    Settings {
        streams: Streams::new(4, &[(0, 1), (2, 3)]).unwrap(),
        functions: (0..functions).map(|number| tagging[usize::from(number) % 2]).collect(),
        balance: Balance {
            cpus: functions,
            buckets: 16,
            algorithm,
            order,
            trigger_ns: 20_000,
            ..Balance::default()
        },
        map: None,
        hash: Hash::Symmetric,
        stamp,
        traffic: Traffic::default(),
        silence: Silence::default(),
        all_down: AllDown::Drop,
    }
}

/// The frame `number` of a flow; the payload says both.
fn frame(flow: u8, number: u32, back: bool) -> Vec<u8> {
    let (near, far) = ([10, 0, 0, flow], [10, 0, 1, 1]);
    let (src, dst) = if back { (far, near) } else { (near, far) };
    let ports = if back { (80, 1000 + u16::from(flow)) } else { (1000 + u16::from(flow), 80) };
    let mut payload = vec![flow];
    payload.extend_from_slice(&number.to_be_bytes());
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, flow], [2, 0, 0, 0, 1, 1]);
    let builder = match flow % 3 {
        0 => builder.ipv4(src, dst, 64),
        1 => {
            let wide = |address: [u8; 4]| {
                let mut wide = [0; 16];
                wide[12..].copy_from_slice(&address);
                wide
            };
            builder.ipv6(wide(src), wide(dst), 64)
        }
        _ => builder.single_vlan(7.try_into().unwrap()).ipv4(src, dst, 64),
    };
    builder.udp(ports.0, ports.1).write(&mut frame, &payload).unwrap();
    frame
}

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    /// A frame of a flow, in its direction.
    Frame { flow: u8, back: bool },
    /// A function returns its oldest frames; some are dropped or copied.
    Work { function: u16, frames: u8, drop: bool, copy: bool },
    /// Time passes.
    Wait { ns: u32 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let frame = (0..12_u8, any::<bool>()).prop_map(|(flow, back)| Event::Frame { flow, back });
    // Elephants make the algorithms move.
    let elephant = (0..2_u8).prop_map(|flow| Event::Frame { flow, back: false });
    let work = (0..3_u16, 1..8_u8, 0..10_u8).prop_map(|(function, frames, luck)| Event::Work {
        function,
        frames,
        drop: luck == 0,
        copy: luck == 1,
    });
    let wait = (1..2_000_000_u32).prop_map(|ns| Event::Wait { ns });
    prop::collection::vec(prop_oneof![4 => frame, 4 => elephant, 3 => work, 1 => wait], 1..600)
}

fn orders() -> impl Strategy<Value = Order> {
    prop_oneof![
        Just(Order::default()),
        Just(Order::Drain { hold_ns: 3_000_000, held: 64 }),
        Just(Order::Idle { patience_ns: 0, hold_ns: 100_000, held: 4 }),
    ]
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Even),
        Just(Kind::Rsspp),
        Just(Kind::Max(Marks::default())),
        Just(Kind::Low2(Marks::default())),
    ]
}

/// The server, its functions as queues, and everything that was sent.
struct World {
    server: Middlebox<HeapPacket>,
    now_ns: u64,
    queues: Vec<VecDeque<HeapPacket>>,
    sent: HashMap<(u8, bool), u32>,
    seen: HashMap<(u8, bool), u32>,
    of_flow: HashMap<u8, Vec<u16>>,
}

impl World {
    fn new(settings: Settings) -> Self {
        let functions = settings.functions.len();
        let mut server = Middlebox::new(settings).unwrap();
        for function in 0..functions as u16 {
            server.set_link(function, true, 0, &mut Out::default());
        }
        Self {
            server,
            now_ns: 1_000_000,
            queues: (0..functions).map(|_| VecDeque::new()).collect(),
            sent: HashMap::new(),
            seen: HashMap::new(),
            of_flow: HashMap::new(),
        }
    }

    fn happen(&mut self, event: &Event) {
        let mut out = Out::default();
        self.now_ns += 500;
        match *event {
            Event::Frame { flow, back } => {
                let number = self.sent.entry((flow, back)).or_insert(0);
                *number += 1;
                let packet = HeapPacket::new(&frame(flow, *number, back));
                self.server.from_port(u8::from(back), packet, self.now_ns, &mut out);
            }
            Event::Work { function, frames, drop, copy } => {
                for _ in 0..frames {
                    let queue = self.queues.get_mut(usize::from(function)).unwrap();
                    let Some(packet) = queue.pop_front() else { break };
                    if drop {
                        continue;
                    }
                    if copy {
                        let twin = HeapPacket::new(packet.bytes());
                        self.server.from_function(function, twin, self.now_ns, &mut out);
                        // The twin has the same number.
                        self.deliver(&mut out);
                        let mut again = Out::default();
                        self.server.from_function(function, packet, self.now_ns, &mut again);
                        out.functions.append(&mut again.functions);
                        continue;
                    }
                    self.server.from_function(function, packet, self.now_ns, &mut out);
                }
            }
            Event::Wait { ns } => {
                self.now_ns += u64::from(ns);
                self.server.advance(self.now_ns, &mut out);
            }
        }
        self.deliver(&mut out);
    }

    /// Looks at what has left: the very frames, by the right port, in order.
    fn deliver(&mut self, out: &mut Out) {
        for (port, packet) in out.ports.drain(..) {
            let bytes = packet.bytes();
            let payload = &bytes[bytes.len() - 5..];
            let (flow, number) = (payload[0], u32::from_be_bytes(payload[1..].try_into().unwrap()));
            let back = port == 0;
            assert!(port < 2, "the pair of ports 0 and 1");
            assert_eq!(bytes, &frame(flow, number, back)[..], "as it came");
            let seen = self.seen.entry((flow, back)).or_insert(0);
            assert!(number > *seen, "frame {number} of flow {flow} after frame {seen}");
            *seen = number;
        }
        for (function, packet) in out.functions.drain(..) {
            let bytes = packet.bytes();
            let flow = bytes[bytes.len() - 5];
            self.of_flow.entry(flow).or_default().push(function);
            self.queues[usize::from(function)].push_back(packet);
        }
    }

    /// Lets every function return what it has until all is still.
    fn settle(&mut self) {
        for _ in 0..50 {
            for function in 0..self.queues.len() as u16 {
                let frames = 255;
                self.happen(&Event::Work { function, frames, drop: false, copy: false });
            }
            self.happen(&Event::Wait { ns: 1_000_000 });
        }
    }

    fn check_sums(&self) {
        let server = &self.server;
        let ports: Vec<_> = (0..4).map(|port| *server.port(port).unwrap()).collect();
        let functions: Vec<_> =
            (0..self.queues.len()).map(|one| *server.function(one as u16).unwrap().1).collect();
        let dropped = |before: bool| -> u64 {
            let names = Drop::ALL.into_iter().filter(|name| name.is_before_function() == before);
            names.map(|name| server.dropped(name)).sum()
        };
        let to: u64 = functions.iter().map(|one| one.to_packets).sum();
        let from: u64 = functions.iter().map(|one| one.from_packets).sum();
        let passed: u64 = ports.iter().map(|port| port.passed).sum();
        let received: u64 = ports.iter().map(|port| port.in_packets).sum();
        let sent: u64 = ports.iter().map(|port| port.out_packets).sum();
        assert_eq!(received, to + passed + server.held() + dropped(true));
        assert_eq!(from + passed, sent + dropped(false));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// No frame overtakes another of its flow and none is changed, whatever moves,
    /// drops and copies there are, and the counters add up.
    #[test]
    fn frames_leave_as_they_came_and_in_order(
        events in events(), order in orders(), kind in kinds(), identification in any::<bool>(),
    ) {
        let stamp = if identification { Stamp::Identification } else { Stamp::Side };
        let mut world = World::new(settings(3, order, stamp, kind));
        for event in &events {
            world.happen(event);
            world.check_sums();
        }
        world.settle();
        prop_assert_eq!(world.server.held(), 0, "nothing waits for ever");
        for (flow, number) in &world.sent {
            prop_assert!(world.seen.get(flow).copied().unwrap_or(0) <= *number);
        }
    }
}

#[test]
fn a_flow_has_one_function_and_moves_are_seen() {
    let mut world = World::new(settings(2, Order::default(), Stamp::Side, Kind::Even));
    let mut moved = 0;
    for round in 0..4000_u32 {
        world.happen(&Event::Frame { flow: (round % 3) as u8, back: false });
        world.happen(&Event::Frame { flow: (round % 3) as u8, back: true });
        for function in 0..2 {
            world.happen(&Event::Work { function, frames: 2, drop: false, copy: false });
        }
        moved = world.server.moves().0;
    }
    for (flow, functions) in &world.of_flow {
        let changes = functions.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
        assert!(changes <= moved, "flow {flow} changed {changes} times with {moved} moves");
    }
}

/// The frames that a dead function had are lost and counted; those that follow go
/// elsewhere at once.
#[test]
fn a_dead_function_loses_only_what_it_had() {
    let mut world = World::new(settings(2, Order::default(), Stamp::Side, Kind::Even));
    for flow in 0..12 {
        world.happen(&Event::Frame { flow, back: false });
    }
    let had = world.queues[0].len() as u64;
    assert!(had > 0 && had < 12);
    let mut out = Out::default();
    world.server.set_link(0, false, world.now_ns, &mut out);
    world.queues[0].clear();
    assert_eq!(world.server.function(0).unwrap().0, Health::Unplugged);
    assert_eq!(world.server.function(0).unwrap().1.lost, had);
    assert!(world.server.map().iter().all(|function| *function == 1));
    for flow in 0..12 {
        world.happen(&Event::Frame { flow, back: false });
    }
    assert!(world.queues[0].is_empty());
    world.server.set_link(0, true, world.now_ns, &mut out);
    assert_eq!(world.server.function(0).unwrap().0, Health::Up);
    world.settle();
    assert_eq!(world.server.port(1).unwrap().out_packets, 24 - had);
    let back = world.server.map().iter().filter(|function| **function == 0).count();
    assert_eq!(back, 8, "its buckets are back");
}

#[test]
fn a_silent_function_is_dead_until_it_speaks() {
    let mut world = World::new(settings(2, Order::default(), Stamp::Side, Kind::Even));
    for flow in 0..12 {
        world.happen(&Event::Frame { flow, back: false });
    }
    world.happen(&Event::Work { function: 1, frames: 255, drop: false, copy: false });
    world.happen(&Event::Wait { ns: 400_000_000 });
    assert_eq!(world.server.function(0).unwrap().0, Health::Up);
    world.happen(&Event::Wait { ns: 200_000_000 });
    assert_eq!(world.server.function(0).unwrap().0, Health::Silent);
    assert_eq!(world.server.function(1).unwrap().0, Health::Up, "it has nothing to return");
    world.happen(&Event::Work { function: 0, frames: 255, drop: false, copy: false });
    assert_eq!(world.server.function(0).unwrap().0, Health::Up);
    assert_eq!(world.server.port(1).unwrap().out_packets, 12, "late is not lost");
}

#[test]
fn a_full_queue_that_stays_full_is_a_dead_function() {
    let mut world = World::new(settings(2, Order::default(), Stamp::Side, Kind::Even));
    for flow in 0..12 {
        world.happen(&Event::Frame { flow, back: false });
    }
    let refused = world.queues[0].pop_back().unwrap();
    world.server.refused_by_function(0, &refused, world.now_ns);
    world.check_sums();
    world.happen(&Event::Wait { ns: 11_000_000 });
    assert_eq!(world.server.function(0).unwrap().0, Health::Stuck);
}

/// A vhost queue may refuse the first frames after its link is up.
#[test]
fn a_stuck_function_with_an_empty_queue_is_tried_again() {
    let mut world = World::new(settings(2, Order::default(), Stamp::Side, Kind::Even));
    let health = |world: &World| world.server.function(0).unwrap().0;
    let refuse = |world: &mut World| {
        for flow in 0..12 {
            world.happen(&Event::Frame { flow, back: false });
        }
        // Buckets move once the other function has returned their frames.
        world.happen(&Event::Work { function: 1, frames: 255, drop: false, copy: false });
        let mut refused = 0;
        for packet in std::mem::take(&mut world.queues[0]) {
            world.server.refused_by_function(0, &packet, world.now_ns);
            refused += 1;
        }
        refused
    };
    assert!(refuse(&mut world) > 0);
    world.happen(&Event::Wait { ns: 11_000_000 });
    assert_eq!(health(&world), Health::Stuck);
    assert_eq!(refuse(&mut world), 0, "it gets no frame");
    world.happen(&Event::Wait { ns: 99_000_000 });
    assert_eq!(health(&world), Health::Stuck);
    world.happen(&Event::Wait { ns: 2_000_000 });
    assert_eq!(health(&world), Health::Up);
    assert!(refuse(&mut world) > 0, "it is tried");
    world.happen(&Event::Wait { ns: 1 });
    assert_eq!(health(&world), Health::Stuck, "one refusal is enough");
    world.happen(&Event::Wait { ns: 199_000_000 });
    assert_eq!(health(&world), Health::Stuck, "the pause has doubled");
    world.happen(&Event::Wait { ns: 2_000_000 });
    for flow in 0..12 {
        world.happen(&Event::Frame { flow, back: false });
    }
    world.settle();
    assert_eq!(health(&world), Health::Up);
    assert_eq!(world.server.map().iter().filter(|function| **function == 0).count(), 8);
    assert!(refuse(&mut world) > 0);
    world.happen(&Event::Wait { ns: 9_000_000 });
    assert_eq!(health(&world), Health::Up, "it has returned frames: no trial any more");
    world.check_sums();
}

/// A function that drops all it gets, as a firewall under attack does, or that hangs.
#[test]
fn a_silent_function_is_tried_again_for_a_moment() {
    let mut world = World::new(settings(2, Order::default(), Stamp::Side, Kind::Even));
    let health = |world: &World| world.server.function(0).unwrap().0;
    let drop_all = |world: &mut World| {
        for flow in 0..12 {
            world.happen(&Event::Frame { flow, back: false });
        }
        std::mem::take(&mut world.queues[0]).len()
    };
    assert!(drop_all(&mut world) > 0);
    world.happen(&Event::Wait { ns: 501_000_000 });
    assert_eq!(health(&world), Health::Silent);
    world.happen(&Event::Wait { ns: 999_000_000 });
    assert_eq!(drop_all(&mut world), 0);
    world.happen(&Event::Wait { ns: 2_000_000 });
    assert_eq!(health(&world), Health::Up);
    assert!(drop_all(&mut world) > 0);
    world.happen(&Event::Wait { ns: 19_000_000 });
    assert_eq!(health(&world), Health::Up);
    world.happen(&Event::Wait { ns: 2_000_000 });
    assert_eq!(health(&world), Health::Silent, "on trial, 20 ms are enough");
    for _ in 0..10 {
        world.happen(&Event::Wait { ns: 2_000_000_000 });
        if health(&world) == Health::Up {
            break;
        }
    }
    for flow in 0..12 {
        world.happen(&Event::Frame { flow, back: false });
    }
    world.settle();
    assert_eq!(health(&world), Health::Up);
}

/// Without a link there is nothing to try.
#[test]
fn an_unplugged_function_is_not_tried() {
    let mut world = World::new(settings(2, Order::default(), Stamp::Side, Kind::Even));
    let refused = HeapPacket::new(&frame(0, 1, false));
    world.server.refused_by_function(0, &refused, world.now_ns);
    world.happen(&Event::Wait { ns: 11_000_000 });
    assert_eq!(world.server.function(0).unwrap().0, Health::Stuck);
    world.server.set_link(0, false, world.now_ns, &mut Out::default());
    for _ in 0..20 {
        world.happen(&Event::Wait { ns: 1_000_000_000 });
        assert_eq!(world.server.function(0).unwrap().0, Health::Unplugged);
    }
    world.server.set_link(0, true, world.now_ns, &mut Out::default());
    assert_eq!(world.server.function(0).unwrap().0, Health::Up);
}

#[test]
fn without_functions_frames_drop_or_pass_as_configured() {
    for (all_down, passed) in [(AllDown::Drop, 0), (AllDown::Pass, 1)] {
        let wanted = settings(1, Order::default(), Stamp::Side, Kind::Even);
        let mut world = World::new(Settings { all_down, ..wanted });
        let mut out = Out::default();
        world.server.set_link(0, false, world.now_ns, &mut out);
        world.happen(&Event::Frame { flow: 0, back: false });
        assert_eq!(world.server.dropped(Drop::AllDown), 1 - passed);
        assert_eq!(world.server.port(1).unwrap().out_packets, passed);
        world.check_sums();
    }
}

/// Every function dies, and the last to die is not the first to come back.
#[test]
fn the_only_living_function_has_all_buckets() {
    let mut world = World::new(settings(3, Order::default(), Stamp::Side, Kind::Still));
    let mut out = Out::default();
    let initial = world.server.map().to_vec();
    for function in 0..3 {
        world.server.set_link(function, false, world.now_ns, &mut out);
    }
    world.server.set_link(1, true, world.now_ns, &mut out);
    assert_eq!(world.server.map(), [1; 16]);
    for flow in 0..12 {
        world.happen(&Event::Frame { flow, back: false });
    }
    assert_eq!(world.queues[1].len(), 12);
    world.settle();
    for function in [0, 2] {
        world.server.set_link(function, true, world.now_ns, &mut out);
    }
    assert_eq!(world.server.map(), initial, "each has its own again");
}

/// ARP passes, garbage of a function is named, and none of it disturbs the others.
#[test]
fn what_has_no_bucket_is_passed_or_named() {
    let mut world = World::new(settings(2, Order::default(), Stamp::Side, Kind::Even));
    let mut out = Out::default();
    let mut arp = vec![0xff; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    world.server.from_port(2, HeapPacket::new(&arp), 0, &mut out);
    assert_eq!(out.ports.len(), 1);
    assert_eq!((out.ports[0].0, out.ports[0].1.bytes()), (3, &arp[..]));
    out.ports.clear();
    let mut short = frame(0, 1, false);
    short.truncate(30);
    world.server.from_port(0, HeapPacket::new(&short), 0, &mut out);
    world.server.from_port(9, HeapPacket::new(&arp), 0, &mut out);
    for function in 0..3 {
        world.server.from_function(function, HeapPacket::new(&arp), 0, &mut out);
        world.server.from_function(function, HeapPacket::new(&[]), 0, &mut out);
    }
    let tag = nf::Tag { direction: nf::Direction::Up, egress: 1, bucket: 3, sequence: 5 };
    let mut forged = HeapPacket::new(&frame(0, 1, false));
    assert!(Tagging::Mac.put(&mut forged, tag).is_some());
    world.server.from_function(0, forged, 0, &mut out);
    assert!(out.ports.is_empty() && out.functions.is_empty());
    for (name, times) in [
        (Drop::Malformed, 1),
        (Drop::NoPort, 1),
        (Drop::Unmarked, 4),
        (Drop::NoFunction, 2),
        (Drop::Foreign, 1),
    ] {
        assert_eq!(world.server.dropped(name), times, "{name:?}");
    }
}

/// An NF that exchanges the addresses answers the sender.
#[test]
fn an_answer_leaves_by_the_port_that_the_frame_came_in() {
    let wanted = settings(1, Order::default(), Stamp::Side, Kind::Even);
    let mut world = World::new(wanted);
    let mut out = Out::default();
    let sent = frame(0, 1, false);
    world.server.from_port(2, HeapPacket::new(&sent), 0, &mut out);
    let (_, mut packet) = out.functions.pop().unwrap();
    let bytes = packet.bytes_mut();
    let (near, far) = bytes.split_at_mut(6);
    near.swap_with_slice(&mut far[..6]);
    world.server.from_function(0, packet, 10, &mut out);
    let (port, answer) = out.ports.pop().unwrap();
    assert_eq!(port, 2);
    assert_eq!(answer.bytes()[..6], sent[6..12], "to the sender");
    assert_eq!(answer.bytes()[6..12], sent[..6], "from the receiver");
    assert_eq!(world.server.function(0).unwrap().1.answers, 1);
}

/// The stamp of the thesis: the function sees it, the receiver doesn't, and a stay
/// beyond 16.777 ms comes round.
#[test]
fn the_stamp_is_in_the_identification_only_inside() {
    let mut world = World::new(settings(1, Order::default(), Stamp::Identification, Kind::Still));
    for (stay_ns, measured) in [(25_600_u64, 25_600), (16_777_216 + 25_600, 25_600)] {
        let mut out = Out::default();
        let sent = frame(0, 1, false);
        world.server.from_port(0, HeapPacket::new(&sent), 512, &mut out);
        let (_, packet) = out.functions.pop().unwrap();
        assert_eq!(packet.bytes()[18..20], [0, 2], "512 ns in 256 ns steps");
        let inside = etherparse::Ipv4HeaderSlice::from_slice(&packet.bytes()[14..]).unwrap();
        assert_eq!(inside.to_header().calc_header_checksum(), inside.header_checksum());
        world.server.from_function(0, packet, 512 + stay_ns, &mut out);
        assert_eq!(out.ports[0].1.bytes(), &sent[..]);
        let latency = world.server.latencies().max().unwrap();
        assert_eq!(u64::from(latency), measured);
    }
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let wanted = || settings(2, Order::default(), Stamp::Side, Kind::Even);
    let refused = |settings| Middlebox::<HeapPacket>::new(settings).unwrap_err().to_string();
    assert!(refused(Settings { map: Some(vec![0; 5]), ..wanted() }).contains("a map of 5 buckets"));
    let error = refused(Settings { map: Some(vec![2; 16]), ..wanted() });
    assert!(error.contains("bucket 0 on CPU 2"), "{error}");
    let functions = vec![Tagging::Mac];
    assert!(refused(Settings { functions, ..wanted() }).contains("2 CPUs are balanced"));
}
