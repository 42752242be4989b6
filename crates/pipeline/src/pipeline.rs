//! The fast path: receive, parse, match, act, send.
use std::sync::Arc;

use arrayvec::ArrayVec;
use conntrack::{Event, Reader, ReaderError};
use packet::PacketBuf;
use wire::icmp::{ErrorKind, MAX_ERROR_LEN};
use wire::{FlowKey, Fragment, Headers};

use crate::act::{self, Errors};
use crate::arp::arp;
use crate::bucket::TokenBucket;
use crate::context::{Context, Decision, Packet};
use crate::counters::Counter;
use crate::fragment::{FragmentKey, Fragments, Later};
use crate::icmp::icmp;
use crate::known::{Reminder, flags, known, notice, touch};
use crate::matching::{Found, Job, match_burst};
use crate::miss::{Scheduling, miss};
use crate::ndp::ndp;
use crate::parse::{Kind, parse, plain};
use crate::sampler::Sampler;
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
    /// Seeds the worker's own hashes and samples.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { fragment_datagrams: 1024, fragments_held: 256, fragment_timeout_ms: 2000, seed: 0 }
    }
}

/// One worker's way of a packet.
pub struct Pipeline<B: PacketBuf> {
    shared: Arc<Shared>,
    snapshot: Arc<Snapshot>,
    counters: Arc<Counters>,
    reader: Reader,
    worker: usize,
    memory: Memory<B>,
}

/// What the stages keep between bursts.
struct Memory<B> {
    sampler: Sampler,
    reminder: Reminder,
    scheduling: Scheduling,
    errors: Errors,
    fragments: Fragments<B>,
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
        let snapshot = shared.snapshot.load_full();
        let reader = shared.table.register()?;
        let Settings { fragment_datagrams, fragments_held, fragment_timeout_ms, .. } = settings;
        let timeouts = shared.table.timeouts();
        let udp_timeout_ms = timeouts.udp_ms.max(timeouts.udp_stream_ms);
        let memory = Memory {
            sampler: Sampler::new(settings.seed),
            reminder: Reminder(Sampler::new(settings.seed)),
            scheduling: Scheduling {
                state: snapshot.services.worker_state(worker),
                full_ms: None,
                udp_timeout_ms: u64::from(udp_timeout_ms),
            },
            errors: Errors {
                limit: TokenBucket::new(snapshot.icmp_errors_per_second),
                scratch: [0; MAX_ERROR_LEN],
            },
            fragments: Fragments::new(
                fragment_datagrams,
                fragments_held,
                fragment_timeout_ms,
                settings.seed,
            ),
        };
        Ok(Self { shared, snapshot, counters: Arc::default(), reader, worker, memory })
    }

    /// This worker's counters; they outlive the pipeline.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// The loop's top: nothing of earlier bursts is referred to any more, and
    /// a new configuration is picked up. Only then memory is allocated, for
    /// the new schedulers.
    pub fn begin(&mut self) {
        self.reader.quiesce();
        let now = self.shared.snapshot.load();
        if !Arc::ptr_eq(&now, &self.snapshot) {
            self.snapshot = Arc::clone(&now);
            self.memory.scheduling.state = now.services.worker_state(self.worker);
            self.memory.errors.limit = TokenBucket::new(now.icmp_errors_per_second);
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
        let Self { shared, snapshot, counters, memory, .. } = self;
        let queue = shared.port(from.port).and_then(|port| port.queues.get(from.queue));
        let mut cx = Context { shared, snapshot, counters, from, queue, now_ms, out };
        cx.counters.add(Counter::Received, burst.len() as u64);
        for buf in burst.iter() {
            buf.prefetch();
        }
        let mut jobs = ArrayVec::new();
        for buf in burst.drain(..) {
            if let Some((headers, interface, key)) = plain(&cx, buf.bytes()) {
                let packet = Packet { buf, headers, interface };
                // Always so, since both lists are as long. Said here, the
                // job is written to its place and not moved there.
                if jobs.is_full() {
                    break;
                }
                jobs.push(Job { packet, kind: Kind::Flow(key), found: Found::Nothing });
                continue;
            }
            match parse(&cx, buf) {
                Ok((packet, kind)) => jobs.push(Job { packet, kind, found: Found::Nothing }),
                Err(counter) => cx.count(counter),
            }
        }
        match_burst(&cx, &mut memory.sampler, &mut jobs);
        // Drained, as an iterator by value would move all places of the list.
        for Job { packet, kind, found } in jobs.drain(..) {
            match kind {
                Kind::Flow(_) if is_plain(&packet, found) => memory.pass(&mut cx, packet, found),
                Kind::Flow(key) => {
                    let decision = memory.decide(&mut cx, &packet.headers, &key, found);
                    memory.act(&mut cx, packet, decision);
                }
                Kind::Later(key) => memory.later(&mut cx, key, packet),
                Kind::Arp => arp(&mut cx, packet),
                Kind::Ndp => ndp(&mut cx, packet),
                Kind::Icmp => icmp(&mut cx, packet),
            }
        }
    }

    /// What has to happen without packets: giving up on fragments. Called
    /// about once a millisecond.
    pub fn tick(&mut self, now_ms: u64, out: &mut impl Outbox<B>) {
        let _ = out;
        let dropped = self.memory.fragments.expire(now_ms);
        if dropped > 0 {
            self.counters.add(Counter::FragmentTimeout, dropped);
            self.counters.sub(Counter::FragmentsHeld, dropped);
        }
    }
}

