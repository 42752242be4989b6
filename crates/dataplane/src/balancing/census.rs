//! How many packets of each bucket a worker sees, from a sample of its bursts.
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dpdk::Batch;
use packet::PacketBuf;
use wire::toeplitz::Toeplitz;

use crate::worker::BURST;

/// Sampled packets of one worker at one port: written by the worker, read by the
/// balancing thread. They wrap round.
#[derive(Debug)]
pub(crate) struct BucketCounts {
    buckets: Box<[AtomicU32]>,
    /// Packets whose queue a rule has chosen, or whose hash is not known.
    fixed: AtomicU32,
    /// The port's hash, for packets whose hash the driver does not report.
    hash: Option<Arc<Toeplitz>>,
}

impl BucketCounts {
    /// For a redirection table of `buckets` entries, which `hash` names if the driver does
    /// not report it.
    pub(crate) fn new(buckets: usize, hash: Option<Arc<Toeplitz>>) -> Self {
        Self {
            hash,
            buckets: (0..buckets).map(|_| AtomicU32::new(0)).collect(),
            fixed: AtomicU32::new(0),
        }
    }

    /// The count of each bucket.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = u32> + '_ {
        self.buckets.iter().map(|count| count.load(Ordering::Relaxed))
    }

    /// The count of packets of no bucket.
    pub(crate) fn fixed(&self) -> u32 {
        self.fixed.load(Ordering::Relaxed)
    }
}

/// Bursts from one that is looked at to the next: 4 to 11, since traffic may have a
/// period of its own.
const LEAST_REST: u32 = 4;
const RESTS: u32 = 8;

/// Samples the bursts of one receive queue.
#[derive(Debug)]
pub(crate) struct Census {
    counts: Arc<BucketCounts>,
    /// Whether the redirection table names the queue; else only rules do.
    by_hash: bool,
    rest: u32,
    /// Of a linear congruential generator.
    draw: u32,
}

impl Census {
    /// Of a queue that the redirection table names if `by_hash`.
    pub(crate) fn new(counts: Arc<BucketCounts>, by_hash: bool) -> Self {
        Self { counts, by_hash, rest: 0, draw: 1 }
    }

    /// Told of every burst.
    #[inline]
    pub(crate) fn look_at(&mut self, burst: &Batch<BURST>) {
        if self.rest > 0 {
            self.rest -= 1;
            return;
        }
        self.count(burst);
    }

    #[cold]
    fn count(&mut self, burst: &Batch<BURST>) {
        // Numerical Recipes' constants; the upper bits are the better ones.
        self.draw = self.draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.rest = LEAST_REST + (self.draw >> 16) % RESTS;
        let counts = &*self.counts;
        for mbuf in burst.iter() {
            let by_hash = self.by_hash && mbuf.mark().is_none();
            let own = || counts.hash.as_ref()?.frame(mbuf.bytes());
            let hash = if by_hash { mbuf.rss_hash().or_else(own) } else { None };
            let bucket = hash.map(|hash| hash as usize % counts.buckets.len().max(1));
            let count = bucket.and_then(|bucket| counts.buckets.get(bucket));
            let count = count.unwrap_or(&counts.fixed);
            count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }
}
