//! The report as one HTML page that needs nothing else.
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::report::claims::DRIVER_NS;
use crate::report::columns::{Cell, Table, fixed};
use crate::report::figures::Figure;
use crate::report::goals::{Goal, Verdict};
use crate::report::points::{NEAR, Results};
use crate::report::{Report, claims, median, tables};

const CSS: &str = include_str!("style.css");

/// What every reader has to know.
const NOTE: &str = "The NIC is emulated. NIC and traffic source run on one core, the load balancer \
    on the other, and only the latter is measured. Machines differ: what is to be compared with the \
    paper are ratios and shapes, not packet rates.";

/// What is compared with HNLB.
const SYSTEMS: &str = "limit: receives, writes one fixed header, sends; it looks at no packet, so \
    all of its packets leave from address and port 0. slb-paper: the paper's software load balancer \
    to the letter, one packet and one rte_hash lookup at a time, without prefetching. slb-bulk: the \
    same table with rte_hash_lookup_bulk and prefetched frames, as DPDK's examples have it, and \
    HNLB's parser and rewrite. slb: HNLB without offload. All have the connections of mode nat; \
    HNLB's table has the keys of both directions, rte_hash those of the directions that are sent.";

/// Where the paper's figures come from.
const PAPER: &str = "The paper's figures, below each plot, are read from the text of its section V, \
    only where the text gives them in words or numbers; the plots were not read off. The paper ran \
    on an AMD EPYC 7301 with an Intel X550, one core, 30 repetitions.";

/// The page.
pub(crate) fn page(report: &Report, figures: &[Figure]) -> String {
    let (results, found) = (report.results(), report.findings());
    let driver = format!(
        "Receiving costs next to nothing here, since the rings hand over pointers. A card's driver \
         adds 20 to 40 ns to every packet of every system (an estimate), so ratios with \
         {DRIVER_NS} ns for both stand beside those that were measured."
    );
    let joined = |all: &[Table]| html! { @for table in all { (table.html()) } };
    let numbered = |figure: u8| {
        let mut text = vec![claim_table(report, figure)];
        match figure {
            4 => text.push(tables::lossless(results)),
            5 => text.extend([tables::ipv6, tables::shared, tables::heavy].map(|of| of(results))),
            7 | 8 => text.push(tables::straightness(results, figure)),
            _ => {}
        }
        (figure.to_string(), format!("Figure {figure}"), joined(&text))
    };
    let studies = [
        ("latency", "Latency", joined(&[tables::latency(found)])),
        (
            "new",
            "New connections and rule installation",
            joined(&[tables::new_connections(found), tables::installation(found)]),
        ),
        ("churn", "Connections that come and go", joined(&[tables::churn(found)])),
        ("workers", "Several workers", joined(&[tables::several(found)])),
    ];
    let studies = studies.map(|(name, title, text)| (name.to_owned(), title.to_owned(), text));
    let shown = |section: &str| figures.iter().any(|figure| figure.section == section);
    let sections = (4..=8).map(numbered).chain(studies).filter(|(name, ..)| shown(name));
    let body = html! {
        h1 { "HNLB: the paper's evaluation, reproduced" }
        p.note { (NOTE) }
        @if let Some(warning) = disturbed(results) { p.warning { (warning) } }
        @for note in &report.notes { p { (note) } }
        (section("Goals", &goal_table(&report.all_goals()).html()))
        p { (PAPER) } p { (SYSTEMS) } p { (driver) }
        @for (name, title, text) in sections {
            (section(&title, &html! { (plots(figures, &name)) (text) }))
        }
        (section("Machine and settings", &settings(report).html()))
        (section("All points", &tables::points(results).html()))
    };
    document("HNLB: the paper's evaluation", &body)
}

fn plots(figures: &[Figure], section: &str) -> Markup {
    html! { div.plots { @for figure in figures.iter().filter(|f| f.section == section) {
        figure { (PreEscaped(&figure.svg)) figcaption { (figure.caption) } }
    } } }
}

/// A page that needs nothing else.
pub(crate) fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                style { (PreEscaped(CSS)) }
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// Doubtful points at saturation may be this share of them.
const FEW: f64 = 0.1;

/// What is to be said of a run on a busy machine.
pub(crate) fn disturbed(results: &Results) -> Option<String> {
    let notes: Vec<String> = [busy(results), apart(results)].into_iter().flatten().collect();
    (!notes.is_empty()).then(|| notes.join(" "))
}

/// That the host has moved the cores.
fn apart(results: &Results) -> Option<String> {
    let (far, all) = (results.far(), results.rows().len());
    let points = results.points().iter().filter(|point| results.is_far(point)).count();
    (far > 0).then(|| {
        format!(
            "In {far} of {all} measurements the two cores were far apart (a cache line took over \
             {NEAR} times as long to the other and back as at best): such a measurement counts \
             only where there is no other, which is so for {points} points."
        )
    })
}

fn busy(results: &Results) -> Option<String> {
    let stolen = results.points().iter().filter_map(|point| point.median(|row| row.stolen));
    let typical = median(&stolen.collect::<Vec<_>>())?;
    let saturated = || results.points().iter().filter(|point| point.first.saturates());
    let doubtful = saturated().filter(|point| results.is_doubtful(point)).count();
    let all = saturated().count();
    (typical > 0.05 || doubtful as f64 > FEW * all as f64).then(|| {
        format!(
            "The machine was busy with other things, or the source too slow: {doubtful} of {all} \
             points at saturation are doubtful (rings and pale bars in the plots), and others had \
             {:.0} % of the measured core at the median point. Measurements that were interrupted \
             for more than a fifth of their time decide no goal.",
            typical * 100.0
        )
    })
}

pub(crate) fn section(title: &str, text: &Markup) -> Markup {
    html! { h2 { (title) } (text) }
}

/// The goals and how they came out.
pub(crate) fn goal_table(goals: &[Goal]) -> Table {
    Table::of(
        "",
        goals,
        &[
            ("Goal", &|goal| goal.text.as_str().into()),
            ("Wanted", &|goal| goal.wanted.as_str().into()),
            ("Measured", &|goal| {
                let decimals = if goal.unit.is_empty() { 3 } else { 1 };
                let value = goal.measured.map(|value| fixed(value, decimals));
                value.map_or_else(|| "-".into(), |value| format!("{value} {}", goal.unit)).into()
            }),
            ("", &|goal| match goal.verdict {
                Verdict::Met => Cell::Marked("met", "met"),
                Verdict::Missed => Cell::Marked("missed", "missed"),
                Verdict::Unmeasured => Cell::Marked("not measured", "unmeasured"),
            }),
            ("Note", &|goal| goal.note.as_str().into()),
        ],
    )
}

fn claim_table(report: &Report, figure: u8) -> Table {
    Table::of(
        "The paper beside this run",
        claims(report.results()).into_iter().filter(|claim| claim.figure == figure),
        &[
            ("", &|claim| claim.what.into()),
            ("The paper", &|claim| claim.paper.into()),
            ("Here: queue, SLB as in the paper", &|claim| claim.queue.as_str().into()),
            ("Here: mark, same SLB", &|claim| claim.mark.as_str().into()),
            ("Here: mark, rte_hash in bulk", &|claim| claim.bulk.as_str().into()),
        ],
    )
}

fn settings(report: &Report) -> Table {
    let lines = report.machine.lines().into_iter().map(|(name, value)| (name.to_owned(), value));
    let rows = lines.chain(report.settings.iter().cloned());
    Table::of(
        "",
        rows,
        &[("", &|(name, _)| name.as_str().into()), ("", &|(_, value)| value.as_str().into())],
    )
}