/// A whole packet of a known connection: nearly all are.
#[inline]
fn is_plain<B>(packet: &Packet<B>, found: Found) -> bool {
    matches!(found, Found::Conn(_)) && packet.headers.fragment == Fragment::Whole
}

impl<B: PacketBuf> Memory<B> {
    /// Takes a packet of a known connection to where it goes.
    #[inline]
    fn pass<O: Outbox<B>>(&mut self, cx: &mut Context<'_, O>, packet: Packet<B>, found: Found) {
        let Found::Conn(hit) = found else { return };
        self.reminder.found(cx, hit);
        // Only looked at in place: a copy would wait for its making.
        match &cx.shared.table.serve(hit, flags(&packet.headers), cx.now_ms) {
            Some((action, event)) => {
                if *event != Event::None {
                    notice(cx, hit.conn, *event);
                }
                act::forward(cx, &mut self.errors, packet, &action.rewrite, action.hop);
            }
            None => cx.count(Counter::NotRewritable),
        }
    }

    /// What is done to the packet with `key`, or why it is dropped.
    #[inline]
    fn decide<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        headers: &Headers,
        key: &FlowKey,
        found: Found,
    ) -> Result<Decision, Counter> {
        match found {
            Found::Queue(sample) => {
                if let Some(hit) = sample {
                    touch(cx, hit, headers);
                }
                let action = cx.queue.as_ref().ok_or(Counter::NotRewritable)?;
                Ok(Decision { rewrite: action.rewrite, hop: action.hop })
            }
            Found::Conn(hit) => {
                self.reminder.found(cx, hit);
                known(cx, hit, headers).ok_or(Counter::NotRewritable)
            }
            Found::Nothing => miss(cx, &mut self.scheduling, key, headers),
        }
    }

    /// Sends a packet on, or drops it.
    #[inline]
    fn act<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        packet: Packet<B>,
        decision: Result<Decision, Counter>,
    ) {
        let first = match packet.headers.fragment {
            Fragment::Whole => None,
            _ => FragmentKey::of(packet.buf.bytes(), &packet.headers),
        };
        match &decision {
            Ok(decision) => {
                act::forward(cx, &mut self.errors, packet, &decision.rewrite, decision.hop)
            }
            Err(Counter::TtlExpired) => {
                act::refuse(cx, &mut self.errors, packet, ErrorKind::TimeExceeded);
            }
            Err(counter) => cx.count(*counter),
        }
        if let Some(key) = first {
            self.first(cx, key, decision.ok());
        }
    }

    /// The fate of a datagram's first fragment is that of all others.
    #[cold]
    fn first<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        key: FragmentKey,
        decision: Option<Decision>,
    ) {
        self.fragments.first(key, decision, cx.now_ms);
        while let Some(packet) = self.fragments.release(&key) {
            cx.counters.sub(Counter::FragmentsHeld, 1);
            match &decision {
                Some(decision) => {
                    act::forward(cx, &mut self.errors, packet, &decision.rewrite, decision.hop)
                }
                None => cx.count(Counter::FragmentOrphaned),
            }
        }
    }

    /// A later fragment goes the way of the first.
    #[cold]
    fn later<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        key: FragmentKey,
        packet: Packet<B>,
    ) {
        match self.fragments.later(key, packet, cx.now_ms) {
            Later::Forward(packet, decision) => {
                act::forward(cx, &mut self.errors, packet, &decision.rewrite, decision.hop);
            }
            Later::Held => cx.count(Counter::FragmentsHeld),
            Later::Overflow => cx.count(Counter::FragmentOverflow),
            Later::Orphaned => cx.count(Counter::FragmentOrphaned),
        }
    }
}
