//! From rows to files.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod synthetic;

use measure::report::{
    Estimate, Findings, Goal, LatencyRow, Machine, Report, Results, Row, Verdict, churns, claims,
    csv, figures, goals, installs, latencies, linearity, new_flows,
};
use synthetic::{cost, findings, rows};

fn report(repetitions: u32) -> Report {
    let settings = vec![("A <b>".into(), "1 & 2".into())];
    Report::new(Machine::this("test"), settings, findings(repetitions))
}

#[test]
fn repetitions_become_one_point() {
    let results = Results::of(rows(7));
    assert_eq!(results.figure(4).count(), 5);
    assert_eq!(results.figure(5).count(), 45);
    assert_eq!(results.figure(7).count(), 5 * 4 * 14, "rates that differ a little are one step");
    let point = results.of_system(5, "slb").find(|p| p.first.connections == 8000).unwrap();
    assert_eq!(point.count(), 7);
    let drifts = [0, 2, 4, 1, 3, 0, 2].map(|drift| 1.0 + 0.01 * f64::from(drift));
    let times = drifts.map(|drift| (cost("slb", 8000) + 1.0) * drift);
    assert_eq!(point.over(|row| row.ns_per_packet), Estimate::of(&times));
}

#[test]
fn other_traffic_is_not_mixed_in() {
    let mut all = rows(3);
    let zipf: Vec<Row> = all
        .iter()
        .filter(|row| row.figure == 5)
        .map(|row| Row {
            traffic: "zipf-1.2".into(),
            mpps: row.mpps.map(|mpps| 9.0 * mpps),
            ..row.clone()
        })
        .collect();
    let before = goals(&Results::of(all.clone()));
    all.splice(0..0, zipf);
    let results = Results::of(all);
    assert_eq!(results.figure(5).count(), 45);
    let after = goals(&results);
    assert_eq!(before[..10], after[..10], "the goals of uniform traffic stay");
    for zipf in [10, 11] {
        assert_eq!(before[zipf].verdict, Verdict::Unmeasured);
    }
    let ahead = |at: usize| after[at].measured.unwrap();
    assert!(
        (ahead(10) - (cost("slb", 1 << 20) + 1.0) / (cost("hnlb-queue", 1 << 20) + 1.0)).abs()
            < 1e-9
    );
    assert!(after[11].note.contains("carry 100.0 % of the packets"), "{:?}", after[11]);
}

#[test]
fn goals_are_judged_by_ratios_of_the_same_repetition() {
    let results = Results::of(rows(5));
    let found = goals(&results);
    let by = |start: &str| found.iter().find(|goal| goal.text.starts_with(start)).unwrap();
    let near = by("hnlb-mark: time per packet over the limit's");
    assert_eq!(near.verdict, Verdict::Met);
    assert!((near.measured.unwrap() - 27.0 / 25.0).abs() < 1e-9, "no drift in {near:?}");
    let ahead = by("hnlb-queue: throughput over SLB as in the paper");
    let expected = (cost("slb-paper", 8000) + 1.0) / 29.0;
    assert!((ahead.measured.unwrap() - expected).abs() < 1e-9);
    let slb = by("our SLB: time per packet, 8000");
    assert_eq!(slb.verdict, Verdict::Met);
    assert!(by("hnlb-mark: throughput over our SLB, least").note.contains("connections"));
    assert!(goals(&Results::default()).iter().all(|goal| goal.verdict == Verdict::Unmeasured));
}

#[test]
fn ipv6_is_judged_beside_ipv4() {
    let report = report(5);
    let all = report.all_goals();
    let of = |text: &str| all.iter().find(|goal| goal.text.starts_with(text)).unwrap();
    let ipv6 = of("hnlb-mark: time per packet, IPv6 over IPv4, 8000");
    assert!(ipv6.measured.is_some_and(|ratio| (ratio - 1.3).abs() < 1e-9), "{ipv6:?}");
    assert_eq!(ipv6.verdict, Verdict::Missed);
    assert!(report.html().unwrap().contains("IPv6 beside IPv4"));
    let unmeasured =
        |goal: &&Goal| goal.text.contains("IPv6") && goal.verdict == Verdict::Unmeasured;
    assert_eq!(goals(&Results::of(rows(5))).iter().filter(unmeasured).count(), 3);
}

