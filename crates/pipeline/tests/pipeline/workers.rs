//! Several workers over one table; ageing.
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use conntrack::{ConnId, OffloadState};
use flow::{BackendId, HopId, InterfaceId, PortId, Scheduler};
use keeper::{Ager, AgerSettings};
use packet::HeapPacket;
use pipeline::{Outbox, Pipeline};
use service::Binding;
use state::{Counter, Offload, Shared, Source};
use wire::{FlowKey, Transport};

use crate::world::{INSIDE, Link, OUTSIDE, Out, Plan, World, at, destination, tcp, udp};

#[test]
fn a_connection_of_one_worker_is_known_to_the_other() {
    let mut world = World::with_workers(&Plan::default(), 2);
    let (client, vip) = ("9.9.9.9:5000", "10.9.0.1:80");
    let send = |world: &mut World, worker, flags| {
        let frame = HeapPacket::new(&tcp(Link::CLIENT, client, vip, flags, b""));
        world.burst_at(worker, OUTSIDE, 0, vec![frame]).pop().unwrap()
    };
    let first = destination(&send(&mut world, 0, "S").1);
    for worker in [1, 0, 1] {
        assert_eq!(destination(&send(&mut world, worker, "A").1), first);
    }
    let answer = tcp(Link::from_backend(1), &first.to_string(), client, "SA", b"");
    assert_eq!(world.burst_at(1, INSIDE, 0, vec![HeapPacket::new(&answer)]).len(), 1);
    assert_eq!(world.count(Counter::Installed), 1);
}

