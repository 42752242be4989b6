//! The goals of the table, and whether the figures meet them.
use super::row::{Op, Row, TableName};
use crate::report::Goal;

/// All goals that `rows` has the figures for.
pub(super) fn goals(rows: &[Row]) -> Vec<Goal> {
    let ours = rows.iter().filter(|row| row.table == TableName::Hnlb);
    ours.flat_map(|row| {
        let mut goals = Vec::new();
        let mut add = |goal: Goal| {
            goals.push(goal.note(format!("{} entries, {} threads", row.entries, row.threads)));
        };
        match row.op {
            Op::LookupBulk | Op::Lookup => {
                if let Some(best) = best(rows, row) {
                    let (what, limit) = match row.op {
                        Op::Lookup => ("single lookup against rte_hash's best", 2.0),
                        _ => ("bulk lookup against rte_hash's best", 1.5),
                    };
                    add(Goal::at_least(what, limit, "", Some(best / row.ns)));
                }
                if let Some(alone) = alone(rows, row) {
                    let what = match row.op {
                        Op::Lookup => "what a second reader costs, single",
                        _ => "what a second reader costs, bulk",
                    };
                    add(Goal::at_most(what, 10.0, "%", Some((row.ns / alone - 1.0) * 100.0)));
                }
            }
            Op::Insert | Op::InsertBulk if (row.load - 0.5).abs() < 0.01 => {
                let what = match row.op {
                    Op::Insert => "insertions at 50 % load",
                    _ => "insertions of bursts at 50 % load",
                };
                let millions = row.threads as f64 * 1000.0 / row.ns;
                add(Goal::at_least(what, 10.0, "M/s", Some(millions)));
            }
            Op::Insert | Op::InsertBulk => {}
        }
        goals
    })
    .collect()
}

fn same(row: &Row, other: &Row) -> bool {
    (row.op, row.entries) == (other.op, other.entries) && (row.load - other.load).abs() < 1e-9
}

/// The least time of any rte_hash for the same.
pub(super) fn best(rows: &[Row], ours: &Row) -> Option<f64> {
    let others = rows.iter().filter(|row| {
        row.table != TableName::Hnlb && same(row, ours) && row.threads == ours.threads
    });
    others.map(|row| row.ns).min_by(f64::total_cmp)
}

/// The time of one thread alone, if `row` is of several.
fn alone(rows: &[Row], ours: &Row) -> Option<f64> {
    let one = |row: &&Row| row.table == ours.table && row.threads == 1 && same(row, ours);
    rows.iter().find(one).filter(|_| ours.threads > 1).map(|row| row.ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    #[test]
    fn goals_compare_with_the_best_rival_and_the_single_thread() {
        let row = |table, op, threads, ns| Row { table, op, entries: 1024, load: 0.9, threads, ns };
        let mut rows = vec![
            row(TableName::Hnlb, Op::LookupBulk, 1, 10.0),
            row(TableName::RteHash, Op::LookupBulk, 1, 15.0),
            row(TableName::RteHashLf, Op::LookupBulk, 1, 20.0),
            row(TableName::Hnlb, Op::Lookup, 2, 10.0),
            row(TableName::Hnlb, Op::Lookup, 1, 9.0),
            row(TableName::RteHash, Op::Lookup, 2, 19.0),
            row(TableName::RteHash, Op::LookupBulk, 2, 1.0),
        ];
        rows.push(Row { load: 0.5, ..row(TableName::Hnlb, Op::Insert, 2, 150.0) });
        rows.push(row(TableName::Hnlb, Op::Insert, 1, 1.0));
        let goals = goals(&rows);
        let rounded = |goal: &Goal| (goal.measured.unwrap() * 10.0).round() / 10.0;
        let found: Vec<(f64, bool)> =
            goals.iter().map(|goal| (rounded(goal), goal.verdict == Verdict::Met)).collect();
        assert_eq!(found, [(1.5, true), (1.9, false), (11.1, false), (13.3, true)]);
    }
}
