//! What changes in a connection while it lives. Each change is one
//! compare-and-swap of the life's word or one blind write of the time, so
//! workers of both directions and the keeper need no lock.
use flow::Direction;
use service::Forwarding;
use wire::TcpFlags;

use crate::offload::OffloadState;
use crate::record::Record;
use crate::state::Event;
use crate::time::{TICK_MS, age};

/// What can change an open connection.
const DECISIVE: u8 = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;

impl<const K: usize> Record<K> {
    /// Counts a packet; `None` if no connection lives here.
    #[inline]
    pub(crate) fn count(
        &self,
        direction: Direction,
        flags: Option<TcpFlags>,
        now: u32,
    ) -> Option<Event> {
        self.see(now);
        let mut life = self.life();
        loop {
            if !life.is_live() {
                return None;
            }
            if life.is_open() && flags.is_none_or(|flags| !flags.any(DECISIVE)) {
                return Some(Event::None);
            }
            let (state, event) = match self.kind() {
                (_, Forwarding::Rewrite) => life.state().after(direction, flags),
                (proto, _) => life.state().after_one_way(proto, direction, flags),
            };
            if state == life.state() {
                return Some(event);
            }
            match self.change_life(life, life.with_state(state)) {
                Ok(()) => return Some(event),
                Err(now) => life = now,
            }
        }
    }

    /// Milliseconds since the last packet, in whole ticks.
    pub(crate) fn idle_ms(&self, now: u32) -> Option<u64> {
        let seen = self.seen();
        self.life().is_live().then(|| u64::from(age(now, seen)) * TICK_MS)
    }

    /// As if a packet had come now.
    pub(crate) fn rearm(&self, now: u32) -> Option<()> {
        self.life().is_live().then(|| self.see(now))
    }

    /// Makes the offload state `to` if it is `from`.
    pub(crate) fn change_offload(&self, from: OffloadState, to: OffloadState) -> Option<()> {
        let mut life = self.life();
        while life.is_live() && life.offload() == from {
            match self.change_life(life, life.with_offload(to)) {
                Ok(()) => return Some(()),
                Err(now) => life = now,
            }
        }
        None
    }
}
