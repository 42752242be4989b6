//! The report as one HTML page that needs nothing else.

use crate::report::beside::{heavy_table, ipv6_table, sections, shared_table};
use crate::report::figures::Figure;
use crate::report::goals::{Goal, Verdict};
use crate::report::style::label;
use crate::report::{Estimate, NEAR, Point, Report, claims, linearity};

const CSS: &str = include_str!("style.css");

/// What every reader has to know.
const NOTE: &str = "The NIC is emulated. NIC and traffic source run on one core, the load balancer \
    on the other, and only the latter is measured. Machines differ: what is to be compared with the \
    paper are ratios and shapes, not packet rates.";

/// The page.
pub(crate) fn page(report: &Report, figures: &[Figure]) -> String {
    let results = report.results();
    let mut body = format!(
        "<h1>HNLB: the paper's evaluation, reproduced</h1>\n<p class=\"note\">{NOTE}</p>\n"
    );
    if let Some(warning) = disturbed(results) {
        body += &format!("<p class=\"warning\">{}</p>\n", escaped(&warning));
    }
    for note in &report.notes {
        body += &format!("<p>{}</p>\n", escaped(note));
    }
    body += &section("Goals", &goal_table(&report.all_goals()));
    body += PAPER;
    for number in 4..=8 {
        let plots: String =
            figures.iter().filter(|figure| figure.number == number).map(plot).collect();
        if !plots.is_empty() {
            let mut text = format!("<div class=\"plots\">\n{plots}</div>\n");
            text += &claim_table(report, number);
            if number == 5 {
                text += &(ipv6_table(report) + &shared_table(report) + &heavy_table(report));
            }
            if number >= 7 {
                text += &linearity_table(report, number);
            }
            body += &section(&format!("Figure {number}"), &text);
        }
    }
    body += &sections(report, figures);
    body += &section("Machine and settings", &machine(report));
    body += &section("All points", &points(results.points()));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>HNLB: the paper's evaluation</title>\n<style>\n{CSS}</style>\n</head>\n\
         <body>\n{body}</body>\n</html>\n"
    )
}

/// Doubtful points at saturation may be this share of them.
const FEW: f64 = 0.1;

/// What is to be said of a run on a busy machine.
pub(crate) fn disturbed(results: &crate::report::Results) -> Option<String> {
    let notes: Vec<String> = [busy(results), apart(results)].into_iter().flatten().collect();
    (!notes.is_empty()).then(|| notes.join(" "))
}

/// That the host has moved the cores.
fn apart(results: &crate::report::Results) -> Option<String> {
    let (far, all) = (results.far(), results.rows().len());
    let points = results.points().iter().filter(|point| point.far).count();
    (far > 0).then(|| {
        format!(
            "In {far} of {all} measurements the two cores were far apart (a cache line took over \
             {NEAR} times as long to the other and back as at best): such a measurement counts \
             only where there is no other, which is so for {points} points."
        )
    })
}

fn busy(results: &crate::report::Results) -> Option<String> {
    let stolen: Vec<f64> = results.points().iter().map(|point| point.stolen.median).collect();
    let saturated = || results.points().iter().filter(|point| point.offered_mpps.is_none());
    let doubtful = saturated().filter(|point| point.is_doubtful()).count();
    let all = saturated().count();
    let typical = crate::report::median(&stolen)?;
    (typical > 0.05 || doubtful as f64 > FEW * all as f64).then(|| {
        format!(
            "The machine was busy with other things, or the source too slow: {doubtful} of {all} \
             points at saturation are doubtful (rings and pale bars in the plots), and others had \
             {:.0} % of the measured core at the median point. Goals decided by such points mean little; measure \
             again when nothing else runs.",
            typical * 100.0
        )
    })
}

pub(crate) fn section(title: &str, text: &str) -> String {
    format!("<h2>{}</h2>\n{text}", escaped(title))
}

/// A table; columns from `numbers` on are numbers.
pub(crate) fn table(
    head: &[&str],
    numbers: usize,
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    let class = |at: usize| if at >= numbers { " class=\"n\"" } else { "" };
    let cells = |tag: &str, cells: Vec<String>| -> String {
        let cell = |(at, text): (usize, String)| format!("<{tag}{}>{text}</{tag}>", class(at));
        cells.into_iter().enumerate().map(cell).collect()
    };
    let head = cells("th", head.iter().map(|text| escaped(text)).collect());
    let rows: String = rows.map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
    // Without numbers the first column is text that may be long.
    let kind = if numbers == usize::MAX { "wide wrap" } else { "wide" };
    format!("<div class=\"{kind}\"><table>\n<tr>{head}</tr>\n{rows}</table></div>\n")
}

