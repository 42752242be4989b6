//! Several workers over one table; ageing.
use std::sync::Arc;

use conntrack::OffloadState;
use packet::HeapPacket;
use pipeline::{Ager, AgerSettings, Counter};
use service::{BackendId, Scheduler};

use crate::world::{INSIDE, Link, OUTSIDE, Plan, World, destination, tcp, udp};

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
    let per_worker = std::thread::scope(|scope| {
        let threads: Vec<_> = world
            .workers
            .into_iter()
            .map(|mut worker| {
                scope.spawn(move || {
                    let mut out = crate::world::Out::default();
                    let mut seen = Vec::new();
                    for n in 0..2000u16 {
                        let client = format!("9.9.9.9:{}", 1000 + n);
                        let frame = tcp(Link::CLIENT, &client, "10.9.0.1:80", "S", b"");
                        let mut burst = [HeapPacket::new(&frame)].into_iter().collect();
                        worker.begin();
                        let from = pipeline::Source { port: OUTSIDE, queue: 0 };
                        worker.process(from, &mut burst, 1000, &mut out);
                        let (_, sent) = out.sent.pop().unwrap();
                        seen.push(destination(&sent));
                    }
                    let (came, went) = worker.counters().balance();
                    assert_eq!((came, went), (2000, 2000));
                    (seen, worker.counters().get(Counter::Installed))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(per_worker[0].0, per_worker[1].0);
    assert_eq!(per_worker[0].1 + per_worker[1].1, 2000);
    assert_eq!(world.shared.table.len(), 2000);
    let active = [BackendId(0), BackendId(1)].map(|id| world.shared.active.get(id));
    assert_eq!(active.iter().sum::<u32>(), 2000);
}

#[test]
fn idle_connections_are_removed_those_with_rules_after_their_withdrawal() {
    let mut world = World::new(&Plan::default());
    let frame = |n: u16| udp(Link::CLIENT, &format!("9.9.9.9:{n}"), "10.9.0.1:53", b"q");
    for n in [1000, 1001] {
        world.one(OUTSIDE, &frame(n));
    }
    let table = &world.shared.table;
    let flow = wire::Headers::parse(&frame(1001)).unwrap().flow(&frame(1001)).unwrap();
    let conn = table.lookup(&flow).unwrap().conn;
    assert!(table.change_offload(conn, OffloadState::None, OffloadState::Installed));
    let mut ager = Ager::new(Arc::clone(&world.shared), AgerSettings::default());
    let mut withdrawn = Vec::new();
    ager.tick(world.now_ms + 29_000, &mut |conn| withdrawn.push(conn));
    assert_eq!((table.len(), withdrawn.len()), (2, 0));
    ager.tick(world.now_ms + 31_000, &mut |conn| withdrawn.push(conn));
    assert_eq!((table.len(), &withdrawn[..]), (1, &[conn][..]));
    // The offload side: rules gone, a full timeout of probation.
    assert!(table.change_offload(conn, OffloadState::Installed, OffloadState::Withdrawing));
    ager.tick(world.now_ms + 32_000, &mut |conn| withdrawn.push(conn));
    assert!(table.rearm(conn, world.now_ms + 33_000));
    assert!(table.change_offload(conn, OffloadState::Withdrawing, OffloadState::None));
    ager.tick(world.now_ms + 62_000, &mut |conn| withdrawn.push(conn));
    assert_eq!(table.len(), 1);
    ager.tick(world.now_ms + 64_000, &mut |conn| withdrawn.push(conn));
    assert_eq!((table.len(), withdrawn.len(), ager.removed()), (0, 1, 2));
    assert_eq!(world.shared.active.get(BackendId(2)), 0);
    assert_eq!(world.shared.active.get(BackendId(3)), 0);
}
