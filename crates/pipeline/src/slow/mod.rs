//! The general way of a packet: whatever is not for the fast lane or the short
//! way of first packets is parsed, matched and acted on here, and answers,
//! errors and fragments have their beginning here.
use conntrack::Event;
use flow::{BackendId, Direction};
use packet::PacketBuf;
use state::Counter;
use wire::icmp::ErrorKind;
use wire::{FlowKey, Fragment};

use crate::Outbox;
use crate::act;
use crate::arp::arp;
use crate::context::{Context, Decision, Packet};
use crate::fragment::{FragmentKey, Later};
use crate::icmp::icmp;
use crate::known::{known, notice, segment, touch};
use crate::lane::{TellTale, Told};
use crate::matching::{Found, Job, Jobs, match_burst, told_action};
use crate::miss::miss;
use crate::ndp::ndp;
use crate::parse::{Kind, parse, plain};
use crate::pipeline::Memory;
use crate::reopening::{reopen, reopened};
use crate::stateless::is_misplaced;

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
    /// Parses and matches those of which nothing is known.
    pub(crate) fn sort<O>(
        &mut self,
        cx: &Context<'_, O>,
        burst: &[B],
        told: &mut TellTale,
        jobs: &mut Jobs,
    ) {
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

    /// A packet that turned out not to be for the fast lane. If it opens a
    /// connection, then to the backend that is chosen.
    #[cold]
    #[inline(never)]
    pub(crate) fn general<O: Outbox<B>>(
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
    pub(crate) fn finish<O: Outbox<B>>(&mut self, cx: &mut Context<'_, O>, job: Job, buf: B) {
        self.openings.disturb();
        let Job { headers, interface, kind, mark, found } = job;
        let packet = Packet { buf, headers, interface };
        match kind {
            Kind::Flow(key) if self.is_forged(cx, &packet, &key, found) => {
                cx.count(Counter::WrongSide);
            }
            Kind::Flow(key) if reopened(&packet.headers, found).is_some() => {
                let decision = self.reopen(cx, &packet, &key, mark, found);
                self.act(cx, packet, decision);
            }
            Kind::Flow(_) if is_plain(&packet, found) => self.pass(cx, packet, found),
            Kind::Flow(key) => {
                let decision = self.decide(cx, &packet, &key, mark, found);
                self.act(cx, packet, decision);
            }
            Kind::Later(key) => self.later(cx, key, packet),
            Kind::Arp => arp(cx, packet),
            Kind::Ndp => ndp(cx, packet),
            Kind::Icmp => icmp(cx, &mut self.errors, packet),
        }
    }

    /// Whether a packet that would change its connection's state says that it is
    /// from the backend, but came in elsewhere.
    #[inline]
    fn is_forged<O>(
        &self,
        cx: &Context<'_, O>,
        packet: &Packet<B>,
        key: &FlowKey,
        found: Found,
    ) -> bool {
        let Found::Conn(hit) = found else { return false };
        let flags = packet.headers.tcp_flags;
        hit.direction == Direction::Reply
            && !cx.shared.table.is_unmoved_by(hit, flags)
            && is_misplaced(cx, key.src().ip(), packet.interface)
    }

    /// A SYN on the 5-tuple of a known connection.
    #[cold]
    fn reopen<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        packet: &Packet<B>,
        key: &FlowKey,
        mark: Option<u32>,
        found: Found,
    ) -> Result<Decision, Counter> {
        let found = match reopened(&packet.headers, found) {
            Some(hit) => reopen(cx, &mut self.scheduling, hit, key, &packet.headers)?,
            None => found,
        };
        let decision = self.decide(cx, packet, key, mark, found);
        self.scheduling.chosen = None;
        decision
    }

    /// Takes a packet of a known connection to where it goes.
    #[inline]
    fn pass<O: Outbox<B>>(&mut self, cx: &mut Context<'_, O>, packet: Packet<B>, found: Found) {
        let Found::Conn(hit) = found else { return };
        self.reminder.found(cx, hit);
        // Only looked at in place: a copy would wait for its making.
        match &cx.shared.table.serve(hit, segment(&packet.headers), cx.now_ms) {
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
        packet: &Packet<B>,
        key: &FlowKey,
        mark: Option<u32>,
        found: Found,
    ) -> Result<Decision, Counter> {
        let Packet { headers, interface, .. } = packet;
        match found {
            Found::Queue(sample) => {
                if let Some(hit) = sample {
                    touch(cx, hit, segment(headers));
                }
                let port = cx.shared.port(cx.from.port).ok_or(Counter::NotRewritable)?;
                let action = told_action(cx, port, mark).ok_or(Counter::NotRewritable)?;
                Ok(Decision { delivery: action.delivery, hop: action.hop })
            }
            Found::Conn(hit) => {
                self.reminder.found(cx, hit);
                known(cx, hit, headers).ok_or(Counter::NotRewritable)
            }
            Found::Nothing => miss(cx, &mut self.scheduling, key, headers, *interface),
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
