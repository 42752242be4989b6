//! The floods, one a line.

use super::run::Report;

/// Headings and widths of the columns.
const COLUMNS: [(&str, usize); 14] = [
    ("flood", 12),
    ("frames/s", 10),
    ("overrun %", 11),
    ("held", 7),
    ("lost", 6),
    ("requests", 10),
    ("failed", 8),
    ("downloads", 11),
    ("broken", 8),
    ("new", 8),
    ("served %", 10),
    ("p50 ms", 9),
    ("p99 ms", 9),
    ("SYN again", 11),
];

/// What the columns are.
const NOTES: &str = "\
frames/s: of the attacker. overrun: share of the frames on HNLB's link that came while its ring was
full, so that HNLB never saw them: the machine is too busy for this rate. held: TCP connections idle
during the flood and used at its end, byte by byte; lost of them. requests: over long connections.
downloads: of 1 MB at 1 MB/s, compared byte by byte. new: connections opened meanwhile, their share
that was answered within 10 s, and the time from the SYN to the whole answer. SYN again: SYNs that
the kernel of the client of these connections sent once more.
";

/// The table.
pub(super) fn render(reports: &[Report]) -> String {
    let headings = row(COLUMNS.map(|(heading, _)| heading.to_owned()));
    let rows = reports.iter().map(|report| {
        let Report { flood, sent, held, requests, failed, downloads, broken, new, .. } = report;
        let overrun = 100.0 * report.overrun as f64 / report.brought.max(1) as f64;
        let rate = if sent.seconds > 0.0 { sent.sent as f64 / sent.seconds } else { 0.0 };
        let served = 100.0 * new.served as f64 / new.tried.max(1) as f64;
        let ms = |us: u64| format!("{:.1}", us as f64 / 1e3);
        row([
            flood.clone(),
            format!("{rate:.0}"),
            format!("{overrun:.2}"),
            held.held.to_string(),
            held.lost.len().to_string(),
            requests.to_string(),
            failed.to_string(),
            downloads.to_string(),
            broken.len().to_string(),
            new.tried.to_string(),
            format!("{served:.2}"),
            ms(new.p50_us),
            ms(new.p99_us),
            new.syn_again.to_string(),
        ])
    });
    headings + &rows.collect::<String>() + NOTES
}

fn row(cells: [String; COLUMNS.len()]) -> String {
    let cells = cells.into_iter().zip(&COLUMNS).enumerate().map(|(at, (cell, (_, width)))| {
        if at < 1 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    cells.collect::<String>() + "\n"
}
