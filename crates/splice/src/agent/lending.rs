//! Connections are lent to a card, and come back.
use packet::PacketBuf;

use super::{Agent, Common};
use crate::connection::{Conn, State};
use crate::hardware::{Constant, Worth};
use crate::passage::Place;
use crate::world::{Fate, Peer, World};

/// Lent connections that are looked after in one tick.
const WATCHED: usize = 32;

impl Agent {
    /// A packet of the connection at `place` has come, one of some: an occasion to lend the
    /// connection to a card, if that is `worth` it, and to say so again.
    pub fn occasion<B: PacketBuf>(
        &mut self,
        place: Place,
        worth: Worth,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let at = place.slot();
        match self.table.peek(at) {
            Some(conn) if conn.recalled => {}
            Some(&Conn { loan: Some(loan), .. }) if world.remind(loan) => {}
            Some(Conn { loan: Some(_), .. }) => self.recall(at, now_ms, world),
            Some(_) => self.lend(at, worth, now_ms, world),
            None => {}
        }
    }

    fn lend<B: PacketBuf>(
        &mut self,
        at: usize,
        worth: Worth,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        if self.lent.len() == self.lent.capacity() {
            return;
        }
        self.table.close(at, now_ms);
        let idle_ms = self.common.settings.idle_ms;
        if let Some(conn) = self.table.get(at)
            && let (Some(added), Some(backend)) = (conn.constant(worth), conn.backend)
        {
            let constant = Constant {
                service: conn.service,
                ends: conn.ends,
                backend: Peer { at: backend, id: conn.id },
                added,
                idle_ms,
            };
            conn.loan = world.lend(&constant);
            if let Some(loan) = conn.loan {
                conn.unseen = true;
                self.lent.push(at as u32);
                world.remind(loan);
            }
        }
        self.table.open(at);
    }

    /// The connection at `at` is wanted back.
    fn recall<B: PacketBuf>(&mut self, at: usize, now_ms: u64, world: &mut impl World<B>) {
        self.act(at, now_ms, world, |_, conn, world| {
            Common::release(conn, world);
            Fate::Taken
        });
    }

    /// Looks after the connections that are lent, by turns.
    pub(super) fn watch_lent<B: PacketBuf>(&mut self, now_ms: u64, world: &mut impl World<B>) {
        for _ in 0..WATCHED.min(self.lent.len()) {
            self.watched = if self.watched + 1 < self.lent.len() { self.watched + 1 } else { 0 };
            let Some(&at) = self.lent.get(self.watched) else { return };
            let at = at as usize;
            self.act(at, now_ms, world, |common, conn, world| {
                common.watch(conn, now_ms, world);
                Fate::Taken
            });
            if self.table.peek(at).is_none_or(|conn| conn.loan.is_none()) {
                self.lent.swap_remove(self.watched);
            }
        }
    }
}

impl Common {
    /// Wants a connection back that is lent. `true`: no card has it.
    pub(crate) fn release<B: PacketBuf>(conn: &mut Conn, world: &mut impl World<B>) -> bool {
        let Some(loan) = conn.loan else { return true };
        if world.take_back(loan) {
            (conn.loan, conn.recalled) = (None, false);
            return true;
        }
        conn.recalled = true;
        false
    }

    /// Follows what the card has sent on, by what the client has acknowledged, and takes the
    /// connection back when the rest of the response is not worth a rule any more.
    fn watch<B: PacketBuf>(&mut self, conn: &mut Conn, now_ms: u64, world: &mut impl World<B>) {
        if conn.loan.is_none() {
            return;
        }
        self.follow_unseen(conn, now_ms, world);
        if !conn.recalled && conn.constant(Worth::LEAST).is_some() {
            return;
        }
        if !Self::release(conn, world) || conn.state != State::Open {
            return;
        }
        if conn.has_missed() {
            return self.lose_unread(conn, now_ms, world);
        }
        if conn.block.is_some() {
            self.read_block(conn, now_ms, world);
        }
    }
}
