//! How a whole run shares its time among its parts.
use std::time::Duration;

use crate::evaluation::figure::Figure;
use crate::evaluation::part::Part;

/// Repetitions beyond which nothing is gained: the paper's.
pub(crate) const MOST: u32 = 30;

/// How long a whole run measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// As many repetitions as fit into this time; every point once, even if that
    /// takes longer.
    Within(Duration),
    /// So many repetitions of every point, however long that takes.
    Repetitions(u32),
}

/// What a part of a whole run gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which part.
    pub part: Part,
    /// Its percentage of the time. A part of many points, or of many connections
    /// that have to be opened, needs more.
    pub percent: u32,
    /// Milliseconds of one measured point.
    pub point_ms: u64,
}

/// The shares of a whole run, in its order.
#[must_use]
pub fn shares(quick: bool) -> [Share; 9] {
    let of = |part, long: (u32, u64), short: (u32, u64)| {
        let (percent, point_ms) = if quick { short } else { long };
        Share { part, percent, point_ms }
    };
    [
        of(Part::Figure(Figure::Fig4), (4, 60), (4, 40)),
        of(Part::Figure(Figure::Fig5), (31, 100), (39, 40)),
        of(Part::Figure(Figure::Fig6), (5, 100), (12, 40)),
        of(Part::Figure(Figure::Fig7), (14, 60), (11, 30)),
        of(Part::Figure(Figure::Fig8), (21, 60), (11, 30)),
        of(Part::Latency, (6, 200), (11, 60)),
        of(Part::New, (4, 120), (6, 60)),
        of(Part::Churn, (13, 300), (5, 150)),
        of(Part::Workers, (2, 60), (1, 30)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_share_all_of_the_time() {
        for quick in [false, true] {
            let shares = shares(quick);
            assert_eq!(shares.iter().map(|share| share.percent).sum::<u32>(), 100);
            assert_eq!(shares.map(|share| share.part), Part::ALL);
        }
    }
}
