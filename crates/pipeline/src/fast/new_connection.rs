//! The short way of first packets: plain IPv4 packets (`wire::FastHeader::opening`) to a
//! service of mode `nat` whose connection the burst's lookup did not find.
//!
//! Backends are chosen ahead, so that the cache lines of a burst's insertions
//! are fetched together; insertion, rewriting and sending are one step in the
//! third pass. That a key is new is what the insertion itself finds out under
//! its lock: nothing is looked up again. Whatever isn't as usual goes the
//! general way, untouched.
//!
//! Schedulers that remember their choices are asked in the packets' order. So a
//! packet that may come to be scheduled on the general way is a bar: choices
//! behind it wait until it has gone.
use arrayvec::ArrayVec;
use conntrack::{FastKey, Key, PreparedInsert};
use flow::{AdmissionPolicy, BackendId, HopId, PortId, Scheduler, ServiceId};
use packet::PacketBuf;
use service::Mode;
use state::Counter;
use wire::{FastHeader, FlowKey, TcpFlags};

use crate::Outbox;
use crate::context::Context;
use crate::hops::{ETHERNET, Hops, Way};
use crate::known::want;
use crate::lane::Told;
use crate::miss::{self, Scheduling};
use crate::pipeline::BURST;
use crate::roads::Roads;

/// Packets of a burst that may open connections: place and content.
pub(crate) type Fresh = ArrayVec<(u8, FastHeader<1>), BURST>;

/// How many insertions ahead their first cache lines are there, most likely.
const NEAR: usize = 8;

/// A connection that is about to be opened.
#[derive(Debug)]
struct Opening {
    key: Key<1>,
    service: ServiceId,
    /// The way back.
    back: HopId,
    /// The first packet's length and TCP flags.
    length: u32,
    flags: TcpFlags,
    /// Whether a packet between the opening before and this one may come to be
    /// scheduled.
    barred: bool,
    next: Next,
}

/// What comes next for a connection that is about to be opened.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// A backend is to be chosen.
    Choose,
    /// Insertion of the choice with this number.
    Insert(u8),
    /// The table is full: the choice with this number is not inserted.
    Pass(u8),
    /// The general way, with the backend that was chosen.
    General(Option<BackendId>),
}

/// The connection that is inserted, and where its packet goes.
#[derive(Debug)]
struct Choice {
    conn: PreparedInsert<1>,
    way: Way,
}

/// What became of a first packet.
#[derive(Debug)]
pub(crate) enum Opened {
    /// It may be sent there.
    Sent(PortId),
    /// The general way is to be taken, with the backend that was chosen for it.
    General(Option<BackendId>),
}

/// The openings of a burst, and what the short way keeps between bursts.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    all: ArrayVec<Opening, BURST>,
    choices: ArrayVec<Choice, BURST>,
    roads: Roads,
    /// Whether a packet of this burst has gone the general way: then it may have
    /// opened the connection that another is about to open.
    disturbed: bool,
}

impl Openings {
    /// Takes those packets of `fresh` that open connections in the usual way,
    /// and notes them in `told`, which is of the whole burst.
    pub(crate) fn prepare<O>(
        &mut self,
        cx: &Context<'_, O>,
        hops: &mut Hops,
        scheduling: &mut Scheduling,
        fresh: &Fresh,
        told: &mut [Told],
    ) {
        self.all.clear();
        self.choices.clear();
        self.disturbed = false;
        let mut seen = Seen::default();
        let (mut barred, mut waiting) = (false, false);
        let mut candidates = fresh.iter().enumerate().peekable();
        for (place, told) in told.iter_mut().enumerate() {
            let candidate = candidates.next_if(|(_, (at, _))| usize::from(*at) == place);
            let Some((at, (_, plain))) = candidate else {
                barred |= !matches!(told, Told::Table(_));
                continue;
            };
            let earlier =
                || fresh.iter().take(at).any(|(_, other)| Key::from(other) == Key::from(plain));
            // Of two packets of one connection the second is of a known one.
            let again = seen.maybe(plain) && earlier();
            let taken = if again { None } else { self.take(cx, hops, plain, barred) };
            let Some((number, scheduler)) = taken else {
                barred = true;
                continue;
            };
            *told = Told::Open(number);
            waiting |= barred;
            barred = false;
            if !waiting || scheduler == Scheduler::Maglev {
                waiting |= !self.choose(cx, hops, scheduling, usize::from(number));
            }
        }
    }

