//! A backend's segments that can't go on as they came: what stands in the place of a header,
//! and what is before and behind it.
use flow::Direction;
use packet::PacketBuf;

use super::REPEAT_MS;
use crate::agent::Common;
use crate::connection::{Conn, urgent};
use crate::edits::before;
use crate::segment::{ACK, ECN, FIN, Outline, PSH, Received};
use crate::world::{Event, World};

impl Common {
    /// A backend's segment of which not all may pass, or not in one piece.
    pub(super) fn response_in_pieces<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        packet: &B,
        got: &Received,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let data = got.data(packet.bytes());
        let first = got.outline.sequence;
        let end = first.wrapping_add(data.len() as u32);
        let place = |at: u32| at.wrapping_sub(first) as usize;
        let flags = ACK | (got.outline.flags & ECN);
        let (mut at, mut sent) = (first, false);
        for number in 0..conn.down.edits.open().len() {
            let Some(edit) = conn.down.edits.open().get(number) else { break };
            let (from, to) = (edit.at, edit.end());
            if !before(at, to) {
                continue;
            }
            if !before(from, end) {
                break;
            }
            if before(at, from) {
                Self::pass_response(conn, at, flags, data.get(place(at)..place(from)), world);
            }
            Self::send_response_edit(conn, number, world);
            (at, sent) = (to, true);
        }
        let limit = conn.response_limit();
        if before(at, end) && before(at, limit) {
            let to = if before(limit, end) { limit } else { end };
            sent |= Self::pass_response(conn, at, flags, data.get(place(at)..place(to)), world);
        }
        if !before(conn.response_next, first) && before(conn.response_next, end) {
            let rest = data.get(place(conn.response_next)..).unwrap_or_default();
            match self.read_responses(conn, rest, flags, now_ms, world) {
                Ok(more) => sent |= more,
                Err(_) => return self.reset_both(conn, now_ms, world),
            }
        }
        if got.has(FIN) && !before(conn.response_next, end) {
            if conn.down.block.is_some() {
                // A response was begun, and never will be whole.
                return self.reset_both(conn, now_ms, world);
            }
            let outline = conn.response_outline(end, ACK | FIN);
            Self::make(&outline, &conn.options_to_client(), &[], world);
            conn.note_end(got, 1, now_ms);
            sent = true;
        }
        let repeated = !data.is_empty() && !before(conn.response_next, end);
        if !sent && repeated && conn.down.block.is_some() && conn.has_all_before_header() {
            // The backend may send nothing else before it hears of what it has sent.
            world.count(Event::Owned);
            conn.down.owned = Some(conn.response_next);
            conn.down.repeated_ms = now_ms;
            self.acknowledge(conn, world);
        }
        if !sent && data.is_empty() {
            let outline = conn.response_outline(conn.response_limit(), flags);
            Self::make(&outline, &conn.options_to_client(), &[], world);
        }
    }

    /// Sends what stands for a piece, in segments that the client takes.
    pub(super) fn send_response_edit<B: PacketBuf>(
        conn: &Conn,
        at: usize,
        world: &mut impl World<B>,
    ) {
        let Some(edit) = conn.down.edits.open().get(at) else { return };
        let (first, bytes) = (conn.to_agent(edit.at), edit.block.bytes());
        let known = conn.acked.wrapping_sub(first);
        let skipped = if before(first, conn.acked) { known as usize } else { 0 };
        let from = first.wrapping_add(skipped as u32);
        let room = conn.client_edge().wrapping_sub(from) as i32;
        let rest = bytes.get(skipped..).unwrap_or_default();
        let taken = rest.len().min(room.max(0) as usize);
        if taken == 0 && !rest.is_empty() {
            // The client says what its window is when it gets a number that it has had.
            let asking = conn.acked.wrapping_sub(1);
            let outline = Outline { sequence: asking, ..conn.response_outline(edit.at, ACK) };
            return Self::make(&outline, &conn.options_to_client(), &[], world);
        }
        let outline = Outline { sequence: from, ..conn.response_outline(edit.at, ACK) };
        Self::make_response(conn, outline, rest.get(..taken).unwrap_or_default(), world);
    }

    /// Sends the rest of a piece of which the client has acknowledged a part, if there is
    /// more room for it than when the client's last segment came.
    pub(super) fn go_on_with_edit<B: PacketBuf>(
        &self,
        conn: &Conn,
        edge: u32,
        world: &mut impl World<B>,
    ) {
        let Some(edit) = conn.down.edits.open().first() else { return };
        let first = conn.to_agent(edit.at);
        let last = first.wrapping_add(edit.block.len() as u32);
        let is_inside = !before(conn.acked, first) && before(conn.acked, last);
        if is_inside && before(edge, last) && before(edge, conn.client_edge()) {
            Self::send_response_edit(conn, 0, world);
        }
    }

    /// Makes segments of `data`, which stand at the backend's number `at`.
    pub(super) fn pass_response<B: PacketBuf>(
        conn: &Conn,
        at: u32,
        flags: u8,
        data: Option<&[u8]>,
        world: &mut impl World<B>,
    ) -> bool {
        let data = data.unwrap_or_default();
        Self::make_response(conn, conn.response_outline(at, flags), data, world);
        !data.is_empty()
    }

    fn make_response<B: PacketBuf>(
        conn: &Conn,
        mut outline: Outline,
        data: &[u8],
        world: &mut impl World<B>,
    ) {
        let options = conn.options_to_client();
        let room = usize::from(conn.offer.longest()).saturating_sub(options.len()).max(1);
        let mut pieces = data.chunks(room).peekable();
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                outline.flags |= PSH;
            }
            Self::make(&outline, &options, piece, world);
            outline = outline.behind(piece.len());
        }
    }

    /// Repeats what stands for bytes that the agent has acknowledged itself.
    pub(crate) fn repeat_response<B: PacketBuf>(
        &self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let first = conn.down.edits.open().first().map(|edit| edit.at);
        let owned = conn.down.owned.is_some_and(|owned| first.is_some_and(|at| before(at, owned)));
        if owned && now_ms >= conn.down.repeated_ms + REPEAT_MS {
            conn.down.repeated_ms = now_ms;
            Self::send_response_edit(conn, 0, world);
        }
    }
}

impl Conn {
    /// A segment of the backend's to its client, at the backend's number `sequence`.
    fn response_outline(&self, sequence: u32, flags: u8) -> Outline {
        let first = self.to_agent(sequence);
        Outline {
            src: self.vip(),
            dst: self.client(),
            sequence: first,
            acknowledgement: self.known(self.received),
            flags: self.flags(flags),
            window: self.own_window(false),
            urgent: self.down.urgent.map_or(0, |end| urgent(first, self.to_agent(end))),
            account: Some(self.account(Direction::Reply)),
        }
    }

    /// The first of the agent's numbers that the client has no room for.
    pub(super) fn client_edge(&self) -> u32 {
        let shift = self.granted.scale.and(self.offer.scale).unwrap_or(0);
        self.acked.wrapping_add(u32::from(self.window) << shift)
    }

    /// Whether a segment of the backend's is beyond the client's window: what was added to
    /// headers has taken room that the backend was promised. The byte with which it asks for
    /// the window is not.
    pub(crate) fn is_too_early(&self, got: &Received) -> bool {
        let length = (got.end - got.data) as u32;
        let end = got.outline.sequence.wrapping_add(length);
        let changing = !self.down.edits.open().is_empty();
        changing && length > 1 && before(self.client_edge(), self.to_agent(end))
    }
}
