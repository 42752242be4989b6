//! An open connection: packets are changed and go on (messages M6 to M9).
mod pieces;
mod requests;
mod response_pieces;
mod responses;

use flow::Direction;
use packet::PacketBuf;
use wire::Headers;

use crate::agent::Common;
use crate::connection::{Conn, Reading, State, urgent};
use crate::edits::before;
use crate::segment::{ACK, FIN, Outline, RST, Received, SYN, clear_ecn};
use crate::world::{Event, Fate, World};

/// How often the agent repeats what it has acknowledged itself.
const REPEAT_MS: u64 = 400;
/// Of a body's bytes so many may pass unread at once, so that numbers can be compared.
pub(crate) const STRETCH: u32 = 1 << 30;

impl Conn {
    /// A segment of the client's to its backend, at the client's number `sequence`.
    pub(crate) fn to_backend(&self, sequence: u32, flags: u8) -> Option<Outline> {
        let first = self.edits.forward(sequence);
        Some(Outline {
            src: self.client(),
            dst: self.backend?,
            sequence: first,
            acknowledgement: self.told_server(self.acked),
            flags: self.flags(flags | self.congestion),
            window: self.window_to_backend(self.window, self.acked),
            urgent: self.urgent.map_or(0, |end| urgent(first, self.edits.forward(end))),
            account: Some(self.account(Direction::Forward)),
        })
    }

    /// What the client is told to have arrived: never less than the agent has told it.
    pub(crate) fn known(&self, received: u32) -> u32 {
        match self.owned {
            Some(owned) if before(received, owned) => owned,
            _ => received,
        }
    }

    /// Lets the next stretch of a body pass.
    fn stretch(&mut self, sequence: u32) {
        if self.body > 0 {
            let ahead = self.next.wrapping_sub(sequence).min(STRETCH);
            let more = self.body.min(u64::from(STRETCH - ahead));
            self.next = self.next.wrapping_add(more as u32);
            self.body -= more;
        }
    }
}

impl Common {
    /// A client's segment.
    pub(crate) fn client_data<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        mut packet: B,
        headers: &Headers,
        got: &Received,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> Fate {
        conn.seen_ms = now_ms;
        conn.see_client(got, packet.bytes());
        let Outline { sequence, acknowledgement, window, flags, .. } = got.outline;
        if got.has(ACK) && !before(acknowledgement, conn.acked) {
            let edge = conn.client_edge();
            (conn.acked, conn.window) = (acknowledgement, window);
            self.settle_responses(conn);
            self.go_on_with_edit(conn, edge, world);
        }
        let length = (got.end - got.data) as u32;
        let end = sequence.wrapping_add(length);
        if got.has(RST) && conn.block.is_some() && before(conn.limit(), sequence) {
            // The backend has not got the header that is not whole: the exact number that the
            // client means (RFC 5961 section 3.2) is another one for it.
            if sequence == conn.next {
                self.reset_backend(conn, world);
                conn.release(&mut self.blocks);
                conn.become_(State::Gone, now_ms);
            }
            return Fate::Taken;
        }
        if length > 0 && conn.is_answered_by_card() && !before(conn.limit(), end) {
            // The backend has these bytes, and would say so by a selective acknowledgement.
            Self::release(conn, world);
            if conn.loan.is_some() {
                return Fate::Taken;
            }
        }
        conn.stretch(sequence);
        let all = conn.reading == Reading::All;
        let passes = (all || !before(conn.limit(), end))
            && got.end - got.options <= conn.server.longest().into()
            && (length == 0 || !conn.edits.open().iter().any(|edit| edit.concerns(sequence, end)));
        if !passes {
            if let Some(stamps) = got.stamps(packet.bytes()).filter(|_| conn.unseen) {
                conn.clocks.see_echo(stamps.echo);
            }
            self.in_pieces(conn, &packet, got, now_ms, world);
            return Fate::Taken;
        }
        let Some(backend) = conn.backend else { return Fate::Taken };
        let new = Outline {
            src: conn.client(),
            dst: backend,
            sequence: conn.edits.forward(sequence),
            acknowledgement: conn.told_server(acknowledgement),
            flags: conn.flags(flags),
            window: conn.window_to_backend(window, acknowledgement),
            urgent: 0,
            account: None,
        };
        let map = |edge: u32, up: bool| conn.to_server(edge, up);
        let change = conn.change_to_backend(got.stamps(packet.bytes()), &map);
        if got.rewrite(packet.bytes_mut(), &new, &change).is_none() {
            return Fate::Malformed;
        }
        let blind = conn.granted.ecn && !conn.server.ecn;
        if blind && !clear_ecn(packet.bytes_mut(), got.l3, new.src.is_ipv4()) {
            world.count(Event::Congested);
            return Fate::Taken;
        }
        conn.note_end(got, 0, now_ms);
        world.relay(packet, headers, backend.ip(), conn.account(Direction::Forward));
        Fate::Relayed
    }

