//! Every measurement runs from end to end, with so little to do that nothing
//! can be said of speed.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

/// One at a time: each measurement pins two threads to the same two cores.
static TURN: Mutex<()> = Mutex::new(());

/// What `hnlb bench ARGS --json` prints; `None` on a machine that can't.
fn rows(args: &[&str]) -> Option<Vec<Value>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        eprintln!("skipped: measurements need two processors");
        return None;
    }
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let run = Command::new(env!("CARGO_BIN_EXE_hnlb"))
        .arg("bench")
        .args(args)
        .args(["--quick", "--json", "--busy", "--ordinary-pages"])
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{args:?}: {err}");
    Some(out.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn short<'a>(part: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[part, "--repetitions", "1", "--point-ms", "10"], more].concat()
}

fn text(row: &Value, name: &str) -> String {
    row[name].as_str().unwrap_or_default().to_owned()
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"))
}

fn set(rows: &[Value], name: &str) -> BTreeSet<String> {
    rows.iter().map(|row| text(row, name)).collect()
}

#[test]
fn every_system_takes_one_flow() {
    let Some(rows) = rows(&short("fig4", &[])) else { return };
    let (closed, open): (Vec<Value>, Vec<Value>) =
        rows.into_iter().partition(|row| row["offered_mpps"].is_null());
    assert_eq!((closed.len(), open.len()), (6, 6 * 3));
    let rows = closed;
    for row in &rows {
        assert_eq!((number(row, "figure"), number(row, "connections")), (4.0, 1.0));
        assert!(number(row, "ns_per_packet") > 0.0, "{row}");
        assert_eq!(number(row, "dropped"), 0.0, "what goes in comes out: {row}");
        assert_eq!(number(row, "queues"), 1.0, "{row}");
    }
    let matched = |system: &str| {
        number(rows.iter().find(|row| text(row, "system") == system).unwrap(), "matched")
    };
    assert_eq!((matched("slb"), matched("hnlb-queue"), matched("hnlb-mark")), (0.0, 1.0, 1.0));
}

#[test]
fn both_directions_come_out_where_they_should() {
    let Some(rows) = rows(&short("fig5", &["--connections", "1000"])) else { return };
    assert_eq!(set(&rows, "traffic"), ["both-ways", "uniform"].map(String::from).into());
    let both: Vec<&Value> = rows.iter().filter(|row| text(row, "traffic") == "both-ways").collect();
    assert_eq!(both.len(), 6, "all but the limit");
    for row in both {
        assert!(number(row, "ns_per_packet") > 0.0, "{row}");
        assert_eq!(number(row, "dropped"), 0.0, "{row}");
        let in_nic = text(row, "system").starts_with("hnlb");
        assert_eq!(number(row, "matched"), f64::from(u8::from(in_nic)), "{row}");
        let many = text(row, "system") == "hnlb-shared";
        assert_eq!(number(row, "backends"), if many { 64.0 } else { 10.0 }, "{row}");
        assert!(!many || number(row, "queues") == 4.0, "{row}");
    }
}

#[test]
fn ipv6_stands_beside_ipv4() {
    let systems = "limit,slb-paper,slb-bulk,slb,hnlb-queue,hnlb-mark";
    let more = ["--connections", "8000", "--systems", systems];
    let Some(rows) = rows(&short("fig5", &more)) else { return };
    let under = |traffic| rows.iter().filter(move |row| text(row, "traffic") == traffic);
    let (six, four, direct): (Vec<&Value>, Vec<&Value>, Vec<&Value>) =
        (under("ipv6").collect(), under("uniform").collect(), under("dsr").collect());
    let systems = |rows: &[&Value]| -> BTreeSet<String> {
        rows.iter().map(|row| text(row, "system")).collect()
    };
    assert_eq!(systems(&six), ["limit", "slb", "hnlb-queue", "hnlb-mark"].map(String::from).into());
    assert_eq!(systems(&four).len(), 6, "rte_hash's keys here are those of IPv4");
    assert_eq!(systems(&direct), systems(&four), "one key a connection in every table");
    for row in six.into_iter().chain(direct) {
        assert!(number(row, "ns_per_packet") > 0.0, "{row}");
        assert_eq!(number(row, "dropped"), 0.0, "{row}");
        let in_nic = text(row, "system").starts_with("hnlb");
        assert_eq!(number(row, "matched"), f64::from(u8::from(in_nic)), "{row}");
    }
}

