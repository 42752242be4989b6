//! The slow path: it serves the packets that the fast path leaves, and is where
//! answers and errors begin.
//!
//! ```text
//! parse ─┬─ TCP, UDP ─► matching ─┬─ mark, queue or table knows it ─► act ─► out
//!        │                        ├─ no connection ─► miss: schedule ─► act ─► out
//!        │                        ├─ a service of requests ─► spliced: the L7 agent ► out
//!        │                        └─ one that ends TLS ─► terminated: to the terminator
//!        ├─ later fragments ─► fragment: as the first ──────────────► act ─► out
//!        ├─ ARP, neighbour discovery ─► answer: answered or learnt
//!        └─ ICMP ─► answer: echoes answered, errors translated ───────────► out
//!
//! none of these ─► exceptions: to the kernel, or a drop
//! ```
use conntrack::{Event, Hit};
use flow::{Account, BackendId, Direction};
use packet::PacketBuf;
use state::Counter;
use wire::icmp::ErrorKind;
use wire::{FlowKey, Fragment, Headers};

use crate::Outbox;
use crate::answer::arp::arp;
use crate::answer::icmp::icmp;
use crate::answer::ndp::ndp;
use crate::answer::refusal::refuse;
use crate::answer::revoked::reset_both;
use crate::context::{Context, Decision, Packet, account};
use crate::offload_requests::{decision, notice, segment, touch};
use crate::pipeline::Stages;
use crate::slow::fragment::{FragmentKey, Later};
use crate::slow::matching::{DECISIVE, match_burst, told_action};
pub(crate) use crate::slow::matching::{SlowPacket, SlowPackets};
use crate::slow::miss::miss;
use crate::slow::parse::{Kind, parse, parse_common};
use crate::slow::reopening::{reopen, reopened};
use crate::slow::stateless::{is_misplaced, sender};
use crate::verdict::{Verdict, Verdicts};

pub(crate) mod act;
pub(crate) mod asked;
pub(crate) mod exceptions;
pub(crate) mod fragment;
pub(crate) mod lent;
pub(crate) mod matching;
pub(crate) mod miss;
pub(crate) mod parse;
mod pending_fragments;
mod reopening;
pub(crate) mod spliced;
mod spliced_counters;
mod spliced_error;
pub(crate) mod stateless;
mod surroundings;
pub(crate) mod terminated;
pub(crate) mod waiting;

/// Parses a packet; `None` if it is dropped and counted.
fn parsed<B: PacketBuf, O>(cx: &Context<'_, O>, buf: &B) -> Option<SlowPacket> {
    let (mark, verdict, sample) = (buf.mark(), Verdict::Unknown, None);
    let found = match parse_common(cx, buf.bytes()) {
        Some((headers, interface, key)) => Ok((headers, interface, Kind::Flow(key))),
        None => parse(cx, buf.bytes()),
    };
    let found = found.map(|(headers, interface, kind)| SlowPacket {
        headers,
        interface,
        kind,
        mark,
        verdict,
        sample,
    });
    found.map_err(|counter| cx.count(counter)).ok()
}

/// Whether a packet is checked before anything is done to it, because it decides on
/// its datagram's other fragments or on its connection. A packet of no known
/// connection is checked before it opens one; a packet that opens none, for instance
/// to a stateless service, is forwarded as the card would forward it.
fn must_be_sound(headers: &Headers, verdict: Verdict) -> bool {
    headers.fragment != Fragment::Whole
        || headers.tcp_flags.any(DECISIVE)
            && matches!(verdict, Verdict::Marked(_) | Verdict::Found(_))
}

impl<B: PacketBuf> Stages<B> {
    /// Parses and matches the packets that have no verdict.
    pub(crate) fn parse_and_match<O>(
        &mut self,
        cx: &Context<'_, O>,
        burst: &[B],
        verdicts: &mut Verdicts,
        packets: &mut SlowPackets,
    ) {
        for (buf, verdict) in burst.iter().zip(verdicts.iter_mut()) {
            if !matches!(verdict, Verdict::Unknown) {
                continue;
            }
            *verdict = Verdict::Dropped;
            if let Some(packet) = parsed(cx, buf).filter(|_| !packets.is_full()) {
                packets.push(packet);
                *verdict = Verdict::Slow;
            }
        }
        match_burst(cx, &mut self.sampler, packets);
    }

