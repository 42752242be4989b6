//! The agent answers a client itself (message M13).
use packet::PacketBuf;

use super::Common;
use crate::blocks::BLOCK;
use crate::connection::{Conn, State};
use crate::edits::before;
use crate::refusal::Refusal;
use crate::segment::{ACK, FIN, Outline, PSH, RST, Received};
use crate::world::{Event, World};

impl Common {
    /// Answers the client instead of a backend.
    pub(crate) fn answer<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        refusal: Refusal,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        world.count(Event::Refused(refusal));
        conn.backend = None;
        conn.release(&mut self.blocks);
        conn.block = self.blocks.get();
        let text = refusal.answer_in(&self.answers);
        let Some(block) = conn.block.as_mut().filter(|_| !text.is_empty()) else {
            world.count(Event::NoRoom);
            let outline = Self::to_client(conn, conn.cookie.wrapping_add(1), RST | ACK);
            Self::make(&outline, &[], &[], world);
            return conn.become_(State::Gone, now_ms);
        };
        block.take(text.as_bytes(), BLOCK);
        conn.become_(State::Answering(0), now_ms);
        self.send_answer(conn, now_ms, world);
    }

    pub(super) fn send_answer<B: PacketBuf>(
        &self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let State::Answering(sent) = conn.state else { return };
        conn.become_(State::Answering(sent.saturating_add(1)), now_ms);
        let outline = Self::to_client(conn, conn.cookie.wrapping_add(1), ACK | PSH | FIN);
        let text = conn.block.as_ref().map(|block| block.bytes()).unwrap_or_default();
        Self::make(&outline, &conn.options_to_client(), text, world);
    }

    /// A client's segment behind the agent's answer.
    pub(super) fn after_answer<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        got: &Received,
        data: &[u8],
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let length = conn.block.as_ref().map_or(0, |block| block.len()) as u32;
        let behind = conn.cookie.wrapping_add(length + 2);
        let Outline { sequence, acknowledgement, .. } = got.outline;
        if conn.state != State::Answered && acknowledgement == behind {
            conn.acked = behind;
            conn.release(&mut self.blocks);
            conn.become_(State::Answered, now_ms);
        }
        let fin = u32::from(got.has(FIN));
        let end = sequence.wrapping_add(data.len() as u32).wrapping_add(fin);
        if !before(conn.next, sequence) && before(conn.next, end) {
            conn.next = end;
        }
        if sequence != end {
            let at = if conn.state == State::Answered { conn.acked } else { behind };
            let outline = Self::to_client(conn, at, ACK);
            Self::make(&outline, &conn.options_to_client(), &[], world);
        }
    }
}

impl Refusal {
    /// The answer among those that are made already.
    pub(super) fn answer_in(self, answers: &[String]) -> &str {
        let place = Self::ALL.iter().position(|refusal| *refusal == self);
        place.and_then(|place| answers.get(place)).map_or("", String::as_str)
    }
}
