//! The agent answers a client itself (message M13).
use packet::PacketBuf;

use super::Common;
use crate::blocks::{BLOCK, Block};
use crate::connection::{Conn, State};
use crate::edits::before;
use crate::refusal::Refusal;
use crate::segment::{ACK, FIN, Outline, PSH, RST, Received};
use crate::world::{Event, Speaks, World};

impl Common {
    /// Answers the client instead of a backend.
    pub(crate) fn answer<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        refusal: Refusal,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        if conn.speaks != Speaks::Http {
            return self.refuse_unread(conn, refusal, now_ms, world);
        }
        world.count(Event::Refused(refusal));
        world.answered(conn.service, refusal.status().0);
        let text = refusal.answer_in(&self.answers);
        Self::log_answer(conn, (refusal.status().0, refusal.name()), text.len(), now_ms, world);
        let mut block = self.blocks.get_for(text.len());
        if let Some(block) = &mut block {
            block.take(text.as_bytes(), BLOCK);
        }
        self.answer_with(conn, block, now_ms, world);
    }

    /// Answers the client with what is in `block`; resets it if there is none.
    pub(crate) fn answer_with<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        block: Option<Block>,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let asked = conn.block.as_ref().map(|block| block.bytes()).unwrap_or_default();
        let only_header = asked.trim_ascii_start().starts_with(b"HEAD ");
        conn.backend = None;
        conn.release(&mut self.blocks);
        conn.block = block;
        let Some(block) = conn.block.as_mut().filter(|block| block.len() > 0) else {
            world.count(Event::NoRoom);
            return Self::dismiss(conn, now_ms, world);
        };
        if only_header {
            // An answer to HEAD has no body (RFC 9110 section 9.3.2).
            let end = block.bytes().windows(4).position(|bytes| bytes == b"\r\n\r\n");
            block.shorten(end.map_or(block.len(), |at| at + 4));
        }
        conn.become_(State::Answering(0), now_ms);
        self.send_answer(conn, now_ms, world);
    }

    /// Resets a client whose connection has no backend.
    pub(super) fn dismiss<B: PacketBuf>(conn: &mut Conn, now_ms: u64, world: &mut impl World<B>) {
        let outline = Self::to_client(conn, conn.cookie.wrapping_add(1), RST | ACK);
        Self::make(&outline, &[], &[], world);
        conn.become_(State::Gone, now_ms);
    }

    pub(super) fn send_answer<B: PacketBuf>(
        &self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let State::Answering(sent) = conn.state else { return };
        conn.become_(State::Answering(sent.saturating_add(1)), now_ms);
        let mut outline = Self::to_client(conn, conn.cookie.wrapping_add(1), ACK);
        let text = conn.block.as_ref().map(|block| block.bytes()).unwrap_or_default();
        let options = conn.options_to_client();
        let room = usize::from(conn.offer.longest()).saturating_sub(options.len()).max(1);
        let mut pieces = text.chunks(room).peekable();
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                outline.flags |= PSH | FIN;
            }
            Self::make(&outline, &options, piece, world);
            outline.sequence = outline.sequence.wrapping_add(piece.len() as u32);
        }
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