    /// A packet has gone the general way.
    #[inline]
    pub(crate) fn disturb(&mut self) {
        self.disturbed = true;
    }

    /// Takes one packet, if it opens a connection in the usual way; its number,
    /// and how its backend is chosen.
    #[inline]
    fn take<O>(
        &mut self,
        cx: &Context<'_, O>,
        hops: &mut Hops,
        plain: &FastHeader<1>,
        barred: bool,
    ) -> Option<(u8, Scheduler)> {
        let key = Key::from(plain);
        let FlowKey::V4(flow) = FlowKey::from(&key) else { return None };
        let service = cx.snapshot.services.lookup_v4(flow.dst, flow.dport, flow.proto)?;
        if !matches!(service.mode(), Mode::Nat) || !miss::is_client(cx, flow.src.into()) {
            return None;
        }
        let back = self.roads.client(cx, hops.era(), flow.src)?;
        // Its Ethernet address is known, so there is nothing to ask for.
        hops.way(cx, back)?;
        let number = u8::try_from(self.all.len()).ok()?;
        let (service, scheduler) = (service.id(), service.scheduler());
        let (length, flags, next) = (plain.length, plain.flags, Next::Choose);
        self.all.try_push(Opening { key, service, back, length, flags, barred, next }).ok()?;
        Some((number, scheduler))
    }

    /// Chooses the backend of opening `at`, and fetches what its insertion needs.
    /// `false`: it goes the general way, and other choices wait until it has gone.
    #[inline]
    fn choose<O>(
        &mut self,
        cx: &Context<'_, O>,
        hops: &mut Hops,
        scheduling: &mut Scheduling,
        at: usize,
    ) -> bool {
        let next = self.decide(cx, hops, scheduling, at);
        if let Some(opening) = self.all.get_mut(at) {
            opening.next = next;
        }
        !matches!(next, Next::General(_))
    }

    #[inline(always)]
    fn decide<O>(
        &mut self,
        cx: &Context<'_, O>,
        hops: &mut Hops,
        scheduling: &mut Scheduling,
        at: usize,
    ) -> Next {
        let none = Next::General(None);
        let Some(Opening { key, service, back, length, flags, .. }) = self.all.get(at) else {
            return none;
        };
        let Some(service) = cx.snapshot.services.service(*service) else { return none };
        let flow = FlowKey::from(key);
        if self.disturbed && cx.shared.table.lookup(&flow).is_some() {
            return none;
        }
        // Once insertions have been refused, only Maglev chooses, for a while:
        // then there is no need to try one in order to be refused.
        let full = !scheduling.is_calm(cx.now_ms) && cx.shared.table.refuses::<1>();
        let chosen = miss::choose(cx, scheduling, service, &flow, *flags);
        let (Some(backend), general) = (chosen, Next::General(chosen)) else { return none };
        let Some(server) = service.nat_server(backend, flow.dst().port()) else { return general };
        let Some(hop) = self.roads.server(cx, hops.era(), *server.ip()) else { return general };
        let way = hops.way(cx, hop).filter(|way| way.takes(*length as usize + ETHERNET));
        let (Some(&way), Ok(number)) = (way, u8::try_from(self.choices.len())) else {
            return general;
        };
        let owner = (service.id(), backend);
        let Some(answers) = key.answered_by(server.into()) else { return general };
        let conn = cx.shared.table.prepare_insert([*key, answers], owner, [hop, *back]);
        if self.choices.try_push(Choice { conn, way }).is_err() {
            return general;
        }
        if full {
            scheduling.full_ms = Some(cx.now_ms);
            return Next::Pass(number);
        }
        // Counted at once: the next packet's choice may depend on it.
        cx.shared.active.opened(backend);
        Next::Insert(number)
    }

