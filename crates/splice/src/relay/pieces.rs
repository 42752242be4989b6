//! Segments that can't go on as they came: what stands in the place of a piece, and what is
//! before and behind it.
use arrayvec::ArrayVec;
use packet::PacketBuf;

use super::REPEAT_MS;
use crate::agent::Common;
use crate::connection::{Conn, Reading, State};
use crate::edits::{Edit, before};
use crate::options::{Change, MAX_OPTIONS};
use crate::segment::{ACK, CWR, FIN, Outline, PSH, RST, Received};
use crate::world::{Event, World};

/// How long it waits at most before it repeats what stands for no bytes of the client's.
const LONGEST_MS: u64 = 60_000;

impl Common {
    /// A client's segment of which not all may pass, or not in one piece.
    pub(super) fn in_pieces<B: PacketBuf>(
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
        let (mut at, mut sent) = (first, false);
        for number in 0..conn.edits.open().len() {
            let Some(edit) = conn.edits.open().get(number) else { break };
            let (from, to) = (edit.at, edit.end());
            if !before(from, end) {
                break;
            }
            if !edit.concerns(at, end) {
                continue;
            }
            if before(at, from) {
                Self::pass(conn, at, data.get(place(at)..place(from)), world);
            }
            self.send_edit(conn, number, world);
            at = to;
            sent = true;
        }
        // Bytes that are not read have no limit.
        let unread = conn.reading == Reading::All;
        let limit = if unread { end } else { conn.limit() };
        if before(at, end) && before(at, limit) {
            let to = if before(limit, end) { limit } else { end };
            sent |= Self::pass(conn, at, data.get(place(at)..place(to)), world);
        }
        if !unread && !before(conn.next, first) && before(conn.next, end) {
            let rest = data.get(place(conn.next)..).unwrap_or_default();
            sent |= self.read(conn, rest, now_ms, world);
        }
        if got.has(FIN) && conn.state == State::Open {
            sent |= self.finish(conn, end, got, now_ms, world);
        }
        if !sent && conn.state == State::Open {
            let repeated = !data.is_empty() && !before(conn.next, end);
            // An acknowledgement covers all that is before the header as well.
            if conn.block.is_some() && repeated && !before(conn.received, conn.limit()) {
                self.own(conn, now_ms, world);
            }
            self.acknowledge(conn, world);
        }
    }

    /// Sends what stands for a piece, in segments that the backend takes.
    pub(crate) fn send_edit<B: PacketBuf>(
        &self,
        conn: &Conn,
        at: usize,
        world: &mut impl World<B>,
    ) {
        let (Some(edit), Some(sequence)) = (conn.edits.open().get(at), conn.edits.place(at)) else {
            return;
        };
        let Some(outline) = conn.to_backend(edit.at, ACK) else { return };
        Self::make_all(conn, Outline { sequence, ..outline }, edit.block.bytes(), world);
    }

    /// Makes segments no longer than the backend takes.
    fn make_all<B: PacketBuf>(
        conn: &Conn,
        mut outline: Outline,
        data: &[u8],
        world: &mut impl World<B>,
    ) {
        let options = conn.options_to_backend();
        let room = usize::from(conn.server.longest()) - options.len();
        let mut pieces = data.chunks(room).peekable();
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                outline.flags |= PSH;
            }
            Self::make(&outline, &options, piece, world);
            // The sender says once that it has slowed down.
            outline.flags &= !CWR;
            outline = outline.behind(piece.len());
        }
    }

    pub(super) fn pass<B: PacketBuf>(
        conn: &Conn,
        at: u32,
        data: Option<&[u8]>,
        world: &mut impl World<B>,
    ) -> bool {
        let (Some(outline), Some(data)) = (conn.to_backend(at, ACK), data) else { return false };
        Self::make_all(conn, outline, data, world);
        !data.is_empty()
    }

    /// Passes a FIN on that stands at `end`.
    fn finish<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        end: u32,
        got: &Received,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> bool {
        if conn.reading != Reading::All && before(conn.next, end) {
            return false;
        }
        if conn.held {
            return false;
        }
        if conn.block.is_some() {
            // A request was begun, and never will be whole.
            self.reset_both(conn, now_ms, world);
            return true;
        }
        if let Some(outline) = conn.to_backend(end, ACK | FIN) {
            Self::make(&outline, &conn.options_to_backend(), &[], world);
            conn.note_end(got, 0, now_ms);
        }
        true
    }

    /// Repeats what is nobody else's to repeat, at longer and longer intervals.
    pub(crate) fn repeat_insertion<B: PacketBuf>(
        &self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        if !conn.edits.open().first().is_some_and(Edit::is_insertion) {
            return;
        }
        let waited = conn.repeated_ms.saturating_sub(conn.since_ms).clamp(REPEAT_MS, LONGEST_MS);
        if now_ms >= conn.repeated_ms + waited {
            conn.repeated_ms = now_ms;
            self.send_edit(conn, 0, world);
        }
    }

    /// Repeats what stands for bytes that the agent has acknowledged itself.
    pub(crate) fn repeat_owned<B: PacketBuf>(
        &self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let first = conn.edits.open().first().map(|edit| edit.at);
        let owned = conn.owned.is_some_and(|owned| first.is_some_and(|at| before(at, owned)));
        if owned && now_ms >= conn.repeated_ms + REPEAT_MS {
            conn.repeated_ms = now_ms;
            self.send_edit(conn, 0, world);
        }
    }

    /// Sends a segment anew with timestamps: the client was promised them, its backend
    /// has none, and a segment without them would be dropped (RFC 7323 section 3.2).
    pub(super) fn with_stamps<B: PacketBuf>(
        conn: &Conn,
        packet: &B,
        got: &Received,
        mut new: Outline,
        change: &Change<'_>,
        world: &mut impl World<B>,
    ) {
        let mut options: ArrayVec<u8, MAX_OPTIONS> = conn.options_to_client().into_iter().collect();
        let behind = options.len();
        // Four SACK blocks leave no room: the client does without them once.
        if options.try_extend_from_slice(got.options(packet.bytes())).is_ok() {
            change.apply(options.get_mut(behind..).unwrap_or_default());
        }
        let data = got.data(packet.bytes());
        let room = usize::from(conn.offer.longest()).saturating_sub(options.len()).max(1);
        let last = new.flags;
        let mut rest = data;
        loop {
            let (piece, behind) = rest.split_at_checked(room).unwrap_or((rest, &[]));
            new.flags = if behind.is_empty() { last } else { last & !(FIN | PSH) };
            Self::make(&new, &options, piece, world);
            if behind.is_empty() {
                return;
            }
            new = new.behind(piece.len());
            rest = behind;
        }
    }

    /// Ends both connections, since the agent can't say what a request would be to the
    /// backend, and a response may be on its way.
    pub(crate) fn reset_both<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        world.count(Event::Reset);
        if let Some(outline) = conn.to_backend(conn.limit(), RST | ACK) {
            Self::make(&outline, &conn.options_to_backend(), &[], world);
        }
        let outline = Outline {
            src: conn.vip(),
            dst: conn.client(),
            sequence: conn.acked,
            acknowledgement: conn.next,
            flags: RST | ACK,
            window: 0,
            urgent: 0,
            account: None,
        };
        Self::make(&outline, &conn.options_to_client(), &[], world);
        conn.release(&mut self.blocks);
        conn.become_(State::Reset, now_ms);
        conn.reading = Reading::Nothing;
    }
}
