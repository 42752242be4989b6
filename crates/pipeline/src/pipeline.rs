//! The fast path: receive, parse, match, act, send.
use std::sync::Arc;

use arrayvec::ArrayVec;
use conntrack::{Event, Reader, ReaderError};
use packet::PacketBuf;
use service::BackendId;
use wire::icmp::{ErrorKind, MAX_ERROR_LEN};
use wire::{FlowKey, Fragment, Headers, Mac, Transport};

use crate::act::{self, Errors};
use crate::arp::arp;
use crate::bucket::TokenBucket;
use crate::context::{Context, Decision, Packet};
use crate::counters::Counter;
use crate::fragment::{FragmentKey, Fragments, Later};
use crate::hops::Hops;
use crate::icmp::icmp;
use crate::known::{Reminder, flags, known, notice, touch};
use crate::lane::{self, QueueLane, SharedLanes, Tally, TellTale, Told};
use crate::matching::{Found, Job, Jobs, match_burst, told_action};
use crate::miss::{Scheduling, miss};
use crate::ndp::ndp;
use crate::open::{Fresh, Opened, Openings};
use crate::parse::{Kind, parse, plain};
use crate::sampler::Sampler;
use crate::{Counters, Outbox, PortId, Shared, Snapshot, Source};

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
    hops: Hops,
    lanes: SharedLanes,
    openings: Openings,
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
            hops: Hops::default(),
            lanes: SharedLanes::default(),
            openings: Openings::default(),
            scheduling: Scheduling {
                state: snapshot.services.worker_state(worker),
                full_ms: None,
                chosen: None,
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
            self.memory.hops.forget();
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
        let Some(port) = shared.port(from.port) else { return burst.clear() };
        let queue = port.queues.get(from.queue);
        let mut cx = Context { shared, snapshot, counters, from, queue, now_ms, out };
        cx.counters.add(Counter::Received, burst.len() as u64);
        memory.hops.begin(shared.neighbours.changes(), now_ms);
        let lane = QueueLane::compile(&cx, &mut memory.hops, cx.queue.as_ref());
        let (mut told, mut jobs) = ([Told::Nothing; BURST], Jobs::new());
        let station = cx.snapshot.interfaces.at(from.port, None).map(|(_, own)| own.mac);
        let unknown = match station {
            Some(station) => {
                let unknown = lane::ask(&cx, port, &lane, burst, &mut told);
                unknown > 0 && memory.find(&cx, station, burst, &mut told) < unknown
            }
            // Without an untagged interface no frame is plain.
            None => true,
        };
        if unknown {
            memory.sort(&cx, burst, &mut told, &mut jobs);
        }
        let station = station.unwrap_or_default();
        memory.remind(&mut cx, burst.len(), &told);
        memory.third(&mut cx, station, &lane, burst, &told, &mut jobs);
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

/// Parses a packet for the general way; `None` if that was its end.
fn look<B: PacketBuf, O>(cx: &Context<'_, O>, buf: &B) -> Option<Job> {
    let (mark, found) = (buf.mark(), Found::Nothing);
    if let Some((headers, interface, key)) = plain(cx, buf.bytes()) {
        return Some(Job { headers, interface, kind: Kind::Flow(key), mark, found });
    }
    match parse(cx, buf.bytes()) {
        Ok((headers, interface, kind)) => Some(Job { headers, interface, kind, mark, found }),
        Err(counter) => {
            cx.count(counter);
            None
        }
    }
}

/// A whole packet of a known connection: nearly all are.
#[inline]
fn is_plain<B>(packet: &Packet<B>, found: Found) -> bool {
    matches!(found, Found::Conn(_)) && packet.headers.fragment == Fragment::Whole
}

impl<B: PacketBuf> Memory<B> {
    /// The third pass: every packet goes its way, in order. Packets of the same
    /// kind mostly come together, and each kind has a loop of its own, so that
    /// what it needs stays in registers.
    #[inline(never)]
    fn third<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        station: Mac,
        lane: &Option<QueueLane>,
        burst: &mut ArrayVec<B, BURST>,
        told: &TellTale,
        jobs: &mut Jobs,
    ) {
        let mut tally = Tally::default();
        let mut jobs = jobs.drain(..);
        let mut told = told.get(..burst.len()).unwrap_or(told);
        let mut packets = burst.drain(..);
        while let Some((first, rest)) = told.split_first() {
            let done = match (first, lane) {
                (Told::Mark(_), _) => self.marked(cx, station, &mut packets, told, &mut tally),
                (Told::Table(_), _) => self.found(cx, &mut packets, told, &mut tally),
                (Told::Queue, Some(lane)) => {
                    self.queued(cx, lane, station, &mut packets, told, &mut tally)
                }
                (Told::Open(_), _) => self.opened(cx, &mut packets, told),
                (told, _) => {
                    if let Some(buf) = packets.next() {
                        self.single(cx, station, *told, buf, &mut jobs, &mut tally);
                    }
                    1
                }
            };
            told = told.get(done..).unwrap_or(rest);
        }
        tally.count(cx);
    }

    /// Packets with marks that mean a connection, as many as follow each other.
    #[inline(never)]
    fn marked<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        station: Mac,
        packets: &mut impl Iterator<Item = B>,
        told: &[Told],
        tally: &mut Tally,
    ) -> usize {
        let (mut done, mut sent) = (0, 0);
        for told in told {
            let Told::Mark(hit) = *told else { break };
            let Some(mut buf) = packets.next() else { break };
            done += 1;
            match lane::pass_marked(cx, &mut self.hops, station, hit, buf.bytes_mut()) {
                Some(port) => {
                    sent += 1;
                    cx.out.send(port, buf);
                }
                None => self.general(cx, buf, None),
            }
        }
        tally.marked += sent;
        done
    }

    /// Packets that the connection table has found, likewise.
    #[inline(never)]
    fn found<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        packets: &mut impl Iterator<Item = B>,
        told: &[Told],
        tally: &mut Tally,
    ) -> usize {
        let (mut done, mut sent) = (0, 0);
        for told in told {
            let Told::Table(hit) = *told else { break };
            let Some(mut buf) = packets.next() else { break };
            done += 1;
            match lane::pass_found(cx, &mut self.hops, hit, buf.bytes_mut()) {
                Some(port) => {
                    sent += 1;
                    cx.out.send(port, buf);
                }
                None => self.general(cx, buf, None),
            }
        }
        tally.looked_up += sent;
        done
    }

    /// Packets of a queue that means something, likewise.
    #[inline(never)]
    fn queued<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        lane: &QueueLane,
        station: Mac,
        packets: &mut impl Iterator<Item = B>,
        told: &[Told],
        tally: &mut Tally,
    ) -> usize {
        let (mut done, mut sent) = (0, 0);
        for told in told {
            let Told::Queue = *told else { break };
            let Some(mut buf) = packets.next() else { break };
            done += 1;
            match self.pass_queue(cx, lane, station, buf.bytes_mut()) {
                Some(port) => {
                    sent += 1;
                    cx.out.send(port, buf);
                }
                None => self.general(cx, buf, None),
            }
        }
        tally.queued += sent;
        done
    }

    /// Packets that open connections, likewise.
    #[inline(never)]
    fn opened<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        packets: &mut impl Iterator<Item = B>,
        told: &[Told],
    ) -> usize {
        let mut done = 0;
        for told in told {
            let Told::Open(at) = *told else { break };
            let Some(mut buf) = packets.next() else { break };
            done += 1;
            let Self { hops, scheduling, openings, .. } = self;
            match openings.open(cx, hops, scheduling, at, buf.bytes_mut()) {
                Opened::Sent(port) => cx.out.send(port, buf),
                Opened::General(chosen) => self.general(cx, buf, chosen),
            }
        }
        done
    }

    /// A packet of another kind.
    #[inline(never)]
    fn single<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        station: Mac,
        told: Told,
        mut buf: B,
        jobs: &mut impl Iterator<Item = Job>,
        tally: &mut Tally,
    ) {
        match told {
            Told::Shared(tag) => match self.pass_shared(cx, tag, station, buf.bytes_mut()) {
                Some(port) => {
                    tally.queued += 1;
                    cx.out.send(port, buf);
                }
                None => self.general(cx, buf, None),
            },
            Told::Job => {
                if let Some(job) = jobs.next() {
                    self.finish(cx, job, buf);
                }
            }
            // It has been counted.
            _ => {}
        }
    }

    /// Looks up those of which nothing is known; of how many something is then.
    #[inline]
    fn find<O>(
        &mut self,
        cx: &Context<'_, O>,
        station: Mac,
        burst: &[B],
        told: &mut TellTale,
    ) -> usize {
        let mut fresh = Fresh::new();
        let found = lane::find(cx, station, burst, told, &mut fresh);
        if fresh.is_empty() {
            return found;
        }
        let Self { hops, scheduling, openings, .. } = self;
        let told = told.get_mut(..burst.len()).unwrap_or_default();
        openings.prepare(cx, hops, scheduling, &fresh, told);
        found + told.iter().filter(|told| matches!(told, Told::Open(_))).count()
    }

    /// Parses and matches those of which nothing is known.
    fn sort<O>(&mut self, cx: &Context<'_, O>, burst: &[B], told: &mut TellTale, jobs: &mut Jobs) {
        for (buf, told) in burst.iter().zip(told.iter_mut()) {
            if !matches!(told, Told::Nothing) {
                continue;
            }
            *told = Told::Dropped;
            if let Some(job) = look(cx, buf).filter(|_| !jobs.is_full()) {
                jobs.push(job);
                *told = Told::Job;
            }
        }
        match_burst(cx, &mut self.sampler, jobs);
    }

    /// Some packets of known connections are an occasion to ask for rules.
    #[inline(always)]
    fn remind<O: Outbox<B>>(&mut self, cx: &mut Context<'_, O>, len: usize, told: &TellTale) {
        let mut from = 0;
        while let Some(at) = self.reminder.next(from, len) {
            if let Some(Told::Mark(hit) | Told::Table(hit)) = told.get(at) {
                self.reminder.remind(cx, *hit);
            }
            from = at + 1;
        }
    }

    /// A packet of a queue that means something; now and then one is looked up
    /// to see what its connection does.
    #[inline(always)]
    fn pass_queue<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        lane: &QueueLane,
        station: Mac,
        frame: &mut [u8],
    ) -> Option<PortId> {
        let plain = lane.pass(station, frame)?;
        if self.sampler.takes(cx.snapshot.sample) {
            cx.count(Counter::Sampled);
            if let Some(hit) = cx.shared.table.lookup(&lane::key(&plain).into()) {
                let is_tcp = plain.proto == Transport::Tcp.number();
                touch(cx, hit, is_tcp.then_some(plain.flags));
            }
        }
        Some(lane.port())
    }

    /// A packet of a queue that several backends share.
    #[inline(never)]
    fn pass_shared<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        tag: u16,
        station: Mac,
        frame: &mut [u8],
    ) -> Option<PortId> {
        let port = cx.shared.port(cx.from.port)?;
        let lane = self.lanes.lane(cx, &mut self.hops, port, tag).copied()?;
        self.pass_queue(cx, &lane, station, frame)
    }

    /// A packet that turned out not to be for the fast lane. If it opens a
    /// connection, then to the backend that is chosen.
    #[cold]
    #[inline(never)]
    fn general<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        buf: B,
        chosen: Option<BackendId>,
    ) {
        let mut jobs = Jobs::new();
        jobs.extend(look(cx, &buf));
        match_burst(cx, &mut self.sampler, &mut jobs);
        if let Some(job) = jobs.pop() {
            self.scheduling.chosen = chosen;
            self.finish(cx, job, buf);
            self.scheduling.chosen = None;
        }
    }

    /// The end of the general way.
    fn finish<O: Outbox<B>>(&mut self, cx: &mut Context<'_, O>, job: Job, buf: B) {
        self.openings.disturb();
        let Job { headers, interface, kind, mark, found } = job;
        let packet = Packet { buf, headers, interface };
        match kind {
            Kind::Flow(_) if is_plain(&packet, found) => self.pass(cx, packet, found),
            Kind::Flow(key) => {
                let decision = self.decide(cx, &packet.headers, &key, mark, found);
                self.act(cx, packet, decision);
            }
            Kind::Later(key) => self.later(cx, key, packet),
            Kind::Arp => arp(cx, packet),
            Kind::Ndp => ndp(cx, packet),
            Kind::Icmp => icmp(cx, &mut self.errors, packet),
        }
    }

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
                act::forward(cx, &mut self.errors, packet, &action.delivery, action.hop);
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
        mark: Option<u32>,
        found: Found,
    ) -> Result<Decision, Counter> {
        match found {
            Found::Queue(sample) => {
                if let Some(hit) = sample {
                    touch(cx, hit, flags(headers));
                }
                let port = cx.shared.port(cx.from.port).ok_or(Counter::NotRewritable)?;
                let action = told_action(cx, port, mark).ok_or(Counter::NotRewritable)?;
                Ok(Decision { delivery: action.delivery, hop: action.hop })
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
                act::forward(cx, &mut self.errors, packet, &decision.delivery, decision.hop)
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
                    act::forward(cx, &mut self.errors, packet, &decision.delivery, decision.hop)
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
                act::forward(cx, &mut self.errors, packet, &decision.delivery, decision.hop);
            }
            Later::Held => cx.count(Counter::FragmentsHeld),
            Later::Overflow => cx.count(Counter::FragmentOverflow),
            Later::Orphaned => cx.count(Counter::FragmentOrphaned),
        }
    }
}
