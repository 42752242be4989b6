//! How lookups grow with the table, next to the machine's memory latency.
use std::fmt::Write as _;

use super::chase;
use super::options::BenchError;
use super::progress::Progress;
use super::row::{Op, TableName};
use super::run::{contestants, measure_op, nanoseconds};

const TABLES: [TableName; 2] = [TableName::Hnlb, TableName::RteHashLf];
/// At higher loads rte_hash_lf refuses a sixth of the keys of some sizes when it
/// is filled for the first time, and a lookup of those is a miss.
const LOAD: f64 = 0.5;

/// The curves.
#[derive(Clone, Debug, Default)]
pub struct Growth {
    /// One point per size, smallest first.
    pub points: Vec<Point>,
}

/// One size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Connections (HNLB) or keys (rte_hash).
    pub entries: u32,
    /// Bytes of HNLB's table.
    pub bytes: usize,
    /// Nanoseconds per lookup: HNLB single and bulk, rte_hash_lf single and bulk.
    pub lookups: [f64; 4],
    /// Nanoseconds per step of a pointer chase over as many bytes.
    pub latency: f64,
}

impl Growth {
    pub(super) const NAMES: [&'static str; 4] =
        ["hnlb, single", "hnlb, bulk of 64", "rte_hash_lf, single", "rte_hash_lf, bulk of 64"];

    pub(super) fn page(&self) -> String {
        let mut page = format!("{:>9} {:>8}", "entries", "KiB");
        for name in Self::NAMES {
            let _ = write!(page, " {name:>24}");
        }
        let _ = write!(page, " {:>14}", "pointer chase");
        for point in &self.points {
            let _ = write!(page, "\n{:>9} {:>8}", point.entries, point.bytes >> 10);
            for ns in point.lookups {
                let _ = write!(page, " {ns:>24.1}");
            }
            let _ = write!(page, " {:>14.1}", point.latency);
        }
        page
    }
}

/// From 1k on fourfold, up to the largest of `sizes`, which is the last.
pub(super) fn sizes(sizes: &[u32]) -> Vec<u32> {
    let largest = sizes.iter().copied().max().unwrap_or_default();
    let mut all: Vec<u32> = (10..31).step_by(2).map(|bits| 1 << bits).collect();
    all.retain(|size| *size < largest);
    all.push(largest);
    all
}

pub(super) fn measure(
    sizes: &[u32],
    repetitions: usize,
    progress: &Progress,
) -> Result<Growth, BenchError> {
    let mut points = Vec::new();
    for &entries in sizes {
        progress.step(&format!("growth, {entries} entries"));
        let mut tables = contestants(entries, &TABLES, false)?;
        for table in &mut tables {
            table.fill(Op::Lookup, LOAD)?;
        }
        let mut lookups = [0.0; 4];
        for (at, op) in [Op::Lookup, Op::LookupBulk].into_iter().enumerate() {
            let rows = measure_op(&mut tables, op, LOAD, 1, repetitions)?;
            for (row, place) in rows.iter().zip(lookups.iter_mut().skip(at).step_by(2)) {
                *place = row.0.ns;
            }
        }
        let bytes = tables.first().and_then(|table| table.subject.bytes()).unwrap_or_default();
        drop(tables);
        let latency = nanoseconds(chase::latency(bytes, repetitions));
        points.push(Point { entries, bytes, lookups, latency });
    }
    Ok(Growth { points })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_ends_at_the_largest_size() {
        assert_eq!(sizes(&[1 << 16, 1 << 12]), [1 << 10, 1 << 12, 1 << 14, 1 << 16]);
        assert_eq!(sizes(&[100]), [100]);
        assert_eq!(sizes(&[10_000_000]).last(), Some(&10_000_000));
    }
}
