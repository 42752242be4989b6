//! The fast path: receive, parse, match, act, send.
use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use arrayvec::ArrayVec;
use conntrack::{Key, Reader, ReaderError, Segment};
use flow::PortId;
use packet::PacketBuf;
use service::WorkerScheduleState;
use state::{Counter, Counters, Shared, Snapshot, Source};
use wire::icmp::MAX_ERROR_LEN;
use wire::{Mac, Transport};

use crate::Outbox;
use crate::act::Errors;
use crate::bucket::TokenBucket;
use crate::context::Context;
use crate::fragment::Fragments;
use crate::hops::Hops;
use crate::known::{Reminder, touch};
use crate::lane::{self, Tally, TellTale, Told};
use crate::matching::{Job, Jobs};
use crate::miss::Scheduling;
use crate::open::{Fresh, Opened, Openings};
use crate::queue_lane::{Lanes, Meaning, QueueLane};
use crate::sampler::Sampler;

/// Most packets of one burst.
pub const BURST: usize = 64;

/// Where one packet in so many is known by its mark, it costs less to compare
/// those again that the table has found than to predict wrongly which comes next.
const MARKED_SHARE: usize = 4;

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
    /// Where a new one comes; asked every round, so it is asked cheaply.
    published: Cache<Published, Arc<Snapshot>>,
    counters: Arc<Counters>,
    reader: Reader,
    memory: Memory<B>,
    /// Of the burst in work. Kept, since filling it anew costs a small burst as
    /// much as its packets.
    told: Box<TellTale>,
}

/// Where the configuration is published.
struct Published(Arc<Shared>);

impl Deref for Published {
    type Target = ArcSwap<Snapshot>;

    fn deref(&self) -> &ArcSwap<Snapshot> {
        &self.0.snapshot
    }
}

