//! The LASLB thesis' chapter 6: tables, plots and a page of their own.
use std::path::{Path, PathBuf};

use maud::{PreEscaped, html};

use crate::laslb::{LaslbGoal, LaslbRow, goals};
use crate::report::columns::{Cell, Column, Table};
use crate::report::html::{document, section};
use crate::report::plot::{Plot, Series, Spot, XAxis};
use crate::report::run::write_all;
use crate::report::style::SHADES;
use crate::report::{Machine, ReportError};

/// Said beside all figures.
const NOTE: &str = "All figures are of a discrete-event simulation: eight processors with queues of \
    1024 packets, polls of 32 and drawn service times, and the balance crate itself. Latencies \
    contain 60 µs of way through NIC and PCIe. Percentiles are of all packets of all draws of \
    addresses; the thesis made one draw.";

/// Where service times are from.
fn service_note(rows: &[LaslbRow]) -> &'static str {
    if rows.iter().any(|row| row.service == "recorded") {
        "Service times are drawn from those recorded of libndpi, scaled to 2.2 µs a packet on \
            average, which is calibrated to the thesis' processor loads."
    } else {
        "Service times are a model that is calibrated to the thesis' processor loads (2.2 µs a \
            packet on average), not recorded from a real function."
    }
}

/// A section: what it shows, and what the thesis says.
struct Chapter {
    section: &'static str,
    title: &'static str,
    thesis: &'static str,
}

const CHAPTERS: [Chapter; 10] = [
    Chapter {
        section: "6.1",
        title: "Latency and throughput",
        thesis: "Thesis, imbalanced at 15 Gbit/s: SLB average 380 µs; RSS average 325, mean 255, \
            11.4 Gbit/s; LASLB average about 110, mean about 95, LOW2 13.7 Gbit/s. Balanced at 15: \
            LASLB 110 and 90, RSS 99 and 82. The averages of RSS depend on the draw; those of \
            MAX and LOW2 stay near RSS here, since their rules relieve no processor of which all \
            buckets wait alike.",
    },
    Chapter {
        section: "6.2",
        title: "Distribution of latency",
        thesis: "Thesis, LOW2 against SLB, imbalanced: at 8 Gbit/s p90 30 % less, at higher load \
            the median 70 % less. p95 at 15: RSS five times as high as LASLB.",
    },
    Chapter {
        section: "6.3",
        title: "Processor load",
        thesis: "Thesis: SLB needs 1.2 to 1.4 times the processor time of the others. Here this is \
            what the model of SLB was calibrated to.",
    },
    Chapter {
        section: "6.4",
        title: "Fairness of load",
        thesis: "Thesis, standard deviation over all loads: SLB 1.3 to 5 %, RSS 3.2 to 22.5, LOW2 \
            1.6 to 12.7, MAX 2.4 to 12.7.",
    },
    Chapter {
        section: "6.5",
        title: "Share of packets",
        thesis: "Thesis at 15 Gbit/s: MAX 8.2 to 15.6 % (deviation 5.04), LOW2 8.2 to 15.6 (5.5), SLB \
            7.4 to 18.2, RSS 5.8 to 24.8 (8.61).",
    },
    Chapter {
        section: "6.6",
        title: "Time between triggers of LOW2",
        thesis: "Thesis: 30,000 µs best at 1 to 8 Gbit/s, worse at 10 and 15 balanced; 100 µs worst \
            at low load. Where LOW2 moves nothing, the time makes no difference, as here.",
    },
    Chapter {
        section: "6.7",
        title: "Highest throughput, plain forwarder",
        thesis: "Thesis: all equal to 35 Gbit/s, within 0.5 % at 38.",
    },
    Chapter { section: "B.1", title: "Drops", thesis: "The thesis has these as figures only." },
    Chapter {
        section: "B.2",
        title: "p95 over the draws",
        thesis: "The thesis' box plots are of the seconds of one draw; these are of draws.",
    },
    Chapter {
        section: "bursty",
        title: "Bursts and sudden changes",
        thesis: "The thesis leaves these to future work.",
    },
];

