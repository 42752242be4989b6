//! Requests of one connection that go to different backends (messages M9 and M10).
//!
//! A request for another backend waits until every request before it has its whole
//! response, and the client has acknowledged that. Then no byte is on its way on either
//! side, so the connection to the old backend ends, and one to the new backend begins
//! with the client's numbers of that moment, as the first did with those of its SYN.
use packet::PacketBuf;

use super::Common;
use crate::connection::{Conn, Down, State};
use crate::edits::{Edits, before};
use crate::options::Offer;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::response::Responses;
use crate::world::{Answer, Choice, Event, Inquiry, World};

impl Conn {
    /// Whether nothing is on its way on either side.
    pub(crate) fn is_settled(&self) -> bool {
        self.state == State::Open
            && self.responses.is_idle()
            && self.edits.open().is_empty()
            && !before(self.received, self.limit())
            && self.down.edits.open().is_empty()
            && self.down.block.is_none()
            && self.acked == self.to_agent(self.response_next)
    }

    const fn inquiry(&self) -> Inquiry<'_> {
        Inquiry { service: self.service, ends: self.ends, tried: &[], kept: self.backend }
    }
}

impl Common {
    /// Whether `request`, which is that in the block if it is whole, is for the present
    /// backend. Otherwise it is held.
    pub(crate) fn stays<B: PacketBuf>(
        &self,
        conn: &mut Conn,
        request: Option<&Request<'_>>,
        world: &mut impl World<B>,
    ) -> bool {
        if conn.keeps || conn.fresh {
            return true;
        }
        // What can't be read is refused where it is translated.
        let Some(request) = request else { return true };
        conn.instead = match world.choose(&conn.inquiry(), request, &mut Answer(None)) {
            Ok(Choice::Backend { backend, terms }) if Some(backend.at) == conn.backend => {
                conn.sticks = terms.sticks;
                return true;
            }
            Ok(Choice::Backend { backend, terms }) => {
                conn.instead_terms = terms;
                Some(backend)
            }
            // It is answered as soon as its turn comes.
            Ok(Choice::Answer(_)) | Err(_) => None,
        };
        conn.held = true;
        false
    }

    /// Goes on to the backend of the request that is held, if its turn has come.
    pub(super) fn go_on<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let [_, server_ended] = conn.ended;
        if server_ended && conn.state == State::Open {
            // The client knows that the connection has ended, and asks anew elsewhere.
            return self.reset_both(conn, now_ms, world);
        }
        if !conn.is_settled() || !Self::release(conn, world) {
            return;
        }
        if std::mem::take(&mut conn.unseen) {
            conn.clocks.leap();
        }
        world.count(Event::Switched);
        self.reset_backend(conn, world);
        let start = conn.limit();
        (conn.isn, conn.cookie) = (start.wrapping_sub(1), conn.acked.wrapping_sub(1));
        conn.received = start;
        let shift = conn.granted.scale.and(conn.offer.scale).unwrap_or(0);
        let window = u32::from(conn.window) << shift;
        conn.first_window = u16::try_from(window).unwrap_or(u16::MAX);
        (conn.server, conn.server_window) = (Offer::default(), None);
        (conn.edits, conn.responses) = (Edits::default(), Responses::default());
        conn.down = Down::default();
        (conn.fresh, conn.held) = (true, false);
        conn.tried.clear();
        conn.backend = None;
        if let Some(backend) = conn.instead.take() {
            conn.join(backend, conn.instead_terms);
            return conn.become_(State::Connecting(0), now_ms);
        }
        conn.become_(State::Front, now_ms);
        self.route(conn, Refusal::NoBackend, now_ms, world);
    }
}
