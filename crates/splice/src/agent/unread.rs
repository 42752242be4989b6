//! Connections whose bytes pass as they are: behind a ClientHello, or from the first byte on.
//! Those of services with the PROXY protocol begin with its header.
use packet::PacketBuf;

use super::Common;
use crate::connection::{Conn, Reading, State};
use crate::edits::Edit;
use crate::hello::Hello;
use crate::proxy_v2::ProxyHeader;
use crate::refusal::Refusal;
use crate::world::{Event, Inquiry, Speaks, Terms, World};

impl Common {
    /// Chooses a backend, whatever the client says.
    pub(super) fn assign<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let (service, ends, tried) = (conn.service, conn.ends, &conn.tried[..]);
        match world.assign(&Inquiry { service, ends, tried, kept: None }) {
            Some(backend) => {
                conn.join(backend, Terms { keeps: true, ..Terms::default() });
                conn.blind = true;
                conn.become_(State::Connecting(0), now_ms);
            }
            None => Self::leave_unserved(conn, now_ms, world),
        }
    }

    /// Resets a client whose connection no backend takes.
    pub(super) fn leave_unserved<B: PacketBuf>(
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        world.count(Event::Unserved);
        conn.backend = None;
        Self::dismiss(conn, now_ms, world);
    }

    /// Sends the backend the header of the PROXY protocol, if its service has it, and what the
    /// client has said so far. Until the backend has it, that stays a piece that is repeated.
    /// `false`: nothing was sent.
    pub(crate) fn pass_first<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> bool {
        if conn.reading != Reading::Header {
            return false;
        }
        let at = conn.limit();
        let said = conn.block.take();
        let removed = said.as_ref().map_or(0, |block| block.len() as u32);
        let piece = if world.has_proxy_header(conn.service) {
            let bytes = said.as_ref().map(|block| block.bytes()).unwrap_or_default();
            self.requests += 1;
            let header = proxy_header(conn, self.cookies.number(conn.ends, self.requests), bytes);
            let Some(mut piece) = self.blocks.get_for(header.len() + bytes.len()) else {
                world.count(Event::NoRoom);
                conn.block = said;
                return false;
            };
            // What a client may say before it has a backend leaves room.
            let _ = piece.push(&header).and_then(|()| piece.push(bytes));
            said.into_iter().for_each(|block| self.blocks.put(block));
            world.count(Event::ProxyHeader);
            Some(piece)
        } else {
            said
        };
        if conn.speaks == Speaks::Tls {
            world.count(Event::Hello);
        }
        (conn.reading, conn.fresh) = (Reading::All, false);
        let Some(block) = piece else { return false };
        conn.edits.push(Edit { at, removed, block });
        conn.repeated_ms = now_ms;
        self.send_edit(conn, 0, world);
        true
    }

    /// Tells a client that no backend takes its connection.
    pub(super) fn refuse_unread<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        refusal: Refusal,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        match conn.speaks {
            Speaks::Tls => self.reject(conn, refusal.into(), now_ms, world),
            Speaks::Any | Speaks::Http => Self::leave_unserved(conn, now_ms, world),
        }
    }
}

/// What a backend is told of a connection that begins with `bytes`, as far as they are a
/// ClientHello.
fn proxy_header(conn: &Conn, id: u64, bytes: &[u8]) -> crate::proxy_v2::ProxyBytes {
    let plain = ProxyHeader::new(conn.ends, id);
    let hello = match conn.speaks {
        Speaks::Tls => Hello::parse(bytes).ok().flatten(),
        Speaks::Any | Speaks::Http => None,
    };
    let Some(hello) = hello else { return plain.bytes() };
    // With several on offer, the backend has yet to choose.
    let mut offered = hello.protocols();
    let alpn = offered.next().filter(|_| offered.next().is_none()).unwrap_or_default();
    let authority = hello.name.as_deref().unwrap_or_default();
    ProxyHeader { authority, alpn, ..plain }.bytes()
}
