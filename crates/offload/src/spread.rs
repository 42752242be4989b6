//! Which worker gets the packets that a connection's rules match.
//!
//! A rule names a receive queue, and so takes its packets out of the buckets of receive
//! side scaling. A heavy connection can be more than its worker bears, and no move of a
//! bucket divides it: its rule takes it to a worker that has room.
use std::collections::VecDeque;

use conntrack::ConnId;
use state::WorkerLoads;

/// A worker whose load exceeds the least by more than this, in thousandths of util+, gets
/// no connection that another worker could have.
const UNEVEN: u32 = 100;
/// What a connection of an unknown rate adds to its worker's load, in thousandths.
const UNKNOWN: u32 = 5;
/// From this difference on, in thousandths, a connection leaves the busiest worker.
const RELIEF: u32 = 250;
/// Milliseconds between two connections that leave a worker: the loads tell by then what
/// the one before has brought.
const REST_MS: u64 = 200;
/// Readings after which a connection's own share of a load is in the readings.
const SHOWN: u32 = 16;

/// The loads of the workers, and what they will be.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    loads: Vec<u32>,
    /// What a packet per second adds to a load.
    per_packet: f64,
    /// What the readings do not show of the connections that workers were given, the oldest
    /// first.
    fresh: VecDeque<Given>,
    relieved_ms: u64,
}

/// A connection that a worker was given.
#[derive(Clone, Copy, Debug)]
struct Given {
    /// The number of the reading at that time.
    reading: u32,
    to: u16,
    /// The worker that probably had it: the busiest, if connections leave that one.
    from: Option<u16>,
    load: u32,
}

/// A worker that has too much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Burdened {
    /// Which one.
    pub(crate) worker: u16,
    /// The highest packet rate of a connection that may go: one with more would leave its
    /// new worker busier than the old one is then.
    pub(crate) most: f64,
}

impl Spread {
    /// Reads how busy the workers are.
    pub(crate) fn read(&mut self, loads: &WorkerLoads) {
        let now = loads.readings();
        self.loads.clear();
        self.loads.extend(loads.loads().map(u32::from));
        self.per_packet = f64::from(self.loads.iter().sum::<u32>()) / loads.packets().max(1) as f64;
        while self.fresh.front().is_some_and(|own| now.wrapping_sub(own.reading) >= SHOWN) {
            self.fresh.pop_front();
        }
        for at in 0..self.fresh.len() {
            self.fresh.get(at).copied().into_iter().for_each(|own| self.add(own));
        }
    }

    /// The worker for the rules of `conn`, which has `rate` packets per second, if that is
    /// known: one by its number, as long as that one is not busier than others. `None`:
    /// nobody measures loads.
    pub(crate) fn choose(
        &mut self,
        conn: ConnId,
        rate: Option<f64>,
        loads: &WorkerLoads,
    ) -> Option<u16> {
        let (least, at_least) = self.least()?;
        let usual = usize::from(self.usual(conn)?);
        let is_even = self.loads.get(usual).is_some_and(|load| *load <= at_least + UNEVEN);
        let worker = if is_even { usual as u16 } else { least };
        let own = Given {
            reading: loads.readings(),
            to: worker,
            from: if is_even { None } else { self.busiest() },
            load: rate.map_or(UNKNOWN, |rate| (rate * self.per_packet) as u32),
        };
        self.fresh.push_back(own);
        self.add(own);
        Some(worker)
    }

    fn add(&mut self, own: Given) {
        if let Some(load) = self.loads.get_mut(usize::from(own.to)) {
            *load += own.load;
        }
        if let Some(load) = own.from.and_then(|from| self.loads.get_mut(usize::from(from))) {
            *load = load.saturating_sub(own.load);
        }
    }

    /// The worker of `conn` by its number.
    pub(crate) fn usual(&self, conn: ConnId) -> Option<u16> {
        (conn.raw() as usize).checked_rem(self.loads.len()).map(|worker| worker as u16)
    }

    /// The worker from which a connection should go now, if one is much busier than
    /// another.
    pub(crate) fn burdened(&mut self, now_ms: u64) -> Option<Burdened> {
        let (_, least) = self.least()?;
        let worker = self.busiest()?;
        let above = self.loads.get(usize::from(worker))? - least;
        if above < RELIEF || now_ms.saturating_sub(self.relieved_ms) < REST_MS {
            return None;
        }
        self.relieved_ms = now_ms;
        Some(Burdened { worker, most: f64::from(above) / 2.0 / self.per_packet })
    }

