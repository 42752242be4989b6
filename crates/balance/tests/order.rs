//! Random traffic, functions that drop, keep and delay packets, CPUs that die: packets of
//! a bucket never overtake each other, and none is lost or kept for ever.
#![allow(clippy::unwrap_used)]
use std::collections::VecDeque;

use balance::{
    Alpha, Balancer, Kind, Marks, Order, Placement, Settings, SettingsError, symmetric, thesis,
};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
struct Packet {
    bucket: u16,
    number: u64,
    sequence: u64,
    sent_ns: u64,
}

/// CPUs as first-in-first-out queues, and packets that are held.
struct World {
    balancer: Balancer,
    queues: Vec<VecDeque<Packet>>,
    held: Vec<VecDeque<Packet>>,
    seen: Vec<u64>,
    now_ns: u64,
    processed: u64,
    overtaken: u64,
}

impl World {
    fn new(settings: Settings) -> Self {
        Self {
            balancer: Balancer::new(settings).unwrap(),
            queues: vec![VecDeque::new(); settings.cpus.into()],
            held: vec![VecDeque::new(); settings.buckets.into()],
            seen: vec![0; settings.buckets.into()],
            now_ns: 0,
            processed: 0,
            overtaken: 0,
        }
    }

    fn send(&mut self, mut packet: Packet) {
        match self.balancer.to_cpu(packet.bucket, self.now_ns).unwrap() {
            Placement::Send { cpu, sequence } => {
                (packet.sequence, packet.sent_ns) = (sequence, self.now_ns);
                self.queues[usize::from(cpu)].push_back(packet);
            }
            Placement::Hold => self.held[usize::from(packet.bucket)].push_back(packet),
        }
        self.release();
    }

    fn release(&mut self) {
        while let Some(release) = self.balancer.release() {
            for packet in std::mem::take(&mut self.held[usize::from(release.bucket)]) {
                self.send(packet);
            }
        }
    }

    /// The CPU processes its oldest packet; one that it drops does not come back.
    fn process(&mut self, cpu: usize, drops: bool) {
        let Some(packet) = self.queues[cpu].pop_front() else { return };
        let seen = &mut self.seen[usize::from(packet.bucket)];
        self.overtaken += u64::from(packet.number < *seen);
        *seen = packet.number.max(*seen);
        self.processed += 1;
        if !drops {
            let away = self.now_ns - packet.sent_ns;
            self.balancer.returned(packet.bucket, cpu as u16, packet.sequence, away, self.now_ns);
            self.release();
        }
    }
}

fn run(order: Order, algorithm: Kind, steps: &[(u16, u16, u16)]) -> World {
    let alpha = Alpha::THESIS;
    let mut world =
        World::new(Settings { cpus: 4, buckets: 16, algorithm, order, trigger_ns: 500, alpha });
    for (number, &(bucket, cpu, chance)) in steps.iter().enumerate() {
        world.now_ns += 100;
        // Two of three packets are of few buckets, so that there is something to even.
        let bucket = if chance % 3 == 0 { bucket % 16 } else { bucket % 3 };
        world.send(Packet { bucket, number: number as u64, sequence: 0, sent_ns: 0 });
        world.process(usize::from(cpu % 4), chance % 7 == 0);
        if chance % 100 == 1 {
            world.balancer.advance(world.now_ns);
            world.release();
        }
    }
    // The end: packets stop, queues empty, time passes.
    for cpu in 0..4 {
        while !world.queues[cpu].is_empty() {
            world.process(cpu, true);
        }
    }
    world.now_ns += 1_000_000_000;
    world.balancer.advance(world.now_ns);
    world.release();
    for cpu in 0..4 {
        while !world.queues[cpu].is_empty() {
            world.process(cpu, false);
        }
    }
    world
}

const ORDERS: [Order; 2] = [
    Order::Idle { patience_ns: 1_000, hold_ns: 3_000, held: 5 },
    Order::Drain { hold_ns: 3_000, held: 5 },
];

proptest! {
    #[test]
    fn no_packet_of_a_bucket_overtakes_another_and_none_is_lost(
        steps in prop::collection::vec(any::<(u16, u16, u16)>(), 1..3000),
        order in 0_usize..2,
        kind in 0_usize..4,
    ) {
        let marks = Marks { high_percent: 1, ..Marks::default() };
        let kind = [Kind::Even, Kind::Rsspp, Kind::Max(marks), Kind::Low2(marks)][kind];
        let world = run(ORDERS[order], kind, &steps);
        prop_assert_eq!(world.overtaken, 0);
        prop_assert_eq!(world.processed, steps.len() as u64);
    }
}

#[test]
fn moves_happen_and_an_instant_move_lets_packets_overtake() {
    let mut state = 1_u64;
    let steps: Vec<(u16, u16, u16)> = (0..200_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 20) as u16, (state >> 36) as u16, (state >> 44) as u16)
        })
        .collect();
    let marks = Marks { high_percent: 1, ..Marks::default() };
    let instant = run(Order::Instant, Kind::Max(marks), &steps);
    assert!(instant.overtaken > 0 && instant.balancer.moved() > 0);
    for order in ORDERS {
        let world = run(order, Kind::Max(marks), &steps);
        assert!(world.balancer.moved() > 0, "{order:?}");
        assert_eq!(world.overtaken, 0);
    }
}

#[test]
fn buckets_of_a_dead_cpu_go_elsewhere_at_once() {
    let settings = Settings { cpus: 4, buckets: 18, ..Settings::default() };
    let mut world = World::new(settings);
    assert_eq!(world.balancer.map().iter().filter(|cpu| **cpu == 0).count(), 5);
    for bucket in 0..18 {
        world.send(Packet { bucket, number: 0, sequence: 0, sent_ns: 0 });
    }
    world.balancer.fail(1, 10);
    assert!(!world.balancer.map().contains(&1));
    for cpu in [0, 2, 3] {
        let own = world.balancer.map().iter().filter(|of| **of == cpu).count();
        assert_eq!(own, 6, "the orphans are spread");
    }
}

#[test]
fn nonsense_changes_nothing() {
    let mut balancer = Balancer::new(Settings::default()).unwrap();
    assert_eq!(balancer.to_cpu(32, 0), None);
    balancer.returned(999, 999, 77, 5, 1);
    balancer.returned(0, 0, u64::MAX, 5, 1);
    balancer.fail(99, 1);
    assert_eq!(balancer.to_cpu(0, 1), Some(Placement::Send { cpu: 0, sequence: 1 }));
    assert_eq!(balancer.release(), None);
    for (cpus, buckets) in [(0, 8), (65, 128), (8, 7), (8, 2049)] {
        let settings = Settings { cpus, buckets, ..Settings::default() };
        assert!(Balancer::new(settings).is_err());
    }
    let said = SettingsError::Buckets { buckets: 7, cpus: 8 }.to_string();
    assert_eq!(said, "7 buckets for 8 CPUs; a balancer has 8 to 2048");
}

#[test]
fn hashes_have_the_values_of_zlib() {
    let one = ("10.0.0.1".parse().unwrap(), 1000);
    let other = ("10.0.0.2".parse().unwrap(), 80);
    // zlib.crc32(bytes([10,0,0,1, 10,0,0,2, 6, 3,232, 0,80]))
    assert_eq!(thesis(one, other, 6), 0x5360eaad);
    assert_ne!(thesis(one, other, 6), thesis(other, one, 6));
    assert_eq!(symmetric(one, other, 6), symmetric(other, one, 6));
}
