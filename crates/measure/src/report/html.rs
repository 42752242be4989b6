//! The report as one HTML page that needs nothing else.

use crate::report::columns::{Cell, Table, escaped};
use crate::report::figures::Figure;
use crate::report::goals::{Goal, Verdict};
use crate::report::{NEAR, Report, claims, tables};

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
    body += &section("Goals", &goal_table(&report.all_goals()).html());
    body += PAPER;
    for number in 4..=8 {
        let plots: String =
            figures.iter().filter(|figure| figure.number == number).map(plot).collect();
        if !plots.is_empty() {
            let mut text = format!("<div class=\"plots\">\n{plots}</div>\n");
            text += &claim_table(report, number).html();
            if number == 5 {
                let more = [tables::ipv6(results), tables::shared(results), tables::heavy(results)];
                text.extend(more.iter().map(Table::html));
            }
            if number >= 7 {
                text += &tables::straightness(results, number).html();
            }
            body += &section(&format!("Figure {number}"), &text);
        }
    }
    body += &studies(report, figures);
    body += &section("Machine and settings", &machine(report).html());
    body += &section("All points", &tables::points(results).html());
    document("HNLB: the paper's evaluation", &body)
}

/// A page that needs nothing else.
pub(crate) fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>\n{CSS}</style>\n</head>\n\
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

/// The goals and how they came out.
pub(crate) fn goal_table(goals: &[Goal]) -> Table {
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
            Cell::from(&goal.text),
            Cell::from(&goal.wanted),
            measured.into(),
            Cell::Marked { text: verdict, class },
            Cell::from(&goal.note),
        ]
    });
    let head = ["Goal", "Wanted", "Measured", "", "Note"];
    Table::new("", usize::MAX, &head).rows(rows)
}

/// Where the paper's figures come from.
const PAPER: &str = "<p>The paper's figures, below each plot, are read from the text of its section \
    V, only where the text gives them in words or numbers; the plots were not read off. The paper \
    ran on an AMD EPYC 7301 with an Intel X550, one core, 30 repetitions.</p>\n";

fn claim_table(report: &Report, figure: u8) -> Table {
    let claims = claims(report.results()).into_iter().filter(|claim| claim.figure == figure);
    let rows = claims.map(|claim| {
        vec![claim.what.into(), claim.paper.into(), claim.queue.into(), claim.mark.into()]
    });
    let head = ["", "The paper", "Here: queue, SLB as in the paper", "Here: mark, same SLB"];
    Table::new("The paper beside this run", usize::MAX, &head).rows(rows)
}

pub(crate) fn plot(figure: &Figure) -> String {
    let caption = escaped(&figure.caption);
    format!("<figure>{}<figcaption>{caption}</figcaption></figure>\n", figure.svg)
}

fn machine(report: &Report) -> Table {
    let lines = report.machine.lines().into_iter().map(|(name, value)| (name.to_owned(), value));
    let rows = lines.chain(report.settings.iter().cloned());
    Table::new("", usize::MAX, &["", ""])
        .rows(rows.map(|(name, value)| vec![name.into(), value.into()]))
}

/// Latency, new connections, rule installation and churn.
fn studies(report: &Report, figures: &[Figure]) -> String {
    let found = report.findings();
    let both = tables::new_connections(found).html() + &tables::installation(found).html();
    let all = [
        ("latency", "Latency", tables::latency(found).html()),
        ("new", "New connections and rule installation", both),
        ("churn", "Connections that come and go", tables::churn(found).html()),
    ];
    let section = |(study, title, tables): (&str, &str, String)| {
        let own = figures.iter().filter(|figure| figure.study == study);
        let plots: String = own.map(plot).collect();
        section(title, &format!("<div class=\"plots\">\n{plots}</div>\n{tables}"))
    };
    all.into_iter().filter(|(_, _, tables)| !tables.is_empty()).map(section).collect()
}