/// Writes `laslb.json`, plots and `laslb.html` into `dir`, which is made if it isn't
/// there. Returns their paths, the page last.
///
/// # Errors
/// [`ReportError`], with the file.
pub fn write_laslb(
    dir: &Path,
    machine: &Machine,
    rows: &[LaslbRow],
) -> Result<Vec<PathBuf>, ReportError> {
    let goals = goals(rows);
    let all = serde_json::json!({
        "note": format!("{NOTE} {}", service_note(rows)),
        "machine": machine,
        "goals": goals,
        "rows": rows,
    });
    let mut files = vec![("laslb.json".to_owned(), serde_json::to_string_pretty(&all)? + "\n")];
    let mut drawn = Vec::new();
    for chapter in &CHAPTERS {
        for (name, plot) in plots(chapter, rows) {
            drawn.push((chapter.section, name, plot.svg()?));
        }
    }
    let page = page(machine, rows, &goals, &drawn);
    files.extend(drawn.into_iter().map(|(_, name, svg)| (format!("laslb-{name}.svg"), svg)));
    files.push(("laslb.html".to_owned(), page));
    write_all(dir, files)
}

/// The goals and all rows for a terminal.
#[must_use]
pub fn laslb_text(rows: &[LaslbRow]) -> String {
    let goals = goal_table(&goals(rows)).text();
    let mut text = format!("{NOTE} {}\n\n{goals}", service_note(rows));
    for chapter in &CHAPTERS {
        let own: Vec<&LaslbRow> = of(chapter, rows).collect();
        if !own.is_empty() {
            let Chapter { section, title, thesis } = chapter;
            text += &format!("\n{section} {title}\n{thesis}\n{}", table(own).text());
        }
    }
    text
}

fn of<'r>(chapter: &Chapter, rows: &'r [LaslbRow]) -> impl Iterator<Item = &'r LaslbRow> {
    let section = chapter.section;
    rows.iter().filter(move |row| row.experiment == section)
}

type Value = fn(&LaslbRow) -> f64;
type Five = fn(&LaslbRow) -> [f64; 5];

/// The plots of a chapter, for each traffic set, with their file names.
fn plots(chapter: &Chapter, rows: &[LaslbRow]) -> Vec<(String, Plot)> {
    let values: &[(&str, &str, bool, Value)] = match chapter.section {
        "6.1" => &[
            ("mean", "Mean latency (µs)", true, |row| row.mean_us),
            ("throughput", "Throughput (Gbit/s)", false, |row| row.throughput_gbps),
        ],
        "6.2" => &[("p95", "p95 (µs)", true, |row| row.p95_us)],
        "6.3" => &[("cpu", "Processor load (%)", false, |row| row.cpu_mean)],
        "6.4" => &[("cpu-sd", "Standard deviation of load (%)", false, |row| row.cpu_sd)],
        "6.5" => &[("share-sd", "Standard deviation of shares (%)", false, |row| row.share_sd)],
        "6.7" => &[("throughput", "Throughput (Gbit/s)", false, |row| row.throughput_gbps)],
        "B.1" => &[("drops", "Dropped (%)", false, |row| row.dropped_percent)],
        _ => &[("p99", "p99 (µs)", true, |row| row.p99_us)],
    };
    let mut sets: Vec<&str> = of(chapter, rows).map(|row| &*row.set).collect();
    sets.dedup();
    let mut all = Vec::new();
    for set in sets {
        let own: Vec<&LaslbRow> = of(chapter, rows).filter(|row| row.set == set).collect();
        let name = |what: &str| format!("{}-{set}-{what}", chapter.section);
        let title = format!("{} {}, set {set}", chapter.section, chapter.title);
        for &(what, y_label, log_y, value) in values {
            let curve = |row: &LaslbRow| vec![Spot::only(row.load_gbps, value(row))];
            let series = series(&own, curve);
            let (x_label, y_label) = ("Offered load (Gbit/s)".to_owned(), y_label.to_owned());
            all.push((
                name(what),
                Plot { title: title.clone(), x_label, y_label, log_y, series, ..Plot::default() },
            ));
        }
        let boxed: Option<(&str, bool, Five)> = match chapter.section {
            "6.4" => Some(("Load of the processors (%)", false, |row| row.cpu_five)),
            "6.5" => Some(("Share of packets of the processors (%)", false, |row| row.share_five)),
            "B.2" => Some(("p95 of the draws (µs)", true, |row| row.p95_draws_us)),
            _ => None,
        };
        if let Some((y_label, log_y, five)) = boxed {
            let spots = |row: &LaslbRow| vec![Spot::boxed(row.load_gbps, five(row))];
            let series = series(&own, spots);
            let (x_label, y_label) = ("Offered load (Gbit/s)".to_owned(), y_label.to_owned());
            let title = title.clone();
            all.push((
                name("boxes"),
                Plot { title, x_label, y_label, log_y, series, ..Plot::default() },
            ));
        }
        if chapter.section == "6.2" {
            all.extend(distribution(&own, &title).map(|plot| (name("cdf"), plot)));
        }
    }
    all
}