    /// Serves a packet that the fast path has left. If it opens a connection, the
    /// connection gets the backend that is already chosen.
    #[cold]
    #[inline(never)]
    pub(crate) fn slow<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        buf: B,
        chosen: Option<BackendId>,
    ) {
        let Some(mut packet) = parsed(cx, &buf) else { return };
        match_burst(cx, &mut self.sampler, std::slice::from_mut(&mut packet));
        self.scheduling.hand_on(chosen);
        self.finish(cx, packet, buf);
        self.scheduling.hand_on(None);
    }

    /// Serves a packet that has been parsed and matched.
    pub(crate) fn finish<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        known: SlowPacket,
        buf: B,
    ) {
        self.new_connections.disturb();
        let SlowPacket { headers, interface, kind, mark, verdict, sample } = known;
        if let (Kind::Flow(key), Verdict::Unknown) = (&kind, verdict) {
            if let Some(sender) = terminated::sender(cx, key) {
                let packet = Packet { buf, headers, interface };
                return terminated::terminate(cx, packet, key, sender);
            }
            if let Some(worker) = self.spliced.owner(cx, key) {
                return cx.hand_over(worker, buf);
            }
        }
        let packet = Packet { buf, headers, interface };
        if matches!(kind, Kind::Icmp)
            && let Some(sender) = terminated::reported(cx, &packet)
        {
            return terminated::report(cx, packet, sender);
        }
        match (kind, verdict) {
            (Kind::Flow(_), _)
                if must_be_sound(&packet.headers, verdict) && packet.check().is_err() =>
            {
                self.drop_unsound(cx, packet);
            }
            (Kind::Flow(key), Verdict::Unknown) if self.spliced(cx, &key).is_some() => {
                self.splice(cx, packet, &key);
            }
            (Kind::Flow(key), _) if self.is_forged(cx, &packet, &key, verdict) => {
                cx.count(Counter::WrongSide);
            }
            (Kind::Flow(key), _) if reopened(&packet.headers, verdict).is_some() => {
                let decision = self.reopen(cx, &packet, &key, mark, verdict);
                self.act(cx, packet, decision);
            }
            (Kind::Flow(_), Verdict::Marked(hit) | Verdict::Found(hit))
                if packet.headers.fragment == Fragment::Whole =>
            {
                self.pass(cx, packet, hit);
            }
            (Kind::Flow(key), _) => {
                let decision = self.decide(cx, &packet, &key, mark, (verdict, sample));
                self.act(cx, packet, decision);
            }
            (Kind::Later(key), _) => self.later_fragment(cx, key, packet),
            (Kind::Arp, _) => arp(cx, &mut self.exceptions, packet),
            (Kind::Ndp, _) => ndp(cx, &mut self.exceptions, packet),
            (Kind::Icmp, _) if self.is_about_spliced(cx, &packet) => {
                self.spliced_error(cx, packet);
            }
            (Kind::Icmp, _) => {
                let Self { acting, echoes, exceptions, .. } = self;
                icmp(cx, &mut acting.errors, echoes, exceptions, packet);
            }
            (Kind::Unserved(counter), _) => self.exceptions.give_or_count(cx, packet, counter),
        }
    }

    /// Drops a packet that [`Packet::check`] refuses, and the fragments behind it.
    #[cold]
    fn drop_unsound<O: Outbox<B>>(&mut self, cx: &mut Context<'_, O>, packet: Packet<B>) {
        if let Err(malformed) = packet.check() {
            self.act(cx, packet, Err(malformed.into()));
        }
    }

    /// Whether a packet that would change its connection's state claims to be from
    /// the backend, but came in elsewhere.
    #[inline]
    fn is_forged<O>(
        &self,
        cx: &Context<'_, O>,
        packet: &Packet<B>,
        key: &FlowKey,
        verdict: Verdict,
    ) -> bool {
        let (Verdict::Marked(hit) | Verdict::Found(hit)) = verdict else { return false };
        let flags = packet.headers.tcp_flags;
        hit.direction == Direction::Reply
            && !cx.shared.table().is_unmoved_by(hit, flags)
            && is_misplaced(cx, sender(cx, key), packet.interface)
    }

    /// Serves a SYN on the 5-tuple of a known connection.
    #[cold]
    fn reopen<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        packet: &Packet<B>,
        key: &FlowKey,
        mark: Option<u32>,
        verdict: Verdict,
    ) -> Result<Decision, Counter> {
        let verdict = match reopened(&packet.headers, verdict) {
            Some(hit) => reopen(cx, &mut self.scheduling, hit, key, &packet.headers)?,
            None => verdict,
        };
        let decision = self.decide(cx, packet, key, mark, (verdict, None));
        self.scheduling.hand_on(None);
        decision
    }

    /// Serves a whole packet of a known connection.
    #[inline]
    fn pass<O: Outbox<B>>(&mut self, cx: &mut Context<'_, O>, packet: Packet<B>, hit: Hit) {
        self.reminder.found(cx, hit);
        // The packet is only read in place: a copy would wait for its own stores.
        match &cx.shared.table().serve(hit, segment(&packet.headers), cx.now_ms) {
            Some((action, event)) => {
                if *event == Event::Revoked {
                    return reset_both(cx, &mut self.acting, packet, action);
                }
                if *event != Event::None {
                    notice(cx, hit, *event);
                }
                let to = (action.hop, Some(account(action)));
                act::forward(cx, &mut self.acting, packet, &action.delivery, to);
            }
            None => cx.count(Counter::NotRewritable),
        }
    }

    /// The decision on the packet with `key`, or the reason for its drop.
    #[inline]
    fn decide<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        packet: &Packet<B>,
        key: &FlowKey,
        mark: Option<u32>,
        (verdict, sample): (Verdict, Option<Hit>),
    ) -> Result<Decision, Counter> {
        let headers = &packet.headers;
        match verdict {
            Verdict::Queued | Verdict::Shared(_) => {
                if let Some(hit) = sample {
                    touch(cx, hit, segment(headers));
                }
                let port = cx.shared.port(cx.from.port).ok_or(Counter::NotRewritable)?;
                let action = told_action(cx, port, mark).ok_or(Counter::NotRewritable)?;
                let account = Account { backend: action.backend, direction: action.direction };
                Ok(Decision { delivery: action.delivery, hop: action.hop, account: Some(account) })
            }
            Verdict::Marked(hit) | Verdict::Found(hit) => {
                self.reminder.found(cx, hit);
                decision(cx, hit, headers).ok_or(Counter::NotRewritable)
            }
            _ => miss(cx, &mut self.scheduling, key, packet),
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
                act::forward(cx, &mut self.acting, packet, &decision.delivery, decision.to())
            }
            Err(Counter::TtlExpired) => {
                let (kind, dropped) = (ErrorKind::TimeExceeded, Counter::TtlExpired);
                act::refuse(cx, &mut self.acting.errors, packet, kind, dropped);
            }
            Err(counter) => {
                if let Some(packet) = self.exceptions.give(cx, packet, *counter) {
                    refuse(cx, &mut self.acting.errors, packet, *counter);
                }
            }
        }
        if let Some(key) = first {
            self.first_fragment(cx, key, decision.ok());
        }
    }

    /// The fate of a datagram's first fragment is that of all others.
    #[cold]
    fn first_fragment<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        key: FragmentKey,
        decision: Option<Decision>,
    ) {
        self.fragments.first(key, decision, cx.now_ms);
        self.displaced_fragments(cx);
        while let Some(packet) = self.fragments.release(&key) {
            cx.counters.sub(Counter::FragmentsHeld, 1);
            match &decision {
                Some(decision) => {
                    act::forward(cx, &mut self.acting, packet, &decision.delivery, decision.to())
                }
                None => self.exceptions.give_or_count(cx, packet, Counter::FragmentOrphaned),
            }
        }
    }

    /// Forwards a later fragment like the first one.
    #[cold]
    fn later_fragment<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        key: FragmentKey,
        packet: Packet<B>,
    ) {
        if let Err(malformed) = packet.check() {
            return cx.count(malformed.into());
        }
        let later = self.fragments.later(key, packet, cx.now_ms);
        self.displaced_fragments(cx);
        match later {
            Later::Forward(packet, decision) => {
                act::forward(cx, &mut self.acting, packet, &decision.delivery, decision.to());
            }
            Later::Held => cx.count(Counter::FragmentsHeld),
            Later::Overflow => cx.count(Counter::FragmentOverflow),
            Later::Orphaned(packet) => {
                self.exceptions.give_or_count(cx, packet, Counter::FragmentOrphaned);
            }
        }
    }

    /// Counts the held fragments that have made room for others.
    fn displaced_fragments<O>(&mut self, cx: &Context<'_, O>) {
        let displaced = self.fragments.take_displaced();
        if displaced > 0 {
            cx.counters.add(Counter::FragmentOverflow, displaced);
            cx.counters.sub(Counter::FragmentsHeld, displaced);
        }
    }
}
