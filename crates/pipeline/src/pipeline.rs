//! The fast path: receive, parse, match, act, send.
use std::marker::PhantomData;
use std::sync::Arc;

use arrayvec::ArrayVec;
use packet::PacketBuf;

use crate::counters::Counter;
use crate::{Counters, Outbox, Shared, Snapshot, Source};

/// Most packets of one burst.
pub const BURST: usize = 64;

/// Sizes of what a worker keeps for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Datagrams whose fragments are followed at once.
    pub fragment_datagrams: usize,
    /// Fragments held at once while they wait for the first of their datagram.
    pub fragments_held: usize,
    /// How long fragments of a datagram belong together, in milliseconds.
    pub fragment_timeout_ms: u64,
    /// How long a UDP flow stays where it was served after the table was full.
    pub udp_timeout_ms: u64,
    /// Seeds the worker's own hashes.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            fragment_datagrams: 1024,
            fragments_held: 256,
            fragment_timeout_ms: 2000,
            udp_timeout_ms: 30_000,
            seed: 0,
        }
    }
}

/// One worker's way of a packet.
pub struct Pipeline<B: PacketBuf> {
    shared: Arc<Shared>,
    snapshot: Arc<Snapshot>,
    counters: Arc<Counters>,
    buffers: PhantomData<B>,
}

impl<B: PacketBuf> Pipeline<B> {
    /// The pipeline of worker number `worker`.
    #[must_use]
    pub fn new(shared: Arc<Shared>, worker: usize, settings: Settings) -> Self {
        let _ = (worker, settings);
        let snapshot = shared.snapshot.load_full();
        Self { shared, snapshot, counters: Arc::default(), buffers: PhantomData }
    }

    /// This worker's counters; they outlive the pipeline.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// The loop's top: nothing of earlier bursts is referred to any more, and
    /// a new configuration is picked up.
    pub fn begin(&mut self) {
        let now = self.shared.snapshot.load();
        if !Arc::ptr_eq(&now, &self.snapshot) {
            self.snapshot = Arc::clone(&now);
        }
    }

    /// Takes every packet of `burst` to where it goes. Time is `now_ms`.
    pub fn process(
        &mut self,
        from: Source,
        burst: &mut ArrayVec<B, BURST>,
        now_ms: u64,
        out: &mut impl Outbox<B>,
    ) {
        let _ = (from, now_ms, out);
        self.counters.add(Counter::Received, burst.len() as u64);
        self.counters.add(Counter::NotForUs, burst.len() as u64);
        burst.clear();
    }

    /// What has to happen without packets, such as giving up on fragments.
    /// Called about once a millisecond.
    pub fn tick(&mut self, now_ms: u64, out: &mut impl Outbox<B>) {
        let _ = (now_ms, out);
    }
}
