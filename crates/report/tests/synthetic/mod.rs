//! Rows as a run makes them, from a simple model of the systems.

use report::Row;

/// Cost of a packet in nanoseconds.
pub(crate) fn cost(system: &str, connections: u64) -> f64 {
    let large = (connections as f64).log10();
    match system {
        "limit" => 24.0,
        "hnlb-mark" => 26.0 + if connections > 10_000 { 6.0 * (large - 4.0) } else { 0.0 },
        "hnlb-queue" => 28.0 + if connections > 10_000 { 9.0 * (large - 4.0) } else { 0.0 },
        "slb" => 33.0 + 2.5 * large + if connections > 100_000 { 25.0 } else { 0.0 },
        _ => 46.0 + 8.0 * large,
    }
}

pub(crate) const SYSTEMS: [&str; 5] = ["limit", "slb-paper", "slb", "hnlb-queue", "hnlb-mark"];

fn row(figure: u8, system: &str, connections: u64, size: u16, repetition: u32) -> Row {
    // Small and different in every repetition, the same for all systems.
    let drift = 1.0 + 0.01 * f64::from(repetition * 7 % 5);
    let ns = (cost(system, connections) + f64::from(size) / 64.0) * drift;
    Row {
        figure,
        system: system.into(),
        connections,
        packet_size: size,
        mpps: 1000.0 / ns,
        ns_per_packet: ns,
        util: 1.0,
        util_plus: 1.0,
        loss: 0.0,
        offered_mpps: None,
        empty_polls: 0.0,
        repetition,
        traffic: "uniform".into(),
        matched: if system.starts_with("hnlb") { 1.0 } else { 0.0 },
        stolen: 0.0,
        dropped: 0,
    }
}

fn sweep(figure: u8, system: &str, connections: u64, size: u16, repetition: u32) -> Vec<Row> {
    let top = row(figure, system, connections, size, repetition);
    let step = |at: u32| {
        // Rates are never quite those that were asked for.
        let offered = f64::from(at) * 3.0 + 0.01 * f64::from(repetition);
        let load = (offered / top.mpps).min(1.0);
        let util = load.powf(0.9);
        Row {
            mpps: offered.min(top.mpps),
            util,
            util_plus: util * (0.5 + 0.5 * load),
            loss: (1.0 - top.mpps / offered).max(0.0),
            offered_mpps: Some(offered),
            empty_polls: 1.0 - util,
            ..top.clone()
        }
    };
    (1..=14).map(step).collect()
}

/// All figures, with so many repetitions.
pub(crate) fn rows(repetitions: u32) -> Vec<Row> {
    let mut rows = Vec::new();
    for repetition in 0..repetitions {
        for system in SYSTEMS {
            rows.push(row(4, system, 1, 64, repetition));
            for connections in [1, 10, 100, 1000, 8000, 65_536, 262_144, 1 << 20, 1 << 22] {
                rows.push(row(5, system, connections, 64, repetition));
            }
            for size in [64, 128, 256, 512, 1024, 1518] {
                rows.push(row(6, system, 1000, size, repetition));
            }
            for connections in [1, 100, 1000, 8000] {
                rows.extend(sweep(7, system, connections, 64, repetition));
            }
            for size in [64, 256, 1024, 1518] {
                rows.extend(sweep(8, system, 1000, size, repetition));
            }
        }
    }
    rows
}
