//! HNLB's own algorithm: it evens, and it keeps moves for what needs them.
#![allow(clippy::unwrap_used)]

use balance::{Algorithm, Even, Move, Snapshot};
use proptest::prelude::*;

const CPUS: usize = 4;
const BUCKETS: usize = 16;
/// [`World::step_ns`] at first.
const TRIGGER_NS: u64 = 2_000_000;
/// Moves at the start, at once later, and a second.
const START: usize = 32;
const BURST: usize = 10;
const RATE: u64 = 17;

/// A map that follows every move at once.
struct World {
    even: Even,
    map: Vec<u16>,
    now_ns: u64,
    /// Between triggers.
    step_ns: u64,
}

impl World {
    fn new() -> Self {
        let map = (0..BUCKETS).map(|bucket| (bucket * CPUS / BUCKETS) as u16).collect();
        Self { even: Even::default(), map, now_ns: 1, step_ns: TRIGGER_NS }
    }

    /// A trigger; the number of moves.
    fn trigger(&mut self, packets: &[u32], latency: &[u32]) -> usize {
        let mut moves = Vec::new();
        let seen = Snapshot {
            now_ns: self.now_ns,
            cpus: CPUS,
            map: &self.map,
            latency,
            packets,
            fixed: &[],
            busy: &[],
        };
        self.even.decide(&seen, &mut moves);
        self.now_ns += self.step_ns;
        for Move { bucket, from, to } in &moves {
            assert_eq!(std::mem::replace(&mut self.map[usize::from(*bucket)], *to), *from);
        }
        moves.len()
    }

    fn loads(&self, packets: &[u32]) -> Vec<u32> {
        let mut loads = vec![0; CPUS];
        for (cpu, packets) in self.map.iter().zip(packets) {
            loads[usize::from(*cpu)] += packets;
        }
        loads
    }

    /// Latencies as queues make them: a CPU of `factor` times the average load or more is
    /// overloaded.
    fn latencies(&self, packets: &[u32], factor: f64) -> Vec<u32> {
        let loads = self.loads(packets);
        let most = f64::from(loads.iter().sum::<u32>()) / CPUS as f64 * factor;
        let of = |cpu: &u16| if f64::from(loads[usize::from(*cpu)]) >= most { 2_000 } else { 100 };
        self.map.iter().map(of).collect()
    }

    /// Spends the moves that are for calm times, in no time: loads change and change
    /// again.
    fn spend(&mut self) {
        self.step_ns = 0;
        for round in 0..1000 {
            let mut packets = [100; BUCKETS];
            packets[round / 8 % BUCKETS] = 1000;
            self.trigger(&packets, &[100; BUCKETS]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// Whatever comes, there are no more moves than the budget has.
    #[test]
    fn moves_stay_within_the_budget(
        loads in prop::collection::vec(
            (prop::collection::vec(0..2000_u32, BUCKETS), prop::collection::vec(0..5000_u32, BUCKETS)),
            1..20,
        ),
    ) {
        let mut world = World::new();
        let mut moves = 0;
        for (packets, latency) in loads {
            for _ in 0..50 {
                moves += world.trigger(&packets, &latency);
                let earned = (world.now_ns / 1_000_000 * RATE).div_ceil(1000) as usize;
                prop_assert!(moves <= START + earned, "{moves} moves by {} ns", world.now_ns);
            }
        }
    }

    /// Steady loads become even, with latencies and without.
    #[test]
    fn steady_loads_become_even(
        packets in prop::collection::vec(50..150_u32, BUCKETS), latencies in any::<bool>(),
    ) {
        let mut world = World::new();
        for _ in 0..1000 {
            let latency = if latencies { world.latencies(&packets, 1.1) } else { vec![0; BUCKETS] };
            world.trigger(&packets, &latency);
        }
        let loads = world.loads(&packets);
        let average = f64::from(packets.iter().sum::<u32>()) / CPUS as f64;
        let most = f64::from(*loads.iter().max().unwrap());
        prop_assert!(most <= average * 1.11, "{loads:?}");
    }
}

/// Calm times leave moves over for a CPU that is about to lose packets, and those come
/// within four triggers.
#[test]
fn moves_are_kept_for_overload() {
    let mut world = World::new();
    world.spend();
    let pair = |world: &World| {
        let cpus = || world.map.iter().enumerate();
        let pairs = cpus().flat_map(|one| cpus().map(move |other| (one, other)));
        let mut pairs = pairs.filter(|((one, of), (other, cpu))| one < other && of == cpu);
        pairs.next().map(|((one, _), (other, _))| (one, other)).unwrap()
    };
    let loads = |(one, other): (usize, usize)| {
        let mut packets = [100; BUCKETS];
        (packets[one], packets[other]) = (900, 900);
        packets
    };
    let (one, other) = pair(&world);
    let packets = loads((one, other));
    for _ in 0..20 {
        let moves = world.trigger(&packets, &[100; BUCKETS]);
        assert_eq!(moves, 0, "few moves are left, and nothing presses");
    }
    for _ in 0..4 {
        world.trigger(&packets, &world.latencies(&packets, 1.5));
    }
    assert_ne!(world.map[one], world.map[other], "they are apart");
}

/// A quiet second saves up no more than a burst.
#[test]
fn a_burst_is_bounded() {
    let mut world = World::new();
    world.spend();
    world.step_ns = TRIGGER_NS;
    for _ in 0..2000 {
        world.trigger(&[100; BUCKETS], &[100; BUCKETS]);
    }
    let mut moves = 0;
    for round in 0..25 {
        let mut packets = [100; BUCKETS];
        packets[round % BUCKETS] = 2000;
        packets[(round * 7 + 1) % BUCKETS] = 2000;
        moves += world.trigger(&packets, &world.latencies(&packets, 1.2));
    }
    assert!(moves <= BURST + 1, "{moves}");
}
