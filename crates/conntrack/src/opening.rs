//! The short way into the table for IPv4 connections whose packets change
//! nothing but the far end: worked out before insertion, so that the cache
//! lines of many are fetched before the first is inserted.
use std::net::SocketAddrV4;

use service::{BackendId, Direction, Forwarding, HopId, ServiceId};
use wire::{FlowV4, Side, TcpFlags};

use crate::family::Born;
use crate::id::ConnId;
use crate::key::{Deltas, Family, Halves, Key4};
use crate::plain::PlainAction;
use crate::record::Content;
use crate::state::TcpState;
use crate::table::{ConnTable, InsertError, refused};
use crate::time::tick;

/// A connection of mode `nat` that may be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainOpening {
    content: Content<1>,
}

impl PlainOpening {
    /// The connection whose first packet is `flow`, served by `backend` of
    /// `service` at `server`. `hops` are by direction.
    #[inline(always)]
    #[must_use]
    pub fn new(
        flow: &FlowV4,
        server: SocketAddrV4,
        (service, backend): (ServiceId, BackendId),
        hops: [HopId; 2],
    ) -> Self {
        let back = FlowV4 {
            src: *server.ip(),
            sport: server.port(),
            dst: flow.src,
            dport: flow.sport,
            proto: flow.proto,
        };
        let keys = [Key4::from(flow), Key4::from(&back)];
        let (deltas, forwarding) = (deltas(&keys), Forwarding::Rewrite);
        Self { content: Content { keys, deltas, hops, service, backend, forwarding } }
    }

    /// Who serves it.
    #[inline]
    #[must_use]
    pub const fn backend(&self) -> BackendId {
        self.content.backend
    }

    /// What is done to the client's packets: what [`ConnTable::plain`] will say.
    #[inline]
    #[must_use]
    pub fn action(&self) -> PlainAction {
        let Content { keys: [_, back], deltas: [there, _], hops: [hop, _], .. } = &self.content;
        let Key4 { addresses: [addresses], ports, .. } = back.swapped();
        PlainAction {
            addresses,
            ports,
            net_delta: there.net,
            transport_delta: there.transport,
            hop: *hop,
        }
    }
}

/// [`crate::view::deltas`] of a connection of which only one end is replaced.
#[inline]
fn deltas([forward, reply]: &[Key4; 2]) -> [Deltas; 2] {
    let (there, back) = (reply.swapped(), forward.swapped());
    [
        Deltas::between(&forward.only(Side::Destination), &there.only(Side::Destination)),
        Deltas::between(&reply.only(Side::Source), &back.only(Side::Source)),
    ]
}

impl ConnTable {
    /// Brings closer what [`Self::open`] will touch and a lookup of the forward
    /// key has not. Changes nothing.
    #[inline]
    pub fn prefetch_open(&self, opening: &PlainOpening) {
        self.v4.prefetch(&opening.content.keys[Direction::Reply.index()]);
    }

    /// Inserts a connection, as [`Self::insert`], whose first packet is there:
    /// of TCP a SYN. It needs no [`Self::touch`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[inline]
    pub fn open(&self, opening: &PlainOpening, now_ms: u64) -> Result<ConnId, InsertError> {
        const SYN: Option<TcpFlags> = Some(TcpFlags(TcpFlags::SYN));
        let content = &opening.content;
        let state = TcpState::first(content.keys[0].proto, content.forwarding);
        let (state, _) = state.after(Direction::Forward, SYN);
        let [there, back] = &content.keys;
        if there == back {
            return Err(InsertError::Loop);
        }
        match self.v4.insert_as(content, Born { state, seen: tick(now_ms) }) {
            Ok(number) => Ok(ConnId::from_raw(number | Key4::ID_BIT)),
            Err(refusal) => Err(refused(refusal, Key4::ID_BIT)),
        }
    }

    /// Whether the reply key is a connection's already.
    #[inline]
    #[must_use]
    pub fn conflicts(&self, opening: &PlainOpening) -> bool {
        let [_, back] = &opening.content.keys;
        self.v4.glance(back).is_some() || self.v4.lookup(back).is_some()
    }

    /// Whether no record is free for another IPv4 connection: whoever asks
    /// wants to insert one, and is counted as refused then.
    #[inline]
    #[must_use]
    pub fn refuses_v4(&self) -> bool {
        self.v4.refuses()
    }
}
