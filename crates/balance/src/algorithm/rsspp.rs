//! RSS++ (Barbette et al., CoNEXT 2019), section 4: the load of a CPU divided among its
//! buckets by their packets, and a greedy solver that empties overloaded CPUs into
//! underloaded ones.
use crate::{Algorithm, Move, Snapshot};

/// Time between two runs: the paper's solver runs 10 times a second.
const INTERVAL_NS: u64 = 100_000_000;
/// In 1000ths of the average: a CPU this far above is overloaded.
const IMBALANCE: u64 = 50;
/// Bins that a CPU may be too full by after a move, in 1000ths of the average, as the
/// solver tries them one after the other.
const TOLERANCES: [u64; 4] = [0, 10, 25, 50];

/// RSS++'s solver, on packet counts and load.
#[derive(Debug, Default)]
pub struct Rsspp {
    last_ns: Option<u64>,
    packets: Vec<u64>,
    loads: Vec<u64>,
    sums: Vec<u64>,
    trial: Vec<u64>,
    order: Vec<usize>,
    best: Vec<Move>,
    tried: Vec<Move>,
}

impl Algorithm for Rsspp {
    fn decide(&mut self, seen: &Snapshot<'_>, moves: &mut Vec<Move>) {
        self.packets.resize(seen.packets.len(), 0);
        for (sum, new) in self.packets.iter_mut().zip(seen.packets) {
            *sum += u64::from(*new);
        }
        let last = *self.last_ns.get_or_insert(seen.now_ns);
        if seen.now_ns.saturating_sub(last) < INTERVAL_NS {
            return;
        }
        self.last_ns = Some(seen.now_ns);
        self.weigh(seen);
        self.packets.fill(0);
        self.solve(seen);
        moves.append(&mut self.best);
    }
}

impl Rsspp {
    /// The load of each bucket, in any unit that is one for all CPUs.
    fn weigh(&mut self, seen: &Snapshot<'_>) {
        seen.sum_by_cpu(&self.packets, &mut self.sums);
        self.loads.clear();
        for (&cpu, &packets) in seen.map.iter().zip(&self.packets) {
            let cpu = usize::from(cpu);
            let of_cpu = self.sums.get(cpu).copied().unwrap_or(0).max(1);
            let load = seen
                .busy
                .get(cpu)
                .map_or(packets << 10, |busy| (u64::from(*busy) << 20) * packets / of_cpu);
            self.loads.push(load);
        }
        let loads = std::mem::take(&mut self.loads);
        seen.sum_by_cpu(&loads, &mut self.sums);
        self.loads = loads;
    }

    /// The assignment of the least sum of squares among those of all tolerances; with
    /// equal sums the one of fewer moves.
    fn solve(&mut self, seen: &Snapshot<'_>) {
        self.best.clear();
        let average = self.sums.iter().sum::<u64>() / (seen.cpus as u64).max(1);
        let bound = average + average * IMBALANCE / 1000;
        if average == 0 || self.sums.iter().all(|sum| *sum <= bound) {
            return;
        }
        let Self { loads, order, .. } = self;
        order.clear();
        order.extend(0..loads.len());
        order.sort_by_key(|bucket| std::cmp::Reverse(loads.get(*bucket).copied()));
        let mut least = squares(&self.sums, average);
        for tolerance in TOLERANCES {
            self.try_with(seen, average, average * tolerance / 1000);
            let squares = squares(&self.trial, average);
            if squares < least {
                least = squares;
                std::mem::swap(&mut self.best, &mut self.tried);
            }
        }
    }

    /// Buckets of overloaded CPUs, the heaviest first, to the emptiest CPU.
    fn try_with(&mut self, seen: &Snapshot<'_>, average: u64, tolerance: u64) {
        self.tried.clear();
        self.trial.clone_from(&self.sums);
        for &bucket in &self.order {
            let Some(&from) = seen.map.get(bucket) else { continue };
            let load = self.loads.get(bucket).copied().unwrap_or(0);
            let own = self.trial.get(usize::from(from)).copied().unwrap_or(0);
            let emptiest = (0..).zip(&self.trial).min_by_key(|(_, load)| **load);
            let Some((to, &room)) = emptiest else { return };
            let stays = own.saturating_sub(load) + tolerance < average;
            if load == 0 || own <= average + tolerance || stays && own < room + 2 * load {
                continue;
            }
            if room + load > average + tolerance {
                continue;
            }
            if let Some(sum) = self.trial.get_mut(usize::from(from)) {
                *sum -= load;
            }
            if let Some(sum) = self.trial.get_mut(usize::from(to)) {
                *sum += load;
            }
            self.tried.push(Move { bucket: bucket as u16, from, to });
        }
    }
}

fn squares(loads: &[u64], average: u64) -> u128 {
    loads.iter().map(|load| u128::from(load.abs_diff(average)).pow(2)).sum()
}
