//! The runs, one a line.

use super::run::Report;

/// Headings and widths of the columns.
const COLUMNS: [(&str, usize); 12] = [
    ("mode", 8),
    ("encoding", 9),
    ("reloads", 9),
    ("changes", 9),
    ("drains", 8),
    ("requests", 10),
    ("failed", 8),
    ("downloads", 11),
    ("dns sent", 10),
    ("answered", 10),
    ("lost", 6),
    ("rules", 7),
];

/// The table.
pub(super) fn render(reports: &[Report]) -> String {
    let headings = row(COLUMNS.iter().map(|(heading, _)| (*heading).to_owned()));
    let rows = reports.iter().map(|report| {
        let seen = &report.seen;
        let counts = [
            u64::from(report.reloads),
            report.steps,
            report.steered,
            seen.requests,
            seen.failed,
            seen.downloads,
            seen.queries,
            seen.answered,
            seen.lost,
            report.rules,
        ];
        let names = [report.mode.name().to_owned(), report.encoding.name().to_owned()];
        row(names.into_iter().chain(counts.map(|count| count.to_string())))
    });
    headings + &rows.collect::<String>()
}

fn row(cells: impl Iterator<Item = String>) -> String {
    let cells = cells.zip(&COLUMNS).enumerate().map(|(at, (cell, (_, width)))| {
        if at < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    cells.collect::<String>() + "\n"
}
