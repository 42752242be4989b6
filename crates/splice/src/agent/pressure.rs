//! Who goes when too many want to stay: slow clients and idle ones make room for others, so
//! that what an agent has is bounded, and no attack takes it all.
use packet::PacketBuf;

use super::Agent;
use crate::blocks::Block;
use crate::connection::{Conn, State};
use crate::order::Order;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::world::{Event, Fate, World};

/// Large blocks that are kept free: one packet takes no more.
const RESERVE: usize = 8;

/// So long a connection may stay, whoever comes.
const SPARED_MS: u64 = 1_000;
/// So long one that has ended may stay behind its last packet: a side that lacks an
/// acknowledgement repeats itself sooner.
const ENDED_MS: u64 = 500;
/// So long it may stay behind its end, whatever still comes: nobody keeps a place by packets
/// that say nothing.
const OVER_MS: u64 = 10_000;
/// Connections that have ended and are looked at for one that may go.
const LOOKS: usize = 8;

/// The connections that may have to go, the first of each first.
#[derive(Debug)]
pub(super) struct Orders {
    /// Those without a whole header, by age.
    young: Order,
    /// Those whose client has asked for nothing more, by their last packet but those of
    /// the fast path.
    idle: Order,
    /// Those that have ended, and linger for what is still on its way.
    ended: Order,
    /// Those that have a large block, by the time since when.
    holders: Order,
    reserve: usize,
}

impl Orders {
    pub(super) fn new(settings: &Settings) -> Self {
        let Settings { connections, headers, .. } = *settings;
        let order = || Order::new(connections);
        let reserve = RESERVE.min(headers / 4);
        Self { young: order(), idle: order(), ended: order(), holders: order(), reserve }
    }

    /// The connection `at` is as it is now.
    #[inline]
    pub(super) fn follow(&mut self, at: usize, conn: &Conn) {
        self.young.set(at, matches!(conn.state, State::Half | State::Front));
        self.idle.set(at, conn.is_settled());
        self.ended.set(at, conn.has_ended());
        self.holders.set(at, conn.has_large());
    }

    /// The connection `at` is no more.
    pub(super) fn forget(&mut self, at: usize) {
        for order in [&mut self.young, &mut self.idle, &mut self.ended, &mut self.holders] {
            order.set(at, false);
        }
    }

    /// A connection that has ended and of which nothing has come lately, as `is_quiet` says;
    /// one of which something has goes behind the others.
    fn ended(&mut self, is_quiet: impl Fn(usize) -> bool) -> Option<usize> {
        for _ in 0..LOOKS.min(self.ended.len()) {
            let at = self.ended.first()?;
            if is_quiet(at) {
                return Some(at);
            }
            self.ended.set(at, false);
            self.ended.set(at, true);
        }
        None
    }

    /// Connections whose client has asked for nothing more.
    pub(super) const fn idle(&self) -> usize {
        self.idle.len()
    }
}

impl Conn {
    const fn has_ended(&self) -> bool {
        matches!(self.state, State::Answered | State::Closing | State::Reset)
    }

    fn has_large(&self) -> bool {
        let blocks = [&self.block, &self.down.block];
        blocks.into_iter().flatten().any(Block::is_large)
            || [&self.edits, &self.down.edits]
                .into_iter()
                .any(|edits| edits.open().iter().any(|edit| edit.block.is_large()))
    }
}

impl Agent {
    /// Sees to it that the next packet finds the blocks that it needs.
    #[inline]
    pub(super) fn make_room<B: PacketBuf>(&mut self, now_ms: u64, world: &mut impl World<B>) {
        while self.common.blocks.free() < self.orders.reserve {
            let Some(at) = self.orders.holders.first() else { return };
            self.evict(at, now_ms, world);
        }
    }

    /// Sees to it that there is a place for another connection, if somebody can go.
    pub(super) fn make_place<B: PacketBuf>(&mut self, now_ms: u64, world: &mut impl World<B>) {
        if self.table.len() < self.common.settings.connections {
            return;
        }
        let table = &self.table;
        let quiet_ms = |at| {
            table.peek(at).map_or(0, |conn| now_ms.saturating_sub(conn.since_ms.max(conn.seen_ms)))
        };
        let is_over = |at| {
            let age_ms = table.peek(at).map_or(0, |conn| now_ms.saturating_sub(conn.since_ms));
            quiet_ms(at) >= ENDED_MS || age_ms >= OVER_MS
        };
        if let Some(at) = self.orders.ended(is_over) {
            self.act(at, now_ms, world, |_, conn, _| {
                conn.become_(State::Gone, now_ms);
                Fate::Taken
            });
            return;
        }
        let Orders { young, idle, .. } = &self.orders;
        let (young, idle) = (young.first(), idle.first());
        let old = |at: &usize| quiet_ms(*at) >= SPARED_MS;
        // A client may be slow, but not do anything all the time: its age counts.
        let slow = |at: &usize| {
            table.peek(*at).is_some_and(|conn| now_ms >= conn.since_ms.saturating_add(SPARED_MS))
        };
        let Some(at) = young.filter(slow).or_else(|| idle.filter(old)) else { return };
        self.act(at, now_ms, world, |common, conn, world| {
            world.count(Event::Evicted);
            match conn.state {
                State::Open => common.reset_both(conn, now_ms, world),
                _ => super::Common::dismiss(conn, now_ms, world),
            }
            conn.become_(State::Gone, now_ms);
            Fate::Taken
        });
    }

    /// Ends a connection for the sake of its blocks.
    #[cold]
    fn evict<B: PacketBuf>(&mut self, at: usize, now_ms: u64, world: &mut impl World<B>) {
        self.act(at, now_ms, world, |common, conn, world| {
            world.count(Event::Evicted);
            match conn.state {
                State::Front => common.answer(conn, Refusal::Slow, now_ms, world),
                State::Connecting(_) => {
                    common.reset_backend(conn, world);
                    common.answer(conn, Refusal::BackendSilent, now_ms, world);
                }
                State::Open | State::Closing => common.reset_both(conn, now_ms, world),
                _ => super::Common::dismiss(conn, now_ms, world),
            }
            if conn.has_large() {
                conn.release(&mut common.blocks);
                conn.become_(State::Gone, now_ms);
            }
            Fate::Taken
        });
    }
}
