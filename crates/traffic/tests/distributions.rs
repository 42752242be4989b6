//! The generators against theory, with fixed seeds.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use traffic::{Churn, Class, Load, Packet, Phase, Rng, Set, Sizes, TrafficSet, Uniform, Zipf};

const DRAWS: usize = 1_000_000;

/// Pearson's chi-square of draws against expected shares, in standard
/// deviations above what is expected (Wilson and Hilferty's cube root).
fn excess(seen: &[u64], shares: &[f64]) -> f64 {
    let draws: u64 = seen.iter().sum();
    let chi: f64 = seen
        .iter()
        .zip(shares)
        .map(|(&seen, share)| {
            let expected = share * draws as f64;
            assert!(expected > 5.0, "bins have to be wide enough");
            (seen as f64 - expected).powi(2) / expected
        })
        .sum();
    let free = (seen.len() - 1) as f64;
    let spread = 2.0 / (9.0 * free);
    ((chi / free).cbrt() - (1.0 - spread)) / spread.sqrt()
}

/// Counts of ranks in bins that double in width, the first `single` alone.
fn bin(rank: u32, single: u32) -> usize {
    if rank <= single { rank as usize - 1 } else { (single + (rank / single).ilog2()) as usize }
}

#[test]
fn uniform_is_uniform() {
    for flows in [2, 100, 8000] {
        let mut seen = vec![0; flows as usize];
        Uniform::new(flows, 7).unwrap().take(DRAWS).for_each(|flow| seen[flow as usize] += 1);
        let z = excess(&seen, &vec![1.0 / f64::from(flows); flows as usize]);
        assert!(z.abs() < 4.0, "{flows} flows: {z}");
    }
}

#[test]
fn zipf_has_the_weights_of_its_ranks() {
    for alpha in [0.6, 1.0, 1.2, 2.0] {
        for flows in [1_u32, 3, 1000, 1 << 20, 1 << 22] {
            let single = 32;
            let bins = bin(flows, single) + 1;
            let mut weights = vec![0.0; bins];
            (1..=flows).for_each(|r| weights[bin(r, single)] += f64::from(r).powf(-alpha));
            let all: f64 = weights.iter().sum();
            let mut seen = vec![0; bins];
            for flow in Zipf::new(flows, alpha, 3).unwrap().take(DRAWS) {
                assert!(flow < flows);
                seen[bin(flow + 1, single)] += 1;
            }
            // Too thin bins at the end are joined.
            let mut shares: Vec<f64> = weights.iter().map(|w| w / all).collect();
            while shares.len() > 1 && *shares.last().unwrap() * DRAWS as f64 <= 5.0 {
                let (share, count) = (shares.pop().unwrap(), seen.pop().unwrap());
                *shares.last_mut().unwrap() += share;
                *seen.last_mut().unwrap() += count;
            }
            if shares.len() > 1 {
                let z = excess(&seen, &shares);
                assert!(z.abs() < 4.0, "alpha {alpha}, {flows} flows: {z}");
            }
        }
    }
}

#[test]
fn heavy_flows_carry_what_theory_says() {
    let zipf = Zipf::new(1_000_000, 1.2, 11).unwrap();
    let share = zipf.share(8192);
    let heavy = zipf.take(DRAWS).filter(|&flow| flow < 8192).count();
    assert!((heavy as f64 / DRAWS as f64 - share).abs() < 0.002, "{heavy} against {share}");
}

#[test]
fn sizes_have_their_range_and_mean() {
    for mean in [100.0, 677.7, 700.0, 728.0, 780.0, 1400.0] {
        let sizes: Vec<u16> = Sizes::new(60, 1500, mean, 5).unwrap().take(DRAWS).collect();
        assert!(sizes.iter().all(|size| (60..=1500).contains(size)));
        let seen = sizes.iter().map(|&size| f64::from(size)).sum::<f64>() / DRAWS as f64;
        assert!((seen - mean).abs() < 2.0, "{seen} against {mean}");
    }
}