    fn busiest(&self) -> Option<u16> {
        let most = self.loads.iter().copied().max()?;
        self.loads.iter().position(|load| *load == most).map(|at| at as u16)
    }

    fn least(&self) -> Option<(u16, u32)> {
        let least = self.loads.iter().copied().min()?;
        let at = self.loads.iter().position(|load| *load == least)?;
        Some((at as u16, least))
    }
}

impl Burdened {
    /// Which of these connections of the worker, with their packet rates, goes: the heaviest
    /// that may.
    pub(crate) fn pick<T>(self, rates: impl Iterator<Item = (T, f64)>) -> Option<T> {
        let fit = rates.filter(|(_, rate)| *rate > 0.0 && *rate <= self.most);
        fit.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(connection, _)| connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(busy: &[u16]) -> WorkerLoads {
        let loads = WorkerLoads::default();
        (0..200).for_each(|_| loads.tell(busy, 100_000));
        loads
    }

    fn chosen(spread: &mut Spread, loads: &WorkerLoads, n: u32) -> [usize; 2] {
        let mut by_worker = [0; 2];
        for conn in 0..n {
            let worker = spread.choose(ConnId::from_raw(conn), None, loads).unwrap();
            by_worker[usize::from(worker)] += 1;
        }
        by_worker
    }

    #[test]
    fn connections_go_by_number_while_the_loads_are_even() {
        let (mut spread, loads) = (Spread::default(), told(&[400, 480]));
        spread.read(&loads);
        assert_eq!(chosen(&mut spread, &loads, 10), [5, 5]);
        spread.read(&WorkerLoads::default());
        assert_eq!(spread.choose(ConnId::from_raw(0), None, &loads), None, "nobody measures");
    }

    #[test]
    fn a_busy_worker_gets_none_until_the_others_are_as_busy() {
        let (mut spread, loads) = (Spread::default(), told(&[600, 200]));
        spread.read(&loads);
        // Those whose number is worker 0's take 5 from it, as far as is known.
        assert_eq!(chosen(&mut spread, &loads, 30), [0, 30]);
        // None of it is in the readings yet.
        spread.read(&loads);
        assert_eq!(chosen(&mut spread, &loads, 100), [45, 55]);
        (0..SHOWN).for_each(|_| loads.tell(&[600, 200], 100_000));
        spread.read(&loads);
        assert_eq!(chosen(&mut spread, &loads, 4), [0, 4], "they have turned out to be light");
    }

    #[test]
    fn a_heavy_connection_counts_at_once_as_what_it_is() {
        let (mut spread, loads) = (Spread::default(), told(&[600, 200]));
        spread.read(&loads);
        let mut place = |rate| spread.choose(ConnId::from_raw(0), Some(rate), &loads).unwrap();
        // 800 thousandths are 100,000 packets per second: 440 and 360 after the first.
        assert_eq!([20_000.0; 3].map(&mut place), [1, 0, 1]);
    }

    #[test]
    fn a_connection_leaves_the_busiest_worker_if_that_makes_it_better() {
        let (mut spread, loads) = (Spread::default(), told(&[200, 800]));
        spread.read(&loads);
        let burdened = spread.burdened(1000).unwrap();
        // 300 of 1000 would make it even: 30,000 of 100,000 packets per second.
        assert_eq!(burdened, Burdened { worker: 1, most: 30_000.0 });
        assert_eq!(spread.burdened(1100), None, "the last one's effect is not seen yet");
        assert!(spread.burdened(1200).is_some());
        let pick = |rates: &[f64]| burdened.pick(rates.iter().copied().enumerate());
        assert_eq!(pick(&[40_000.0, 30_000.0, 3000.0, 20_000.0]), Some(1));
        assert_eq!(pick(&[80_000.0]), None, "one connection would only change its place");
        assert_eq!(pick(&[0.0, 0.0]), None);
        spread.read(&told(&[500, 700]));
        assert_eq!(spread.burdened(5000), None);
    }
}
