//! One worker's pipeline: it reads what the NIC reported, looks packets up, and
//! serves each packet in the order of arrival.
use std::sync::Arc;

use arrayvec::ArrayVec;
use conntrack::{Reader, ReaderError};
use packet::PacketBuf;
use service::WorkerScheduleState;
use state::{
    BackendCounts, Counter, Counters, PortShared, Shared, Snapshot, SnapshotReader, Source,
};
use wire::Mac;
use wire::icmp::MAX_ERROR_LEN;

use crate::Outbox;
use crate::answer::echo::Echoes;
use crate::context::Context;
use crate::fast::Link;
use crate::fast::classify::classify;
use crate::fast::fresh::Fresh;
use crate::fast::look_up::look_up;
use crate::fast::new_connection::NewConnections;
use crate::fast::queue_rewrite::{Meaning, QueueRewrites};
use crate::fast::serve::is_mixed;
use crate::next_hop_cache::NextHopCache;
use crate::offload_requests::Reminder;
use crate::sampler::Sampler;
use crate::scheduling::Scheduling;
use crate::slow::SlowPackets;
use crate::slow::act::{Acting, Errors};
use crate::slow::exceptions::Exceptions;
use crate::slow::fragment::Fragments;
use crate::slow::spliced::Spliced;
use crate::slow::waiting::Waiting;
use crate::token_bucket::TokenBucket;
use crate::verdict::{Verdict, Verdicts};

/// Most packets of one burst.
pub const BURST: usize = 64;

/// Sizes of what a worker keeps for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Datagrams whose fragments are followed at once.
    pub fragment_datagrams: usize,
    /// Fragments held at once while they wait for the first of their datagram.
    pub fragments_held: usize,
    /// Seeds the worker's own hashes and samples.
    pub seed: u64,
    /// How many workers there are: each has its share of the L7 agent's connections.
    pub workers: usize,
    /// Of so many requests to the L7 agent one is logged; 0: none.
    pub log_sample: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { fragment_datagrams: 1024, fragments_held: 256, seed: 0, workers: 1, log_sample: 0 }
    }
}

/// Takes one worker's packets from the port on which they arrive to the port on which
/// they leave.
pub struct Pipeline<B: PacketBuf> {
    shared: Arc<Shared>,
    snapshot: Arc<Snapshot>,
    /// Where a new snapshot appears. Every round asks for it, so asking is cheap.
    published: SnapshotReader,
    counters: Arc<Counters>,
    counts: Arc<BackendCounts>,
    reader: Reader,
    stages: Stages<B>,
    /// State of the present burst. It is kept between bursts: filling it anew would
    /// cost a small burst as much as its packets.
    verdicts: Box<Verdicts>,
}

/// What one worker's stages keep between bursts.
pub(crate) struct Stages<B> {
    pub(crate) sampler: Sampler,
    pub(crate) reminder: Reminder,
    pub(crate) next_hops: NextHopCache,
    pub(crate) queues: QueueRewrites,
    pub(crate) new_connections: NewConnections,
    pub(crate) scheduling: Scheduling,
    pub(crate) acting: Acting<B>,
    pub(crate) fragments: Fragments<B>,
    pub(crate) echoes: Echoes,
    pub(crate) exceptions: Exceptions,
    pub(crate) spliced: Spliced,
}

impl<B: PacketBuf> Pipeline<B> {
    /// The pipeline of worker number `worker`.
    ///
    /// # Errors
    /// The connection table admits no more readers.
    pub fn new(
        shared: Arc<Shared>,
        worker: usize,
        settings: Settings,
    ) -> Result<Self, ReaderError> {
        let snapshot = shared.snapshot();
        let reader = shared.table().register()?;
        let Settings { fragment_datagrams, fragments_held, .. } = settings;
        let stages = Stages {
            sampler: Sampler::new(settings.seed),
            reminder: Reminder(Sampler::new(settings.seed)),
            next_hops: NextHopCache::default(),
            queues: QueueRewrites::default(),
            new_connections: NewConnections::default(),
            scheduling: Scheduling::new(
                WorkerScheduleState::new(worker, &snapshot.services),
                longest_udp_ms(&shared),
            ),
            acting: Acting {
                errors: Errors {
                    limit: TokenBucket::new(snapshot.answers.per_second),
                    scratch: [0; MAX_ERROR_LEN],
                },
                waiting: Waiting::new(),
            },
            fragments: Fragments::new(
                fragment_datagrams,
                fragments_held,
                snapshot.fragment_timeout_ms,
                settings.seed,
            ),
            echoes: Echoes::new(&snapshot, settings.seed),
            exceptions: Exceptions::new(snapshot.answers.to_kernel_per_second),
            spliced: Spliced::new(
                (&snapshot, shared.loans()),
                settings,
                (worker, settings.workers),
            ),
        };
        let (counters, verdicts) = (Arc::default(), Box::new([Verdict::Unknown; BURST]));
        let (published, counts) = (SnapshotReader::new(&shared), shared.totals().register());
        Ok(Self { shared, snapshot, published, counters, counts, reader, stages, verdicts })
    }

