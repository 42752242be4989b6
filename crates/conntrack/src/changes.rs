//! What changes in a connection while it lives. Each change is one
//! compare-and-swap of the life's word or one blind write of the time, so
//! workers of both directions and the keeper need no lock.
use flow::Direction;
use wire::TcpFlags;

use crate::offload::OffloadState;
use crate::record::Record;
use crate::segment::{Began, Segment};
use crate::state::{Event, TcpState};
use crate::time::{TICK_MS, age};

/// What can change an open connection.
pub(crate) const DECISIVE: u8 = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;

/// Whether a segment is a RST of an open connection that its client can't have
/// sent.
fn is_doubted(state: TcpState, direction: Direction, segment: &Segment, began: &Began) -> bool {
    segment.flags.any(TcpFlags::RST)
        && direction == Direction::Forward
        && state.is_lasting()
        && !began.allows(segment)
}

impl<const K: usize> Record<K> {
    /// Counts a packet; `None` if no connection lives here. `began` is where the
    /// client's sequence numbers began.
    #[inline]
    pub(crate) fn count(
        &self,
        direction: Direction,
        segment: Option<Segment>,
        began: &Began,
        now: u32,
    ) -> Option<Event> {
        self.see(now);
        let mut life = self.life();
        loop {
            if !life.is_live() {
                return None;
            }
            if life.is_open() && segment.is_none_or(|segment| !segment.flags.any(DECISIVE)) {
                return Some(Event::None);
            }
            let before = life.state();
            if segment.is_some_and(|segment| is_doubted(before, direction, &segment, began)) {
                return Some(Event::ResetDoubted);
            }
            let flags = segment.map(|segment| segment.flags);
            let kind = self.kind();
            let (state, event) = before.after(kind, direction, flags);
            if state == before {
                return Some(event);
            }
            let one_way = kind.1.is_one_way();
            match self.change_life(life, life.with_state(state, one_way)) {
                Ok(()) => {
                    if let Some(segment) = segment.filter(|_| before.is_beginning()) {
                        began.note(direction, &segment, !one_way);
                    }
                    return Some(event);
                }
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

    /// Makes the state that of a revoked connection, if there are ends to tell and no
    /// rules.
    pub(crate) fn revoke(&self) -> Option<()> {
        let mut life = self.life();
        while life.is_live() && life.offload() == OffloadState::None {
            match self
                .change_life(life, life.with_state(life.state().revoked()?, self.is_one_way()))
            {
                Ok(()) => return Some(()),
                Err(now) => life = now,
            }
        }
        None
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
