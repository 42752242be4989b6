//! The worked example of section 3.6, and what the rules can't do.
use balance::{Algorithm, Marks, Move, SafeMark, Snapshot, Thesis};
use proptest::prelude::*;

fn decide(mut algorithm: Thesis, cpus: usize, map: &[u16], latency: &[u32]) -> Vec<Move> {
    let packets = vec![1; map.len()];
    let seen = Snapshot { now_ns: 0, cpus, map, latency, packets: &packets, fixed: &[], busy: &[] };
    let mut moves = Vec::new();
    algorithm.decide(&seen, &mut moves);
    moves
}

fn apply(cpus: usize, map: &[u16], latency: &[u32], moves: &[Move]) -> Vec<u32> {
    let mut map = map.to_vec();
    for step in moves {
        assert_eq!(map[usize::from(step.bucket)], step.from, "a bucket moves from where it is");
        map[usize::from(step.bucket)] = step.to;
    }
    let mut sums = vec![0; cpus];
    map.iter().zip(latency).for_each(|(cpu, latency)| sums[usize::from(*cpu)] += latency);
    sums
}

/// CPU 1 to 6 of the figures are 0 to 5 here.
fn example() -> (Vec<u16>, Vec<u32>) {
    let map = vec![0, 1, 0, 0, 2, 0, 3, 4, 1, 5, 2, 5];
    let latency = vec![41, 20, 36, 32, 8, 81, 18, 9, 2, 45, 2, 78];
    (map, latency)
}

fn short(moves: &[Move]) -> Vec<(u16, u16)> {
    moves.iter().map(|step| (step.bucket, step.to + 1)).collect()
}

#[test]
fn max_does_what_figures_3_6_1_and_3_6_2_show() {
    let (map, latency) = example();
    let moves = decide(Thesis::max(Marks::default()), 6, &map, &latency);
    assert_eq!(short(&moves), [(2, 2), (0, 3), (3, 4), (9, 5)]);
    assert_eq!(apply(6, &map, &latency, &moves), [81, 58, 51, 50, 54, 78]);
}

#[test]
fn low2_does_what_figure_3_6_3_shows() {
    let (map, latency) = example();
    let moves = decide(Thesis::low2(Marks::default()), 6, &map, &latency);
    assert_eq!(short(&moves), [(0, 5), (2, 3)]);
}

/// One and two hot CPUs of 8, all of whose 4 buckets wait as long: nothing ever moves,
/// however hot they are. With three there are moves.
#[test]
fn one_or_two_hot_cpus_are_never_relieved() {
    let map: Vec<u16> = (0..32).map(|bucket| bucket / 4).collect();
    let below = Marks { safe: SafeMark::BelowAverage(80), ..Marks::default() };
    for hot in [130, 250, 650, 2300] {
        for marks in [Marks::default(), below] {
            for hot_cpus in [1, 2] {
                let latency: Vec<u32> =
                    map.iter().map(|cpu| if *cpu < hot_cpus { hot } else { 65 }).collect();
                for algorithm in [Thesis::max(marks), Thesis::low2(marks)] {
                    assert_eq!(decide(algorithm, 8, &map, &latency), [], "{hot}, {hot_cpus} hot");
                }
            }
        }
    }
    let three: Vec<u32> = map.iter().map(|cpu| if *cpu < 3 { 2300 } else { 65 }).collect();
    assert!(!decide(Thesis::max(Marks::default()), 8, &map, &three).is_empty());
}

proptest! {
    #[test]
    fn moves_obey_both_marks_and_the_average_and_low2_makes_two(
        cpus in 1_usize..9,
        latency in prop::collection::vec(0_u32..5000, 9..64),
        seed in any::<u64>(),
        low2 in any::<bool>(),
    ) {
        let map: Vec<u16> =
            (0..latency.len() as u64).map(|b| (seed.rotate_left(b as u32 * 7) % cpus as u64) as u16).collect();
        let algorithm = if low2 { Thesis::low2(Marks::default()) } else { Thesis::max(Marks::default()) };
        let moves = decide(algorithm, cpus, &map, &latency);
        let after = apply(cpus, &map, &latency, &moves);
        let all: u32 = latency.iter().sum();
        let mut sums = apply(cpus, &map, &latency, &[]);
        for step in &moves {
            let [from, to] = [step.from, step.to].map(usize::from);
            prop_assert!(sums[from] * cpus as u32 * 100 > all * 175, "the source is above H");
            prop_assert!(sums[to] * cpus as u32 * 100 < all * 80, "the target is below S");
            sums[from] -= latency[usize::from(step.bucket)];
            sums[to] += latency[usize::from(step.bucket)];
        }
        for step in &moves {
            prop_assert!(after[usize::from(step.to)] * cpus as u32 <= all);
        }
        prop_assert!(!low2 || moves.len() <= 2);
    }
}