#[test]
fn bounds_are_inclusive() {
    assert_eq!(Goal::at_most("x", 45.0, "ns", Some(45.0)).verdict, Verdict::Met);
    assert_eq!(Goal::at_most("x", 45.0, "ns", Some(45.1)).verdict, Verdict::Missed);
    assert_eq!(Goal::at_least("x", 1.5, "", Some(1.5)).verdict, Verdict::Met);
    assert_eq!(Goal::at_least("x", 1.5, "", Some(1.49)).verdict, Verdict::Missed);
}

#[test]
fn the_papers_words_stand_beside_ours() {
    let results = Results::of(rows(5));
    let found = claims(&results);
    let by = |what: &str| found.iter().find(|claim| claim.what.contains(what)).unwrap();
    assert_eq!(by("over SLB, 8000").paper, "1.5");
    let expected = (cost("slb-paper", 8000) + 1.0) / 27.0;
    // The median repetition takes 2 % longer than the first.
    let driver = (1.02 * (cost("slb-paper", 8000) + 1.0) + 30.0) / (1.02 * 27.0 + 30.0);
    let wanted = format!("{expected:.2} ({driver:.2} with a driver's 30 ns for each)");
    assert_eq!(by("over SLB, 8000").mark, wanted);
    // SLB at 1000 connections: 71 ns, 14.1 Mpps; the first loss is at 15.
    let loss = &by("first loss").queue;
    assert!(loss.ends_with("over 15.0 Mpps: 2.40"), "{loss}");
    assert!(claims(&Results::default()).iter().all(|claim| claim.queue == "not measured"));
}

#[test]
fn csv_has_a_line_a_row_and_quotes_what_must_be() {
    let mut some = rows(1);
    some.truncate(2);
    some[1].system = "a,\"b\"".into();
    some[1].offered_mpps = Some(2.5);
    let found = Findings { rows: some, ..Findings::default() };
    let text = csv(&found.json_rows().unwrap());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    let columns = lines[0].split(',').count();
    assert_eq!(columns, 19);
    assert_eq!(lines[1].split(',').count(), columns);
    assert!(
        lines[1].starts_with("4,limit,1,64,40.0,25.0,1.0,1.0,0.0,,0.0,0,uniform"),
        "{}",
        lines[1]
    );
    assert!(lines[2].starts_with("5,\"a,\"\"b\"\"\",1,64,") && lines[2].contains(",0.0,2.5,0.0,"));
}