    /// This worker's counters, which outlive the pipeline.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Begins a round of the worker's loop: the pipeline keeps no reference from
    /// earlier bursts, and picks up a new configuration without allocating.
    pub fn begin(&mut self) {
        self.reader.quiesce();
        let now = self.published.load();
        if !Arc::ptr_eq(now, &self.snapshot) {
            self.snapshot = Arc::clone(now);
            self.stages.next_hops.forget();
            self.stages.scheduling.state.follow(&now.services);
            self.stages.scheduling.udp_timeout_ms = longest_udp_ms(&self.shared);
            self.stages.fragments.set_timeout(now.fragment_timeout_ms);
            self.stages.echoes.follow(now);
            self.stages.acting.errors.limit.set_rate(now.answers.per_second);
            self.stages.exceptions.set_rate(now.answers.to_kernel_per_second);
            self.stages.spliced.follow(now, self.shared.loans());
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
        self.counters.add(Counter::Received, burst.len() as u64);
        self.take(from, false, burst, now_ms, out);
    }

    /// As [`Self::process`], of packets that another worker has received at `from` and
    /// [handed over](Outbox::hand_over).
    pub fn process_handed_over(
        &mut self,
        from: Source,
        burst: &mut ArrayVec<B, BURST>,
        now_ms: u64,
        out: &mut impl Outbox<B>,
    ) {
        self.counters.add(Counter::FromWorker, burst.len() as u64);
        self.take(from, true, burst, now_ms, out);
    }

    #[inline(always)]
    fn take(
        &mut self,
        from: Source,
        handed: bool,
        burst: &mut ArrayVec<B, BURST>,
        now_ms: u64,
        out: &mut impl Outbox<B>,
    ) {
        let Self { shared, snapshot, counters, counts, stages, verdicts, .. } = self;
        let Some(port) = shared.port(from.port) else { return burst.clear() };
        let mut cx =
            Context { shared, snapshot, counters, counts, from, handed, queue: false, now_ms, out };
        stages.next_hops.begin(shared.neighbours().moves(), now_ms);
        let interfaces = &snapshot.interfaces;
        match interfaces.at(from.port, None) {
            Some((id, own)) if !interfaces.are_tagged() => {
                let link = Link::<false>::new(snapshot, counts.ways(), from.port, id, own.mac);
                stages.process(&mut cx, port, link, burst, verdicts);
            }
            _ => {
                let link = Link::<true>::new(
                    snapshot,
                    counts.ways(),
                    from.port,
                    flow::InterfaceId(0),
                    Mac::default(),
                );
                stages.process(&mut cx, port, link, burst, verdicts);
            }
        }
    }

    /// Does the work that needs no packets: it sends what has waited for a next hop, and
    /// what the L7 agent sends again, and gives up on old fragments. Called about once a millisecond.
    pub fn tick(&mut self, now_ms: u64, out: &mut impl Outbox<B>) {
        let Self { shared, snapshot, counters, counts, stages, .. } = self;
        // Nothing is answered to where it came from.
        let from = Source { port: flow::PortId(0), queue: 0 };
        let handed = false;
        let mut cx =
            Context { shared, snapshot, counters, counts, from, handed, queue: false, now_ms, out };
        stages.tick_waiting(&mut cx);
        stages.tick_spliced(&mut cx);
        let dropped = self.stages.fragments.expire(now_ms);
        if dropped > 0 {
            self.counters.add(Counter::FragmentTimeout, dropped);
            self.counters.sub(Counter::FragmentsHeld, dropped);
        }
    }
}

/// How long a UDP flow may be silent.
fn longest_udp_ms(shared: &Shared) -> u64 {
    shared.table().timeouts().longest_udp_ms().into()
}

impl<B: PacketBuf> Stages<B> {
    /// Takes every packet of `burst` to where it goes.
    #[inline(always)]
    fn process<const TAGGED: bool, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        port: &PortShared,
        link: Link<'_, TAGGED>,
        burst: &mut ArrayVec<B, BURST>,
        verdicts: &mut Verdicts,
    ) {
        let queue = self.queues.meaning(cx, &mut self.next_hops, port, cx.from.queue);
        cx.queue = queue != Meaning::Nothing;
        let unknown = classify(cx, port, queue, burst, verdicts);
        let found = match unknown {
            0 => 0,
            _ => self.look_up(cx, link, burst, unknown, verdicts),
        };
        let mut slow = SlowPackets::new();
        if found < unknown {
            self.parse_and_match(cx, burst, verdicts, &mut slow);
        }
        self.remind(cx, burst.len(), verdicts);
        let marked = burst.len().saturating_sub(unknown);
        let mixed = is_mixed(burst.len(), marked, found);
        self.serve(cx, link, mixed, burst.drain(..), verdicts, &mut slow);
    }

    /// Looks up the packets that have no verdict yet, and prepares the new
    /// connections among them. Returns how many packets have a verdict then.
    #[inline]
    fn look_up<const TAGGED: bool, O>(
        &mut self,
        cx: &Context<'_, O>,
        link: Link<'_, TAGGED>,
        burst: &[B],
        unknown: usize,
        verdicts: &mut Verdicts,
    ) -> usize {
        let mut fresh = Fresh::default();
        let found = look_up(cx, link, &self.spliced, burst, unknown, verdicts, &mut fresh);
        if fresh.v4.is_empty() && fresh.v6.is_empty() {
            return found;
        }
        let Self { next_hops, scheduling, new_connections, .. } = self;
        let verdicts = verdicts.get_mut(..burst.len()).unwrap_or_default();
        new_connections.prepare(cx, next_hops, scheduling, &fresh, verdicts);
        let opens = |verdict: &&Verdict| matches!(verdict, Verdict::Opens(_));
        found + verdicts.iter().filter(opens).count()
    }

    /// Takes some packets of known connections as occasions to ask for rules.
    #[inline(always)]
    fn remind<O: Outbox<B>>(&mut self, cx: &mut Context<'_, O>, len: usize, verdicts: &Verdicts) {
        let mut from = 0;
        while let Some(at) = self.reminder.next(from, len) {
            match verdicts.get(at) {
                Some(Verdict::Marked(hit) | Verdict::Found(hit)) => self.reminder.remind(cx, *hit),
                Some(Verdict::Passes(place, _)) => self.lend(cx, *place),
                _ => {}
            }
            from = at + 1;
        }
    }
}
