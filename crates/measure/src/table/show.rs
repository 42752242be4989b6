//! The figures as a page for people.
use std::fmt::Write as _;

use super::goals::best;
use super::row::{Row, TableName};
use super::run::Outcome;
use crate::report::Verdict;

pub(super) fn page(outcome: &Outcome) -> String {
    let mut page = String::new();
    let _ = writeln!(
        page,
        "ns per operation and thread. entries: connections (hnlb, two keys each) or keys (rte_hash).\n\
         same keys: hnlb with half the connections. ratio: the best rte_hash over hnlb.\n\
         rte_hash's {}\n",
        outcome.memory
    );
    let _ = writeln!(
        page,
        "{:>9} {:<12} {:>4} {:>3} {:>9} {:>9} {:>11} {:>11} {:>11} {:>6}",
        "entries",
        "op",
        "load",
        "thr",
        "hnlb",
        "same keys",
        "rte_hash",
        "rte_hash_rw",
        "rte_hash_lf",
        "ratio"
    );
    for row in outcome.rows.iter().filter(|row| row.table == TableName::Hnlb) {
        line(&mut page, outcome, row);
    }
    for (entries, lines) in &outcome.lines {
        let _ = writeln!(
            page,
            "{entries:>9} lines of hnlb's table read per lookup at 0.9: bulk {lines:.2}, single 2.00"
        );
    }
    let _ = writeln!(page, "\ngoals");
    for goal in &outcome.goals {
        let _ = writeln!(
            page,
            "  {:<6} {:<40} {}: {:.2} {} ({})",
            if goal.verdict == Verdict::Met { "met" } else { "missed" },
            goal.text,
            goal.note,
            goal.measured.unwrap_or_default(),
            goal.unit,
            goal.wanted
        );
    }
    page
}

fn line(page: &mut String, outcome: &Outcome, ours: &Row) {
    let like = |row: &&Row| {
        (row.op, row.entries, row.threads) == (ours.op, ours.entries, ours.threads)
            && (row.load - ours.load).abs() < 1e-9
    };
    let of = |rows: &[Row], table| {
        let found = rows.iter().filter(like).find(|row| row.table == table);
        found.map_or("-".to_owned(), |row| format!("{:.1}", row.ns))
    };
    let ratio =
        best(&outcome.rows, ours).map_or("-".to_owned(), |ns| format!("{:.2}", ns / ours.ns));
    let _ = writeln!(
        page,
        "{:>9} {:<12} {:>4} {:>3} {:>9.1} {:>9} {:>11} {:>11} {:>11} {:>6}",
        ours.entries,
        ours.op.name(),
        ours.load,
        ours.threads,
        ours.ns,
        of(&outcome.same_keys, TableName::Hnlb),
        of(&outcome.rows, TableName::RteHash),
        of(&outcome.rows, TableName::RteHashRw),
        of(&outcome.rows, TableName::RteHashLf),
        ratio
    );
}
