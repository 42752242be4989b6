//! Rows as a run makes them, from a simple model of the systems.

use measure::report::{ChurnRow, Findings, InstallRow, LatencyRow, NewFlowRow, Row, WorkersRow};

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
        backends: 10,
        queues: 1,
        connections,
        packet_size: size,
        mpps: Some(1000.0 / ns),
        ns_per_packet: Some(ns),
        util: Some(1.0),
        util_plus: Some(1.0),
        loss: 0.0,
        offered_mpps: None,
        empty_polls: Some(0.0),
        repetition,
        traffic: "uniform".into(),
        matched: if system.starts_with("hnlb") { 1.0 } else { 0.0 },
        stolen: 0.0,
        distance_ns: None,
        dropped: 0,
    }
}

fn sweep(figure: u8, system: &str, connections: u64, size: u16, repetition: u32) -> Vec<Row> {
    let top = row(figure, system, connections, size, repetition);
    let step = |at: u32| {
        // Rates are never quite those that were asked for.
        let offered = f64::from(at) * 3.0 + 0.01 * f64::from(repetition);
        let most = top.mpps.unwrap();
        let load = (offered / most).min(1.0);
        let util = load.powf(0.9);
        Row {
            mpps: Some(offered.min(most)),
            util: Some(util),
            util_plus: Some(util * (0.5 + 0.5 * load)),
            loss: (1.0 - most / offered).max(0.0),
            offered_mpps: Some(offered),
            empty_polls: Some(1.0 - util),
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

/// Rows of all kinds, with so many repetitions.
pub(crate) fn findings(repetitions: u32) -> Findings {
    let mut found = Findings { rows: rows(repetitions), ..Findings::default() };
    for repetition in 0..repetitions {
        let drift = 1.0 + 0.01 * f64::from(repetition * 7 % 5);
        for row in rows(1).iter().filter(|row| row.figure == 5) {
            for (traffic, factor) in [
                ("zipf-1.0", 0.9),
                ("zipf-1.2", 0.8),
                ("both-ways", 1.1),
                ("laslb-2", 1.2),
                ("ipv6", 1.3),
            ] {
                let ns = row.ns_per_packet.unwrap() * factor * drift;
                let (traffic, mpps) = (traffic.to_owned(), Some(1000.0 / ns));
                let only_8000 = ["laslb-2", "ipv6"].contains(&traffic.as_str());
                if !only_8000 || row.connections == 8000 {
                    let ns_per_packet = Some(ns);
                    let new = Row { repetition, traffic, mpps, ns_per_packet, ..row.clone() };
                    found.rows.push(new);
                }
            }
        }
        for system in SYSTEMS {
            for share in [0.1, 0.25, 0.5, 0.75, 0.9, 0.95] {
                let most = 1000.0 / cost(system, 1000);
                let time = drift * cost(system, 1000) / 20.0 / (1.0 - share);
                found.latency.push(LatencyRow {
                    figure: "latency".into(),
                    system: system.into(),
                    connections: 1000,
                    rate_mpps: most * share,
                    share,
                    p50_us: time,
                    p90_us: 1.5 * time,
                    p99_us: 3.0 * time,
                    p999_us: 9.0 * time,
                    p9999_us: 40.0 * time,
                    packets: 1_000_000,
                    loss: 0.0,
                    stolen: 0.0,
                    repetition,
                });
            }
        }
        studies(&mut found, repetition, drift);
        workers(&mut found, repetition, drift);
    }
    found
}

fn studies(found: &mut Findings, repetition: u32, drift: f64) {
    for table in [1_u64 << 16, 1 << 20, 1 << 22] {
        for fill in [0.0, 0.5, 0.9] {
            let ns = drift * (150.0 + 30.0 * fill + (table as f64).log10() * 10.0);
            found.new_flows.push(new_flow("software", "worker", table, fill, ns, repetition));
        }
    }
    for (part, ns) in [("worker", 400.0), ("keeper", 2000.0)] {
        found.new_flows.push(new_flow("hardware", part, 1 << 16, 0.0, ns * drift, repetition));
    }
    for system in ["hnlb-queue", "hnlb-mark"] {
        for rules in [0.0, 40_000.0] {
            found.installs.push(InstallRow {
                figure: "install".into(),
                system: system.into(),
                rules_per_second: rules * drift,
                ns_per_packet: Some(30.0 + rules / 40_000.0),
                mpps: Some(33.0),
                repetition,
            });
        }
    }
    for system in ["slb", "hnlb-queue", "hnlb-mark"] {
        for arrivals in [5_000.0, 50_000.0] {
            found.churn.push(ChurnRow {
                figure: "churn".into(),
                system: system.into(),
                arrivals_per_second: arrivals,
                opened_per_second: arrivals * drift,
                removed_per_second: arrivals,
                rules_made_per_second: if system == "slb" { 0.0 } else { arrivals },
                rules_undone_per_second: if system == "slb" { 0.0 } else { arrivals },
                connections: (arrivals * 0.218) as u64,
                mpps: Some(arrivals * 31.0 / 1e6),
                ns_per_packet: Some(2.0 * cost(system, 8000) * drift),
                util: Some(0.3),
                matched: if system == "slb" { 0.0 } else { 0.6 },
                loss: 0.0,
                behind: 0.0,
                highest: arrivals > 5_000.0,
                bound: if arrivals > 5_000.0 { "loss".into() } else { "-".into() },
                repetition,
            });
        }
    }
}

fn workers(found: &mut Findings, repetition: u32, drift: f64) {
    for system in ["slb", "slb-bulk"] {
        for (workers, packet_size) in [(1, 64), (2, 64), (1, 1024), (2, 1024)] {
            let mpps = f64::from(workers) * 1000.0 / (cost(system, 1 << 16) * drift);
            found.workers.push(WorkersRow {
                figure: "workers".into(),
                system: system.into(),
                workers,
                connections: 1 << 16,
                packet_size,
                mpps: Some(mpps),
                gbit_per_second: Some(mpps * f64::from(packet_size) * 8e-3),
                stolen: 0.0,
                repetition,
            });
        }
    }
}

fn new_flow(path: &str, part: &str, table: u64, fill: f64, ns: f64, repetition: u32) -> NewFlowRow {
    NewFlowRow {
        figure: "new".into(),
        path: path.into(),
        part: part.into(),
        table,
        fill,
        ns: Some(ns),
        per_second: Some(1e9 / ns),
        connections: 1000,
        repetition,
    }
}
