//! One repetition: threads with cores of their own, the same at a time.
use std::sync::atomic::{AtomicUsize, Ordering};

use traffic::Rng;

use super::options::BenchError;
use super::population::{Part, Population};
use super::row::Op;
use super::subject::{BLOCK, Subject};

/// Blocks of lookups in a repetition.
const LOOKUP_BLOCKS: usize = 2000;
/// Blocks of changes in a repetition, at most: in one run of insertions, and
/// in all.
const RUN_BLOCKS: usize = 256;
/// Runs of insertions, at most.
const RUNS: usize = 40;
/// A block that took so many times the median was interrupted.
const INTERRUPTED: u64 = 8;

/// What one repetition gave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Cycles per operation of a thread.
    pub(super) cycles: f64,
    pub(super) failed: u64,
    pub(super) operations: u64,
}

/// What a thread does in a repetition.
struct Work<'a> {
    subject: &'a dyn Subject,
    op: Op,
    /// Insertions or rounds per thread and run.
    changes: u32,
    runs: usize,
    threads: usize,
    at: usize,
    core: usize,
    seed: u64,
    line: &'a StartLine,
    done: &'a AtomicUsize,
}

/// Where threads wait for each other, again and again, without sleeping.
#[derive(Debug, Default)]
struct StartLine(AtomicUsize);

impl StartLine {
    /// Returns when all `threads` have come for the time of number `turn`, from 1.
    fn wait(&self, threads: usize, turn: &mut usize) {
        *turn += 1;
        self.0.fetch_add(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) < threads * *turn {
            std::hint::spin_loop();
        }
    }
}

/// What a thread has measured.
#[derive(Default)]
struct Blocks {
    /// Cycles per operation, times 1024.
    times: Vec<u64>,
    failed: u64,
    operations: u64,
}

impl Blocks {
    fn add(&mut self, timed: super::subject::Timed, operations: usize) {
        self.times.push(timed.cycles * 1024 / operations.max(1) as u64);
        self.failed += u64::from(timed.failed);
        self.operations += operations as u64;
    }

    /// The mean of those that were not interrupted.
    fn mean(mut self) -> f64 {
        self.times.sort_unstable();
        let median = self.times.get(self.times.len() / 2).copied().unwrap_or_default();
        let most = self.times.partition_point(|time| *time <= median * INTERRUPTED);
        let sum: u64 = self.times.iter().take(most).sum();
        sum as f64 / 1024.0 / most.max(1) as f64
    }
}

/// One repetition of `op` by `threads` threads on `cores`.
pub(super) fn repetition(
    subject: &dyn Subject,
    population: &mut Population,
    op: Op,
    entries: u32,
    threads: usize,
    seed: u64,
) -> Result<Sample, BenchError> {
    let cores = dpdk::thread::allowed_cores();
    let core = |at: usize| cores.get(at).copied().unwrap_or_default() as usize;
    // 4 % of the entries, by all threads together.
    let room = entries / 25 / threads as u32;
    let changes = room.clamp(1, (RUN_BLOCKS * BLOCK) as u32);
    let runs = match op {
        Op::Lookup | Op::LookupBulk => 1,
        _ => ((RUN_BLOCKS * BLOCK) as u32 / changes).clamp(1, RUNS as u32) as usize,
    };
    let (line, done) = (StartLine::default(), AtomicUsize::new(0));
    let parts = population.parts.clone();
    let results = std::thread::scope(|scope| {
        let (subject, line, done, parts) = (&*subject, &line, &done, &parts);
        let workers: Vec<_> = (0..threads)
            .zip(&mut population.parts)
            .map(|(at, own)| {
                let (core, seed) = (core(at), seed ^ (at as u64) << 32);
                let work = Work { subject, op, changes, runs, threads, at, core, seed, line, done };
                scope.spawn(move || work.run(own, parts))
            })
            .collect();
        workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>()
    });
    let mut all = Sample::default();
    for result in results {
        let thread = match result {
            Ok(Ok(blocks)) => blocks,
            Ok(Err(error)) => return Err(BenchError::Worker(error.to_string())),
            Err(_) => return Err(BenchError::Worker("it panicked".to_owned())),
        };
        all.failed += thread.failed;
        all.operations += thread.operations;
        all.cycles += thread.mean() / threads as f64;
    }
    Ok(all)
}

