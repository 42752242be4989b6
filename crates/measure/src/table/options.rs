//! What is measured, and what can go wrong.

/// Connections of the tables when nothing else is asked for.
pub(super) const SIZES: [u32; 5] = [1 << 10, 1 << 13, 1 << 16, 1 << 20, 10_000_000];
/// With `quick`.
pub(super) const QUICK_SIZES: [u32; 2] = [1 << 10, 1 << 16];
/// Smallest and largest size: names of connections have 28 bits, less what
/// insertions use up.
const RANGE: std::ops::RangeInclusive<u32> = 64..=100_000_000;

/// What is measured.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Entries of the tables; empty: 1k, 8k, 64k, 1M and 10M.
    pub sizes: Vec<u32>,
    /// Numbers of threads; empty: 1 and 2.
    pub threads: Vec<usize>,
    /// Fewer sizes and repetitions.
    pub quick: bool,
    /// No table has huge pages; else all have, if there are enough.
    pub ordinary_pages: bool,
}

impl Options {
    pub(super) fn sizes(&self) -> Vec<u32> {
        match (self.sizes.is_empty(), self.quick) {
            (false, _) => self.sizes.clone(),
            (true, false) => SIZES.to_vec(),
            (true, true) => QUICK_SIZES.to_vec(),
        }
    }

    pub(super) fn threads(&self) -> Vec<usize> {
        if self.threads.is_empty() { vec![1, 2] } else { self.threads.clone() }
    }

    pub(super) const fn repetitions(&self) -> usize {
        if self.quick { 3 } else { 9 }
    }
}

/// A size can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a size: a number from 64 to 100M, k and M are 1024 and 1024 squared")]
pub struct SizeError(String);

/// A size as in `8k`, `1M` or `5000`; `10M` and more are millions, so that the
/// table for ten million connections has ten million.
///
/// # Errors
/// It is no number, or out of range.
pub fn parse_size(text: &str) -> Result<u32, SizeError> {
    let wrong = || SizeError(text.to_owned());
    let digits = text.trim_end_matches(['k', 'K', 'M']);
    let number: u32 = digits.parse().map_err(|_| wrong())?;
    let unit = match text.get(digits.len()..) {
        Some("") => 1,
        Some("k" | "K") => 1 << 10,
        Some("M") if number < 10 => 1 << 20,
        Some("M") => 1_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).filter(|size| RANGE.contains(size)).ok_or_else(wrong)
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// DPDK did not start.
    #[error(transparent)]
    Eal(#[from] dpdk::EalError),
    /// No rte_hash.
    #[error("{0}; smaller tables can be chosen with --sizes")]
    RteHash(#[from] dpdk::hash::HashError),
    /// No connection table.
    #[error(transparent)]
    Table(#[from] conntrack::TableError),
    /// More threads than processors, or none.
    #[error("{threads} threads can't be measured on {cores} processors: each needs its own")]
    Threads {
        /// Asked for.
        threads: usize,
        /// Those that may be used.
        cores: usize,
    },
    /// The measuring threads.
    #[error("a measuring thread failed: {0}")]
    Worker(String),
    /// A table lost or refused entries, so its figures mean nothing.
    #[error("{table}: {failed} of {of} {op} operations on {entries} entries failed")]
    Failed {
        /// Which table.
        table: &'static str,
        /// Which operation.
        op: &'static str,
        /// The table's size.
        entries: u32,
        /// How many.
        failed: u64,
        /// Of how many.
        of: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_the_field_writes_them() {
        let sizes = ["1k", "8k", "64K", "1M", "10M", "5000"].map(|text| parse_size(text).ok());
        let wanted = [1 << 10, 1 << 13, 1 << 16, 1 << 20, 10_000_000, 5000];
        assert_eq!(sizes, wanted.map(Some));
        for wrong in ["", "k", "1G", "1kk", "-1", "63", "5000M", "1.5M", "101M"] {
            assert_eq!(parse_size(wrong), Err(SizeError(wrong.to_owned())));
        }
    }
}
