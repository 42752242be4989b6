//! A client before its connection has a backend: the handshake, and the header as far as
//! it has come (messages M1 to M4).
use std::net::SocketAddr;

use flow::{BackendId, ServiceId};
use packet::PacketBuf;

use super::Common;
use crate::blocks::{BLOCK, FIRST_FLIGHT, SMALL};
use crate::clocks::Clocks;
use crate::connection::{Conn, Down, Reading, State};
use crate::cookie::{Cookies, Kept};
use crate::edits::Edits;
use crate::options::{DEFAULT_MSS, Offer};
use crate::records::Queue;
use crate::refusal::Refusal;
use crate::response::Responses;
use crate::segment::{ACK, ECN, FIN, Outline, RST, Received};
use crate::world::{Event, Speaks, Terms, World};

impl Common {
    pub(super) fn half(
        &self,
        ends: [SocketAddr; 2],
        service: ServiceId,
        speaks: Speaks,
        got: &Received,
        frame: &[u8],
        now_ms: u64,
    ) -> Conn {
        let Outline { sequence: isn, window, .. } = got.outline;
        let offer = Offer {
            // A SYN asks for ECN by both flags (RFC 3168 section 6.1.1).
            ecn: got.outline.flags & ECN == ECN,
            ..Offer::parse(got.options(frame))
        };
        let is_v4 = ends.iter().all(SocketAddr::is_ipv4);
        let link = if is_v4 { 1460 } else { 1440 };
        let granted = self.learnt.grant(service, &offer, link, now_ms);
        let kept = Kept { scale: offer.scale, sack: granted.sack, ecn: granted.ecn };
        let [from, _] = ends;
        let known = self.clocks.behind(from.ip(), service, now_ms).filter(|_| granted.timestamps);
        let told = match known {
            Some(known) => Cookies::clock_before(known, kept),
            None => self.cookies.clock(ends, kept, now_ms),
        };
        let client = got.stamps(frame).map_or(0, |stamps| stamps.value);
        let mss = offer.mss.unwrap_or(DEFAULT_MSS);
        let cookie = self.cookies.make(ends, isn, mss, now_ms);
        let next = isn.wrapping_add(1);
        Conn {
            ends,
            service,
            speaks,
            state: State::Half,
            since_ms: now_ms,
            seen_ms: now_ms,
            isn,
            cookie,
            offer,
            granted,
            first_window: window,
            window,
            acked: cookie.wrapping_add(1),
            next,
            server_window: None,
            received: next,
            owned: None,
            repeated_ms: now_ms,
            body: 0,
            reading: Reading::Header,
            block: None,
            edits: Edits::default(),
            backend: None,
            id: BackendId(0),
            tried: Default::default(),
            keeps: true,
            rewrites: false,
            sticks: false,
            blind: false,
            guesses: false,
            fresh: true,
            held: false,
            instead: None,
            instead_terms: Terms::default(),
            responses: Responses::default(),
            response_next: 0,
            down: Down::default(),
            server_isn: 0,
            server: Offer::default(),
            clocks: Clocks::new(client, told),
            learnt: known.is_some(),
            congestion: 0,
            urgent: None,
            records: Queue::default(),
            log_end: None,
            loan: None,
            recalled: false,
            unseen: false,
            ended: [false; 2],
        }
    }

