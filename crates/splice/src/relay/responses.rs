//! The backend's bytes are read: where responses end, and headers that are replaced
//! (message M14). It is the mirror of what happens to the client's bytes.
use packet::PacketBuf;

use super::STRETCH;
use crate::agent::Common;
use crate::blocks::{BLOCK, Block};
use crate::connection::{Conn, RESPONSE_HEADER, Reading};
use crate::edits::{Edit, before};
use crate::record::UNREAD;
use crate::response::{BadResponse, Head, Heard, Responses};
use crate::returning;
use crate::segment::{RST, Received};
use crate::world::{Event, Response, World};

impl Conn {
    /// Whether a segment of the backend's goes on in one piece.
    pub(crate) fn response_passes(&self, got: &Received) -> bool {
        if !self.rewrites || got.has(RST) {
            return true;
        }
        let first = got.outline.sequence;
        let length = (got.end - got.data) as u32;
        let end = first.wrapping_add(length);
        let edits = self.down.edits.open();
        (self.responses.is_all() || !before(self.response_limit(), end))
            && (length == 0
                || edits.iter().all(|edit| !before(first, edit.end()) || !before(edit.at, end)))
    }

    /// Lets the next stretch of a response's body pass, in whatever order.
    fn stretch_response(&mut self, sequence: u32) {
        if !before(self.response_next, sequence) {
            let ahead = self.response_next.wrapping_sub(sequence).min(STRETCH);
            let more = self.responses.skip(STRETCH - ahead);
            self.response_next = self.response_next.wrapping_add(more);
        }
    }

    /// Where responses end has got lost.
    fn lose(&mut self) {
        (self.blind, self.guesses, self.responses) = (true, true, Responses::default());
    }

    /// With a request of a client that has all it has asked for, a response begins.
    pub(super) fn find_again(&mut self) {
        if self.blind && self.keeps {
            (self.blind, self.responses) = (false, Responses::default());
            self.response_next = self.to_server(self.acked, false);
        }
    }

    /// Follows the answer to a request for another protocol.
    fn follow_upgrade(&mut self) {
        if self.reading == Reading::Upgrade && self.responses.is_all() {
            self.reading = Reading::All;
        } else if self.reading == Reading::Upgrade && self.responses.is_idle() {
            self.reading = Reading::Header;
        }
    }

    /// Tells the world of a final response; how long it has taken, in milliseconds.
    pub(crate) fn tell<B: PacketBuf>(
        &self,
        head: &Head,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> u32 {
        let waited_ms = (now_ms as u32).wrapping_sub(head.asked.at_ms);
        let (service, backend, status) = (self.service, self.id, head.status);
        world.responded(&Response { service, backend, status, waited_ms });
        waited_ms
    }
}

impl Common {
    /// Reads what is new of the backend's responses, if their headers pass. `false`:
    /// something before it is missing, and where the response ends would not be known.
    pub(super) fn follow_responses<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        got: &Received,
        frame: &[u8],
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> Result<bool, BadResponse> {
        let (data, first) = (got.data(frame), got.outline.sequence);
        if conn.blind || data.is_empty() || got.has(RST) {
            return Ok(true);
        }
        conn.stretch_response(first);
        self.hear_end(conn);
        let end = first.wrapping_add(data.len() as u32);
        if !before(conn.response_next, end) {
            return Ok(true);
        }
        if before(conn.response_next, first) {
            let all = conn.responses.is_all();
            if conn.keeps && !conn.rewrites && !all {
                self.log_all(conn, UNREAD, now_ms, world);
                conn.lose();
            }
            return Ok(all || conn.blind);
        }
        if conn.rewrites && !conn.responses.is_all() {
            return Ok(true);
        }
        let known = conn.response_next.wrapping_sub(first) as usize;
        let (rest, mut responses) =
            (data.get(known..).unwrap_or_default(), std::mem::take(&mut conn.responses));
        let start = conn.response_next;
        let read = responses.read_each(rest, |heard| {
            let at = if matches!(heard, Heard::Whole(_)) { end } else { start };
            self.hear(conn, heard, at, now_ms, world);
        });
        conn.responses = responses;
        match read {
            Err(_) if conn.keeps => {
                self.log_all(conn, UNREAD, now_ms, world);
                conn.lose();
            }
            other => other?,
        }
        conn.response_next = end;
        conn.stretch_response(end);
        self.hear_end(conn);
        conn.follow_upgrade();
        Ok(true)
    }

