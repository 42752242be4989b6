//! The fast path through a record: a packet of a connection whose state it does
//! not change. Verifying the
//! key, noting that the packet came and reading what is done to it take one
//! look at the record: one cache line of IPv4, two of IPv6.
use std::net::{Ipv4Addr, SocketAddr};

use flow::{BackendId, Direction, HopId};
use service::Forwarding;
use wire::{FastRewrite, Transport};

use crate::burst::LookupKey;
use crate::family::FamilyTable;
use crate::id::Hit;
use crate::key::{Family, Halves, Key, addresses_v4, ports};
use crate::record::Record;
use crate::table::ConnTable;
use crate::time::tick;

/// A key whose family the fast path serves: [`Key<1>`] and [`Key<4>`].
pub trait FastKey<const K: usize>: LookupKey + Family + Halves {
    /// The family's connections.
    #[doc(hidden)]
    fn table(all: &ConnTable) -> &FamilyTable<K>;

    #[doc(hidden)]
    fn answered_by(&self, server: SocketAddr) -> Option<Self>;

    /// The key of the answers to packets with this key that get to `server` so;
    /// `None` if they are rewritten and `server` is of the other family.
    #[inline]
    fn answers(&self, server: SocketAddr, forwarding: Forwarding) -> Option<Self> {
        if forwarding.is_one_way() { Some(self.swapped()) } else { self.answered_by(server) }
    }
}

impl FastKey<1> for Key<1> {
    #[inline(always)]
    fn table(all: &ConnTable) -> &FamilyTable<1> {
        &all.v4
    }

    #[inline]
    fn answered_by(&self, server: SocketAddr) -> Option<Self> {
        let SocketAddr::V4(server) = server else { return None };
        let [word] = self.addresses.map(u64::from_be);
        let client = Ipv4Addr::from_bits((word >> 32) as u32);
        let addresses = addresses_v4(*server.ip(), client);
        let ports = ports(server.port(), source_port(self.ports));
        Some(Self { addresses, ports, proto: self.proto })
    }
}

impl FastKey<4> for Key<4> {
    #[inline(always)]
    fn table(all: &ConnTable) -> &FamilyTable<4> {
        &all.v6
    }

    #[inline]
    fn answered_by(&self, server: SocketAddr) -> Option<Self> {
        let SocketAddr::V6(server) = server else { return None };
        let ([high, low, ..], bits) = (self.addresses, server.ip().to_bits());
        let addresses = [((bits >> 64) as u64).to_be(), (bits as u64).to_be(), high, low];
        let ports = ports(server.port(), source_port(self.ports));
        Some(Self { addresses, ports, proto: self.proto })
    }
}

const fn source_port(ports: u32) -> u16 {
    (u32::from_be(ports) >> 16) as u16
}

/// A connection that serves a packet.
///
/// What is done to the packet is read from the record when it is asked for: a
/// caller that first makes sure of the next hop need not keep it all that long in
/// registers that it needs for other things.
#[derive(Debug)]
pub struct Served<'a, const K: usize> {
    record: &'a Record<K>,
    direction: Direction,
    proto: Transport,
}

impl<const K: usize> Served<'_, K>
where
    Key<K>: FastKey<K>,
{
    /// The backend of the connection.
    #[inline(always)]
    #[must_use]
    pub fn backend(&self) -> BackendId {
        self.record.backend()
    }

    /// Where the packet is sent.
    #[inline(always)]
    #[must_use]
    pub fn hop(&self) -> HopId {
        self.record.hop(self.direction)
    }

    /// All addresses and ports of the packet behind the load balancer, also those
    /// that stay: the other direction's key turned round. So which side is
    /// rewritten is no case of its own, nor whether anything is.
    #[inline(always)]
    #[must_use]
    pub fn rewrite(&self) -> FastRewrite<K> {
        let words = self.record.words(self.direction);
        let other = Key { addresses: words.other, ports: words.other_ports, proto: self.proto };
        let Key { addresses, ports, .. } = other.swapped();
        FastRewrite {
            addresses,
            ports,
            net_delta: (words.deltas >> 16) as u16,
            transport_delta: words.deltas as u16,
        }
    }
}

impl ConnTable {
    /// What is done to a packet without SYN, FIN and RST that carries `key` and
    /// that a mark has assigned to `hit`, which is verified here. Notes that the
    /// packet came. `None`, and nothing is noted, if the packet is not one of
    /// `hit`, if it goes in a tunnel ([`Self::serve_tunnel`]), or if its connection
    /// needs a closer look: the caller falls back to the slow path.
    #[inline(always)]
    #[must_use]
    pub fn serve_marked<const K: usize>(
        &self,
        hit: Hit,
        key: &Key<K>,
        now_ms: u64,
    ) -> Option<Served<'_, K>>
    where
        Key<K>: FastKey<K>,
    {
        self.serve_if(hit, key, now_ms, |record| {
            record.carries(hit.direction, key.addresses, key.ports)
                && record.is_of(key.proto.number(), false)
        })
    }

    /// As [`Self::serve_marked`], of a packet that goes in a tunnel: the backend at
    /// its end, and the next hop.
    #[inline]
    #[must_use]
    pub fn serve_tunnel<const K: usize>(
        &self,
        hit: Hit,
        key: &Key<K>,
        now_ms: u64,
    ) -> Option<(BackendId, HopId)>
    where
        Key<K>: FastKey<K>,
    {
        let served = self.serve_if(hit, key, now_ms, |record| {
            record.carries(hit.direction, key.addresses, key.ports)
                && record.is_of(key.proto.number(), true)
        })?;
        Some((served.record.backend(), served.hop()))
    }

    /// The same for a packet whose key was looked up and found as `hit` since the
    /// worker's last quiescent point. The index holds an IPv4 key whole, so the
    /// connection is still the packet's and its key is not compared again; of an
    /// IPv6 key it holds a digest, and the key is compared here.
    #[inline(always)]
    #[must_use]
    pub fn serve_found<const K: usize>(
        &self,
        hit: Hit,
        key: &Key<K>,
        now_ms: u64,
    ) -> Option<Served<'_, K>>
    where
        Key<K>: FastKey<K>,
    {
        self.serve_if(hit, key, now_ms, |record| {
            let same = <Key<K> as Family>::WHOLE
                || record.carries(hit.direction, key.addresses, key.ports);
            same && record.is_of(key.proto.number(), false)
        })
    }

    /// `serves` says whether the connection serves packets with `key`. Each question is
    /// one comparison that turns out alike for nearly every packet, so that it
    /// is predicted, and nothing is read before the questions that need it are
    /// answered, so that few registers are in use.
    #[inline(always)]
    fn serve_if<const K: usize>(
        &self,
        hit: Hit,
        key: &Key<K>,
        now_ms: u64,
        serves: impl FnOnce(&Record<K>) -> bool,
    ) -> Option<Served<'_, K>>
    where
        Key<K>: FastKey<K>,
    {
        // Hits of the other family are beyond the records.
        let number = hit.conn.raw() ^ <Key<K> as Family>::ID_BIT;
        let record = <Key<K> as FastKey<K>>::table(self).record(number)?;
        let settled = record.life().is_settled(hit.direction);
        if !settled || !serves(record) {
            return None;
        }
        record.see(tick(now_ms));
        Some(Served { record, direction: hit.direction, proto: key.proto })
    }
}
