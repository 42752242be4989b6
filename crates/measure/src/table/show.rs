//! The figures as a page for people.
use super::goals::best;
use super::row::{Row, TableName};
use super::run::Outcome;
use crate::report::columns::{Cell, Table};
use crate::report::html::goal_table;

pub(super) fn page(outcome: &Outcome) -> String {
    let mut page = format!(
        "ns per operation and thread. entries: connections (hnlb, two keys each) or keys (rte_hash).\n\
         same keys: hnlb with half the connections. ratio: the best rte_hash over hnlb.\n\
         rte_hash's memory: {}\n\n",
        outcome.memory
    );
    let ours = outcome.rows.iter().filter(|row| row.table == TableName::Hnlb);
    let head = [
        "op",
        "entries",
        "load",
        "threads",
        "hnlb",
        "same keys",
        "rte_hash",
        "rte_hash_rw",
        "rte_hash_lf",
        "ratio",
    ];
    page += &Table::new("", 1, &head).rows(ours.map(|ours| line(outcome, ours))).text();
    let rows = outcome.lines.iter().map(|(entries, lines)| {
        vec![(*entries).into(), Cell::number(Some(*lines), 2), Cell::number(Some(2.0), 2)]
    });
    let title = "Lines of hnlb's table read per lookup at a load of 0.9";
    page += &Table::new(title, 0, &["entries", "bulk", "single"]).rows(rows).text();
    page + "\nGoals\n" + &goal_table(&outcome.goals).text()
}

fn line(outcome: &Outcome, ours: &Row) -> Vec<Cell> {
    let like = |row: &&Row| {
        (row.op, row.entries, row.threads) == (ours.op, ours.entries, ours.threads)
            && (row.load - ours.load).abs() < 1e-9
    };
    let of = |rows: &[Row], table| {
        let found = rows.iter().filter(like).find(|row| row.table == table);
        Cell::number(found.map(|row| row.ns), 1)
    };
    vec![
        ours.op.name().into(),
        ours.entries.into(),
        ours.load.into(),
        ours.threads.into(),
        Cell::number(Some(ours.ns), 1),
        of(&outcome.same_keys, TableName::Hnlb),
        of(&outcome.rows, TableName::RteHash),
        of(&outcome.rows, TableName::RteHashRw),
        of(&outcome.rows, TableName::RteHashLf),
        Cell::number(best(&outcome.rows, ours).map(|ns| ns / ours.ns), 2),
    ]
}
