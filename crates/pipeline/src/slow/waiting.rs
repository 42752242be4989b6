//! Packets that wait for the Ethernet address of their next hop, which has been asked
//! for (RFC 1122 section 2.3.2.2, RFC 4861 section 7.2.2). Without them the first
//! packet to a station is lost: a client's SYN or its answer, which TCP sends again
//! after a second.
//!
//! The number of packets is fixed, for each next hop and for all. A packet that finds no
//! room takes the place of the oldest.
use std::collections::VecDeque;
use std::net::IpAddr;

use flow::{Account, HopId};
use packet::PacketBuf;
use service::Delivery;
use state::{Counter, Source};

use crate::Outbox;
use crate::context::{Context, Packet};
use crate::pipeline::Stages;
use crate::slow::{act, surroundings};

/// The most packets of one worker that wait for the Ethernet address of their next hop.
pub const WAITING: usize = 64;
/// Packets to one next hop: a request for an address that no station has must not take
/// the places of others.
const WAITING_FOR_HOP: usize = 3;
/// How long a packet waits, in milliseconds: by then its sender has sent it again.
const WAIT_MS: u64 = 1000;

/// A packet that waits.
pub(crate) struct Held<B> {
    packet: Packet<B>,
    from: Source,
    hop: HopId,
    since_ms: u64,
    then: Then,
}

/// What is done with a packet when its next hop is known.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    /// The act stage forwards it. It counts for the account, if for any.
    Forward(Delivery, Option<Account>),
    /// It leaves for this address as it is, and counts as this, and for the account.
    Send(IpAddr, Counter, Option<Account>),
}

/// The packets of one worker that wait, in the order of their arrival.
pub(crate) struct Waiting<B>(VecDeque<Held<B>>);

impl<B> Waiting<B> {
    /// No packet; the memory for all is taken here.
    pub(crate) fn new() -> Self {
        Self(VecDeque::with_capacity(WAITING))
    }

    /// Holds `packet` until the address of `hop` is known.
    #[cold]
    pub(crate) fn hold<O>(
        &mut self,
        cx: &Context<'_, O>,
        packet: Packet<B>,
        hop: HopId,
        then: Then,
    ) {
        let of_hop = || self.0.iter().enumerate().filter(|(_, held)| held.hop == hop);
        let oldest = of_hop().nth(WAITING_FOR_HOP - 1).and_then(|_| of_hop().next());
        let displaced = match oldest {
            Some((place, _)) => self.0.remove(place),
            None if self.0.len() == WAITING => self.0.pop_front(),
            None => None,
        };
        match displaced {
            Some(_) => cx.count(Counter::NeighbourUnresolved),
            None => cx.count(Counter::NeighbourHeld),
        }
        self.0.push_back(Held { packet, from: cx.from, hop, since_ms: cx.now_ms, then });
    }

    /// Takes the oldest packet at or behind `place` whose next hop is known now or has
    /// been forgotten, or that has waited too long; with its place.
    fn take<O>(&mut self, cx: &Context<'_, O>, place: usize) -> Option<(usize, Held<B>)> {
        let neighbours = cx.shared.neighbours();
        let may_leave = |held: &Held<B>| {
            let resolved = neighbours.resolve(held.hop, cx.now_ms);
            resolved.is_none_or(|(_, mac)| mac.is_some()) || held.is_late(cx.now_ms)
        };
        let at = self.0.iter().skip(place).position(may_leave)? + place;
        Some((at, self.0.remove(at)?))
    }
}

impl<B> Held<B> {
    fn is_late(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.since_ms) >= WAIT_MS
    }
}

impl<B: PacketBuf> Stages<B> {
    /// Sends the packets whose next hop has become known, and drops those that have waited
    /// too long.
    pub(crate) fn tick_waiting<O: Outbox<B>>(&mut self, cx: &mut Context<'_, O>) {
        let from = cx.from;
        // A packet whose next hop has been forgotten may wait for another one.
        let (mut place, mut left) = (0, self.acting.waiting.0.len());
        while left > 0
            && let Some((at, held)) = self.acting.waiting.take(cx, place)
        {
            (place, left) = (at, left - 1);
            cx.counters.sub(Counter::NeighbourHeld, 1);
            if held.is_late(cx.now_ms) {
                cx.count(Counter::NeighbourUnresolved);
                continue;
            }
            cx.from = held.from;
            self.resume(cx, held);
        }
        cx.from = from;
    }

    fn resume<O: Outbox<B>>(&mut self, cx: &mut Context<'_, O>, held: Held<B>) {
        let Held { mut packet, hop, then, .. } = held;
        match then {
            Then::Forward(delivery, account) => {
                act::forward(cx, &mut self.acting, packet, &delivery, (hop, account));
            }
            Then::Send(to, counter, account) => match surroundings::address(cx, &mut packet, to) {
                Ok(port) => {
                    cx.count(counter);
                    surroundings::carry(cx, &packet, account);
                    cx.out.send(port, packet.buf);
                }
                Err(counter) => cx.count(counter),
            },
        }
    }
}
