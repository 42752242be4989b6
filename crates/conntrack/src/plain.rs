//! The short way for IPv4 packets that change nothing but addresses and ports,
//! of connections whose state they don't change: one look at one cache line.
use service::HopId;
use wire::{FlowKey, FlowV4, Transport};

use crate::id::Hit;
use crate::table::ConnTable;
use crate::time::tick;

/// An IPv4 5-tuple in words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainKey {
    /// Source address in the upper, destination address in the lower half.
    pub addresses: u64,
    /// Source port in the upper, destination port in the lower half.
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

impl From<PlainKey> for FlowKey {
    fn from(key: PlainKey) -> Self {
        let PlainKey { addresses, ports, .. } = key;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainAction {
    /// New source address in the upper, destination address in the lower half.
    pub addresses: u64,
    /// New source port in the upper, destination port in the lower half.
    pub ports: u32,
    /// As in [`wire::rewrite::Rewrite4`].
    pub net_delta: u16,
    /// As in [`wire::rewrite::Rewrite4`].
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
        // The record of a hit of the other family is beyond these or another's.
        let record = self.v4.record(hit.conn.raw())?;
        let life = record.life();
        let words = record.words(hit.direction);
        let ([own], [other]) = (words.own, words.other);
        let wrong = (own ^ key.addresses)
            | u64::from(words.own_ports ^ key.ports)
            | u64::from(words.kind ^ u32::from(key.proto))
            | life.unsettled(hit.direction);
        if wrong != 0 {
            return None;
        }
        record.see(tick(now_ms));
        // What is behind the load balancer is the other key turned round:
        // under `nat` one half of it is what the packet carries already.
        Some(PlainAction {
            addresses: other.rotate_left(32),
            ports: words.other_ports.rotate_left(16),
            net_delta: (words.deltas >> 16) as u16,
            transport_delta: words.deltas as u16,
            hop: HopId(words.hop),
        })
    }
}