    /// A SYN on a known connection.
    pub(super) fn syn<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        got: &Received,
        frame: &[u8],
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        if got.has(ACK | RST | FIN) {
            return;
        }
        let isn = got.outline.sequence;
        if conn.may_begin_anew() && !Self::release(conn, world) {
            // A card would add the numbers of the connection before: the client asks again.
            return;
        }
        match conn.state {
            State::Half if isn == conn.isn => self.syn_ack(conn, world),
            State::Half | State::Answered | State::Closing | State::Reset => {
                let was_half = conn.state == State::Half;
                let new = self.half(conn.ends, conn.service, conn.speaks, got, frame, now_ms);
                conn.release(&mut self.blocks);
                if !was_half && self.has_all_half_open() {
                    // What has ended makes no exception for a new connection of its ends.
                    conn.become_(State::Gone, now_ms);
                    return self.answer_by_cookie(new, now_ms, world);
                }
                *conn = new;
                self.half_open += usize::from(!was_half);
                self.syn_ack(conn, world);
            }
            // A client that has forgotten the connection answers by a RST (RFC 5961).
            _ => {
                let outline = Self::to_client(conn, conn.acked, ACK);
                Self::make(&outline, &conn.options_to_client(), &[], world);
            }
        }
    }

    /// A client's segment while there is no connection to a backend.
    pub(super) fn before_open<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        got: &Received,
        frame: &[u8],
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let data = got.data(frame);
        let Outline { sequence, acknowledgement, window, .. } = got.outline;
        conn.see_client(got, frame);
        if got.has(RST) {
            // Only the exact number counts (RFC 5961 section 3.2).
            if sequence == conn.next || sequence == conn.limit() {
                self.reset_backend(conn, world);
                conn.become_(State::Gone, now_ms);
            }
            return;
        }
        let good = acknowledgement == conn.cookie.wrapping_add(1);
        conn.window = window;
        match conn.state {
            State::Half if good => {
                conn.become_(State::Front, now_ms);
                world.count(Event::Opened);
            }
            State::Half => return self.reset_unknown(got, world),
            State::Answering(_) | State::Answered => {
                return self.after_answer(conn, got, data, now_ms, world);
            }
            _ if !good => return,
            _ => {}
        }
        conn.seen_ms = now_ms;
        let skip = conn.next.wrapping_sub(sequence) as usize;
        let fresh = data.get(skip..).unwrap_or_default();
        if conn.speaks == Speaks::Any && conn.state == State::Front && fresh.is_empty() {
            return self.assign(conn, now_ms, world);
        }
        let ends = got.has(FIN) && sequence.wrapping_add(data.len() as u32) == conn.next;
        if ends && conn.state == State::Front && fresh.is_empty() {
            // The client has nothing to ask.
            let outline = Self::to_client(conn, conn.cookie.wrapping_add(1), RST | ACK);
            Self::make(&outline, &[], &[], world);
            return conn.become_(State::Gone, now_ms);
        }
        if fresh.is_empty() {
            if conn.state == State::Front && !data.is_empty() && skip <= BLOCK {
                self.own(conn, now_ms, world);
            }
            return;
        }
        if !self.gather(conn, fresh, FIRST_FLIGHT) {
            return world.count(Event::NoRoom);
        }
        if conn.state == State::Front {
            if conn.block.as_ref().is_some_and(|block| block.len() == fresh.len()) {
                conn.since_ms = now_ms;
            }
            self.route(conn, Refusal::NoBackend, now_ms, world);
        }
    }

    /// Acknowledges the bytes of a header that is not whole. The client has repeated some
    /// of them, and may send nothing else before it hears of them: after a timeout a host
    /// sends one segment, which the agent has already. From now on it is the agent that
    /// repeats them to the backend.
    pub(crate) fn own<B: PacketBuf>(
        &self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        world.count(Event::Owned);
        (conn.owned, conn.repeated_ms) = (Some(conn.next), now_ms);
        let outline = Self::to_client(conn, conn.acked, ACK);
        Self::make(&outline, &conn.options_to_client(), &[], world);
    }

    /// Keeps bytes of a header. `false`: there is no block.
    pub(crate) fn gather(&mut self, conn: &mut Conn, bytes: &[u8], limit: usize) -> bool {
        if conn.block.is_none() {
            conn.block = self.blocks.get_for(bytes.len());
        }
        let Some(block) = &mut conn.block else { return false };
        if block.len() + bytes.len() > SMALL && self.blocks.grow(block).is_none() {
            return false;
        }
        conn.next = conn.next.wrapping_add(block.take(bytes, limit) as u32);
        true
    }
}