#[test]
fn workers_in_threads_agree_on_every_connection() {
    let plan = Plan { connections: 4096, scheduler: Scheduler::RoundRobin, ..Plan::default() };
    let world = World::with_workers(&plan, 2);
    let frames: Vec<_> = (1000..3000)
        .map(|port| tcp(Link::CLIENT, &format!("9.9.9.9:{port}"), "10.9.0.1:80", "S", b""))
        .collect();
    // Both bring every connection in at nearly the same moment.
    let started = AtomicUsize::new(0);
    let per_worker = std::thread::scope(|scope| {
        let threads: Vec<_> = world
            .workers
            .into_iter()
            .map(|worker| scope.spawn(|| race(worker, &frames, &started)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(per_worker[0].0.iter().all(Option::is_some));
    assert_eq!(per_worker[0].0, per_worker[1].0);
    assert_eq!(per_worker[0].1 + per_worker[1].1, 2000);
    assert_eq!(world.shared.table().len(), 2000);
    let active = [BackendId(0), BackendId(1)].map(|id| world.shared.loads().connections(id));
    assert_eq!(active.iter().sum::<u32>(), 2000);
}

/// Sends `frames` one by one, each when the other worker is there too; where
/// they went, and how many connections that made.
fn race(
    mut worker: Pipeline<HeapPacket>,
    frames: &[Vec<u8>],
    started: &AtomicUsize,
) -> (Vec<Option<SocketAddr>>, u64) {
    let mut out = Out::default();
    let mut seen = Vec::new();
    for (n, frame) in frames.iter().enumerate() {
        let mut burst = [HeapPacket::new(frame)].into_iter().collect();
        worker.begin();
        started.fetch_add(1, Ordering::SeqCst);
        while started.load(Ordering::SeqCst) < 2 * (n + 1) {
            std::thread::yield_now();
        }
        worker.process(Source { port: OUTSIDE, queue: 0 }, &mut burst, 1000, &mut out);
        // No panic in here: the other worker would wait for ever.
        seen.push(out.sent.pop().map(|(_, frame)| destination(&frame)));
    }
    let counters = worker.counters();
    assert_eq!(counters.balance(), (2000, 2000));
    (seen, counters.get(Counter::Installed))
}

#[test]
fn idle_connections_are_removed_those_with_rules_after_their_withdrawal() {
    let mut world = World::new(&Plan::default());
    let frame = |n: u16| udp(Link::CLIENT, &format!("9.9.9.9:{n}"), "10.9.0.1:53", b"q");
    for n in [1000, 1001] {
        world.one(OUTSIDE, &frame(n));
    }
    let table = world.shared.table();
    let flow = wire::Headers::parse(&frame(1001)).unwrap().flow(&frame(1001)).unwrap();
    let conn = table.lookup(&flow).unwrap().conn;
    assert!(table.change_offload(conn, OffloadState::None, OffloadState::Installed));
    let mut ager = Ager::new(Arc::clone(&world.shared), AgerSettings::default());
    let mut withdrawn = Vec::new();
    ager.tick(world.now_ms + 29_000, &mut |conn, why| withdrawn.push((conn, why)));
    assert_eq!((table.len(), withdrawn.len()), (2, 0));
    ager.tick(world.now_ms + 31_000, &mut |conn, why| withdrawn.push((conn, why)));
    assert_eq!((table.len(), &withdrawn[..]), (1, &[(conn, Offload::Expired)][..]));
    // The offload side: rules gone, a full timeout of probation.
    assert!(table.change_offload(conn, OffloadState::Installed, OffloadState::Withdrawing));
    ager.tick(world.now_ms + 32_000, &mut |conn, why| withdrawn.push((conn, why)));
    assert!(table.rearm(conn, world.now_ms + 33_000));
    assert!(table.change_offload(conn, OffloadState::Withdrawing, OffloadState::None));
    ager.tick(world.now_ms + 62_000, &mut |conn, why| withdrawn.push((conn, why)));
    assert_eq!(table.len(), 1);
    ager.tick(world.now_ms + 64_000, &mut |conn, why| withdrawn.push((conn, why)));
    assert_eq!((table.len(), withdrawn.len(), ager.removed()), (0, 1, 2));
    assert_eq!(world.shared.loads().connections(BackendId(2)), 0);
    assert_eq!(world.shared.loads().connections(BackendId(3)), 0);
}

/// Plays another worker that brings the connection in between this worker's
/// lookup and its insertion: while it asks for the way back.
struct Overtaken {
    shared: Arc<Shared>,
    out: Out,
    binding: Binding,
}

impl Outbox<HeapPacket> for Overtaken {
    fn send(&mut self, port: PortId, packet: HeapPacket) {
        self.out.send(port, packet);
    }

    fn fresh(&mut self, len: usize) -> Option<HeapPacket> {
        self.out.fresh(len)
    }

    fn offload(&mut self, conn: ConnId, reason: Offload) -> bool {
        self.out.offload(conn, reason)
    }

    fn resolve(&mut self, back: HopId) {
        let there = self.shared.hop_to(self.binding.server.ip(), 0).unwrap();
        self.shared.table().insert(&self.binding, [there, back], 0).unwrap();
    }

    fn hand_over(&mut self, worker: usize, from: Source, packet: HeapPacket) -> bool {
        self.out.hand_over(worker, from, packet)
    }

    fn to_kernel(&mut self, _: InterfaceId, _: HeapPacket) -> bool {
        false
    }
}

#[test]
fn the_other_workers_decision_counts() {
    let mut world = World::new(&Plan::default());
    let (client, vip) = ("10.0.0.77:5000", "10.9.0.1:80");
    let key = FlowKey::new(Transport::Tcp, at(client), at(vip)).unwrap();
    let snapshot = world.shared.snapshot();
    let binding = snapshot.services.lookup(&key).unwrap().bind(BackendId(1), &key, None);
    let shared = Arc::clone(&world.shared);
    let mut out = Overtaken { shared, out: Out::default(), binding: binding.unwrap() };
    let syn = HeapPacket::new(&tcp(Link::CLIENT, client, vip, "S", b""));
    let mut burst = [syn].into_iter().collect();
    let from = Source { port: OUTSIDE, queue: 0 };
    world.workers[0].process(from, &mut burst, 1000, &mut out);
    // By itself it would have taken the first backend.
    assert_eq!(destination(&out.out.sent[0].1), at("10.1.0.12:8080"));
    assert_eq!(world.count(Counter::Installed), 0);
}

/// Rules may be made at any moment for a connection that waits for them, so an idle
/// one is reported and stays.
#[test]
fn an_idle_connection_that_waits_for_rules_is_not_removed() {
    let mut world = World::new(&Plan::default());
    let frame = udp(Link::CLIENT, "9.9.9.9:1000", "10.9.0.1:53", b"q");
    world.one(OUTSIDE, &frame);
    let table = world.shared.table();
    let flow = wire::Headers::parse(&frame).unwrap().flow(&frame).unwrap();
    let conn = table.lookup(&flow).unwrap().conn;
    assert!(table.change_offload(conn, OffloadState::None, OffloadState::Wanted));
    let mut ager = Ager::new(Arc::clone(&world.shared), AgerSettings::default());
    let mut reported = Vec::new();
    for late_ms in [31_000, 60_000] {
        ager.tick(world.now_ms + late_ms, &mut |conn, why| reported.push((conn, why)));
    }
    assert_eq!(reported, [(conn, Offload::Expired); 2], "in every round");
    assert_eq!((table.len(), ager.removed()), (1, 0));
}
