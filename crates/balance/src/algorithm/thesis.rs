//! MAX and LOW2 of the LASLB thesis (sections 3.6 and 4.1.7.3).
use crate::{Algorithm, Move, Snapshot};

/// Moves that LOW2 makes in one trigger.
const LOW2_MOVES: usize = 2;

/// Which CPUs give buckets away, and which take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Percent above the average latency from which a CPU gives.
    pub high_percent: u8,
    /// Below which latency a CPU takes.
    pub safe: SafeMark,
}

impl Default for Marks {
    /// Appendix A.1: `AVERAGE_HIGH_TARGET` 75, `AVERAGE_SAFE_TARGET` 80.
    fn default() -> Self {
        Self { high_percent: 75, safe: SafeMark::OfAverage(80) }
    }
}

/// The two readings of the thesis' "-80 % of average".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SafeMark {
    /// This many percent of the average. The thesis' own example fits it.
    OfAverage(u8),
    /// This many percent below the average.
    BelowAverage(u8),
}

/// MAX or LOW2: the latency of a CPU is the sum over its buckets', and a bucket takes its
/// latency with it.
#[derive(Debug)]
pub struct Thesis {
    marks: Marks,
    two: bool,
    sums: Vec<u64>,
    latency: Vec<u64>,
    targets: Vec<usize>,
    moved: Vec<bool>,
}

impl Thesis {
    /// All CPUs below the safe mark are targets, ascending by number.
    #[must_use]
    pub const fn max(marks: Marks) -> Self {
        Self::new(marks, false)
    }

    /// The two CPUs of the lowest latency are targets, the lowest first, and two buckets
    /// move at most.
    #[must_use]
    pub const fn low2(marks: Marks) -> Self {
        Self::new(marks, true)
    }

    const fn new(marks: Marks, two: bool) -> Self {
        Self {
            marks,
            two,
            sums: Vec::new(),
            latency: Vec::new(),
            targets: Vec::new(),
            moved: Vec::new(),
        }
    }

    fn find_targets(&mut self) {
        self.targets.clear();
        self.targets.extend(0..self.sums.len());
        if self.two {
            let sums = &self.sums;
            self.targets.sort_by_key(|cpu| sums.get(*cpu).copied());
            self.targets.truncate(2);
        }
    }
}

impl Algorithm for Thesis {
    fn decide(&mut self, seen: &Snapshot<'_>, moves: &mut Vec<Move>) {
        self.latency.clear();
        self.latency.extend(seen.latency.iter().map(|latency| u64::from(*latency)));
        self.moved.clear();
        self.moved.resize(seen.map.len(), false);
        seen.sum_by_cpu(&self.latency, &mut self.sums);
        let cpus = seen.cpus as u64;
        // All comparisons are of sums times 100 times the number of CPUs: no division,
        // so nothing is rounded.
        let all: u64 = self.sums.iter().sum();
        let scale = 100 * cpus;
        let high = all * (100 + u64::from(self.marks.high_percent));
        let safe = all
            * match self.marks.safe {
                SafeMark::OfAverage(percent) => u64::from(percent),
                SafeMark::BelowAverage(percent) => 100_u64.saturating_sub(percent.into()),
            };
        self.find_targets();
        let first = moves.len();
        for source in 0..seen.cpus {
            for &target in &self.targets {
                for bucket in seen.buckets_of(source) {
                    let sum = |cpu: usize| self.sums.get(cpu).copied().unwrap_or(0);
                    let latency = self.latency.get(bucket).copied().unwrap_or(0);
                    if sum(source) * scale <= high || sum(target) * scale >= safe {
                        break;
                    }
                    let fits = (sum(target) + latency) * cpus <= all;
                    let Some(moved) = self.moved.get_mut(bucket).filter(|moved| !**moved) else {
                        continue;
                    };
                    if !fits {
                        continue;
                    }
                    *moved = true;
                    if let Some(sum) = self.sums.get_mut(source) {
                        *sum -= latency;
                    }
                    if let Some(sum) = self.sums.get_mut(target) {
                        *sum += latency;
                    }
                    let [from, to] = [source, target].map(|cpu| cpu as u16);
                    moves.push(Move { bucket: bucket as u16, from, to });
                    if self.two && moves.len() - first == LOW2_MOVES {
                        return;
                    }
                }
            }
        }
    }
}
