//! What a connection looks like from outside.
use flow::{BackendId, Direction, HopId, ServiceId};
use service::{Binding, Delivery};
use wire::Side;

use crate::key::{Family, Halves, Key};
use crate::offload::OffloadState;
use crate::record::Content;
use crate::state::ConnState;

/// What is done to one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// What is done to the packet itself.
    pub delivery: Delivery,
    /// Where the packet is sent.
    pub hop: HopId,
    /// The service it counts for.
    pub service: ServiceId,
    /// The backend it counts for.
    pub backend: BackendId,
    /// Which way it goes.
    pub direction: Direction,
}

/// A connection for display and export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnView {
    /// The addresses on both sides.
    pub binding: Binding,
    /// Next hops, forward first.
    pub hops: [HopId; 2],
    /// The connection's state.
    pub state: ConnState,
    /// How far its way into the NIC is.
    pub offload: OffloadState,
    /// Milliseconds since the last packet, in steps of 64.
    pub idle_ms: u64,
    /// How many connections have had this id, this one included, modulo 2^32.
    pub generation: u32,
}

impl<const K: usize> Content<K>
where
    Key<K>: Family + Halves,
{
    pub(crate) fn binding(&self) -> Binding {
        let [forward, reply] = &self.keys;
        Binding {
            proto: forward.proto,
            service: self.service,
            backend: self.backend,
            forwarding: self.forwarding,
            client: forward.src(),
            vip: forward.dst(),
            server: reply.src(),
            local: reply.dst(),
        }
    }

    /// What is done to packets of `direction`: [`Binding::delivery`], from the
    /// stored checksum changes.
    #[inline]
    pub(crate) fn action(&self, direction: Direction) -> Action {
        let ([there, back], [hop, hop_back]) = (self.deltas, self.hops);
        let (deltas, hop) = match direction {
            Direction::Forward => (there, hop),
            Direction::Reply => (back, hop_back),
        };
        let delivery = self.forwarding.delivery(direction, self.backend).unwrap_or_else(|| {
            let (new, side) = target(&self.keys, direction);
            Delivery::Rewrite(new.only(side).rewrite(deltas, side))
        });
        Action { delivery, hop, service: self.service, backend: self.backend, direction }
    }
}

/// What packets of `direction` carry behind the load balancer, and which part
/// of it is new to them.
#[inline]
fn target<const K: usize>([forward, reply]: &[Key<K>; 2], direction: Direction) -> (Key<K>, Side)
where
    Key<K>: Halves + PartialEq,
{
    // (local, server) and (VIP, client).
    let (inside, outside) = (reply.swapped(), forward.swapped());
    // The backend sees the client itself: only the other end is replaced.
    let nat = reply.only(Side::Destination) == outside.only(Side::Destination);
    match (direction, nat) {
        (Direction::Forward, true) => (inside, Side::Destination),
        (Direction::Reply, true) => (outside, Side::Source),
        (Direction::Forward, false) => (inside, Side::Both),
        (Direction::Reply, false) => (outside, Side::Both),
    }
}
