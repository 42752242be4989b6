//! Hardware and software agree, and so do the fast and the slow path: the same
//! packets give the same bytes whether the NIC marks them, sorts them into
//! queues, does nothing, or marks them so that each takes the slow path, on
//! tagged and untagged interfaces, and however the stream is cut into bursts.
//!
//! A model plays the NIC and the offload side: exact rules for both directions
//! of every connection in the table. It also lies, as far as a NIC can: marks
//! that mean nothing, or another connection; queues that nobody uses, or that
//! belong to other packets; rules missing.
use std::collections::HashMap;

use conntrack::{ConnId, ConnState, Hit, OffloadState};
use flow::{Direction, PortId, Scheduler};
use packet::HeapPacket;
use proptest::prelude::*;
use service::{Delivery, TunnelSpec};
use state::{Counter, Marked, Offload, QueueAction};
use wire::{FlowKey, Fragment, Headers, Rewrite};

use crate::fragments::cut;
use crate::tunnels::TUNNELS;
use crate::world::{INSIDE, Link, OUTSIDE, Plan, TAGGED, World, tcp, udp};

/// How the NIC tells what it matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Off,
    /// A mark without meaning on every packet, which the fast path leaves to the
    /// slow path.
    Slow,
    Mark,
    Queue,
}

/// Who sends a packet.
#[derive(Clone, Debug)]
enum Sender {
    /// Client number so-and-so, to service so-and-so.
    Client { client: u8, service: u8 },
    /// The backend answers the last packet that was sent to a backend so many
    /// packets ago.
    Backend { ago: usize },
}

/// One step of the world.
#[derive(Clone, Debug)]
enum Step {
    Packet {
        sender: Sender,
        flags: usize,
        size: usize,
        /// Cut into pieces, and this one is sent.
        piece: Option<prop::sample::Index>,
        damage: Option<Damage>,
        lie: Lie,
    },
    /// A connection ends: its rules go, it is removed, its id may be reused.
    Remove { which: prop::sample::Index },
}

/// A change of one byte behind the Ethernet header.
#[derive(Clone, Debug)]
struct Damage {
    at: prop::sample::Index,
    value: u8,
}

/// What is wrong with what the NIC tells.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// Nothing.
    No,
    /// It tells nothing.
    Silence,
    /// It tells this.
    Number(u8),
}

const FLAGS: [&str; 8] = ["S", "A", "PA", "A", "FA", "R", "SA", "PA"];
/// Addresses and whether they are spoken to in TCP. The first is no service.
const SERVICES: [(&str, bool); 17] = [
    ("10.9.0.2:22", false),
    ("10.9.0.1:80", true),
    ("10.9.0.1:53", false),
    ("[fd09::1]:80", true),
    ("[fd09::1]:53", false),
    ("10.9.0.2:22", true),
    ("10.9.0.2:23", true),
    ("10.9.0.3:80", true),
    ("[fd09::3]:80", true),
    ("10.9.0.6:80", true),
    ("10.9.0.6:53", false),
    ("[fd09::6]:80", true),
    ("10.9.0.7:80", true),
    ("10.9.0.7:53", false),
    ("[fd09::7]:80", true),
    ("10.9.0.8:80", true),
    ("[fd09::8]:80", true),
];