const MIX: [Class; 2] = [
    Class { weight: 9.0, lifetime: 0.05, interval: 0.01 },
    Class { weight: 1.0, lifetime: 2.0, interval: 0.02 },
];

#[test]
fn churn_keeps_littles_law_and_its_rate() {
    let mut churn = Churn::established(1000.0, &MIX, 9).unwrap();
    let expected = churn.expected_open();
    assert!((expected - 245.0).abs() < 1e-9);
    let (mut open, mut arrivals, mut last) = (0.0, 0_u32, 0);
    let packets = 400_000;
    for _ in 0..packets {
        let packet = churn.next().unwrap();
        open += churn.open() as f64 * (packet.at_ns - last) as f64;
        last = packet.at_ns;
        arrivals += u32::from(packet.phase == Phase::Open);
    }
    let mean = open / last as f64;
    assert!((mean / expected - 1.0).abs() < 0.1, "{mean} open at a time");
    let rate = f64::from(arrivals) / (last as f64 / 1e9);
    assert!((rate / 1000.0 - 1.0).abs() < 0.05, "{rate} arrivals a second");
    // Per connection the first packet, and those at intervals until its end.
    let per_second = 1000.0 * (1.0 + 0.9 * 0.05 / 0.01 + 0.1 * 2.0 / 0.02 + 1.0);
    let seen = f64::from(packets) / (last as f64 / 1e9);
    assert!((seen / per_second - 1.0).abs() < 0.1, "{seen} packets a second, not {per_second}");
}

#[test]
fn established_traffic_starts_as_it_goes_on() {
    let mut churn = Churn::established(10_000.0, &MIX, 6).unwrap();
    // By then the short ones of the start are gone, the long ones are not.
    let window = 200_000_000..400_000_000;
    let times = (0..).map_while(|_| churn.next().filter(|packet| packet.at_ns < window.end));
    let packets = times.filter(|packet| window.contains(&packet.at_ns)).count();
    let per_second = 10_000.0 * (2.0 + 0.9 * 0.05 / 0.01 + 0.1 * 2.0 / 0.02);
    let seen = packets as f64 / 0.2;
    assert!((seen / per_second - 1.0).abs() < 0.05, "{seen} packets a second, not {per_second}");
}

#[test]
fn connections_live_as_long_as_their_class_says() {
    let class = Class { weight: 1.0, lifetime: 0.05, interval: 0.1 };
    let (mut opened, mut lives) = (HashMap::new(), Vec::new());
    for packet in Churn::new(1000.0, &[class], 8).unwrap().take(100_000) {
        match packet.phase {
            Phase::Open => drop(opened.insert(packet.flow, packet.at_ns)),
            Phase::Data => {}
            Phase::Close => lives.push((packet.at_ns - opened[&packet.flow]) as f64 / 1e9),
        }
    }
    let mean = lives.iter().sum::<f64>() / lives.len() as f64;
    assert!((mean / 0.05 - 1.0).abs() < 0.03, "{mean} s");
}

#[test]
fn a_connection_opens_first_and_closes_last() {
    let mut open = HashSet::new();
    let mut closed = HashSet::new();
    let mut last = 0;
    for packet in Churn::new(1000.0, &MIX, 4).unwrap().take(100_000) {
        assert!(packet.at_ns >= last);
        last = packet.at_ns;
        match packet.phase {
            Phase::Open => assert!(open.insert(packet.flow) && !closed.contains(&packet.flow)),
            Phase::Data => assert!(open.contains(&packet.flow)),
            Phase::Close => assert!(open.remove(&packet.flow) && closed.insert(packet.flow)),
        }
    }
    assert!(closed.len() > 1000);
}

/// Bits a second and mean size of the packets.
fn load(packets: &[Packet]) -> (f64, f64) {
    let bytes: f64 = packets.iter().map(|packet| f64::from(packet.size)).sum();
    let seconds = packets.last().unwrap().at_ns as f64 / 1e9;
    (bytes * 8.0 / seconds, bytes / packets.len() as f64)
}

