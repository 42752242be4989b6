//! The model of XenoFlow's card gives the paper's rates, and every packet the
//! backend that its address means.
#![allow(clippy::unwrap_used, reason = "tests may")]
use measure::xenoflow::{Options, run};

#[test]
fn the_papers_rates_come_out() {
    let rows = run(Options { packets: 12_000 }, &mut |_, _| {}).unwrap();
    for row in rows.iter().filter(|row| row.figure <= 5) {
        let Some(paper) = row.paper else { continue };
        assert!((row.value.unwrap() - paper).abs() < 1.0, "{row:?}");
    }
    let at = |figure, series: &str, x: f64| {
        let mut rows = rows.iter().filter(|row| row.figure == figure && row.x == x);
        rows.find(|row| row.series == series).unwrap()
    };
    let value = |figure, series: &str, x: f64| at(figure, series, x).value.unwrap();
    assert!(value(4, "bluefield3", 22.0) > value(4, "bluefield3", 23.0) + 3.0);
    assert_eq!(value(4, "loss", 1472.0), 0.0);
    assert!(value(6, "bluefield3", 1472.0) > 98.0);
    assert!(value(6, "bluefield3", 64.0) < 90.0);
    assert!(rows.iter().all(|row| row.source == "model"));
    for split in ["single endpoint", "100/0", "50/50", "0/100"] {
        let (idle, busy) = (at(8, split, 0.0), at(8, split, 90.0));
        let rise = busy.value.unwrap() - idle.value.unwrap();
        assert!(rise > 0.0 && rise < 2.0, "{idle:?} {busy:?}");
        assert!(idle.samples > 20);
    }
}