/// The CDF at the load nearest to 15 Gbit/s.
fn distribution(rows: &[&LaslbRow], title: &str) -> Option<Plot> {
    let off = |row: &LaslbRow| (row.load_gbps - 15.0).abs();
    let nearest = rows.iter().min_by(|one, other| off(one).total_cmp(&off(other)))?.load_gbps;
    let own: Vec<&LaslbRow> = rows.iter().copied().filter(|row| row.load_gbps == nearest).collect();
    let curve = |row: &LaslbRow| {
        row.cdf.iter().map(|[percent, us]| Spot::only(*us, *percent)).collect::<Vec<_>>()
    };
    Some(Plot {
        title: format!("{title}, {nearest} Gbit/s"),
        x_label: "Latency (µs)".to_owned(),
        y_label: "% of the packets".to_owned(),
        x: XAxis::Log,
        series: series(&own, curve),
        ..Plot::default()
    })
}

/// A curve for each system, of the spots that its rows have.
fn series(rows: &[&LaslbRow], spots: impl Fn(&LaslbRow) -> Vec<Spot>) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for row in rows {
        let label = label(row);
        match all.iter_mut().find(|series| series.label == label) {
            Some(series) => series.points.extend(spots(row)),
            None => all.push(Series {
                label,
                color: SHADES.get(all.len() % SHADES.len()).copied().unwrap_or_default(),
                dashed: all.len() >= SHADES.len(),
                points: spots(row),
                mark: None,
            }),
        }
    }
    all
}

fn label(row: &LaslbRow) -> String {
    match row.trigger_us {
        Some(us) if row.experiment == "6.6" => format!("{} {us} µs", row.algorithm),
        _ => row.algorithm.clone(),
    }
}

fn page(
    machine: &Machine,
    rows: &[LaslbRow],
    goals: &[LaslbGoal],
    drawn: &[(&str, String, String)],
) -> String {
    let body = html! {
        h1 { "LASLB's experiments" }
        p.note { (NOTE) " " (service_note(rows)) }
        (section("Goals", &goal_table(goals).html()))
        @for chapter in CHAPTERS.iter().filter(|chapter| of(chapter, rows).next().is_some()) {
            (section(&format!("{} {}", chapter.section, chapter.title), &html! {
                @for (_, _, svg) in drawn.iter().filter(|(section, ..)| *section == chapter.section) {
                    figure { (PreEscaped(svg)) }
                }
                p { (chapter.thesis) }
                (table(of(chapter, rows).collect()).html())
            }))
        }
        (section("Machine", &html! {
            @for (name, value) in machine.lines() { p { (name) ": " (value) } }
        }))
    };
    document("HNLB: LASLB's experiments", &body)
}

fn goal_table(goals: &[LaslbGoal]) -> Table {
    let columns: &[Column<'_, &LaslbGoal>] = &[
        ("Goal of the default", &|goal| goal.goal.into()),
        ("", &|goal| {
            if goal.met { Cell::Marked("met", "met") } else { Cell::Marked("missed", "missed") }
        }),
        ("Worst", &|goal| goal.worst.as_str().into()),
    ];
    Table::of("", goals, columns)
}

fn table(rows: Vec<&LaslbRow>) -> Table {
    let columns: &[Column<'_, &LaslbRow>] = &[
        ("Set", &|row| row.set.as_str().into()),
        ("Gbit/s", &|row| Cell::count(row.load_gbps)),
        ("System", &|row| label(row).into()),
        ("achieved", &|row| Cell::number(row.throughput_gbps, 2)),
        ("probes µs", &|row| Cell::number(row.probe_mean_us, 0)),
        ("mean µs", &|row| Cell::number(row.mean_us, 0)),
        ("p50", &|row| Cell::number(row.p50_us, 0)),
        ("p95", &|row| Cell::number(row.p95_us, 0)),
        ("p99", &|row| Cell::number(row.p99_us, 0)),
        ("p99 by draw", &|row| {
            Cell::count(format!(
                "{:.0} [{:.0}, {:.0}]",
                row.p99_draw_us, row.p99_low_us, row.p99_high_us
            ))
        }),
        ("CPU %", &|row| Cell::number(row.cpu_mean, 1)),
        ("sd", &|row| Cell::number(row.cpu_sd, 1)),
        ("share %", &|row| {
            Cell::count(format!("{:.1} to {:.1}", row.share_range[0], row.share_range[1]))
        }),
        ("dropped %", &|row| Cell::number(row.dropped_percent, 3)),
        ("moves/s", &|row| Cell::number(row.moves_per_s, 1)),
        ("overtaken", &|row| Cell::count(row.out_of_order)),
    ];
    Table::of("", rows, columns)
}