    /// A backend's segment.
    pub(crate) fn backend_data<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        mut packet: B,
        headers: &Headers,
        got: &Received,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> Fate {
        conn.seen_ms = now_ms;
        conn.down.urgent = got.urgent_end();
        if got.has(SYN) {
            self.acknowledge(conn, world);
            return Fate::Taken;
        }
        let Outline { sequence, acknowledgement, window, flags, .. } = got.outline;
        match self.follow_responses(conn, got, packet.bytes(), now_ms, world) {
            Ok(true) => {}
            // The backend sends it again, behind what is missing.
            Ok(false) => return Fate::Taken,
            Err(_) => {
                self.reset_both(conn, now_ms, world);
                return Fate::Taken;
            }
        }
        if let Some(stamps) = got.stamps(packet.bytes()).filter(|_| conn.server.timestamps) {
            conn.clocks.see_server(stamps);
        }
        let received = conn.edits.back(acknowledgement, false);
        if got.has(ACK) && before(conn.received, received) && !before(conn.next, received) {
            conn.received = received;
        }
        // What the backend has is nobody's to repeat.
        conn.owned = conn.owned.filter(|owned| before(conn.received, *owned));
        while got.has(ACK)
            && let Some(block) = conn.edits.settle(acknowledgement)
        {
            self.blocks.put(block);
        }
        if conn.block.is_some() {
            // A header that found no room among the pieces may have it now.
            self.read_block(conn, now_ms, world);
        }
        let told = conn.known(received);
        if got.has(ACK) {
            conn.server_window = Some(conn.window_to_client(window, acknowledgement, told));
        }
        if conn.state != State::Open && conn.state != State::Closing {
            return Fate::Taken;
        }
        if !conn.response_passes(got) {
            self.response_in_pieces(conn, &packet, got, now_ms, world);
            return Fate::Taken;
        }
        if conn.is_too_early(got) {
            return Fate::Taken;
        }
        let edits = &conn.edits;
        let map = |edge: u32, up: bool| edits.back(edge, up);
        let change = conn.change_to_client(&map);
        let new = Outline {
            src: conn.vip(),
            dst: conn.client(),
            sequence: conn.to_agent(sequence),
            acknowledgement: if got.has(ACK) { told } else { 0 },
            flags: conn.flags(flags),
            window: conn.own_window(false),
            urgent: got.outline.urgent,
            account: Some(conn.account(Direction::Reply)),
        };
        let client = conn.client().ip();
        if conn.granted.timestamps && !conn.server.timestamps && !got.has(RST) {
            Self::with_stamps(conn, &packet, got, new, &change, world);
            conn.note_end(got, 1, now_ms);
            return Fate::Taken;
        }
        if got.rewrite(packet.bytes_mut(), &new, &change).is_none() {
            return Fate::Malformed;
        }
        conn.note_end(got, 1, now_ms);
        world.relay(packet, headers, client, conn.account(Direction::Reply));
        Fate::Relayed
    }
}

impl Conn {
    /// Whether a card may send on the backend's answer to what the client sends, and would
    /// not translate all of it.
    fn is_answered_by_card(&self) -> bool {
        self.loan.is_some() && self.server.sack && self.edits.forward(0) != 0
    }

    /// Notes that side `side` ends the connection. A RST alone removes nothing: whether it
    /// is good only its receiver knows (RFC 5961), and any packet after it goes on.
    fn note_end(&mut self, got: &Received, side: usize, now_ms: u64) {
        if got.has(FIN)
            && let Some(ended) = self.ended.get_mut(side)
        {
            *ended = true;
        }
        let fin = got.outline.sequence.wrapping_add((got.end - got.data) as u32);
        if side == 0 && got.has(FIN) && fin == self.next && self.block.is_none() {
            // A FIN has a number of its own, and nothing comes behind it.
            self.next = self.next.wrapping_add(1);
            self.reading = Reading::Nothing;
        }
        let over = self.ended == [true; 2];
        if got.has(RST) || (over && self.state == State::Open) {
            self.become_(State::Closing, now_ms);
        } else if self.state == State::Closing && !over && !got.has(RST) {
            self.become_(State::Open, now_ms);
        }
    }
}
