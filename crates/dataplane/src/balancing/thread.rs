//! The thread that reads the workers' loads and moves buckets between them.
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use balance::{Algorithm, Kind, Move, Snapshot};

use super::board::BalanceBoard;
use super::census::BucketCounts;
use super::loads::{Readings, WorkerSample};
use super::mover::Mover;
use crate::clock::Clock;
use crate::utilization::LoopCounters;

/// From one sample of the loads to the next.
const SAMPLE_NS: u64 = 10_000_000;
/// How long the thread rests while nothing moves.
const REST: Duration = Duration::from_millis(2);
/// How long it rests while a worker waits for it.
const NAP: Duration = Duration::from_micros(20);
/// util+ of the busiest worker from which on moves are worth their wait.
const WORTH: f64 = 0.05;

/// Samples of packets without a bucket before the log says so: a second.
const WITHOUT_BUCKET: u32 = 100;

/// What the thread reads of one worker.
pub(crate) struct WorkerLoop {
    pub(crate) counters: Arc<LoopCounters>,
    pub(crate) queues: usize,
    pub(crate) burst: usize,
}

/// One worker, as it was at the sample before.
struct WorkerBefore {
    own: WorkerLoop,
    readings: Readings,
    /// What it counts, by port.
    counts: Vec<Arc<BucketCounts>>,
    buckets: Vec<u32>,
    fixed: u32,
}

/// Everything the thread owns.
pub(crate) struct BalanceThread {
    mover: Mover,
    workers: Vec<WorkerBefore>,
    algorithm: Option<Box<dyn Algorithm>>,
    wanted: VecDeque<Move>,
    board: Arc<BalanceBoard>,
    sampled_ns: u64,
    /// Samples with packets of which none had a bucket, since one had.
    without_bucket: u32,
}

impl BalanceThread {
    /// The thread that moves the mover's buckets between workers with these loops, which
    /// count packets of each of the mover's ports.
    pub(crate) fn new(
        mover: Mover,
        workers: Vec<(WorkerLoop, Vec<Arc<BucketCounts>>)>,
        board: Arc<BalanceBoard>,
    ) -> Self {
        board.tell_map(mover.map());
        let buckets = vec![0; mover.map().len()];
        let before = |(own, counts)| WorkerBefore {
            own,
            readings: Readings::default(),
            counts,
            buckets: buckets.clone(),
            fixed: 0,
        };
        Self {
            workers: workers.into_iter().map(before).collect(),
            mover,
            algorithm: Kind::Even.algorithm(),
            wanted: VecDeque::new(),
            board,
            sampled_ns: 0,
            without_bucket: 0,
        }
    }

    /// Runs until `stop`; then no worker waits any more.
    pub(crate) fn run(mut self, clock: Clock, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.turn(clock.now_ns());
            std::thread::sleep(if self.mover.is_busy() { NAP } else { REST });
        }
        while self.mover.is_busy() {
            self.mover.advance(clock.now_ns());
            std::thread::sleep(NAP);
        }
    }

    fn turn(&mut self, now_ns: u64) {
        if self.mover.is_busy() {
            self.mover.advance(now_ns);
            self.board.tell_totals(self.mover.totals());
            self.board.tell_map(self.mover.map());
            return;
        }
        if now_ns.saturating_sub(self.sampled_ns) >= SAMPLE_NS {
            let since_ns = now_ns - self.sampled_ns;
            self.sampled_ns = now_ns;
            self.sample(now_ns, since_ns);
        }
        if let Some(wanted) = self.wanted.pop_front() {
            self.mover.begin(wanted.bucket, wanted.to, now_ns);
        }
    }

    /// Reads what the workers counted in `since_ns` and asks the algorithm.
    fn sample(&mut self, now_ns: u64, since_ns: u64) {
        let samples: Vec<WorkerSample> =
            self.workers.iter_mut().map(WorkerBefore::sample).collect();
        self.watch_buckets(&samples);
        let mut loads = vec![0; self.mover.map().len()];
        let fixed: Vec<u32> = samples.iter().map(|sample| sample.spread(&mut loads)).collect();
        let busy: Vec<u16> = samples.iter().map(|own| (own.util_plus * 1000.0) as u16).collect();
        let packets: u64 = samples.iter().map(|sample| sample.packets).sum();
        let per_second = packets.saturating_mul(1_000_000_000) / since_ns.max(1);
        self.mover.shared().worker_loads().tell(&busy, per_second);
        if loads.is_empty() {
            return;
        }
        let Some(algorithm) = &mut self.algorithm else { return };
        let seen = Snapshot {
            now_ns,
            cpus: self.workers.len(),
            map: self.mover.map(),
            latency: &[],
            packets: &loads,
            fixed: &fixed,
            busy: &busy,
        };
        let mut moves = Vec::new();
        algorithm.decide(&seen, &mut moves);
        if samples.iter().any(|sample| sample.util_plus >= WORTH) {
            self.wanted.extend(moves);
        }
    }
}

impl BalanceThread {
    /// Says once if there is traffic and nothing that could move.
    fn watch_buckets(&mut self, samples: &[WorkerSample]) {
        if self.mover.map().is_empty() {
            return;
        }
        if samples.iter().any(|sample| sample.buckets.iter().any(|count| *count > 0)) {
            self.without_bucket = 0;
        } else if samples.iter().any(|sample| sample.fixed > 0) {
            self.without_bucket = self.without_bucket.saturating_add(1);
            if self.without_bucket == WITHOUT_BUCKET {
                tracing::warn!(
                    "no packet has a bucket, so none can move: the driver reports neither the RSS hash nor its key, or rules steer all packets"
                );
            }
        }
    }
}

impl WorkerBefore {
    /// What the worker has done since the sample before.
    fn sample(&mut self) -> WorkerSample {
        let WorkerLoop { counters, queues, burst } = &self.own;
        let (util_plus, packets) = self.readings.next(counters.read(), *queues, *burst);
        let buckets: Vec<u32> = self.counts.iter().flat_map(|counts| counts.buckets()).collect();
        let fixed = self.counts.iter().fold(0_u32, |sum, own| sum.wrapping_add(own.fixed()));
        let since =
            buckets.iter().zip(&self.buckets).map(|(now, before)| now.wrapping_sub(*before));
        let sample = WorkerSample {
            util_plus,
            packets,
            buckets: since.collect(),
            fixed: fixed.wrapping_sub(self.fixed),
        };
        (self.buckets, self.fixed) = (buckets, fixed);
        sample
    }
}
