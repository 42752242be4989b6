//! The simulation of LASLB's experiments, with little to do.
#![allow(clippy::unwrap_used)]
use measure::laslb::{Hash, LaslbRow, Options, goals, run};

fn short(hash: Hash) -> Vec<LaslbRow> {
    let (warm_up_ms, measured_ms) = (10, 10);
    let options = Options { draws: 1, warm_up_ms, measured_ms, hash, ..Options::new(true) };
    run(&options, &mut |_, _| {}).unwrap()
}

#[test]
fn every_experiment_has_rows_that_add_up_and_come_again() {
    let rows = short(Hash::Symmetric);
    for section in ["6.1", "6.2", "6.3", "6.4", "6.5", "6.6", "6.7", "B.1", "B.2", "bursty"] {
        let own: Vec<_> = rows.iter().filter(|row| row.experiment == section).collect();
        assert!(!own.is_empty(), "{section}");
        for row in own {
            let place = format!("{section} {} at {}", row.algorithm, row.load_gbps);
            assert!(
                row.throughput_gbps > 0.0 && row.throughput_gbps < row.load_gbps * 1.6,
                "{place}"
            );
            assert!(row.p50_us <= row.p95_us && row.p95_us <= row.p99_us, "{place}");
            assert!(row.cpu_mean > 0.0 && row.cpu_mean <= 101.0, "{place}");
            assert!(row.share_range[0] <= 12.5 && row.share_range[1] >= 12.5, "{place}");
            let keeps_order = ["rss", "slb", "dsw", "even"].contains(&&*row.algorithm);
            assert!(!keeps_order || row.out_of_order == 0, "{place}");
        }
    }
    assert_eq!(goals(&rows).len(), 4);
    assert_eq!(rows, short(Hash::Symmetric), "the same seeds, the same rows");
    let apart = short(Hash::Thesis);
    assert!(apart.iter().all(|row| row.hash == Hash::Thesis));
    assert!(apart != rows, "both directions of a flow are still on one processor");
}

#[test]
fn goals_name_where_they_are_missed() {
    let row = |algorithm: &str, p99_us: f64| LaslbRow {
        experiment: "6.1".to_owned(),
        algorithm: algorithm.to_owned(),
        default: algorithm == "even",
        set: "2".to_owned(),
        load_gbps: 15.0,
        p99_us,
        ..LaslbRow::default()
    };
    let met = goals(&[row("even", 70.0), row("max", 100.0), row("low2", 100.0), row("dsw", 71.0)]);
    assert!(met.iter().all(|goal| goal.met));
    let missed = goals(&[row("even", 80.0), row("max", 100.0), row("dsw", 71.0)]);
    assert_eq!(missed.iter().map(|goal| goal.met).collect::<Vec<_>>(), [false, false, true, true]);
    assert!(missed[0].worst.contains("set 2 at 15 Gbit/s against dsw"));
}