fn goal_table(goals: &[Goal]) -> String {
    let rows = goals.iter().map(|goal| {
        let (class, verdict) = match goal.verdict {
            Verdict::Met => ("met", "met"),
            Verdict::Missed => ("missed", "missed"),
            Verdict::Unmeasured => ("unmeasured", "not measured"),
        };
        let decimals = if goal.unit.is_empty() { 3 } else { 1 };
        let measured =
            goal.measured.map_or_else(String::new, |m| format!("{m:.decimals$} {}", goal.unit));
        vec![
            escaped(&goal.text),
            escaped(&goal.wanted),
            escaped(&measured),
            format!("<span class=\"{class}\">{verdict}</span>"),
            escaped(&goal.note),
        ]
    });
    table(&["Goal", "Wanted", "Measured", "", "Note"], usize::MAX, rows)
}

/// Where the paper's figures come from.
const PAPER: &str = "<p>The paper's figures, below each plot, are read from the text of its section \
    V, only where the text gives them in words or numbers; the plots were not read off. The paper \
    ran on an AMD EPYC 7301 with an Intel X550, one core, 30 repetitions.</p>\n";

fn claim_table(report: &Report, figure: u8) -> String {
    let mut claims = claims(report.results());
    claims.retain(|claim| claim.figure == figure);
    if claims.is_empty() {
        return String::new();
    }
    let rows = claims.into_iter().map(|claim| {
        [claim.what, claim.paper, &claim.queue, &claim.mark].into_iter().map(escaped).collect()
    });
    let head = ["", "The paper", "Here: queue, SLB as in the paper", "Here: mark, same SLB"];
    "<h3>The paper beside this run</h3>\n".to_owned() + &table(&head, usize::MAX, rows)
}

pub(crate) fn plot(figure: &Figure) -> String {
    let caption = escaped(&figure.caption);
    format!("<figure>{}<figcaption>{caption}</figcaption></figure>\n", figure.svg)
}

/// How straight util+ is, for each curve of figure 7 or 8.
fn linearity_table(report: &Report, figure: u8) -> String {
    let rows = linearity(report.results(), figure).into_iter().map(|curve| {
        let loss = curve.first_loss_mpps.map_or_else(|| "none".into(), |at| format!("{at:.2}"));
        let (r, off) = curve.line.map_or_else(
            || ("too few points".into(), String::new()),
            |line| {
                let points = line.greatest_deviation * 100.0;
                (format!("{:.4}", line.r_squared), format!("{points:.1}"))
            },
        );
        vec![escaped(label(&curve.system)), curve.parameter.to_string(), loss, r, off]
    });
    let what = if figure == 7 { "Connections" } else { "Bytes" };
    let head = ["System", what, "First loss, Mpps", "R²", "Greatest deviation, % points"];
    "<h3>Linearity of util+ below the first loss</h3>\n".to_owned() + &table(&head, 1, rows)
}

fn machine(report: &Report) -> String {
    let lines = report.machine.lines().into_iter().map(|(name, value)| (name.to_owned(), value));
    let rows = lines.chain(report.settings.iter().cloned());
    table(&["", ""], usize::MAX, rows.map(|(name, value)| vec![escaped(&name), escaped(&value)]))
}

fn points(points: &[Point]) -> String {
    let rows = points.iter().map(|point| {
        let offered = point.offered_mpps.map_or_else(String::new, |rate| format!("{rate:.2}"));
        vec![
            escaped(label(&point.system)),
            escaped(&point.traffic),
            point.figure.to_string(),
            point.connections.to_string(),
            point.packet_size.to_string(),
            offered,
            around(&point.mpps, 1.0, 2),
            around(&point.ns_per_packet, 1.0, 1),
            around(&point.util, 100.0, 1),
            around(&point.util_plus, 100.0, 1),
            format!("{:.3}", point.loss.median * 100.0),
            format!("{:.1}", point.empty_polls.median * 100.0),
            format!("{:.1}", point.matched.median * 100.0),
            format!("{:.1}", point.stolen.median * 100.0),
            point.mpps.count.to_string(),
        ]
    });
    let head = [
        "System",
        "Traffic",
        "Figure",
        "Connections",
        "Bytes",
        "Offered Mpps",
        "Mpps",
        "ns per packet",
        "util %",
        "util+ %",
        "Loss %",
        "Empty polls %",
        "NIC matched %",
        "Stolen %",
        "n",
    ];
    let least = points.iter().map(|point| point.mpps.coverage).fold(1.0, f64::min);
    format!(
        "<p>Medians over the repetitions, in brackets the confidence interval of the median by \
         order statistics (coverage at least {:.1} %). Stolen: time that other processes had on \
         the measured core, part of no other column.</p>\n<details><summary>{} points</summary>\n\
         {}</details>\n",
        least * 100.0,
        points.len(),
        table(&head, 2, rows)
    )
}

/// A median with its interval.
pub(crate) fn around(estimate: &Estimate, scale: f64, decimals: usize) -> String {
    let [median, low, high] = [estimate.median, estimate.low, estimate.high].map(|v| v * scale);
    format!("{median:.decimals$} [{low:.decimals$}, {high:.decimals$}]")
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
