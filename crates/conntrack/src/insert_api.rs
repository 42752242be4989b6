//! Insertions of connections of either family.
use flow::HopId;
use service::Binding;

use crate::id::{ConnId, Hit};
use crate::insert::Refusal;
use crate::key::{BothKeys, Deltas, Family, Key};
use crate::record::Content;
use crate::shares::Limit;
use crate::table::ConnTable;
use crate::time::tick;

/// Why a connection was not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InsertError {
    /// No record is free, or no place in the index within the bounded search.
    #[error("the connection table is full")]
    Full,
    /// The service or the client's network has too many of them.
    #[error("the service or the client's network has as many connections as it may have")]
    Limited(Limit),
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
        self.insert_within(binding, hops, now_ms, true)
    }

    /// As [`Self::insert`], for a connection of which the server's answer has been
    /// seen: no limit of embryonic ones counts for it.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_answered(
        &self,
        binding: &Binding,
        hops: [HopId; 2],
        now_ms: u64,
    ) -> Result<ConnId, InsertError> {
        self.insert_within(binding, hops, now_ms, false)
    }

    fn insert_within(
        &self,
        binding: &Binding,
        hops: [HopId; 2],
        now_ms: u64,
        limited: bool,
    ) -> Result<ConnId, InsertError> {
        let now = tick(now_ms);
        match BothKeys::of(binding) {
            Some(BothKeys::V4(keys)) if keys[0] != keys[1] => {
                let content = content(keys, binding, hops);
                self.limited::<1>(&content, limited, || self.v4.insert(&content, now))
            }
            Some(BothKeys::V6(keys)) if keys[0] != keys[1] => {
                let content = content(keys, binding, hops);
                self.limited::<4>(&content, limited, || self.v6.insert(&content, now))
            }
            Some(_) => Err(InsertError::Loop),
            None => Err(InsertError::MixedFamilies),
        }
    }

    /// Inserts the embryonic connection `content` by `insert`, if the limits that
    /// count for it (`limited`) let it.
    #[inline]
    pub(crate) fn limited<const K: usize>(
        &self,
        content: &Content<K>,
        limited: bool,
        insert: impl FnOnce() -> Result<u32, Refusal>,
    ) -> Result<ConnId, InsertError>
    where
        Key<K>: Family,
    {
        let (service, key) = (content.service, &content.keys[0]);
        if let Some(limit) = self.shares.limit(service, key).filter(|_| limited) {
            return Err(InsertError::Limited(limit));
        }
        let done = insert();
        if done.is_ok() && limited {
            self.shares.inserted(service, key);
        }
        outcome::<K>(done)
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
    Content { keys, deltas: Deltas::of(&keys, forwarding), hops, service, backend, forwarding }
}

/// The outcome of an insertion, as the callers of the table get it.
#[inline]
fn outcome<const K: usize>(done: Result<u32, Refusal>) -> Result<ConnId, InsertError>
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