#[test]
fn the_sets_have_the_figures_of_the_thesis() {
    for at in [Load::G1, Load::G10, Load::G15] {
        let sets =
            [(Set::Balanced, 728.0), (Set::Imbalanced, 707.0), (Set::Udp { flows: 50_000 }, 700.0)];
        for (set, mean) in sets {
            let packets: Vec<Packet> =
                TrafficSet::new(set, at, 21).unwrap().take(600_000).collect();
            assert!(packets.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
            let (bits, size) = load(&packets);
            assert!((size - mean).abs() < 3.0, "{set:?}: {size} bytes");
            assert!((bits / (at.gbps() * 1e9) - 1.0).abs() < 0.03, "{set:?} at {at:?}: {bits}");
        }
    }
}

#[test]
fn set_one_opens_1900_connections_a_second() {
    let packets: Vec<Packet> =
        TrafficSet::new(Set::Balanced, Load::G1, 2).unwrap().take(600_000).collect();
    let opened = packets.iter().filter(|packet| packet.phase == Phase::Open).count();
    let rate = opened as f64 / (packets.last().unwrap().at_ns as f64 / 1e9);
    assert!((rate / 1900.0 - 1.0).abs() < 0.05, "{rate}");
}

#[test]
fn twenty_elephants_share_forty_percent_of_the_bytes() {
    let packets: Vec<Packet> =
        TrafficSet::new(Set::Imbalanced, Load::G5, 13).unwrap().take(600_000).collect();
    let mut bytes = [0.0; 20];
    for packet in packets.iter().filter(|packet| packet.flow < 20) {
        bytes[packet.flow as usize] += f64::from(packet.size);
    }
    let all: f64 = packets.iter().map(|packet| f64::from(packet.size)).sum();
    let share = bytes.iter().sum::<f64>() / all;
    assert!((share - 0.4).abs() < 0.005, "{share}");
    for elephant in bytes {
        assert!((elephant / all - 0.02).abs() < 0.001, "{}", elephant / all);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    assert!(Uniform::new(0, 0).is_err());
    assert!(Zipf::new(0, 1.0, 0).is_err());
    for alpha in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Zipf::new(10, alpha, 0).is_err());
    }
    assert!(Churn::new(1.0, &[], 0).is_err());
    assert!(Churn::new(0.0, &MIX, 0).is_err());
    assert!(Churn::new(1.0, &[Class { lifetime: 0.0, ..MIX[0] }], 0).is_err());
    assert!(TrafficSet::new(Set::Udp { flows: 0 }, Load::G1, 0).is_err());
}

proptest! {
    #[test]
    fn the_same_seed_is_the_same_traffic(seed: u64) {
        let other = seed ^ 1;
        let draw = |seed| Zipf::new(1 << 20, 1.2, seed).unwrap().take(50).collect::<Vec<_>>();
        prop_assert_eq!(draw(seed), draw(seed));
        prop_assert_ne!(draw(seed), draw(other));
        let churn = |seed| Churn::established(500.0, &MIX, seed).unwrap().take(50).collect::<Vec<_>>();
        prop_assert_eq!(churn(seed), churn(seed));
        prop_assert_ne!(churn(seed), churn(other));
        let sizes = |seed| Sizes::new(60, 1500, 700.0, seed).unwrap().take(50).collect::<Vec<_>>();
        prop_assert_eq!(sizes(seed), sizes(seed));
        prop_assert_ne!(sizes(seed), sizes(other));
        let set = |seed| {
            TrafficSet::new(Set::Imbalanced, Load::G1, seed).unwrap().take(50).collect::<Vec<_>>()
        };
        prop_assert_eq!(set(seed), set(seed));
        prop_assert_ne!(set(seed), set(other));
    }

    #[test]
    fn below_is_below(seed: u64, n in 1..=u64::MAX) {
        prop_assert!(Rng::new(seed).below(n) < n);
    }
}