fn sender() -> impl Strategy<Value = Sender> {
    prop_oneof![
        (0u8..6, 0..SERVICES.len() as u8)
            .prop_map(|(client, service)| Sender::Client { client, service }),
        (0usize..6).prop_map(|ago| Sender::Backend { ago }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let damage = (any::<prop::sample::Index>(), any::<u8>());
    let damage = damage.prop_map(|(at, value)| Damage { at, value });
    let lie = prop_oneof![
        8 => Just(Lie::No),
        1 => Just(Lie::Silence),
        3 => (0u8..70).prop_map(Lie::Number),
    ];
    let piece = prop::option::weighted(0.2, any::<prop::sample::Index>());
    let damage = prop::option::weighted(0.2, damage);
    let packet = (sender(), 0..FLAGS.len(), 0usize..200, piece, damage, lie);
    prop_oneof![
        12 => packet.prop_map(|(sender, flags, size, piece, damage, lie)| {
            Step::Packet { sender, flags, size, piece, damage, lie }
        }),
        1 => any::<prop::sample::Index>().prop_map(|which| Step::Remove { which }),
    ]
}

/// A world with a NIC in front.
struct Offloaded {
    world: World,
    encoding: Encoding,
    /// What the rules say: mark or queue by port and 5-tuple.
    rules: HashMap<(PortId, FlowKey), u16>,
    /// Which queue is whose.
    queues: Vec<(PortId, QueueAction)>,
    /// Marks handed out so far.
    marks: u16,
}

impl Offloaded {
    fn new(plan: &Plan, encoding: Encoding) -> Self {
        Self {
            world: World::new(plan),
            encoding,
            rules: HashMap::new(),
            queues: Vec::new(),
            marks: 0,
        }
    }

    /// Installs rules for every connection that has none.
    fn offload(&mut self) {
        let mut conns = Vec::new();
        self.world.shared.table().iter(self.world.now_ms, &mut |conn, view| {
            conns.push((conn, view.binding, (view.state, view.offload)));
        });
        conns.sort_by_key(|(conn, ..)| *conn);
        for (conn, binding, (state, offload)) in conns {
            if matches!(state, ConnState::Closing | ConnState::Reset) {
                self.withdraw(conn, &binding);
                continue;
            }
            let directions = if binding.forwarding.is_one_way() {
                &[Direction::Forward][..]
            } else {
                &Direction::BOTH
            };
            for &direction in directions {
                let port = if direction == Direction::Forward { OUTSIDE } else { INSIDE };
                let key = binding.key(direction).unwrap();
                if offload == OffloadState::Installed && self.rules.contains_key(&(port, key)) {
                    continue;
                }
                let number = match self.encoding {
                    Encoding::Off | Encoding::Slow => None,
                    Encoding::Mark => self.mark(port, conn, direction),
                    Encoding::Queue => self.queue(port, conn, direction, &binding),
                };
                if let Some(number) = number {
                    let table = self.world.shared.table();
                    table.change_offload(conn, OffloadState::None, OffloadState::Installed);
                    table.change_offload(conn, OffloadState::Wanted, OffloadState::Installed);
                    self.rules.insert((port, key), number);
                }
            }
        }
    }

    /// Takes the rules of a connection that has ended back, as the offload thread does: its
    /// place may be needed.
    fn withdraw(&mut self, conn: ConnId, binding: &service::Binding) {
        let table = self.world.shared.table();
        table.change_offload(conn, OffloadState::Installed, OffloadState::None);
        self.forget(binding);
    }

    /// Forgets the rules of a connection. Of marks they may stay for a while: a lie.
    fn forget(&mut self, binding: &service::Binding) {
        for direction in Direction::BOTH {
            let key = binding.key(direction).unwrap();
            if self.encoding == Encoding::Queue {
                self.rules.retain(|(_, rule), _| *rule != key);
            }
        }
    }

    fn mark(&mut self, port: PortId, conn: ConnId, direction: Direction) -> Option<u16> {
        // Used round and round, so that old ones get a new meaning: their
        // packets are a NIC's lies then.
        let mark = self.marks % 64;
        self.marks += 1;
        self.rules.retain(|(on, _), number| *on != port || *number != mark);
        let tables = self.world.shared.port(port)?;
        tables.marks.set(u32::from(mark), Marked { conn, direction });
        Some(mark)
    }

    fn queue(
        &mut self,
        port: PortId,
        conn: ConnId,
        direction: Direction,
        binding: &service::Binding,
    ) -> Option<u16> {
        if binding.local != binding.client {
            return None;
        }
        let any_port = binding.vip.ip().to_string() == "10.9.0.2";
        let mut endpoint = match direction {
            Direction::Forward => binding.vip,
            Direction::Reply => binding.server,
        };
        let rewrite = match (any_port, direction) {
            (false, _) => binding.rewrite(direction),
            (true, Direction::Forward) => {
                Rewrite::destination_address(binding.vip.ip(), binding.server.ip())
            }
            (true, Direction::Reply) => {
                Rewrite::source_address(binding.server.ip(), binding.vip.ip())
            }
        };
        let unchanged = binding.forwarding.delivery(direction, binding.backend);
        if any_port {
            endpoint.set_port(0);
        }
        let hit = Hit { conn, direction };
        let action = QueueAction {
            service: binding.service,
            backend: binding.backend,
            direction,
            proto: binding.proto,
            endpoint,
            delivery: unchanged.or(rewrite.map(Delivery::Rewrite))?,
            hop: self.world.shared.table().action(hit)?.hop,
        };
        let known = self.queues.iter().filter(|(on, _)| *on == port);
        if let Some(place) = known.clone().position(|(_, known)| *known == action) {
            return Some(place as u16 + 1);
        }
        let number = known.count() as u16 + 1;
        let set = self.world.shared.port(port)?.queues.set(number, Some(action));
        self.queues.push((port, action));
        set.then_some(number)
    }

    /// What the NIC says of `frame`, which was `intact` before it was damaged.
    fn tell(&self, port: PortId, frame: &[u8], intact: &[u8], lie: Lie) -> Option<u16> {
        let key = key_of(frame).or_else(|| key_of(intact));
        let right = key.and_then(|key| self.rules.get(&(port, key)).copied());
        match lie {
            Lie::No => right,
            Lie::Silence => None,
            Lie::Number(number) if self.encoding == Encoding::Mark => Some(number.into()),
            Lie::Number(number) => {
                // A NIC may put a packet into any queue, but for those where
                // another backend of the same service would be meant: the
                // life of rules excludes that, and nothing in the packet tells.
                let number = u16::from(number % 18);
                let place = usize::from(number).checked_sub(1);
                let action = place.and_then(|place| {
                    let mut on_port = self.queues.iter().filter(|(on, _)| *on == port);
                    on_port.nth(place).map(|(_, action)| *action)
                });
                match (action, key) {
                    (Some(action), Some(key)) if names(&action, &key) => right,
                    _ => Some(number),
                }
            }
        }
    }

    /// Gives packets to the pipeline, in bursts as long as the queue is the
    /// same.
    fn run(&mut self, port: PortId, frames: &[(Vec<u8>, Vec<u8>, Lie)]) -> Vec<(PortId, Vec<u8>)> {
        let mut sent = Vec::new();
        let mut waiting: (u16, Vec<HeapPacket>) = (0, Vec::new());
        for (frame, intact, lie) in frames {
            let told = match self.encoding {
                Encoding::Off | Encoding::Slow => None,
                _ => self.tell(port, frame, intact, *lie),
            };
            let packet = HeapPacket::new(frame);
            let (queue, packet) = match self.encoding {
                Encoding::Mark => (0, packet.with_mark(told.map(u32::from))),
                Encoding::Slow => (0, packet.with_mark(Some(u32::MAX))),
                _ => (told.unwrap_or(0), packet),
            };
            if queue != waiting.0 {
                let burst = std::mem::take(&mut waiting.1);
                sent.extend(self.world.burst_at(0, port, waiting.0, burst));
                waiting.0 = queue;
            }
            waiting.1.push(packet);
        }
        sent.extend(self.world.burst_at(0, port, waiting.0, waiting.1));
        self.offload();
        sent
    }

    fn remove(&mut self, key: &FlowKey) {
        let table = self.world.shared.table();
        let Some(hit) = table.lookup(key) else { return };
        let Some(binding) = table.remove(hit.conn) else { return };
        self.world.workers[0].begin();
        self.world.shared.table().reclaim();
        self.forget(&binding);
    }
}

fn key_of(frame: &[u8]) -> Option<FlowKey> {
    let headers = Headers::parse(frame).ok()?;
    headers.flow(frame).filter(|_| headers.fragment == Fragment::Whole)
}

/// Whether the queue's meaning could apply to packets with `key`.
fn names(action: &QueueAction, key: &FlowKey) -> bool {
    let carried = match action.direction {
        Direction::Forward => key.dst(),
        Direction::Reply => key.src(),
    };
    carried.ip() == action.endpoint.ip() && key.proto() == action.proto
}

/// The frame that a step sends; `sent` is what has come out so far.
fn build(
    sender: &Sender,
    flags: usize,
    size: usize,
    [outside, inside]: [Option<u16>; 2],
    sent: &[(PortId, Vec<u8>)],
) -> Option<(PortId, Vec<u8>)> {
    let payload = vec![flags as u8; size];
    let flags = FLAGS[flags];
    match sender {
        Sender::Client { client, service } => {
            let (vip, is_tcp) = SERVICES[usize::from(*service)];
            let client = if vip.starts_with('[') {
                format!("[2001:db8::{client}]:5000")
            } else {
                format!("9.9.9.{client}:5000")
            };
            let link = Link::CLIENT.tagged(outside);
            let frame = if is_tcp {
                tcp(link, &client, vip, flags, &payload)
            } else {
                udp(link, &client, vip, &payload)
            };
            Some((OUTSIDE, frame))
        }
        Sender::Backend { ago } => {
            let (_, asked) = sent.iter().rev().filter(|(port, _)| *port == INSIDE).nth(*ago)?;
            let flow = key_of(asked)?;
            let (server, client) = (flow.dst().to_string(), flow.src().to_string());
            let link = Link::from_backend(asked[5]).tagged(inside);
            let frame = match flow.proto() {
                wire::Transport::Tcp => tcp(link, &server, &client, flags, &payload),
                wire::Transport::Udp => udp(link, &server, &client, &payload),
            };
            Some((INSIDE, frame))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn every_way_gives_the_same_bytes(
        steps in prop::collection::vec(step(), 1..120),
        burst in 1usize..20,
        connections in 2usize..40,
        sample in 0u32..4,
        scheduler in prop_oneof![Just(Scheduler::RoundRobin), Just(Scheduler::Maglev)],
        tunnel in prop::sample::select(TUNNELS.to_vec()),
        vlans in prop::sample::select(TAGGED.to_vec()),
        // Some packets are too long for the way to the backends, or for its tunnel.
        inside_mtu in prop::sample::select(vec![1500_u16, 200]),
    ) {
        let tunnel = TunnelSpec { tunnel, source: None, ttl: 64 };
        let mtus = [1500, inside_mtu];
        let plan = Plan { connections, sample, scheduler, tunnel, vlans, mtus, ..Plan::default() };
        let encodings = [Encoding::Off, Encoding::Mark, Encoding::Queue, Encoding::Slow];
        let mut worlds = encodings.map(|encoding| Offloaded::new(&plan, encoding));
        let mut sent: Vec<(PortId, Vec<u8>)> = Vec::new();
        let mut keys: Vec<FlowKey> = Vec::new();
        for some in steps.chunks(burst) {
            for port in [OUTSIDE, INSIDE] {
                let frames: Vec<_> = some.iter().filter_map(|step| frame(step, port, vlans, &sent)).collect();
                keys.extend(frames.iter().filter_map(|(frame, ..)| key_of(frame)));
                let [off, mark, queue, slow] = worlds.each_mut().map(|world| world.run(port, &frames));
                prop_assert_eq!(&off, &mark, "mark differs");
                prop_assert_eq!(&off, &queue, "queue differs");
                prop_assert_eq!(&off, &slow, "the slow path differs");
                sent.extend(off);
            }
            for step in some {
                if let Step::Remove { which } = step {
                    if !keys.is_empty() {
                        let key = keys[which.index(keys.len())];
                        worlds.iter_mut().for_each(|world| world.remove(&key));
                    }
                }
            }
        }
        let [off, mark, queue, slow] = worlds.map(|world| {
            [Counter::Installed, Counter::Stateless, Counter::NotForUs]
                .map(|counter| world.world.count(counter))
        });
        prop_assert_eq!(off, mark);
        prop_assert_eq!(off, queue);
        prop_assert_eq!(off, slow);
    }
}

/// The frame of a step on `port`, as damaged and as it was.
fn frame(
    step: &Step,
    port: PortId,
    vlans: [Option<u16>; 2],
    sent: &[(PortId, Vec<u8>)],
) -> Option<(Vec<u8>, Vec<u8>, Lie)> {
    let Step::Packet { sender, flags, size, piece, damage, lie } = step else { return None };
    let (_, intact) = build(sender, *flags, *size, vlans, sent).filter(|(on, _)| *on == port)?;
    let mut frame = intact.clone();
    if let Some(piece) = piece {
        let pieces = cut(&intact, 9, 64);
        frame.clone_from(&pieces[piece.index(pieces.len())]);
    }
    if let Some(Damage { at, value }) = damage {
        let at = 12 + at.index(60.min(frame.len() - 12));
        frame[at] = *value;
    }
    Some((frame, intact, *lie))
}

#[test]
fn most_packets_of_long_connections_are_not_looked_up() {
    for (encoding, counter) in
        [(Encoding::Mark, Counter::MatchedByMark), (Encoding::Queue, Counter::MatchedByQueue)]
    {
        let mut world = Offloaded::new(&Plan { sample: 8, ..Plan::default() }, encoding);
        let frame = |flags| {
            let frame = tcp(Link::CLIENT, "9.9.9.1:5000", "10.9.0.1:80", flags, b"x");
            (frame.clone(), frame, Lie::No)
        };
        world.run(OUTSIDE, &[frame("S")]);
        let frames: Vec<_> = (0..40).map(|_| frame("PA")).collect();
        assert_eq!(world.run(OUTSIDE, &frames).len(), 40);
        assert_eq!(world.world.count(counter), 40);
        assert_eq!(world.world.count(Counter::LookedUp), 0);
        let sampled = world.world.count(Counter::Sampled);
        assert_eq!(sampled > 0, encoding == Encoding::Queue);
        assert!(sampled < 20, "{sampled} of 40");
    }
}

#[test]
fn the_end_of_a_connection_is_seen_behind_its_queue() {
    let plan = Plan { admit: flow::AdmissionPolicy::All, ..Plan::default() };
    let mut world = Offloaded::new(&plan, Encoding::Queue);
    let there = |flags| {
        let frame = tcp(Link::CLIENT, "9.9.9.1:5000", "10.9.0.1:80", flags, b"x");
        (frame.clone(), frame, Lie::No)
    };
    let back = |flags| {
        let link = Link::from_backend(1);
        let frame = tcp(link, "10.1.0.11:8080", "9.9.9.1:5000", flags, b"x");
        (frame.clone(), frame, Lie::No)
    };
    world.run(OUTSIDE, &[there("S")]);
    world.run(INSIDE, &[back("SA")]);
    world.run(OUTSIDE, &[there("A")]);
    assert_eq!(world.world.count(Counter::MatchedByQueue), 1);
    world.run(OUTSIDE, &[there("FA")]);
    assert!(world.world.out.offload.is_empty(), "software saw no ACK, so no handshake");
    world.run(INSIDE, &[back("FA")]);
    let reasons: Vec<_> = world.world.out.offload.iter().map(|(_, reason)| *reason).collect();
    assert_eq!(reasons, [Offload::Closing]);
}
