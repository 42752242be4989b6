//! The short way into the table for IPv4 connections whose packets change
//! nothing but the far end: worked out before insertion, so that the cache
//! lines of many are fetched before the first is inserted.
use std::net::SocketAddrV4;

use flow::{BackendId, Direction, HopId, ServiceId};
use service::Forwarding;
use wire::{FlowV4, TcpFlags};

use crate::id::ConnId;
use crate::index::Probe;
use crate::insert::Born;
use crate::key::{Deltas, Halves, Key4};
use crate::opening::{InsertError, outcome};
use crate::plain::PlainAction;
use crate::record::Content;
use crate::state::TcpState;
use crate::table::ConnTable;
use crate::time::tick;

/// A connection of mode `nat` that may be inserted into the table that made it.
#[derive(Clone, Copy, Debug)]
pub struct PlainOpening {
    content: Content<1>,
    probes: [Probe; 2],
}

impl PlainOpening {
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

impl ConnTable {
    /// The connection whose first packet is `flow`, served by `backend` of
    /// `service` at `server`; `hops` are by direction. Brings closer what
    /// [`Self::open`] will touch, and changes nothing.
    #[inline(always)]
    #[must_use]
    pub fn prepare(
        &self,
        flow: &FlowV4,
        server: SocketAddrV4,
        (service, backend): (ServiceId, BackendId),
        hops: [HopId; 2],
    ) -> PlainOpening {
        let back = FlowV4 {
            src: *server.ip(),
            sport: server.port(),
            dst: flow.src,
            dport: flow.sport,
            proto: flow.proto,
        };
        let keys = [Key4::from(flow), Key4::from(&back)];
        let probes = self.v4.approach(&keys);
        let (deltas, forwarding) = (Deltas::of(&keys), Forwarding::Rewrite);
        let content = Content { keys, deltas, hops, service, backend, forwarding };
        PlainOpening { content, probes }
    }

    /// With what [`Self::prepare`] asked for at hand, brings closer what else
    /// [`Self::open`] will touch: worth it some insertions ahead.
    #[inline]
    pub fn prepare_further(&self, opening: &PlainOpening) {
        self.v4.approach_further(&opening.probes);
    }

    /// Inserts a connection, as [`Self::insert`], whose first packet is there:
    /// of TCP a SYN. It needs no [`Self::touch`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[inline]
    pub fn open(&self, opening: &PlainOpening, now_ms: u64) -> Result<ConnId, InsertError> {
        const SYN: Option<TcpFlags> = Some(TcpFlags(TcpFlags::SYN));
        let PlainOpening { content, probes } = opening;
        let [there, back] = &content.keys;
        if there == back {
            return Err(InsertError::Loop);
        }
        let state = TcpState::first(there.proto, content.forwarding);
        let (state, _) = state.after(Direction::Forward, SYN);
        outcome::<1>(self.v4.insert_as(content, probes, Born { state, seen: tick(now_ms) }))
    }

    /// Whether the reply key is a connection's already.
    #[inline]
    #[must_use]
    pub fn conflicts(&self, opening: &PlainOpening) -> bool {
        let [_, back] = &opening.content.keys;
        let found = self.v4.look::<true>(back);
        found.unwrap_or_else(|| self.v4.look_surely(back)).is_some()
    }

    /// Whether no record is free for another IPv4 connection: whoever asks
    /// wants to insert one, and is counted as refused then.
    #[inline]
    #[must_use]
    pub fn refuses_v4(&self) -> bool {
        self.v4.refuses()
    }
}