#[test]
fn every_figure_is_plotted_with_its_names() {
    let found = findings(3);
    let plots = figures(&found, &Results::of(found.rows.clone())).unwrap();
    let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
    assert_eq!(names[..3], ["figure4", "figure5", "figure5-ns"]);
    for name in ["figure5-zipf-1.2", "figure5-both-ways-ns", "figure5-laslb", "figure6"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert_eq!(names.len(), 19 + 6);
    for plot in &plots {
        assert!(plot.svg.starts_with("<svg ") && plot.svg.trim_end().ends_with("</svg>"));
        assert!(!plot.svg.contains("NaN") && !plot.svg.contains("inf"));
        assert!(plot.svg.contains("<text"), "{}", plot.name);
    }
    assert!(plots[1].svg.contains("HNLB mark") && plots[1].svg.contains("1M"));
    assert!(figures(&Findings::default(), &Results::default()).unwrap().is_empty());
}

#[test]
fn what_says_less_than_it_should_is_seen() {
    let ring = "fill=\"#FFFFFF\" stroke=\"none\"";
    let plot = |rows: Vec<Row>| {
        let found = Findings { rows: rows.clone(), ..Findings::default() };
        figures(&found, &Results::of(rows))
            .unwrap()
            .into_iter()
            .find(|plot| plot.name == "figure5")
            .unwrap()
            .svg
    };
    let rings =
        |svg: &str| svg.lines().filter(|l| l.contains("<circle") && l.contains(ring)).count();
    let good = report(3);
    assert_eq!(rings(&plot(good.results().rows().to_vec())), 0);
    assert!(!good.html().unwrap().contains("The machine was busy"));
    let mut found = findings(3);
    for row in found.rows.iter_mut().filter(|row| row.system == "hnlb-mark") {
        row.util = if row.offered_mpps.is_none() { Some(0.7) } else { row.util };
        row.stolen = if row.connections == 8000 { 0.4 } else { 0.0 };
    }
    assert_eq!(rings(&plot(found.rows.clone())), 9, "all of one system");
    let page = Report::new(Machine::this("test"), Vec::new(), found).html().unwrap();
    assert!(
        page.contains("The machine was busy")
            && page.contains("Rings and pale bars: the load balancer")
    );
}

#[test]
fn what_was_measured_while_the_cores_were_far_apart_counts_where_there_is_no_other() {
    let rows = rows(5);
    // The host moves the cores for repetitions 1, 3 and 4: everything takes longer.
    let moved = |row: Row, repetitions: &[u32]| {
        let far = repetitions.contains(&row.repetition);
        let (factor, distance_ns) = if far { (3.0, Some(310.0)) } else { (1.0, Some(80.0)) };
        Row { ns_per_packet: row.ns_per_packet.map(|ns| ns * factor), distance_ns, ..row }
    };
    let of = |repetitions: &[u32]| {
        Results::of(rows.iter().cloned().map(|row| moved(row, repetitions)).collect())
    };
    let (still, some) = (of(&[]), of(&[1, 3, 4]));
    for (one, other) in still.points().iter().zip(some.points()) {
        assert_eq!((one.count(), other.count()), (5, 2));
        assert!(!still.is_far(one) && !some.is_far(other));
        let [other_ns, one_ns] = [other, one].map(|point| point.median(|row| row.ns_per_packet));
        let ratio = other_ns.unwrap() / one_ns.unwrap();
        assert!((ratio - 1.0).abs() < 0.05, "{ratio} at {other:?}");
    }
    // Of one system only: its ratio to another is of the repetitions in which
    // both were measured near.
    let slow = rows.iter().cloned().map(|row| {
        let repetitions: &[u32] = if row.system == "slb" { &[0, 1, 2] } else { &[] };
        moved(row, repetitions)
    });
    let ratio = |results: &Results| {
        let chosen = |row: &Row| row.figure == 5 && row.connections == 100;
        results.ratio(["slb", "limit"], chosen, |row| row.ns_per_packet).unwrap()
    };
    assert!((ratio(&Results::of(slow.collect())) / ratio(&still) - 1.0).abs() < 0.05);
    // One figure was measured at that distance only.
    let one_figure = rows.iter().cloned().map(|row| {
        let repetitions: &[u32] = if row.figure == 6 { &[0, 1, 2, 3, 4] } else { &[] };
        moved(row, repetitions)
    });
    let results = Results::of(one_figure.collect());
    for point in results.points() {
        let far = results.is_far(point);
        assert_eq!(far, point.first.figure == 6);
        assert!(!far || results.is_doubtful(point));
        assert_eq!(point.count(), 5);
    }
    let found = Findings { rows: results.rows().to_vec(), ..Findings::default() };
    let page = Report::new(Machine::this("test"), Vec::new(), found).html().unwrap();
    assert!(page.contains("far apart"), "the page says so");
}

#[test]
fn what_was_interrupted_is_not_judged() {
    let ahead = |found: Findings, interrupted: bool| {
        let mut report = Report::new(Machine::this("test"), Vec::new(), found);
        report.interrupted = interrupted;
        let mut goals = report.all_goals().into_iter();
        let goal = goals.find(|goal| goal.text.starts_with("hnlb-mark: throughput over SLB as"));
        goal.map(|goal| (goal.measured, goal.verdict)).unwrap()
    };
    let all = findings(3);
    let (calm, verdict) = ahead(all.clone(), false);
    assert_eq!(verdict, Verdict::Met);
    assert_eq!(ahead(all.clone(), true), (calm, Verdict::Unmeasured), "the run was ended early");
    let mut some = all;
    for row in some.rows.iter_mut().filter(|row| row.system == "hnlb-mark") {
        let disturbed = row.repetition > 0;
        row.mpps = row.mpps.map(|mpps| if disturbed { mpps / 9.0 } else { mpps });
        row.stolen = if disturbed { 0.5 } else { 0.0 };
    }
    let (one, _) = ahead(some.clone(), false);
    assert!(
        (one.unwrap() / calm.unwrap() - 1.0).abs() < 0.01,
        "only repetition 0 decides: {one:?}"
    );
    some.rows.iter_mut().for_each(|row| row.stolen = 0.5);
    assert_eq!(ahead(some, false), (None, Verdict::Unmeasured));
}

#[test]
fn the_highest_rate_without_loss_stands_beside_the_closed_loop() {
    let mut found = Findings::default();
    for (system, most) in [("slb", 10.0), ("limit", 20.0)] {
        let closed = rows(1).into_iter().find(|row| row.figure == 4 && row.system == system);
        let closed = Row { mpps: Some(most), ..closed.unwrap() };
        found.rows.push(closed.clone());
        found.rows.extend((90..105).map(|percent| {
            let offered = most * f64::from(percent) / 100.0;
            // A rate above the first loss that happened to lose nothing doesn't count.
            let loss = if percent > 97 && percent != 103 { 1e-3 } else { 0.0 };
            Row { offered_mpps: Some(offered), loss, ..closed.clone() }
        }));
    }
    let report = Report::new(Machine::this("test"), Vec::new(), found);
    let page = report.text();
    let line = |system: &str| {
        let table = page.split("Throughput and rate without loss").nth(1).unwrap();
        let line = table.lines().find(|line| line.starts_with(system)).unwrap();
        let cells = line.split_ascii_whitespace().rev().take(3);
        cells.map(|cell| cell.parse::<f64>().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((line("SLB"), line("limit")), (vec![9.8, 9.7, 10.0], vec![19.6, 19.4, 20.0]));
}

#[test]
fn what_was_not_measured_is_null_and_a_dash() {
    let empty =
        Row { figure: 5, system: "slb".into(), traffic: "uniform".into(), ..Row::default() };
    let found = Findings { rows: vec![empty], ..Findings::default() };
    let report = Report::new(Machine::this("test"), Vec::new(), found);
    let dir = tempfile::tempdir().unwrap();
    report.write(dir.path()).unwrap();
    let json = std::fs::read_to_string(dir.path().join("results.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for name in ["mpps", "ns_per_packet", "util", "util_plus", "empty_polls", "offered_mpps"] {
        assert!(json["rows"][0][name].is_null() && json["points"][0][name].is_null(), "{name}");
    }
    assert!(json["machine"]["hnlb"].as_str().unwrap().starts_with(env!("CARGO_PKG_VERSION")));
    let text = report.text();
    let line = text.lines().find(|line| line.starts_with("SLB")).unwrap();
    assert_eq!(line.split_ascii_whitespace().filter(|cell| *cell == "-").count(), 6, "{line}");
}

#[test]
fn more_backends_than_queues_stand_beside_the_others() {
    let mut found = findings(1);
    assert!(!report(1).html().unwrap().contains("More backends than queues"));
    let own: Vec<Row> =
        found.rows.iter().filter(|row| row.system == "hnlb-queue").cloned().collect();
    found.rows.extend(own.into_iter().filter(|row| row.figure == 5).map(|row| Row {
        system: "hnlb-shared".into(),
        backends: 64,
        queues: 4,
        ..row
    }));
    let page = Report::new(Machine::this("test"), Vec::new(), found).html().unwrap();
    assert!(page.contains("More backends than queues") && page.contains("64 backends, 4 queues"));
}

#[test]
fn linearity_is_below_the_first_loss() {
    let results = Results::of(rows(3));
    let curves = linearity(&results, 7);
    assert_eq!(curves.len(), 5 * 4);
    let curve = curves.iter().find(|c| c.system == "slb-paper" && c.parameter == 1000).unwrap();
    // 71 ns a packet: 14.1 Mpps, so that 15 are too many.
    let rounded = curve.first_loss_mpps.map(|at| at.round());
    assert_eq!(rounded, Some(15.0));
    let line = curve.line.unwrap();
    assert!(line.r_squared > 0.98 && line.r_squared < 1.0, "{line:?}");
    assert!(linearity(&Results::default(), 7).is_empty());
}

#[test]
fn repetitions_of_all_kinds_become_points() {
    let found = findings(5);
    let points = latencies(&found.latency);
    assert_eq!(points.len(), 5 * 6);
    let point = points.iter().find(|p| p.first.system == "limit" && p.first.share == 0.5).unwrap();
    let drifts = [0, 2, 4, 1, 3].map(|drift| 1.0 + 0.01 * f64::from(drift));
    let p99 = drifts.map(|drift| 3.0 * (drift * cost("limit", 1000) / 20.0 / (1.0 - 0.5)));
    assert_eq!(point.over(|row| row.p99_us), Estimate::of(&p99));
    assert_eq!(new_flows(&found.new_flows).len(), 3 * 3 + 2);
    let steps = installs(&found.installs);
    assert_eq!(steps.len(), 4, "rates that differ a little are one step");
    assert!(steps.iter().all(|step| step.count() == 5));
    let churn = churns(&found.churn);
    assert_eq!(churn.len(), 3 * 2);
    assert_eq!(churn[0].median(|row| row.opened_per_second), Some(5_000.0 * 1.02));
}

#[test]
fn goals_beside_the_figures_are_judged() {
    let report = report(5);
    let found = report.all_goals();
    let by = |what: &str| found.iter().find(|goal| goal.text.contains(what)).unwrap();
    let fresh = by("time for a new connection");
    // The worst: 4 M, 90 % full; the hardware's path takes longer and is none of it.
    let worst = 1.02 * (150.0 + 27.0 + f64::from(1 << 22).log10() * 10.0);
    assert!((fresh.measured.unwrap() - worst).abs() < 1e-9, "{fresh:?}");
    assert!(fresh.verdict == Verdict::Met && fresh.note.contains("90 % full"));
    let install = by("hnlb-mark: the worker's time per packet while");
    assert!((install.measured.unwrap() - 31.02 / 30.0).abs() < 1e-3, "{install:?}");
    assert_eq!(install.verdict, Verdict::Met);
    let mut slow = findings(1);
    slow.new_flows.iter_mut().for_each(|row| row.ns = row.ns.map(|ns| ns + 100.0));
    let slow = Report::new(Machine::this("test"), Vec::new(), slow).all_goals();
    let fresh = slow.iter().find(|goal| goal.text.contains("time for a new")).unwrap();
    assert_eq!(fresh.verdict, Verdict::Missed);
    let nothing = Report::new(Machine::this("test"), Vec::new(), Findings::default());
    assert!(nothing.all_goals().iter().all(|goal| goal.verdict == Verdict::Unmeasured));
}

#[test]
fn all_kinds_of_rows_are_written_and_read() {
    let found = findings(1);
    let values = found.json_rows().unwrap();
    let kinds = [
        found.latency.len(),
        found.new_flows.len(),
        found.installs.len(),
        found.churn.len(),
        found.workers.len(),
    ];
    assert_eq!(values.len(), found.rows.len() + kinds.iter().sum::<usize>());
    let latency = values.iter().find(|row| row["figure"] == "latency").unwrap();
    let back: LatencyRow = serde_json::from_value(latency.clone()).unwrap();
    assert_eq!(back, found.latency[0]);
    let dir = tempfile::tempdir().unwrap();
    report(1).write(dir.path()).unwrap();
    for (name, lines) in ["latency", "new", "install", "churn", "workers"].into_iter().zip(kinds) {
        let text = std::fs::read_to_string(dir.path().join(format!("{name}.csv"))).unwrap();
        let columns = text.lines().next().unwrap().split(',').count();
        assert!(text.lines().all(|line| line.split(',').count() == columns), "{name}");
        assert!(!text.contains(",,"), "{name} has a column that rows haven't");
        let row = values.iter().find(|row| row["figure"] == name).unwrap();
        assert_eq!(row.as_object().unwrap().len(), columns, "{name}");
        assert_eq!(text.lines().count(), lines + 1);
    }
}

#[test]
fn everything_is_written_and_the_page_stands_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut report = report(3);
    report.notes.push("a <script> of notes".into());
    let files = report.write(&dir.path().join("new")).unwrap();
    // Rows, one file of each kind and JSON; plots; the page.
    assert_eq!(files.len(), 7 + 19 + 6 + 1);
    let page = std::fs::read_to_string(files.last().unwrap()).unwrap();
    assert!(page.contains("only the latter is measured"));
    assert!(page.contains("new connection") && page.contains(">missed<"));
    assert!(page.contains("A &lt;b&gt;") && page.contains("a &lt;script&gt;"));
    for outside in ["src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let json = std::fs::read_to_string(dir.path().join("new/results.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = report.findings().json_rows().unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), rows.len());
    let blocked = files[0].join("x");
    assert!(report.write(&blocked).unwrap_err().to_string().contains("results.csv"));
}
