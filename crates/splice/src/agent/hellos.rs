//! Connections that begin with TLS: the ClientHello chooses the backend, and from then on
//! all bytes pass as they are.
use packet::PacketBuf;

use super::Common;
use crate::connection::{Conn, State};
use crate::hello::Hello;
use crate::refusal::Refusal;
use crate::rejection::Rejection;
use crate::world::{Event, Inquiry, Terms, World};

impl Common {
    /// Chooses a backend as soon as the hello is whole. If there is none, the client is
    /// told `none`.
    pub(super) fn route_hello<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        none: Refusal,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let bytes = conn.block.as_ref().map(|block| block.bytes()).unwrap_or_default();
        let choice = match Hello::parse(bytes) {
            Ok(None) if bytes.len() >= self.settings.header_limit => Err(Rejection::TooLong),
            Ok(None) => return,
            Ok(Some(hello)) => {
                let (service, ends, tried) = (conn.service, conn.ends, &conn.tried[..]);
                world.direct(&Inquiry { service, ends, tried, kept: None }, &hello)
            }
            Err(error) => Err(error.into()),
        };
        match choice {
            Ok(backend) => {
                conn.join(backend, Terms { keeps: true, ..Terms::default() });
                // What the backend says is not read.
                conn.blind = true;
                conn.become_(State::Connecting(0), now_ms);
            }
            Err(Rejection::NoBackend) => self.reject(conn, none.into(), now_ms, world),
            Err(rejection) => self.reject(conn, rejection, now_ms, world),
        }
    }

    /// Ends the connection by an alert, or by a reset if the client speaks no TLS.
    pub(super) fn reject<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        rejection: Rejection,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        world.count(Event::Rejected(rejection));
        let answer = rejection.answer();
        if answer.is_empty() {
            conn.backend = None;
            return Self::dismiss(conn, now_ms, world);
        }
        let mut block = self.blocks.get_for(answer.len());
        if let Some(block) = &mut block {
            block.take(&answer, answer.len());
        }
        self.answer_with(conn, block, now_ms, world);
    }
}
