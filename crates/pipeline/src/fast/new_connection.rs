//! Packets that open a connection of a service of any mode but `fullnat`: those
//! with a fast header, SYN or UDP, whose connection the burst's lookup did not find.
//!
//! Backends are chosen ahead, so that the cache lines of a burst's insertions are
//! fetched together; insertion, rewriting and sending ([`choice`](super::choice)) are
//! one step in the third pass.
//! The insertion itself finds out under its lock whether a key is new; there is no
//! second lookup. Every other packet is left to the slow path, with the backend that
//! was chosen for it.
//!
//! Schedulers that remember are asked in the order of the packets. So a packet that
//! the slow path may have to schedule is a bar: choices behind it wait until that
//! packet has been served.
//!
//! Next: out, or the slow path.
use arrayvec::ArrayVec;
use conntrack::{FastKey, Key};
use flow::{BackendId, HopId, Scheduler, ServiceId};
use packet::PacketBuf;
use service::{FirstAnswer, Opening};
use wire::{FastHeader, FlowKey, TcpFlags};

use crate::Outbox;
use crate::context::Context;
use crate::fast::choice::{Choice, Choices, insert, open_as, pass};
use crate::fast::fresh::{Candidates, Fresh, Seen};
use crate::fast::{Link, Outcome};
use crate::next_hop_cache::{ETHERNET, NextHopCache};
use crate::pipeline::{BURST, Stages};
use crate::refusals::Refused;
use crate::scheduling::Scheduling;
use crate::source::is_client;
use crate::verdict::Verdict;

/// A connection that is about to be opened.
#[derive(Debug)]
struct NewConnection {
    flow: FlowKey,
    service: ServiceId,
    /// The next hop of the answers.
    back: HopId,
    /// The first packet's IP length and TCP flags.
    length: u32,
    flags: TcpFlags,
    /// Whether the slow path may have to schedule a packet between the previous new
    /// connection and this one.
    barred: bool,
    first_answer: FirstAnswer,
    next: Next,
}

/// The next step for a connection that is about to be opened. Choices are numbered
/// within their family.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// A backend is to be chosen.
    Choose,
    /// The choice with this number is inserted.
    Insert(u8),
    /// The table refuses the connection: the packet is sent as the choice with this
    /// number says, without an insertion.
    Pass(u8, Refused),
    /// The packet takes the slow path, with the backend that was chosen.
    Slow(Option<BackendId>),
}

/// The new connections of a burst, and the state that their opening keeps between
/// bursts.
#[derive(Debug, Default)]
pub(crate) struct NewConnections {
    all: ArrayVec<NewConnection, BURST>,
    choices_v4: Choices<1>,
    choices_v6: Choices<4>,
    /// Whether a packet of this burst has taken the slow path, which may have opened
    /// the connection that another packet is about to open.
    disturbed: bool,
}

impl NewConnections {
    /// Takes the packets of `fresh` that open connections in the usual way, and
    /// notes them in `verdicts`, which are those of the whole burst.
    pub(crate) fn prepare<O>(
        &mut self,
        cx: &Context<'_, O>,
        next_hops: &mut NextHopCache,
        scheduling: &mut Scheduling,
        fresh: &Fresh,
        verdicts: &mut [Verdict],
    ) {
        self.all.clear();
        self.choices_v4.clear();
        self.choices_v6.clear();
        self.disturbed = false;
        if cx.shared.awaited().any() {
            // The slow path looks which packets these are.
            return;
        }
        let mut seen = Seen::default();
        let (mut barred, mut waiting) = (false, false);
        let (mut v4, mut v6) = (Candidates::new(&fresh.v4), Candidates::new(&fresh.v6));
        for (place, verdict) in verdicts.iter_mut().enumerate() {
            let taken = if let Some(header) = v4.at(place, &mut seen) {
                header.and_then(|header| self.take(cx, next_hops, header, barred))
            } else if let Some(header) = v6.at(place, &mut seen) {
                header.and_then(|header| self.take(cx, next_hops, header, barred))
            } else {
                barred |= !matches!(verdict, Verdict::Found(_));
                continue;
            };
            let Some((number, scheduler)) = taken else {
                barred = true;
                continue;
            };
            *verdict = Verdict::Opens(number);
            waiting |= barred;
            barred = false;
            if !waiting || !scheduler.remembers() {
                waiting |= !self.choose(cx, next_hops, scheduling, usize::from(number));
            }
        }
    }