    /// Chooses the backend of opening `at` and of those behind it up to a bar.
    #[cold]
    #[inline(never)]
    fn choose_from<O>(
        &mut self,
        cx: &Context<'_, O>,
        hops: &mut Hops,
        scheduling: &mut Scheduling,
        at: usize,
    ) {
        let behind = self.all.iter().skip(at + 1);
        let run = 1 + behind.take_while(|opening| !opening.barred).count();
        for at in at..at + run {
            let waits = |opening: &Opening| matches!(opening.next, Next::Choose);
            if self.all.get(at).is_some_and(waits) && !self.choose(cx, hops, scheduling, at) {
                break;
            }
        }
    }

    /// Opens connection number `at` and makes `frame`, its first packet, what
    /// the server gets.
    #[inline]
    pub(crate) fn open<B: PacketBuf, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        hops: &mut Hops,
        scheduling: &mut Scheduling,
        at: u8,
        frame: &mut [u8],
    ) -> Opened {
        let at = usize::from(at);
        if self.all.get(at).is_some_and(|opening| matches!(opening.next, Next::Choose)) {
            self.choose_from(cx, hops, scheduling, at);
        }
        let Some(opening) = self.all.get(at) else { return Opened::General(None) };
        let number = match opening.next {
            Next::Choose => return Opened::General(None),
            Next::General(chosen) => return Opened::General(chosen),
            Next::Insert(number) | Next::Pass(number) => number,
        };
        let Some(Choice { conn, way }) = self.choices.get(usize::from(number)) else {
            return Opened::General(None);
        };
        // What is near is looked at now: more of the table may be needed for it.
        if let Some(near) = self.choices.get(usize::from(number) + NEAR) {
            cx.shared.table.prefetch_further(&near.conn);
        }
        let fits = match opening.next {
            Next::Pass(_) => pass(cx, conn),
            _ => insert(cx, conn),
        };
        if !fits {
            return Opened::General(Some(conn.backend()));
        }
        cx.count(Counter::Missed);
        way.write(frame);
        conn.action().rewrite.apply(frame, 0, opening.key.proto);
        cx.count(Counter::ForwardedPackets);
        Opened::Sent(way.port)
    }
}

/// Puts the connection into the table; `false`: there was something in the way.
#[inline]
fn insert<B: PacketBuf, O: Outbox<B>>(cx: &mut Context<'_, O>, conn: &PreparedInsert<1>) -> bool {
    let Ok(id) = cx.shared.table.insert_prepared(conn, cx.now_ms) else {
        cx.shared.active.closed(conn.backend());
        return false;
    };
    cx.count(Counter::Installed);
    if cx.snapshot.admit == AdmissionPolicy::FirstPacket {
        want(cx, id);
    }
    true
}

/// Counts a packet that is sent on without state; `false`: its answers would be
/// taken for those of another connection.
#[inline]
fn pass<O>(cx: &Context<'_, O>, conn: &PreparedInsert<1>) -> bool {
    let fits = !cx.shared.table.conflicts(conn);
    if fits {
        cx.count(Counter::TableFullSeen);
        cx.count(Counter::Stateless);
    }
    fits
}

/// A set of 5-tuples that may say that one is in which isn't. Whoever chooses
/// 5-tuples that agree here makes the burst compare them one by one.
#[derive(Debug, Default)]
struct Seen([u64; 16]);

impl Seen {
    /// Whether the packet's 5-tuple may have been here before.
    #[inline]
    fn maybe(&mut self, plain: &FastHeader<1>) -> bool {
        let ports = u64::from(plain.ports).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (plain.addresses[0] ^ ports).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 54;
        let Some(word) = self.0.get_mut(hash as usize / 64) else { return true };
        let bit = 1 << (hash % 64);
        let before = *word & bit != 0;
        *word |= bit;
        before
    }
}
