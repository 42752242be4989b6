//! Insertion of connections that need no local endpoint of a pool, prepared
//! beforehand: hashes and checksum changes are computed and the cache
//! lines of a burst's insertions fetched before the first connection is
//! inserted.
use flow::{BackendId, HopId, ServiceId};
use service::Forwarding;
use wire::FastRewrite;

use crate::fast::FastKey;
use crate::id::ConnId;
use crate::index::Probe;
use crate::insert::Born;
use crate::insert_api::InsertError;
use crate::key::{Deltas, Halves, Key};
use crate::record::Content;
use crate::shares::Limit;
use crate::state::TcpState;
use crate::table::ConnTable;
use crate::time::tick;

/// A connection of any mode but `fullnat` that may be inserted into the table that
/// prepared it.
#[derive(Clone, Copy, Debug)]
pub struct PreparedInsert<const K: usize> {
    content: Content<K>,
    probes: [Probe; 2],
}

impl<const K: usize> PreparedInsert<K>
where
    Key<K>: FastKey<K>,
{
    /// The backend that serves the connection.
    #[inline]
    #[must_use]
    pub const fn backend(&self) -> BackendId {
        self.content.backend
    }

    /// The backend to which the client's packets go in a tunnel, if they do.
    #[inline]
    #[must_use]
    pub const fn tunnel(&self) -> Option<BackendId> {
        match self.content.forwarding {
            Forwarding::Tunnel => Some(self.content.backend),
            Forwarding::Rewrite | Forwarding::Direct => None,
        }
    }

    /// What is done to the client's packets: what [`Served::rewrite`] will say.
    ///
    /// [`Served::rewrite`]: crate::Served::rewrite
    #[inline]
    #[must_use]
    pub fn rewrite(&self) -> FastRewrite<K> {
        let Content { keys: [_, back], deltas: [there, _], .. } = &self.content;
        let Key { addresses, ports, .. } = back.swapped();
        FastRewrite { addresses, ports, net_delta: there.net, transport_delta: there.transport }
    }
}

impl ConnTable {
    /// The connection of `keys`, the client's 5-tuple and that of the answers
    /// ([`FastKey::answers`]), forwarded so to `backend` of `service`; `hops` are by
    /// direction. Fetches what [`Self::insert_prepared`] will touch, and changes
    /// nothing.
    #[inline(always)]
    #[must_use]
    pub fn prepare_insert<const K: usize>(
        &self,
        keys: [Key<K>; 2],
        (service, backend, forwarding): (ServiceId, BackendId, Forwarding),
        hops: [HopId; 2],
    ) -> PreparedInsert<K>
    where
        Key<K>: FastKey<K>,
    {
        let probes = <Key<K> as FastKey<K>>::table(self).approach(&keys);
        let deltas = Deltas::of(&keys, forwarding);
        let content = Content { keys, deltas, hops, service, backend, forwarding };
        PreparedInsert { content, probes }
    }

    /// With what [`Self::prepare_insert`] asked for at hand, fetches what else
    /// [`Self::insert_prepared`] will touch: worth it some insertions ahead.
    #[inline]
    pub fn prefetch_further<const K: usize>(&self, prepared: &PreparedInsert<K>)
    where
        Key<K>: FastKey<K>,
    {
        <Key<K> as FastKey<K>>::table(self).approach_further(&prepared.probes);
    }

    /// Inserts a connection, as [`Self::insert`], whose first packet has come: of
    /// TCP a SYN. The connection is born in the state that its first packet gives
    /// it, so that packet needs no [`Self::touch`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[inline]
    pub fn insert_prepared<const K: usize>(
        &self,
        prepared: &PreparedInsert<K>,
        now_ms: u64,
    ) -> Result<ConnId, InsertError>
    where
        Key<K>: FastKey<K>,
    {
        let PreparedInsert { content, probes } = prepared;
        let [there, back] = &content.keys;
        if there == back {
            return Err(InsertError::Loop);
        }
        let born = Born { state: TcpState::opened(there.proto), seen: tick(now_ms) };
        let table = <Key<K> as FastKey<K>>::table(self);
        self.limited(content, true, || table.insert_as(content, probes, born))
    }

    /// Whether another connection has the reply key, of a connection whose answers
    /// are known by it.
    #[inline]
    #[must_use]
    pub fn conflicts<const K: usize>(&self, prepared: &PreparedInsert<K>) -> bool
    where
        Key<K>: FastKey<K>,
    {
        let Content { keys: [_, back], .. } = &prepared.content;
        let family = <Key<K> as FastKey<K>>::table(self);
        let look = || family.look::<true>(back).unwrap_or_else(|| family.look_surely(back));
        !prepared.content.is_one_way() && look().is_some()
    }

    /// The limit that keeps an embryonic connection of `service` and a client with
    /// `key` out of the table at present.
    #[inline]
    #[must_use]
    pub fn limit<const K: usize>(&self, service: ServiceId, key: &Key<K>) -> Option<Limit>
    where
        Key<K>: FastKey<K>,
    {
        self.shares.limit(service, key)
    }

    /// Whether no record is free for another connection of the family. Callers
    /// ask because they want to insert one; a `true` is counted as a refusal.
    #[inline]
    #[must_use]
    pub fn refuses<const K: usize>(&self) -> bool
    where
        Key<K>: FastKey<K>,
    {
        <Key<K> as FastKey<K>>::table(self).refuses()
    }
}
