//! The short way for IPv4 packets that change nothing but addresses and ports,
//! of connections whose state they don't change: one look at one cache line.
use flow::HopId;
use wire::{FlowKey, FlowV4, Transport};

use crate::id::Hit;
use crate::key::Key4;
use crate::record::Record;
use crate::table::ConnTable;
use crate::time::tick;

/// An IPv4 5-tuple in words, as the packet has them in memory: see
/// [`wire::Plain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainKey {
    /// Source, then destination address.
    pub addresses: u64,
    /// Source, then destination port.
    pub ports: u32,
    /// The protocol's number: TCP's or UDP's.
    pub proto: u8,
}

impl PlainKey {
    /// TCP, otherwise UDP.
    #[inline]
    pub(crate) const fn is_tcp(&self) -> bool {
        self.proto == Transport::Tcp.number()
    }
}

impl From<&PlainKey> for Key4 {
    #[inline]
    fn from(key: &PlainKey) -> Self {
        let proto = if key.is_tcp() { Transport::Tcp } else { Transport::Udp };
        Self { addresses: [key.addresses], ports: key.ports, proto }
    }
}

impl From<&FlowV4> for PlainKey {
    #[inline]
    fn from(flow: &FlowV4) -> Self {
        let Key4 { addresses: [addresses], ports, proto } = flow.into();
        Self { addresses, ports, proto: proto.number() }
    }
}

impl From<PlainKey> for FlowKey {
    fn from(key: PlainKey) -> Self {
        let (addresses, ports) = (u64::from_be(key.addresses), u32::from_be(key.ports));
        Self::V4(FlowV4 {
            src: ((addresses >> 32) as u32).into(),
            dst: (addresses as u32).into(),
            sport: (ports >> 16) as u16,
            dport: ports as u16,
            proto: if key.is_tcp() { Transport::Tcp } else { Transport::Udp },
        })
    }
}

/// What is done to a packet: all its addresses and ports, those that stay, too.
/// Words as in [`wire::PlainRewrite`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainAction {
    /// New source, then destination address.
    pub addresses: u64,
    /// New source, then destination port.
    pub ports: u32,
    /// Change of the IPv4 header's checksum.
    pub net_delta: u16,
    /// Change of the TCP or UDP checksum.
    pub transport_delta: u16,
    /// Where it is sent.
    pub hop: HopId,
}

impl ConnTable {
    /// What is done to a packet without SYN, FIN and RST that carries `key` and
    /// is said to be one of `hit`: checked here. Notes that it came. `None`,
    /// and nothing is noted, if it isn't, or if its connection needs a closer
    /// look: then the general way is to be taken.
    #[inline(always)]
    #[must_use]
    pub fn plain(&self, hit: Hit, key: &PlainKey, now_ms: u64) -> Option<PlainAction> {
        self.plain_if(hit, key.proto, now_ms, |record| {
            record.carries(hit.direction, [key.addresses], key.ports)
        })
    }

    /// The same for a packet of protocol `proto` whose key was looked up and
    /// found as `hit` since the worker's last quiescent point: the connection is
    /// still the same then, if it is there.
    #[inline(always)]
    #[must_use]
    pub fn plain_found(&self, hit: Hit, proto: u8, now_ms: u64) -> Option<PlainAction> {
        self.plain_if(hit, proto, now_ms, |_| true)
    }

    /// `same` says whether the connection is the one that was asked for. Each
    /// question is one comparison that turns out alike for nearly every packet,
    /// and nothing is read before the questions that need it are answered: so
    /// few registers are in use.
    #[inline(always)]
    fn plain_if(
        &self,
        hit: Hit,
        proto: u8,
        now_ms: u64,
        same: impl FnOnce(&Record<1>) -> bool,
    ) -> Option<PlainAction> {
        // The record of a hit of the other family is beyond these or another's.
        let record = self.v4.record(hit.conn.raw())?;
        let settled = record.life().is_settled(hit.direction);
        if !settled || !same(record) || !record.rewrites(proto) {
            return None;
        }
        let words = record.words(hit.direction);
        record.see(tick(now_ms));
        // What is behind the load balancer is the other key turned round:
        // under `nat` one half of it is what the packet carries already.
        let [other] = words.other;
        Some(PlainAction {
            addresses: other.rotate_left(32),
            ports: words.other_ports.rotate_left(16),
            net_delta: (words.deltas >> 16) as u16,
            transport_delta: words.deltas as u16,
            hop: HopId(words.hop),
        })
    }
}
