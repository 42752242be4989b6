//! HNLB's own algorithm: smoothed packet counts say what to move, latency says how
//! eagerly.
//!
//! The thesis takes the latency of a bucket for its load. Latency is queueing, though: all
//! buckets of a CPU have about the same, and a sum over them counts buckets. Packets are
//! counted anyway on their way, and a moved bucket does take its packets with it.
use crate::{Algorithm, Move, Snapshot};

/// Triggers before the first decision.
const WARM_UP: u32 = 8;
/// Tokens that a move takes; [`PER_MS`] tokens come every millisecond, so that there are
/// 17 moves a second in the long run.
const PER_MOVE: u64 = 1000;
const PER_MS: u64 = 17;
/// Moves that may follow each other at once.
const BURST: u64 = 10;
/// Moves at the start, when the map knows nothing of the traffic.
const START: u64 = 32;
/// Buckets up to which two are exchanged, too; beyond, single moves are fine enough.
const COARSE: usize = 128;

/// A way to look at packet counts. All marks are in 1000ths of the average CPU.
struct View {
    /// A new count weighs 1 / 2^`smooth`.
    smooth: u32,
    /// How far the busiest CPU may be above the average while latencies are alike.
    calm: u64,
    /// How far it may be if its latency says that packets queue there.
    pressed: u64,
    /// The least that the busier of two CPUs must lose by a move.
    gain: u64,
}

/// Sudden changes are seen within 4 ms with the default trigger, but bursts look like
/// them, so only great differences count; small ones are seen within 64 ms.
const VIEWS: [View; 3] = [
    View { smooth: 1, calm: 900, pressed: 300, gain: 150 },
    View { smooth: 3, calm: 200, pressed: 120, gain: 50 },
    View { smooth: 5, calm: 100, pressed: 30, gain: 15 },
];

/// What latencies say of the busiest CPU. Its latency is weighted by packets and compared
/// with that of the fastest CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pressure {
    /// There are no latencies.
    Unknown,
    /// It is about as fast.
    Calm,
    /// Packets wait there: its latency is an eighth above.
    Waits,
    /// Packets are about to be lost there: its latency is [`OVERLOADED`] above.
    Overloaded,
}

/// In 1000ths of the latency of the fastest CPU.
const WAITS: u64 = 125;
const OVERLOADED: u64 = 5500;

impl View {
    /// How far the busiest CPU may be above the average with `spare` moves left: as they
    /// become few, they are kept for a CPU that would lose packets. `None`: nothing moves.
    const fn margin(&self, pressure: Pressure, spare: u64) -> Option<u64> {
        match pressure {
            Pressure::Overloaded => Some(self.pressed),
            Pressure::Waits if spare > BURST / 2 => Some(self.pressed),
            Pressure::Calm if spare > BURST * 3 / 4 => Some(self.calm),
            Pressure::Unknown => Some(self.calm),
            Pressure::Waits | Pressure::Calm => None,
        }
    }
}

/// Evens packet counts: moves a bucket of the busiest CPU, or exchanges it with another
/// CPU's, such that the busier of both has least; with hysteresis, and no more than 17
/// moves a second.
#[derive(Debug, Default)]
pub struct Even {
    /// Smoothed packets of a trigger by view and bucket, and behind the buckets by CPU
    /// those of no bucket, with 8 fraction bits.
    rates: [Vec<u64>; VIEWS.len()],
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
    from: u16,
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
        let spare = self.tokens / PER_MOVE;
        for (view, rates) in VIEWS.iter().zip(&self.rates) {
            seen.sum_by_cpu(rates, &mut self.sums);
            let fixed = rates.get(seen.map.len()..).unwrap_or_default();
            self.sums.iter_mut().zip(fixed).for_each(|(sum, fixed)| *sum += fixed);
            let Some(best) = step(view, rates, &self.sums, &mut self.waits, seen, spare) else {
                continue;
            };
            moves.push(Move { bucket: best.give as u16, from: best.from, to: best.with });
            self.tokens -= PER_MOVE;
            if let Some(take) = best.take {
                moves.push(Move { bucket: take as u16, from: best.with, to: best.from });
                self.tokens -= PER_MOVE;
            }
            return;
        }
    }
}