    /// Notes that a packet has taken the slow path.
    #[inline]
    pub(crate) const fn disturb(&mut self) {
        self.disturbed = true;
    }

    /// Takes one packet if it opens a connection in the usual way; returns its
    /// number, and how its backend is chosen.
    #[inline]
    fn take<const K: usize, O>(
        &mut self,
        cx: &Context<'_, O>,
        next_hops: &mut NextHopCache,
        header: &FastHeader<K>,
        barred: bool,
    ) -> Option<(u8, Scheduler)>
    where
        Key<K>: FastKey<K>,
    {
        let flow = FlowKey::from(&Key::from(header));
        let service = cx.snapshot.services.lookup(&flow)?;
        let client = flow.src().ip();
        let Opening { is_usual, scheduler, first_answer } = service.opening();
        if !is_usual || !is_client(cx, client) {
            return None;
        }
        let back = next_hops.client(cx, client)?;
        // The hop's Ethernet address is known, so no request is needed.
        next_hops.get(cx, back)?;
        let number = u8::try_from(self.all.len()).ok()?;
        let service = service.id();
        let (length, flags, next) = (header.length, header.flags, Next::Choose);
        let new = NewConnection { flow, service, back, length, flags, barred, first_answer, next };
        self.all.try_push(new).ok()?;
        Some((number, scheduler))
    }

    /// Chooses the backend of new connection `at`, and fetches what its insertion
    /// needs. `false`: the packet takes the slow path, and other choices wait until
    /// it has been served.
    #[inline]
    fn choose<O>(
        &mut self,
        cx: &Context<'_, O>,
        next_hops: &mut NextHopCache,
        scheduling: &mut Scheduling,
        at: usize,
    ) -> bool {
        let Self { all, choices_v4, choices_v6, disturbed } = self;
        let Some(new) = all.get_mut(at) else { return false };
        new.next = match &new.flow {
            FlowKey::V4(flow) => {
                let key = Key::from(flow);
                decide(cx, next_hops, scheduling, new, key, choices_v4, *disturbed)
            }
            FlowKey::V6(flow) => {
                let key = Key::from(flow);
                decide(cx, next_hops, scheduling, new, key, choices_v6, *disturbed)
            }
        };
        !matches!(new.next, Next::Slow(_))
    }

    /// Chooses the backend of new connection `at` and of those behind it up to a
    /// bar.
    #[cold]
    #[inline(never)]
    fn choose_from<O>(
        &mut self,
        cx: &Context<'_, O>,
        next_hops: &mut NextHopCache,
        scheduling: &mut Scheduling,
        at: usize,
    ) {
        let behind = self.all.iter().skip(at + 1);
        let run = 1 + behind.take_while(|new| !new.barred).count();
        for at in at..at + run {
            let waits = |new: &NewConnection| matches!(new.next, Next::Choose);
            if self.all.get(at).is_some_and(waits) && !self.choose(cx, next_hops, scheduling, at) {
                break;
            }
        }
    }

    /// Opens connection number `at` and turns its first packet, `buf`, into what the
    /// server gets.
    #[inline]
    fn open<const TAGGED: bool, B: PacketBuf, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        link: Link<'_, TAGGED>,
        next_hops: &mut NextHopCache,
        scheduling: &mut Scheduling,
        at: u8,
        buf: &mut B,
    ) -> Outcome {
        let at = usize::from(at);
        if self.all.get(at).is_some_and(|new| matches!(new.next, Next::Choose)) {
            self.choose_from(cx, next_hops, scheduling, at);
        }
        let Some(new) = self.all.get(at) else { return Outcome::Left(None) };
        let first_answer = new.first_answer;
        match (new.next, &new.flow) {
            (Next::Choose, _) => Outcome::Left(None),
            (Next::Slow(chosen), _) => Outcome::Left(chosen),
            (Next::Insert(number), FlowKey::V4(_)) => open_as(
                cx,
                link,
                &self.choices_v4,
                number,
                |cx, conn| insert(cx, conn, first_answer),
                buf,
            ),
            (Next::Insert(number), FlowKey::V6(_)) => open_as(
                cx,
                link,
                &self.choices_v6,
                number,
                |cx, conn| insert(cx, conn, first_answer),
                buf,
            ),
            (Next::Pass(number, why), FlowKey::V4(_)) => {
                open_as(cx, link, &self.choices_v4, number, |cx, conn| pass(cx, conn, why), buf)
            }
            (Next::Pass(number, why), FlowKey::V6(_)) => {
                open_as(cx, link, &self.choices_v6, number, |cx, conn| pass(cx, conn, why), buf)
            }
        }
    }
}