    /// Reads the backend's bytes from the first that is not known, and sends what is in
    /// their place. Whether something was sent.
    pub(super) fn read_responses<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        mut rest: &[u8],
        flags: u8,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> Result<bool, BadResponse> {
        let mut sent = false;
        while !rest.is_empty() {
            let taken = if conn.responses.is_in_header() {
                let Some((taken, more)) = self.replace(conn, rest, now_ms, world)? else { break };
                sent |= more;
                taken
            } else {
                let (taken, _) = conn.responses.part(rest)?;
                let at = conn.response_next;
                sent |= Self::pass_response(conn, at, flags, rest.get(..taken), world);
                conn.response_next = at.wrapping_add(taken as u32);
                self.hear_end(conn);
                taken
            };
            if taken == 0 {
                break;
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        conn.stretch_response(conn.response_next);
        self.hear_end(conn);
        conn.follow_upgrade();
        Ok(sent)
    }

    /// Reads headers, and what of the bodies behind them has come along with them, and sends
    /// what stands in their place. How many of the bytes that takes, and whether something
    /// was sent; `None`: there is no room now, and the backend sends them again.
    fn replace<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        rest: &[u8],
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> Result<Option<(usize, bool)>, BadResponse> {
        if conn.down.edits.is_full() {
            return Ok(None);
        }
        let raw = conn.down.block.take().or_else(|| self.blocks.get());
        let (Some(mut raw), Some(mut out)) = (raw, self.blocks.get()) else {
            world.count(Event::NoRoom);
            return Ok(None);
        };
        let start = conn.response_next.wrapping_sub(raw.len() as u32);
        let read = self.read_headers(conn, rest, (&mut raw, &mut out), now_ms, world);
        let taken = match read {
            Ok(taken) => taken,
            Err(bad) => {
                self.blocks.put(raw);
                self.blocks.put(out);
                return Err(bad);
            }
        };
        conn.response_next = conn.response_next.wrapping_add(taken as u32);
        let kept = raw.len() as u32;
        if kept > 0 {
            conn.down.block = Some(raw);
        } else {
            self.blocks.put(raw);
        }
        if out.len() == 0 {
            self.blocks.put(out);
            return Ok(Some((taken, false)));
        }
        let removed = conn.response_next.wrapping_sub(kept).wrapping_sub(start);
        let block = self.blocks.shrink(out);
        conn.down.edits.push(Edit { at: start, removed, block });
        Self::send_response_edit(conn, conn.down.edits.open().len() - 1, world);
        Ok(Some((taken, true)))
    }

    /// Gives up what the client has.
    pub(super) fn settle_responses(&mut self, conn: &mut Conn) {
        let acked = conn.to_server(conn.acked, false);
        conn.down.owned = conn.down.owned.filter(|owned| before(acked, *owned));
        let received = conn.acked.wrapping_sub(conn.delta());
        while let Some(block) = conn.down.edits.settle(received) {
            self.blocks.put(block);
        }
    }
}

impl Conn {
    /// Whether the client has acknowledged everything before the header that is not whole.
    pub(super) fn has_all_before_header(&self) -> bool {
        !before(self.to_server(self.acked, false), self.response_limit())
    }
}

impl Common {
    /// Follows a response that the agent does not see, as far as its client has acknowledged
    /// it.
    pub(crate) fn follow_unseen<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        if conn.blind {
            return;
        }
        let acked = conn.to_server(conn.acked, false);
        conn.stretch_response(acked);
        self.hear_end(conn);
        self.log_until(conn, acked, now_ms, world);
    }

    /// The backend has sent more than it was asked for while the agent did not see it.
    pub(crate) fn lose_unread<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        if conn.keeps && !conn.rewrites {
            self.log_all(conn, UNREAD, now_ms, world);
            conn.lose();
        } else {
            self.reset_both(conn, now_ms, world);
        }
    }

    /// Reads `rest`: headers, which come out anew, with what is between them. The bytes of one
    /// that is not whole are in the first block, all others are written into the second. How
    /// many bytes were read.
    fn read_headers<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        rest: &[u8],
        (raw, out): (&mut Block, &mut Block),
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> Result<usize, BadResponse> {
        let mut at = 0;
        while let Some(bytes) = rest.get(at..).filter(|bytes| !bytes.is_empty()) {
            if !conn.responses.is_in_header() {
                // A body that finds no room passes by itself.
                let room = BLOCK - out.len();
                if bytes.len() > room {
                    break;
                }
                let (taken, _) = conn.responses.part(bytes)?;
                self.note_whole(conn, at + taken);
                out.push(bytes.get(..taken).unwrap_or_default()).ok_or(BadResponse::TooLong)?;
                at += taken;
                continue;
            }
            let number = conn.responses.present();
            let (taken, head) = conn.responses.part(bytes)?;
            let piece = bytes.get(..taken).unwrap_or_default();
            if raw.take(piece, RESPONSE_HEADER) < taken {
                return Err(BadResponse::TooLong);
            }
            at += taken;
            let Some(head) = head else { break };
            let start = conn.response_next.wrapping_add(at as u32);
            self.hear(
                conn,
                Heard::Head(head, number),
                start.wrapping_sub(raw.len() as u32),
                now_ms,
                world,
            );
            self.note_whole(conn, at);
            let backend = conn.backend.filter(|_| head.asked.sticks);
            let cookie = backend.and_then(|backend| world.cookie(conn.service, backend));
            let changes = world.response_changes(conn.service);
            returning::write(out, raw.bytes(), &head, &changes, cookie)
                .ok_or(BadResponse::TooLong)?;
            raw.cut_front(raw.len());
        }
        Ok(at)
    }

    /// A response may have ended so many bytes behind what was read before.
    fn note_whole(&mut self, conn: &mut Conn, behind: usize) {
        if let Some(whole) = conn.responses.take_whole() {
            let end = conn.response_next.wrapping_add(behind as u32);
            self.records.end(conn.records, whole.number, (end, whole.bytes));
        }
    }
}