/// What one view says to do.
fn step(
    view: &View,
    rates: &[u64],
    sums: &[u64],
    waits: &mut Vec<u64>,
    seen: &Snapshot<'_>,
    spare: u64,
) -> Option<Exchange> {
    let average = sums.iter().sum::<u64>() / (seen.cpus as u64).max(1);
    let (busiest, load) = (0_u16..).zip(sums.iter().copied()).max_by_key(|(_, load)| *load)?;
    let pressure = pressure(rates, sums, waits, seen, busiest);
    let margin = view.margin(pressure, spare)?;
    if load <= average + average * margin / 1000 {
        return None;
    }
    let best = best_exchange(rates, sums, seen, busiest, load)?;
    (best.busier + average * view.gain / 1000 < load).then_some(best)
}

/// What latencies say of the busiest CPU.
fn pressure(
    rates: &[u64],
    sums: &[u64],
    waits: &mut Vec<u64>,
    seen: &Snapshot<'_>,
    busiest: u16,
) -> Pressure {
    waits.clear();
    waits.resize(seen.cpus, 0);
    for ((rate, latency), &cpu) in rates.iter().zip(seen.latency).zip(seen.map) {
        if let Some(wait) = waits.get_mut(usize::from(cpu)) {
            *wait += rate * u64::from(*latency);
        }
    }
    for (wait, sum) in waits.iter_mut().zip(sums) {
        *wait /= (*sum).max(1);
    }
    let own = waits.get(usize::from(busiest)).copied().unwrap_or(0);
    let fastest = waits.iter().copied().filter(|wait| *wait > 0).min();
    let Some(fastest) = fastest else { return Pressure::Unknown };
    let above = own.saturating_sub(fastest).saturating_mul(1000) / fastest;
    if above > OVERLOADED {
        Pressure::Overloaded
    } else if above > WAITS {
        Pressure::Waits
    } else {
        Pressure::Calm
    }
}

/// The move of the busiest CPU after which the busier of both CPUs has least. Two moves
/// must bring more than twice as much as one.
fn best_exchange(
    rates: &[u64],
    sums: &[u64],
    seen: &Snapshot<'_>,
    busiest: u16,
    load: u64,
) -> Option<Exchange> {
    let (mut single, mut double): (Option<Exchange>, Option<Exchange>) = (None, None);
    let keep = |best: &mut Option<Exchange>, exchange: Exchange| {
        if best.is_none_or(|best| exchange.busier < best.busier) {
            *best = Some(exchange);
        }
    };
    let rate = |bucket: usize| rates.get(bucket).copied().unwrap_or(0);
    for give in seen.buckets_of(busiest.into()) {
        let given = rate(give);
        if given == 0 {
            continue;
        }
        for (with, &room) in (0_u16..).zip(sums) {
            if with == busiest {
                continue;
            }
            let busier = (load - given).max(room + given);
            keep(&mut single, Exchange { busier, give, take: None, with, from: busiest });
            if seen.map.len() > COARSE {
                continue;
            }
            for take in seen.buckets_of(with.into()) {
                let taken = rate(take);
                let busier = (load - given + taken).max(room + given - taken);
                let take = Some(take);
                keep(&mut double, Exchange { busier, give, take, with, from: busiest });
            }
        }
    }
    match (single, double) {
        (Some(single), Some(double)) => {
            let gain = |of: &Exchange| load.saturating_sub(of.busier);
            Some(if gain(&double) > 2 * gain(&single) { double } else { single })
        }
        (single, double) => single.or(double),
    }
}

impl Even {
    fn count(&mut self, seen: &Snapshot<'_>) {
        for (View { smooth, .. }, rates) in VIEWS.iter().zip(&mut self.rates) {
            let first = rates.is_empty();
            rates.resize(seen.packets.len() + seen.fixed.len(), 0);
            for (rate, &packets) in rates.iter_mut().zip(seen.packets.iter().chain(seen.fixed)) {
                let new = u64::from(packets) << 8;
                let half = 1 << (smooth - 1);
                *rate =
                    if first { new } else { ((*rate << smooth) - *rate + new + half) >> smooth };
            }
        }
    }

    fn earn(&mut self, now_ns: u64) {
        if self.triggers == 0 {
            (self.last_ns, self.tokens) = (now_ns, START * PER_MOVE);
        }
        let ms = now_ns.saturating_sub(self.last_ns) / 1_000_000;
        self.last_ns += ms * 1_000_000;
        if self.tokens < BURST * PER_MOVE {
            self.tokens = self.tokens.saturating_add(ms * PER_MS).min(BURST * PER_MOVE);
        }
    }
}
