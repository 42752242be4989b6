//! The figures as a page for people.
use super::goals::best;
use super::row::{Row, TableName};
use super::run::Outcome;
use crate::report::columns::{Cell, Column, Table};
use crate::report::html::goal_table;

pub(super) fn page(outcome: &Outcome) -> String {
    let mut page = format!(
        "ns per operation and thread. entries: connections (hnlb, two keys each) or keys (rte_hash).\n\
         same keys: hnlb with half the connections. ratio: the best rte_hash over hnlb.\n\
         {}\n\n",
        outcome.memory
    );
    let like = |ours: &Row, row: &Row| {
        (row.op, row.entries, row.threads) == (ours.op, ours.entries, ours.threads)
            && (row.load - ours.load).abs() < 1e-9
    };
    let of = |rows: &[Row], table, ours: &Row| {
        let found = rows.iter().find(|row| row.table == table && like(ours, row));
        Cell::number(found.map(|row| row.ns), 1)
    };
    let columns: &[Column<'_, &Row>] = &[
        ("op", &|row| row.op.name().into()),
        ("entries", &|row| Cell::count(row.entries)),
        ("load", &|row| Cell::count(row.load)),
        ("threads", &|row| Cell::count(row.threads)),
        ("hnlb", &|row| Cell::number(row.ns, 1)),
        ("same keys", &|row| of(&outcome.same_keys, TableName::Hnlb, row)),
        ("rte_hash", &|row| of(&outcome.rows, TableName::RteHash, row)),
        ("rte_hash_rw", &|row| of(&outcome.rows, TableName::RteHashRw, row)),
        ("rte_hash_lf", &|row| of(&outcome.rows, TableName::RteHashLf, row)),
        ("ratio", &|row| Cell::number(best(&outcome.rows, row).map(|ns| ns / row.ns), 2)),
    ];
    let ours = outcome.rows.iter().filter(|row| row.table == TableName::Hnlb);
    page += &Table::of("", ours, columns).text();
    page + "\nGoals\n" + &goal_table(&outcome.goals).text()
}
