//! The per-packet path allocates nothing: counted by the allocator itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, reason = "every test uses its own part")]
#[path = "pipeline/world.rs"]
mod world;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use arrayvec::ArrayVec;
use conntrack::{ConnId, Hit};
use flow::{AdmissionPolicy, Direction, HopId, InterfaceId, PortId, Scheduler};
use packet::HeapPacket;
use pipeline::{Outbox, Settings};
use service::TunnelSpec;
use state::{Counter, Marked, Offload, QueueAction, Source};
use wire::Tunnel;
use world::{INSIDE, LB_OUT, Link, OUTSIDE, Plan, World, tcp, udp};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count for each thread.
struct Counting;

fn count() {
    // A thread that ends has no counter any more, and does no measuring.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: everything is the system allocator's; counting touches a thread-local
// number that needs no memory of its own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(memory, layout) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of this thread while `run` runs.
fn allocations(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    run();
    ALLOCATIONS.with(Cell::get) - before
}

/// Keeps what is sent until the count is taken.
#[derive(Default)]
struct Sink {
    sent: ArrayVec<HeapPacket, 64>,
    asked: u64,
}

impl Outbox<HeapPacket> for Sink {
    fn send(&mut self, _: PortId, packet: HeapPacket) {
        self.sent.push(packet);
    }

    fn fresh(&mut self, _: usize) -> Option<HeapPacket> {
        None
    }

    fn offload(&mut self, _: ConnId, _: Offload) -> bool {
        self.asked += 1;
        true
    }

    fn resolve(&mut self, _: HopId) {
        self.asked += 1;
    }

    fn hand_over(&mut self, _: usize, _: Source, _: HeapPacket) -> bool {
        false
    }

    fn to_kernel(&mut self, _: InterfaceId, _: HeapPacket) -> bool {
        true
    }
}

const CONNECTIONS: u16 = 32;
const BURSTS: usize = 300;
const SERVERS: [(&str, &str); 2] = [("10.9.0.1:80", "10.1.0"), ("[fd09::1]:80", "[fd01:")];

fn plan() -> Plan {
    Plan { connections: 4096, admit: AdmissionPolicy::All, sample: 4, ..Plan::default() }
}

/// A client's end of connection `n`, of the family of `vip`.
fn client(vip: &str, n: u16) -> String {
    let address = if vip.starts_with('[') { "[fd77::5]" } else { "192.0.2.5" };
    format!("{address}:{}", 2000 + n)
}

/// A packet of every connection and direction, and the connection it is of.
struct Established {
    world: World,
    packets: Vec<(PortId, Vec<u8>, Hit)>,
}

impl Established {
    fn new() -> Self {
        let mut world = World::new(&plan());
        let mut packets = Vec::new();
        for (vip, _) in SERVERS {
            for n in 0..CONNECTIONS {
                let client = client(vip, n);
                let to = |flags| tcp(Link::CLIENT, &client, vip, flags, b"");
                let (_, syn) = world.one(OUTSIDE, &to("S")).unwrap();
                let server = world::destination(&syn);
                let number = match server.ip() {
                    std::net::IpAddr::V4(ip) => ip.octets()[3] - 10,
                    std::net::IpAddr::V6(ip) => (ip.segments()[7] - 0x10) as u8,
                };
                let link = Link::from_backend(number);
                let back = |flags| tcp(link, &server.to_string(), &client, flags, b"");
                world.one(INSIDE, &back("SA")).unwrap();
                world.one(OUTSIDE, &to("A")).unwrap();
                for (port, frame) in [(OUTSIDE, to("PA")), (INSIDE, back("PA"))] {
                    let headers = wire::Headers::parse(&frame).unwrap();
                    let key = headers.flow(&frame).unwrap();
                    let hit = world.shared.table().lookup(&key).unwrap();
                    packets.push((port, frame, hit));
                }
            }
        }
        Self { world, packets }
    }

    /// Sends the packets that `kept` picks again and again, as `told` by the
    /// NIC; every one must go out, without an allocation.
    fn assert_none(
        &mut self,
        kept: impl Fn(PortId, Hit) -> bool,
        told: impl Fn(usize) -> (u16, Option<u32>),
    ) {
        let packets: Vec<_> = self.packets.iter().enumerate().collect();
        let kept: Vec<_> = packets.into_iter().filter(|(_, (p, _, hit))| kept(*p, *hit)).collect();
        assert!(!kept.is_empty());
        for round in 0..BURSTS {
            // Not always the same ones; one burst has one port and one queue.
            let (behind, ahead) = kept.split_at(round % kept.len());
            let (first, (port, ..)) = ahead[0];
            let queue = told(first).0;
            let of_queue = ahead
                .iter()
                .chain(behind)
                .filter(|(at, (p, ..))| p == port && told(*at).0 == queue);
            let mut burst: ArrayVec<HeapPacket, 64> = of_queue
                .take(32)
                .map(|(at, (_, frame, _))| HeapPacket::new(frame).with_mark(told(*at).1))
                .collect();
            let (len, mut out) = (burst.len(), Sink::default());
            let source = Source { port: *port, queue };
            self.world.now_ms += 1;
            let (pipeline, now_ms) = (&mut self.world.workers[0], self.world.now_ms);
            let made = allocations(|| {
                pipeline.begin();
                pipeline.process(source, &mut burst, now_ms, &mut out);
                pipeline.tick(now_ms, &mut out);
            });
            assert_eq!((made, out.sent.len()), (0, len), "round {round}");
        }
    }
}

#[test]
fn the_allocator_counts() {
    assert_eq!(allocations(|| drop(vec![1_u8; 100])), 1);
    assert_eq!(allocations(|| ()), 0);
}

#[test]
fn connections_looked_up() {
    let mut net = Established::new();
    net.assert_none(|_, _| true, |_| (0, None));
    assert!(net.world.count(Counter::LookedUp) > 1000);
}

#[test]
fn connections_told_by_mark() {
    let mut net = Established::new();
    let mut mark = vec![0; net.packets.len()];
    for (at, (port, _, hit)) in net.packets.iter().enumerate() {
        mark[at] = (at % 64) as u32;
        let marked = Marked { conn: hit.conn, direction: hit.direction };
        // Of two connections for one mark the last has it: the other's is stale.
        net.world.shared.port(*port).unwrap().marks.set(mark[at], marked);
    }
    net.assert_none(|_, _| true, |at| (0, Some(mark[at])));
    assert!(net.world.count(Counter::MatchedByMark) > 1000);
    assert!(net.world.count(Counter::MarkStale) > 100);
}

#[test]
fn backends_told_by_queue() {
    let mut net = Established::new();
    let (_, _, hit) = net.packets[0];
    let binding = net.world.shared.table().binding(hit.conn).unwrap();
    let action = QueueAction {
        service: binding.service,
        backend: binding.backend,
        direction: Direction::Forward,
        proto: binding.proto,
        endpoint: binding.vip,
        delivery: binding.delivery(Direction::Forward).unwrap(),
        hop: net.world.shared.table().action(hit).unwrap().hop,
    };
    assert!(net.world.shared.port(OUTSIDE).unwrap().queues.set(3, Some(action)));
    let shared = std::sync::Arc::clone(&net.world.shared);
    let same = move |port, hit: Hit| {
        port == OUTSIDE
            && shared.table().binding(hit.conn).is_some_and(|b| b.backend == action.backend)
    };
    net.assert_none(same, |_| (3, None));
    assert!(net.world.count(Counter::MatchedByQueue) > 1000);
    assert!(net.world.count(Counter::Sampled) > 100);
}

/// A new connection takes a record of the table that is there already.
#[test]
fn new_connections() {
    for scheduler in [
        Scheduler::RoundRobin,
        Scheduler::WeightedRoundRobin,
        Scheduler::LeastConnections,
        Scheduler::Maglev,
        Scheduler::SourceHash,
    ] {
        let mut world = World::new(&Plan { scheduler, ..plan() });
        for n in 0..1000 {
            let (vip, _) = SERVERS[usize::from(n) % 2];
            let frame = tcp(Link::CLIENT, &client(vip, n), vip, "S", b"");
            let made = allocations_for(&mut world, OUTSIDE, &frame);
            assert_eq!(made, (0, 1), "connection {n} by {scheduler:?}");
        }
        assert_eq!(world.count(Counter::Installed), 1000);
    }
}

/// And so does one that finds the table full, or has a burst for company.
#[test]
fn floods() {
    for connections in [8, 4096] {
        let mut world = World::new(&Plan { connections, ..plan() });
        for burst in 0..20 {
            let frames = (0..64).map(|n| {
                HeapPacket::new(&tcp(
                    Link::CLIENT,
                    &client("", burst * 64 + n),
                    SERVERS[0].0,
                    "S",
                    b"",
                ))
            });
            let made = allocations_for_all(&mut world, OUTSIDE, frames.collect());
            assert_eq!(made, (0, 64), "burst {burst}, room for {connections}");
        }
        assert_eq!(world.count(Counter::Missed), 1280);
        assert_eq!(world.count(Counter::Installed), 1280.min(connections as u64));
    }
}

/// Modes in which packets stay as they are, in tunnels or not.
#[test]
fn one_way_connections() {
    for kind in
        [Tunnel::Ipip, Tunnel::Gre, Tunnel::Gue { port: 6080 }, Tunnel::Geneve { port: 6081 }]
    {
        let tunnel = TunnelSpec { tunnel: kind, source: None, ttl: 64 };
        let mut world = World::new(&Plan { tunnel, ..plan() });
        for vip in ["10.9.0.6:80", "[fd09::6]:80", "10.9.0.7:80", "[fd09::7]:80", "10.9.0.8:80"] {
            for (n, flags) in ["S", "A", "PA", "PA", "FA"].into_iter().enumerate() {
                let frame = tcp(Link::CLIENT, &client(vip, 0), vip, flags, &[7; 300]);
                let made = allocations_for(&mut world, OUTSIDE, &frame);
                assert_eq!(made, (0, 1), "packet {n} to {vip}, {kind:?}");
            }
        }
        assert_eq!(world.count(Counter::ForwardedPackets), 25);
    }
}

/// Answers, drops and fragments.
#[test]
fn everything_else() {
    let settings = Settings { fragments_held: 16, ..Settings::default() };
    let mut world = World::new(&Plan { settings, ..plan() });
    let mut arp = vec![0xff; 6];
    arp.extend(world::GATEWAY.0);
    arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.extend(world::GATEWAY.0);
    arp.extend([10, 0, 0, 254, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
    let vip = "10.9.0.1:53";
    // Long, so that the answer is shorter: a heap packet would grow by allocating.
    let expired = udp(Link::CLIENT.ttl(1), "192.0.2.5:9", vip, &[0; 700]);
    let first = udp(Link::CLIENT, "192.0.2.5:9", vip, &[0; 64]);
    let mut later = first.clone();
    // The second piece: 8 bytes further, of the same datagram, and never a first.
    later[20..22].copy_from_slice(&[0, 1]);
    let sum = etherparse::Ipv4HeaderSlice::from_slice(&later[14..]).unwrap();
    let sum = sum.to_header().calc_header_checksum();
    later[24..26].copy_from_slice(&sum.to_be_bytes());
    let stranger = udp(Link::CLIENT, "192.0.2.5:9", "10.9.9.9:53", b"x");
    let other_mac = udp(Link::new(world::GATEWAY, LB_OUT, 60), "192.0.2.5:9", vip, b"x");
    for (what, frame, sent) in [
        ("ARP", arp, 1),
        ("TTL", expired, 1),
        ("a fragment without a first", later, 0),
        ("nobody's", stranger, 0),
        ("cut", other_mac[..30].to_vec(), 0),
        ("first of UDP", first, 1),
    ] {
        for _ in 0..20 {
            assert_eq!(allocations_for(&mut world, OUTSIDE, &frame), (0, sent), "{what}");
        }
    }
}

/// Allocations for one packet, and how many packets came out.
fn allocations_for(world: &mut World, port: PortId, frame: &[u8]) -> (u64, usize) {
    allocations_for_all(world, port, [HeapPacket::new(frame)].into_iter().collect())
}

/// The same for a burst.
fn allocations_for_all(
    world: &mut World,
    port: PortId,
    mut burst: ArrayVec<HeapPacket, 64>,
) -> (u64, usize) {
    let (mut out, now_ms) = (Sink::default(), world.now_ms);
    let pipeline = &mut world.workers[0];
    let made = allocations(|| {
        pipeline.begin();
        pipeline.process(Source { port, queue: 0 }, &mut burst, now_ms, &mut out);
        pipeline.tick(now_ms, &mut out);
    });
    (made, out.sent.len())
}
