//! The connection to a backend is opened (messages M5 to M7).
use flow::Direction;
use packet::PacketBuf;

use super::Common;
use crate::blocks::Block;
use crate::connection::{Conn, State, TRIES};
use crate::options::{Offer, Stamps};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::segment::{ACK, ECE, ECN, Outline, RST, Received, SYN};
use crate::world::{Answer, Choice, Event, Inquiry, Speaks, World};

/// What the backend is asked for: what its client offers, and of that only what the
/// agent can keep.
fn asked(conn: &Conn) -> Offer {
    Offer {
        scale: conn.offer.scale.filter(|_| conn.granted.scale.is_some()),
        timestamps: conn.granted.timestamps,
        ecn: conn.granted.ecn,
        ..conn.offer
    }
}

impl Common {
    /// Chooses a backend as soon as the header is whole. If there is none, the client is
    /// told `none`.
    pub(super) fn route<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        none: Refusal,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        match conn.speaks {
            Speaks::Http => {}
            Speaks::Tls => return self.route_hello(conn, none, now_ms, world),
            Speaks::Any => return self.assign(conn, now_ms, world),
        }
        let mut room = self.blocks.get();
        let bytes = conn.block.as_ref().map(|block| block.bytes()).unwrap_or_default();
        let limit = self.settings.header_limit;
        let choice = match Request::parse(bytes) {
            Ok(None) if bytes.len() >= limit => Err(Refusal::TooLong),
            Ok(None) => {
                room.into_iter().for_each(|block| self.blocks.put(block));
                return;
            }
            Ok(Some(request)) if request.length > limit => Err(Refusal::TooLong),
            Ok(Some(request)) => {
                let answer = &mut Answer(room.as_mut());
                let (service, ends, tried) = (conn.service, conn.ends, &conn.tried[..]);
                let inquiry = Inquiry { service, ends, tried, kept: None };
                world.choose(&inquiry, &request, answer)
            }
            Err(refusal) => Err(refusal),
        };
        match choice {
            Ok(Choice::Backend { backend, terms }) => {
                conn.join(backend, terms);
                conn.become_(State::Connecting(0), now_ms);
            }
            Ok(Choice::Answer(status)) => {
                world.count(Event::Answered(status));
                world.answered(conn.service, status);
                let length = room.as_ref().map_or(0, Block::len);
                Self::log_answer(conn, (status, ""), length, now_ms, world);
                return self.answer_with(conn, room, now_ms, world);
            }
            Err(Refusal::NoBackend) => self.answer(conn, none, now_ms, world),
            Err(refusal) => self.answer(conn, refusal, now_ms, world),
        }
        room.into_iter().for_each(|block| self.blocks.put(block));
    }

    /// Sends a SYN to the backend, with the client's own numbers.
    pub(super) fn connect<B: PacketBuf>(&mut self, conn: &mut Conn, world: &mut impl World<B>) {
        let (State::Connecting(sent), Some(backend)) = (conn.state, conn.backend) else { return };
        conn.state = State::Connecting(sent.saturating_add(1));
        let outline = Outline {
            src: conn.client(),
            dst: backend,
            sequence: conn.isn,
            acknowledgement: 0,
            flags: if conn.granted.ecn { SYN | ECN } else { SYN },
            window: conn.first_window,
            urgent: 0,
            account: Some(conn.account(Direction::Forward)),
        };
        let stamps = Stamps { echo: 0, ..conn.clocks.for_server() };
        Self::make(&outline, &asked(conn).emit(stamps), &[], world);
    }

    pub(crate) fn reset_backend<B: PacketBuf>(&self, conn: &Conn, world: &mut impl World<B>) {
        let Some(backend) = conn.backend else { return };
        let sequence = match conn.state {
            State::Connecting(_) => conn.isn.wrapping_add(1),
            _ => conn.edits.forward(conn.limit()),
        };
        let outline = Outline::reset(conn.client(), backend, sequence);
        Self::make(&outline.of(conn.account(Direction::Forward)), &[], &[], world);
    }

    /// The backend's answer to the SYN.
    pub(super) fn backend_answers<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        got: &Received,
        frame: &[u8],
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        if !got.has(ACK) {
            return;
        }
        if got.outline.acknowledgement != conn.isn.wrapping_add(1) {
            // A backend that still has an earlier connection of these ends forgets it by a
            // RST (RFC 9293 section 3.10.7.3).
            if !got.has(RST)
                && let Some(backend) = conn.backend
            {
                let outline = Outline::reset(conn.client(), backend, got.outline.acknowledgement);
                Self::make(&outline.of(conn.account(Direction::Forward)), &[], &[], world);
                if conn.state == State::Connecting(1) {
                    // Nothing is in its way any more; Linux does not wait for the timer
                    // either.
                    self.connect(conn, world);
                }
            }
            return;
        }
        if got.has(RST) {
            return self.next_backend(conn, Refusal::BackendRefused, now_ms, world);
        }
        if !got.has(SYN) {
            return;
        }
        let (asked, offer) = (asked(conn), Offer::parse(got.options(frame)));
        conn.server = Offer {
            mss: offer.mss,
            scale: offer.scale.filter(|_| asked.scale.is_some()),
            sack: offer.sack && asked.sack,
            timestamps: offer.timestamps && asked.timestamps,
            ecn: asked.ecn && got.outline.flags & ECN == ECE,
        };
        self.learnt.learn(conn.service, &asked, &conn.server, now_ms);
        if let Some(stamps) = got.stamps(frame).filter(|_| conn.server.timestamps) {
            self.clocks.see(conn.client().ip(), conn.service, stamps.value, now_ms);
            conn.clocks.join(stamps, conn.learnt);
        }
        conn.server_isn = got.outline.sequence;
        conn.response_next = conn.server_isn.wrapping_add(1);
        conn.become_(State::Open, now_ms);
        // The block holds all that the client has sent: from its first byte on.
        if !self.read_block(conn, now_ms, world) {
            self.acknowledge(conn, world);
        }
    }

    /// The backend does not take the connection: another one is tried.
    pub(super) fn next_backend<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        why: Refusal,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        world.count(Event::BackendFailed);
        let failed = conn.backend.take();
        let tried = failed.is_some_and(|backend| conn.tried.try_push(backend).is_ok());
        if !tried || conn.tried.len() == TRIES {
            return self.answer(conn, why, now_ms, world);
        }
        conn.become_(State::Front, now_ms);
        self.route(conn, why, now_ms, world);
    }
}
