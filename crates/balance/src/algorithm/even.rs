//! HNLB's own algorithm: smoothed packet counts say what to move, latency says how
//! eagerly.
//!
//! The thesis takes the latency of a bucket for its load. Latency is queueing, though: all
//! buckets of a CPU have about the same, and a sum over them counts buckets. Packets are
//! counted anyway on their way, and a moved bucket does take its packets with it.
use crate::{Algorithm, Move, Snapshot};

/// A new count weighs 1/16: 32 ms with the default trigger.
const SMOOTH: u32 = 4;
/// Triggers before the first decision.
const WARM_UP: u32 = 8;
/// In 1000ths of the average: how far the busiest CPU may be above while latencies are
/// alike, and how far if its latency says that packets queue.
const CALM: u64 = 100;
const PRESSED: u64 = 20;
/// In 1000ths of the average: the least that the busier of two CPUs must lose by a move.
const GAIN: u64 = 10;
/// Tokens that a move takes; [`PER_MS`] tokens come every millisecond, so that there are
/// 12 moves a second in the long run.
const PER_MOVE: u64 = 1000;
const PER_MS: u64 = 12;
/// Moves that may follow each other at once.
const BURST: u64 = 4;
/// Buckets up to which two are exchanged, too; beyond, single moves are fine enough.
const COARSE: usize = 128;

/// Evens packet counts: moves a bucket of the busiest CPU, or exchanges it with another
/// CPU's, such that the busier of both has least; with hysteresis, and no more than 12
/// moves a second.
#[derive(Debug, Default)]
pub struct Even {
    /// Smoothed packets of a trigger, with 8 fraction bits.
    rates: Vec<u64>,
    sums: Vec<u64>,
    waits: Vec<u64>,
    triggers: u32,
    tokens: u64,
    last_ns: u64,
}

/// What the best exchange of the busiest CPU would be.
#[derive(Clone, Copy)]
struct Exchange {
    /// Packets of the busier of both CPUs afterwards.
    busier: u64,
    give: usize,
    take: Option<usize>,
    with: u16,
}

impl Algorithm for Even {
    fn decide(&mut self, seen: &Snapshot<'_>, moves: &mut Vec<Move>) {
        self.count(seen);
        self.earn(seen.now_ns);
        self.triggers = self.triggers.saturating_add(1);
        if self.triggers < WARM_UP || self.tokens < 2 * PER_MOVE {
            return;
        }
        seen.sum_by_cpu(&self.rates, &mut self.sums);
        let average = self.sums.iter().sum::<u64>() / (seen.cpus as u64).max(1);
        let Some((busiest, load)) =
            (0_u16..).zip(self.sums.iter().copied()).max_by_key(|(_, load)| *load)
        else {
            return;
        };
        let margin = if self.presses(seen, busiest) { PRESSED } else { CALM };
        if load <= average + average * margin / 1000 {
            return;
        }
        let best = self.best_exchange(seen, busiest, load);
        let Some(best) = best.filter(|best| best.busier + average * GAIN / 1000 < load) else {
            return;
        };
        moves.push(Move { bucket: best.give as u16, from: busiest, to: best.with });
        self.tokens -= PER_MOVE;
        if let Some(take) = best.take {
            moves.push(Move { bucket: take as u16, from: best.with, to: busiest });
            self.tokens -= PER_MOVE;
        }
    }
}

impl Even {
    fn count(&mut self, seen: &Snapshot<'_>) {
        let first = self.rates.is_empty();
        self.rates.resize(seen.packets.len(), 0);
        for (rate, &packets) in self.rates.iter_mut().zip(seen.packets) {
            let new = u64::from(packets) << 8;
            let half = 1 << (SMOOTH - 1);
            *rate = if first { new } else { ((*rate << SMOOTH) - *rate + new + half) >> SMOOTH };
        }
    }

    fn earn(&mut self, now_ns: u64) {
        if self.triggers == 0 {
            (self.last_ns, self.tokens) = (now_ns, BURST * PER_MOVE);
        }
        let ms = now_ns.saturating_sub(self.last_ns) / 1_000_000;
        self.last_ns += ms * 1_000_000;
        self.tokens = self.tokens.saturating_add(ms * PER_MS).min(BURST * PER_MOVE);
    }

    /// Whether packets wait at a CPU: their latency, weighted by packets, is an eighth
    /// above that of the fastest CPU.
    fn presses(&mut self, seen: &Snapshot<'_>, busiest: u16) -> bool {
        let weighted = self.rates.iter().zip(seen.latency);
        let weighted: &mut Vec<u64> = {
            self.waits.clear();
            self.waits.resize(seen.cpus, 0);
            for ((rate, latency), &cpu) in weighted.zip(seen.map) {
                if let Some(wait) = self.waits.get_mut(usize::from(cpu)) {
                    *wait += rate * u64::from(*latency);
                }
            }
            &mut self.waits
        };
        for (wait, sum) in weighted.iter_mut().zip(&self.sums) {
            *wait /= (*sum).max(1);
        }
        let own = weighted.get(usize::from(busiest)).copied().unwrap_or(0);
        let fastest = weighted.iter().copied().filter(|wait| *wait > 0).min();
        fastest.is_some_and(|fastest| own > fastest + fastest / 8)
    }

    fn best_exchange(&self, seen: &Snapshot<'_>, busiest: u16, load: u64) -> Option<Exchange> {
        let mut best: Option<Exchange> = None;
        let mut consider = |exchange: Exchange| {
            if best.is_none_or(|best| exchange.busier < best.busier) {
                best = Some(exchange);
            }
        };
        for give in seen.buckets_of(busiest.into()) {
            let given = self.rate(give);
            if given == 0 {
                continue;
            }
            for (with, &room) in (0_u16..).zip(&self.sums) {
                if with == busiest {
                    continue;
                }
                let busier = (load - given).max(room + given);
                consider(Exchange { busier, give, take: None, with });
                if seen.map.len() > COARSE {
                    continue;
                }
                for take in seen.buckets_of(with.into()) {
                    let taken = self.rate(take);
                    let busier = (load - given + taken).max(room + given - taken);
                    consider(Exchange { busier, give, take: Some(take), with });
                }
            }
        }
        best
    }

    fn rate(&self, bucket: usize) -> u64 {
        self.rates.get(bucket).copied().unwrap_or(0)
    }
}