#[test]
fn new_connections_come_into_table_and_nic() {
    let Some(rows) = rows(&short("new", &["--connections", "65536"])) else { return };
    let fresh: Vec<&Value> = rows.iter().filter(|row| text(row, "figure") == "new").collect();
    let software = fresh.iter().filter(|row| text(row, "path") == "software");
    let fills: Vec<f64> = software.map(|row| number(row, "fill")).collect();
    assert_eq!(fills, [0.0, 0.5, 0.9]);
    let full = fresh.iter().filter(|row| text(row, "path") == "full");
    assert_eq!(full.map(|row| number(row, "fill")).collect::<Vec<_>>(), [1.0]);
    let parts = fresh.iter().filter(|row| text(row, "path") == "hardware");
    let parts: Vec<String> = parts.map(|row| text(row, "part")).collect();
    assert_eq!(parts, ["worker", "syn", "syn-ack", "ack", "keeper"]);
    assert!(fresh.iter().all(|row| number(row, "ns") > 0.0 && number(row, "connections") > 0.0));
    let installs: Vec<&Value> =
        rows.iter().filter(|row| text(row, "figure") == "install").collect();
    assert_eq!(installs.len(), 6);
    let none = installs.iter().filter(|row| number(row, "rules_per_second") == 0.0);
    assert_eq!(none.count(), 2, "the two without");
}

#[test]
fn a_whole_run_measures_everything_and_writes_its_report() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let little = ["--minutes", "0.01", "--systems", "slb,hnlb-mark", "--connections", "1000"];
    let Some(rows) = rows(&[&["paper", "--out", out][..], &little].concat()) else { return };
    let of = |figure: Value| -> Vec<&Value> {
        rows.iter().filter(|row| row["figure"] == figure).collect()
    };
    assert_eq!((of(5.into()).len(), of(6.into()).len()), (2 * 2, 6 * 2));
    rates(&of(8.into()));
    latencies(&of("latency".into()));
    churn(&of("churn".into()));
    assert!(!of("new".into()).is_empty() && !of("install".into()).is_empty());
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(page.contains("only the latter is measured") && page.contains("Linearity of util+"));
    assert!(page.contains("points of"), "how often was measured");
}

#[test]
fn two_workers_share_a_table() {
    let Some(rows) = rows(&short("workers", &["--connections", "1000"])) else { return };
    let of = |system: &str| -> Vec<f64> {
        let own = rows.iter().filter(|row| text(row, "system") == system);
        own.map(|row| number(row, "workers")).collect()
    };
    assert_eq!((of("slb"), of("slb-bulk")), (vec![1.0, 2.0], vec![1.0, 2.0]));
    for row in &rows {
        let gbit = number(row, "mpps") * number(row, "packet_size") * 8e-3;
        assert!(gbit > 0.0 && (number(row, "gbit_per_second") - gbit).abs() < 1e-9, "{row}");
    }
}

/// Two systems, two packet sizes: saturated, then at seven rates.
fn rates(rows: &[&Value]) {
    assert_eq!(rows.len(), 2 * 2 * 8);
    assert!(rows.iter().all(|row| number(row, "loss") <= 1.0 && number(row, "util") <= 1.0));
    let offered = rows.iter().filter(|row| row["offered_mpps"].is_number());
    assert_eq!(offered.count(), 2 * 2 * 7);
}

/// On a busy machine a point may have seen no packet.
fn latencies(rows: &[&Value]) {
    assert!(!rows.is_empty() && rows.len() <= 2 * 6);
    for row in rows {
        let times = ["p50_us", "p90_us", "p99_us", "p999_us", "p9999_us"];
        let times = times.map(|name| number(row, name));
        assert!(times[0] > 0.0 && times.is_sorted(), "{row}");
    }
}

fn churn(rows: &[&Value]) {
    let systems: Vec<String> = rows.iter().map(|row| text(row, "system")).collect();
    assert_eq!(systems, ["slb", "hnlb-mark"]);
    for row in rows {
        assert!(number(row, "opened_per_second") > 0.0, "{row}");
        assert_eq!(number(row, "matched") > 0.0, text(row, "system") != "slb", "{row}");
    }
    let some = |name: &str| rows.iter().any(|row| number(row, name) > 0.0);
    assert!(some("removed_per_second") && some("rules_undone_per_second"), "{rows:?}");
}

#[test]
fn crypto_measures_handshakes_records_and_the_split() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        eprintln!("skipped: measurements need two processors");
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_hnlb"))
        .args(["bench", "crypto", "--quick", "--ordinary-pages", "--json", "--out"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let out = String::from_utf8_lossy(&run.stdout);
    let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |what: &str| -> Vec<Value> {
        rows.iter().filter(|row| text(row, "what") == what).cloned().collect()
    };
    let handshakes = of("handshake");
    assert_eq!(set(&handshakes, "algorithm").len(), 3 * 2 * 2, "key, key exchange, resumed");
    let symmetric = of("symmetric");
    for engine in ["rustls", "aws-lc-rs", "crypto_openssl"] {
        assert!(set(&symmetric, "engine").contains(engine), "{engine}");
    }
    let split = of("split");
    assert_eq!(set(&split, "engine").len(), 2, "{split:?}");
    assert!(split.iter().any(|row| number(row, "handshakes_per_s") > 0.0));
    for row in &rows {
        assert!(number(row, "per_s") > 0.0, "{row}");
        assert_eq!(row["gbps"].is_null(), text(row, "what") == "handshake", "{row}");
        assert!(number(row, "p50_us") <= number(row, "p999_us"), "{row}");
    }
    assert!(dir.path().join("crypto.html").is_file());
}