/// What the stages keep between bursts.
pub(crate) struct Memory<B> {
    pub(crate) sampler: Sampler,
    pub(crate) reminder: Reminder,
    pub(crate) hops: Hops,
    pub(crate) lanes: Lanes,
    pub(crate) openings: Openings,
    pub(crate) scheduling: Scheduling,
    pub(crate) errors: Errors,
    pub(crate) fragments: Fragments<B>,
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
        let memory = Memory {
            sampler: Sampler::new(settings.seed),
            reminder: Reminder(Sampler::new(settings.seed)),
            hops: Hops::default(),
            lanes: Lanes::default(),
            openings: Openings::default(),
            scheduling: Scheduling {
                state: WorkerScheduleState::new(worker, &snapshot.services),
                full_ms: None,
                chosen: None,
                udp_timeout_ms: longest_udp_ms(&shared),
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
        let (counters, told) = (Arc::default(), Box::new([Told::Nothing; BURST]));
        let published = Cache::new(Published(Arc::clone(&shared)));
        Ok(Self { shared, snapshot, published, counters, reader, memory, told })
    }

    /// This worker's counters; they outlive the pipeline.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// The loop's top: nothing of earlier bursts is referred to any more, and
    /// a new configuration is picked up, without allocating.
    pub fn begin(&mut self) {
        self.reader.quiesce();
        let now = self.published.load();
        if !Arc::ptr_eq(now, &self.snapshot) {
            self.snapshot = Arc::clone(now);
            self.memory.hops.forget();
            self.memory.scheduling.state.follow(&now.services);
            self.memory.scheduling.udp_timeout_ms = longest_udp_ms(&self.shared);
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
        let Self { shared, snapshot, counters, memory, told, .. } = self;
        let Some(port) = shared.port(from.port) else { return burst.clear() };
        let mut cx = Context { shared, snapshot, counters, from, queue: false, now_ms, out };
        cx.counters.add(Counter::Received, burst.len() as u64);
        memory.hops.begin(shared.neighbours.changes(), now_ms);
        let Meaning { any, lane } = *memory.lanes.meaning(&cx, &mut memory.hops, port, from.queue);
        cx.queue = any;
        let mut jobs = Jobs::new();
        let station = cx.snapshot.interfaces.at(from.port, None).map(|(_, own)| own.mac);
        let (unknown, found) = match station {
            Some(station) => {
                let unknown = lane::ask(&cx, port, lane.as_ref(), burst, told);
                let found = match unknown {
                    0 => 0,
                    _ => memory.find(&cx, station, burst, unknown, told),
                };
                (unknown, found)
            }
            // Without an untagged interface no frame is plain.
            None => {
                told.iter_mut().zip(burst.iter()).for_each(|(told, _)| *told = Told::Nothing);
                (burst.len(), 0)
            }
        };
        if found < unknown {
            memory.sort(&cx, burst, told, &mut jobs);
        }
        let station = station.unwrap_or_default();
        memory.remind(&mut cx, burst.len(), told);
        let marked = burst.len().saturating_sub(unknown);
        let mixed = found > 0 && marked * MARKED_SHARE >= burst.len();
        let third = Third { station, lane: lane.as_ref(), mixed };
        memory.third(&mut cx, third, burst, told, &mut jobs);
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

/// How long a UDP flow may be silent.
fn longest_udp_ms(shared: &Shared) -> u64 {
    let timeouts = shared.table.timeouts();
    timeouts.udp_ms.max(timeouts.udp_stream_ms).into()
}

/// What the third pass goes by.
#[derive(Clone, Copy)]
struct Third<'a> {
    station: Mac,
    lane: Option<&'a QueueLane>,
    /// Some packets are known by the connection table, and enough by their mark.
    mixed: bool,
}

impl<B: PacketBuf> Memory<B> {
    /// The third pass: every packet goes its way, in order. Packets of the same
    /// kind mostly come together, and each kind has a loop of its own, so that
    /// what it needs stays in registers.
    #[inline(never)]
    fn third<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        Third { station, lane, mixed }: Third<'_>,
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
                (Told::Mark(_) | Told::Table(_), _) if mixed => {
                    self.known::<true, O>(cx, station, &mut packets, told, &mut tally)
                }
                (Told::Mark(_), _) => {
                    self.known::<false, O>(cx, station, &mut packets, told, &mut tally)
                }
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

    /// Packets with marks that mean a connection, as many as follow each other;
    /// if `MIXED`, with those among them that the connection table has found:
    /// both are done alike then, since which is next can't be predicted.
    #[inline(never)]
    fn known<const MIXED: bool, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        station: Mac,
        packets: &mut impl Iterator<Item = B>,
        told: &[Told],
        tally: &mut Tally,
    ) -> usize {
        let mut done = 0;
        for told in told {
            let (Told::Mark(hit) | Told::Table(hit)) = *told else { break };
            if !MIXED && !matches!(told, Told::Mark(_)) {
                break;
            }
            let Some(mut buf) = packets.next() else { break };
            done += 1;
            match lane::pass_known(cx, &mut self.hops, station, hit, buf.bytes_mut()) {
                Some(port) => {
                    // Asked earlier it would become a branch that can't be predicted.
                    let by_mark = u64::from(matches!(told, Told::Mark(_)));
                    tally.marked += by_mark;
                    tally.looked_up += 1 - by_mark;
                    cx.out.send(port, buf);
                }
                None => self.general(cx, buf, None),
            }
        }
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
        unknown: usize,
        told: &mut TellTale,
    ) -> usize {
        let mut fresh = Fresh::new();
        let found = lane::find(cx, station, burst, unknown, told, &mut fresh);
        if fresh.is_empty() {
            return found;
        }
        let Self { hops, scheduling, openings, .. } = self;
        let told = told.get_mut(..burst.len()).unwrap_or_default();
        openings.prepare(cx, hops, scheduling, &fresh, told);
        found + told.iter().filter(|told| matches!(told, Told::Open(_))).count()
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
            if let Some(hit) = cx.shared.table.lookup(&Key::from(&plain)) {
                let is_tcp = plain.proto == Transport::Tcp;
                // Without SYN, FIN and RST: the numbers say nothing.
                let segment = Segment { flags: plain.flags, ..Segment::default() };
                touch(cx, hit, is_tcp.then_some(segment));
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
        let lane = self.lanes.meaning(cx, &mut self.hops, port, tag).lane?;
        self.pass_queue(cx, &lane, station, frame)
    }
}