impl Work<'_> {
    fn run(self, own: &mut Part, parts: &[Part]) -> Result<Blocks, dpdk::ThreadError> {
        let pinned = dpdk::pin_to_core(self.core);
        let (mut draw, mut blocks, mut turn) = (Rng::new(self.seed), Blocks::default(), 0);
        if !self.op.inserts() {
            self.warm_up(parts, &mut draw);
        }
        for run in 0..self.runs {
            self.line.wait(self.threads, &mut turn);
            match self.op {
                Op::Lookup | Op::LookupBulk => self.lookups(parts, &mut draw, &mut blocks),
                Op::Insert | Op::InsertBulk => self.inserts(own, &mut blocks),
            }
            if run == 0 && self.runs > 1 {
                // The thread is new to its core: it has fetched everything now.
                blocks.times.clear();
            }
            self.line.wait(self.threads, &mut turn);
            if self.op.inserts() {
                // Here, or what is removed would be dirty in another core's
                // cache when insertions come to it.
                self.subject.remove(&own.shrink(self.changes).collect::<Vec<_>>());
            }
            self.line.wait(self.threads, &mut turn);
            if self.at == 0 {
                self.subject.settle();
            }
        }
        pinned.map(|()| blocks)
    }

    fn numbers(parts: &[Part], draw: &mut Rng) -> [u32; BLOCK] {
        std::array::from_fn(|_| Population::any(parts, draw))
    }

    /// As many lookups as the table has entries, within limits: brings back
    /// what other tables displaced from the caches.
    fn warm_up(&self, parts: &[Part], draw: &mut Rng) {
        let entries = self.changes as usize * 25 * self.threads;
        for _ in 0..(entries * 2 / BLOCK).clamp(100, LOOKUP_BLOCKS) {
            self.subject.lookup_bulk(&Self::numbers(parts, draw));
        }
    }

    fn block(&self, parts: &[Part], draw: &mut Rng) -> super::subject::Timed {
        let numbers = Self::numbers(parts, draw);
        match self.op {
            Op::Lookup => self.subject.lookup(&numbers),
            _ => self.subject.lookup_bulk(&numbers),
        }
    }

    fn lookups(&self, parts: &[Part], draw: &mut Rng, blocks: &mut Blocks) {
        for _ in 0..LOOKUP_BLOCKS {
            blocks.add(self.block(parts, draw), BLOCK);
        }
        // Until the others have their blocks, too, they are not left alone.
        self.done.fetch_add(1, Ordering::AcqRel);
        while self.done.load(Ordering::Acquire) < self.threads {
            self.block(parts, draw);
        }
    }

    fn inserts(&self, own: &mut Part, blocks: &mut Blocks) {
        let new: Vec<u32> = own.grow(self.changes).collect();
        for block in new.chunks(BLOCK) {
            let timed = match self.op {
                Op::InsertBulk => self.subject.insert_bulk(block, self.threads == 1),
                _ => self.subject.insert(block, self.threads == 1),
            };
            blocks.add(timed, block.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_block_is_not_counted() {
        let with =
            |last: &[u64]| Blocks { times: [&[1024; 9], last].concat(), ..Blocks::default() };
        assert!((with(&[1024 * 1000]).mean() - 1.0).abs() < 1e-9);
        let slow = with(&[1024 * 1000, 1024 * 7]);
        assert!(slow.mean() > 1.5, "slow ones that may be the table's own fault are");
        assert!(Blocks::default().mean().abs() < 1e-9);
    }
}
