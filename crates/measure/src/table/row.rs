//! One measured figure.
use serde::Serialize;

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TableName {
    /// The connection table.
    Hnlb,
    /// rte_hash without flags.
    RteHash,
    /// rte_hash with `RW_CONCURRENCY`.
    RteHashRw,
    /// rte_hash with `RW_CONCURRENCY_LF`.
    RteHashLf,
}

impl TableName {
    /// Ours first.
    pub const ALL: [Self; 4] = [Self::Hnlb, Self::RteHash, Self::RteHashRw, Self::RteHashLf];

    /// As in the rows of `--json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hnlb => "hnlb",
            Self::RteHash => "rte_hash",
            Self::RteHashRw => "rte_hash_rw",
            Self::RteHashLf => "rte_hash_lf",
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// One key after the other; all are there.
    Lookup,
    /// 64 keys at a time.
    LookupBulk,
    /// New connections, from 2 % of the entries below the load to 2 % above.
    Insert,
    /// The same in blocks of 64 by one call each, as a burst of new connections.
    /// Only `hnlb` offers that.
    InsertBulk,
}

impl Op {
    /// Whether it only inserts.
    pub(super) const fn inserts(self) -> bool {
        matches!(self, Self::Insert | Self::InsertBulk)
    }

    /// As in the rows of `--json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::LookupBulk => "lookup_bulk",
            Self::Insert => "insert",
            Self::InsertBulk => "insert_bulk",
        }
    }
}

/// One measured figure, as `--json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The table.
    pub table: TableName,
    /// The operation.
    pub op: Op,
    /// What the table was made for: connections (`hnlb`) or keys.
    pub entries: u32,
    /// The part of them that is in the table.
    pub load: f64,
    /// Threads that did the same at a time.
    pub threads: usize,
    /// Nanoseconds of one thread per operation: the median of the repetitions.
    pub ns: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_published_form() {
        let row = |table, op| {
            let row = Row { table, op, entries: 1024, load: 0.9, threads: 2, ns: 12.5 };
            serde_json::to_string(&row).unwrap()
        };
        assert_eq!(
            row(TableName::RteHashLf, Op::LookupBulk),
            r#"{"table":"rte_hash_lf","op":"lookup_bulk","entries":1024,"load":0.9,"threads":2,"ns":12.5}"#
        );
        for table in TableName::ALL {
            assert!(row(table, Op::Insert).contains(&format!(r#""table":"{}""#, table.name())));
        }
        for op in [Op::Lookup, Op::LookupBulk, Op::Insert, Op::InsertBulk] {
            assert!(row(TableName::Hnlb, op).contains(&format!(r#""op":"{}""#, op.name())));
        }
    }
}
