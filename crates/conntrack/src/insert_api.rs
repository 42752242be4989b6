//! Insertions of connections of either family, one at a time or as a burst.
use flow::HopId;
use service::Binding;

use crate::id::{ConnId, Hit};
use crate::index::Probe;
use crate::insert::Refusal;
use crate::key::{BothKeys, Deltas, Family, Key};
use crate::record::Content;
use crate::table::ConnTable;
use crate::time::tick;

/// How many insertions before its own a connection of a burst is prepared, so
/// that its memory is there in time.
const AHEAD: usize = if cfg!(loom) { 2 } else { 16 };
/// How many after that what has come of it tells whether more is needed.
const NEAR: usize = AHEAD / 2;

/// Why a connection was not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InsertError {
    /// No record is free, or no place in the index within the bounded search.
    #[error("the connection table is full")]
    Full,
    /// The forward 5-tuple is a connection's already: use that one.
    #[error("the connection is in the table already")]
    Exists(Hit),
    /// The reply 5-tuple is another connection's: choose another local port.
    #[error("another connection to the same server has the same local address and port")]
    ReplyConflict(Hit),
    /// The endpoints are not all IPv4 or all IPv6.
    #[error("the endpoints of the connection are of different families")]
    MixedFamilies,
    /// Forward and reply 5-tuple are the same: client and server are one, and
    /// so are VIP and local end.
    #[error("packets of both directions of the connection would look the same")]
    Loop,
}

/// A connection on its way in.
#[derive(Clone, Copy)]
enum Opening {
    V4(Prepared<1>),
    V6(Prepared<4>),
    Refused(InsertError),
}

/// What is inserted, and where.
#[derive(Clone, Copy)]
struct Prepared<const K: usize> {
    content: Content<K>,
    probes: [Probe; 2],
}

impl ConnTable {
    /// Inserts a connection, in state [`ConnState::New`] or
    /// [`ConnState::Unanswered`]; its first packet is counted by
    /// [`Self::touch`] afterwards, as any other. `hops` are by direction.
    ///
    /// # Errors
    /// Nothing was inserted; the variant says why. Of several workers that
    /// insert one forward key at a time, one succeeds, and the others get its
    /// connection in [`InsertError::Exists`]. A connection whose answers go past
    /// the load balancer is found by its forward key alone.
    ///
    /// [`ConnState::New`]: crate::ConnState::New
    /// [`ConnState::Unanswered`]: crate::ConnState::Unanswered
    pub fn insert(
        &self,
        binding: &Binding,
        hops: [HopId; 2],
        now_ms: u64,
    ) -> Result<ConnId, InsertError> {
        match BothKeys::of(binding) {
            Some(BothKeys::V4(keys)) if keys[0] != keys[1] => {
                outcome::<1>(self.v4.insert(&content(keys, binding, hops), tick(now_ms)))
            }
            Some(BothKeys::V6(keys)) if keys[0] != keys[1] => {
                outcome::<4>(self.v6.insert(&content(keys, binding, hops), tick(now_ms)))
            }
            Some(_) => Err(InsertError::Loop),
            None => Err(InsertError::MixedFamilies),
        }
    }

    /// Inserts connections, each as [`Self::insert`] does and one after the other,
    /// and writes what came of it to `out`, as far as both reach. Faster than
    /// that from a handful on: memory is fetched for several at a time.
    pub fn insert_burst(
        &self,
        new: &[(Binding, [HopId; 2])],
        now_ms: u64,
        out: &mut [Result<ConnId, InsertError>],
    ) {
        let mut ready = [Opening::Refused(InsertError::MixedFamilies); AHEAD];
        let count = new.len().min(out.len());
        for at in 0..count + AHEAD {
            // Three at a time: one goes in, one will soon, one is far away.
            let near = at.wrapping_sub(NEAR);
            if near < count {
                self.look_ahead(&ready[near % AHEAD]);
            }
            if let Some(out) = at.checked_sub(AHEAD).and_then(|at| out.get_mut(at)) {
                *out = self.put_in(&ready[at % AHEAD], now_ms);
            }
            if let Some((binding, hops)) = new.get(at) {
                self.ready(binding, *hops, &mut ready[at % AHEAD]);
            }
        }
    }

    #[inline]
    fn ready(&self, binding: &Binding, hops: [HopId; 2], ready: &mut Opening) {
        match BothKeys::of(binding) {
            Some(BothKeys::V4(keys)) if keys[0] != keys[1] => {
                let probes = self.v4.approach(&keys);
                *ready = Opening::V4(Prepared { content: content(keys, binding, hops), probes });
            }
            Some(BothKeys::V6(keys)) if keys[0] != keys[1] => {
                let probes = self.v6.approach(&keys);
                *ready = Opening::V6(Prepared { content: content(keys, binding, hops), probes });
            }
            Some(_) => *ready = Opening::Refused(InsertError::Loop),
            None => *ready = Opening::Refused(InsertError::MixedFamilies),
        }
    }

    #[inline]
    fn look_ahead(&self, opening: &Opening) {
        match opening {
            Opening::V4(prepared) => self.v4.approach_further(&prepared.probes),
            Opening::V6(prepared) => self.v6.approach_further(&prepared.probes),
            Opening::Refused(_) => {}
        }
    }

    #[inline]
    fn put_in(&self, opening: &Opening, now_ms: u64) -> Result<ConnId, InsertError> {
        match opening {
            Opening::V4(Prepared { content, probes }) => {
                outcome::<1>(self.v4.insert_at(content, probes, tick(now_ms)))
            }
            Opening::V6(Prepared { content, probes }) => {
                outcome::<4>(self.v6.insert_at(content, probes, tick(now_ms)))
            }
            Opening::Refused(refusal) => Err(*refusal),
        }
    }
}

#[inline]
fn content<const K: usize>(
    keys: [Key<K>; 2],
    &Binding { service, backend, forwarding, .. }: &Binding,
    hops: [HopId; 2],
) -> Content<K>
where
    Key<K>: Family,
{
    Content { keys, deltas: Deltas::of(&keys), hops, service, backend, forwarding }
}

/// What came of an insertion, as those outside have it.
#[inline]
pub(crate) fn outcome<const K: usize>(done: Result<u32, Refusal>) -> Result<ConnId, InsertError>
where
    Key<K>: Family,
{
    let bit = <Key<K> as Family>::ID_BIT;
    match done {
        Ok(number) => Ok(ConnId::from_raw(number | bit)),
        Err(Refusal::Full) => Err(InsertError::Full),
        Err(Refusal::Exists(found)) => Err(InsertError::Exists(Hit::new(found, bit))),
        Err(Refusal::ReplyConflict(found)) => Err(InsertError::ReplyConflict(Hit::new(found, bit))),
    }
}