/// What happens to a new connection once its backend is chosen.
#[inline(always)]
fn decide<const K: usize, O>(
    cx: &Context<'_, O>,
    next_hops: &mut NextHopCache,
    scheduling: &mut Scheduling,
    new: &NewConnection,
    key: Key<K>,
    choices: &mut Choices<K>,
    disturbed: bool,
) -> Next
where
    Key<K>: FastKey<K>,
{
    let none = Next::Slow(None);
    let NewConnection { flow, service, back, length, flags, .. } = new;
    let Some(service) = cx.snapshot.services.service(*service) else { return none };
    if disturbed && cx.shared.table().lookup(&key).is_some() {
        return none;
    }
    // For a while after a refused insertion only Maglev chooses, so that no insertion
    // is tried just to be refused.
    let refused = match scheduling.is_calm(service.id(), flow, cx.now_ms) {
        true => None,
        false => refusal(cx, service.id(), &key),
    };
    let chosen = scheduling.choose(cx, service, flow, *flags);
    let (Some(backend), slow) = (chosen, Next::Slow(chosen)) else { return none };
    let server = service.server(backend, flow.dst().port());
    let Some(server) = server.filter(|server| server.ip() != flow.src().ip()) else {
        return slow;
    };
    let Some(hop_id) = next_hops.server(cx, server.ip()) else { return slow };
    let (owner, hops) = ((service.id(), backend, service.forwarding()), [hop_id, *back]);
    let Some(answers) = key.answers(server, service.forwarding()) else { return slow };
    let conn = cx.shared.table().prepare_insert([key, answers], owner, hops);
    let grown = match conn.tunnel() {
        None => 0,
        Some(backend) => match cx.snapshot.tunnels.get(backend) {
            Some(encap) => usize::from(encap.overhead()),
            None => return slow,
        },
    };
    let sent = ETHERNET + *length as usize + grown;
    let hop = next_hops.get(cx, hop_id).filter(|hop| hop.takes(sent));
    let (Some(&hop), Ok(number)) = (hop, u8::try_from(choices.len())) else { return slow };
    if choices.try_push(Choice::new(conn, hop)).is_err() {
        return slow;
    }
    if let Some(why) = refused {
        if !cx.snapshot.services.claims(service, backend, flow) {
            return slow;
        }
        scheduling.refused(service.id(), flow, why, cx.now_ms);
        return Next::Pass(number, why);
    }
    // The connection is counted at once: the next packet's choice may depend on it.
    cx.shared.loads().opened(backend);
    Next::Insert(number)
}

/// Why the table would refuse the connection of a client with `key`.
#[cold]
fn refusal<const K: usize, O>(
    cx: &Context<'_, O>,
    service: ServiceId,
    key: &Key<K>,
) -> Option<Refused>
where
    Key<K>: FastKey<K>,
{
    if cx.shared.table().refuses::<K>() {
        return Some(Refused::Full);
    }
    cx.shared.table().limit(service, key).map(Refused::Limited)
}

impl<B: PacketBuf> Stages<B> {
    /// Serves packets that open connections, as many as follow each other. Returns
    /// how many were served.
    #[inline(never)]
    pub(crate) fn serve_opening<const TAGGED: bool, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        link: Link<'_, TAGGED>,
        packets: &mut impl Iterator<Item = B>,
        verdicts: &[Verdict],
    ) -> usize {
        let mut rest = verdicts;
        while let [Verdict::Opens(at), behind @ ..] = rest {
            let Some(mut buf) = packets.next() else { break };
            rest = behind;
            let Self { next_hops, scheduling, new_connections, .. } = self;
            match new_connections.open(cx, link, next_hops, scheduling, *at, &mut buf) {
                Outcome::Forwarded(port) => cx.out.send(port, buf),
                Outcome::Left(chosen) => self.slow(cx, buf, chosen),
            }
        }
        verdicts.len() - rest.len()
    }
}
