//! The record of one connection: one cache line for IPv4, two for IPv6.
//!
//! Everything but `life`, `seen` and `link` is written only between the
//! record's taking and its publication, under a new generation, and is read by
//! holders of a reference from the index, and by readers that find the generation
//! unchanged.
use flow::{BackendId, Direction, HopId, ServiceId};
use service::Forwarding;
use wire::Transport;

use crate::key::{Deltas, Key};
use crate::life::Life;
use crate::sync::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// A connection in memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Record<const K: usize> {
    /// By direction: addresses of the client and the VIP; of the server and
    /// the local end.
    addresses: [[AtomicU64; K]; 2],
    /// By direction: ports of client and VIP; of server and local end.
    ports: [AtomicU32; 2],
    /// Next hops, by direction.
    hops: [AtomicU32; 2],
    /// Checksum changes, by direction: the header's in the upper half, the
    /// transport's in the lower.
    deltas: [AtomicU32; 2],
    /// From the top: 8 unused bits, whether packets go as they are, whether they go in
    /// a tunnel, protocol; each is a byte.
    kind: AtomicU32,
    service: AtomicU16,
    /// Apart from the others, since it is read for every packet.
    backend: AtomicU16,
    /// Generation, state, offload state.
    life: AtomicU64,
    /// When a packet was last seen, in ticks.
    seen: AtomicU32,
    /// The next record of the list this one is in while it is not in use.
    link: AtomicU32,
}

/// What a record says about its connection for all its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content<const K: usize> {
    /// Forward and reply key; both have the same protocol.
    pub(crate) keys: [Key<K>; 2],
    /// By direction.
    pub(crate) deltas: [Deltas; 2],
    /// By direction.
    pub(crate) hops: [HopId; 2],
    pub(crate) service: ServiceId,
    pub(crate) backend: BackendId,
    pub(crate) forwarding: Forwarding,
}

impl<const K: usize> Content<K> {
    /// Whether answers go past the load balancer: then only the forward key is
    /// in the index.
    #[inline]
    pub(crate) const fn is_one_way(&self) -> bool {
        self.forwarding.is_one_way()
    }
}

/// A record's words as one direction sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<const K: usize> {
    /// Addresses and ports of the other direction.
    pub(crate) other: [u64; K],
    pub(crate) other_ports: u32,
    /// Of the network header in the upper, of the transport in the lower half.
    pub(crate) deltas: u32,
}

impl<const K: usize> Record<K> {
    /// Never used. Equal to zero bytes.
    #[cfg(loom)]
    pub(crate) fn empty() -> Self {
        Self {
            addresses: [(); 2].map(|()| std::array::from_fn(|_| AtomicU64::new(0))),
            ports: [(); 2].map(|()| AtomicU32::new(0)),
            hops: [(); 2].map(|()| AtomicU32::new(0)),
            deltas: [(); 2].map(|()| AtomicU32::new(0)),
            kind: AtomicU32::new(0),
            service: AtomicU16::new(0),
            backend: AtomicU16::new(0),
            life: AtomicU64::new(0),
            seen: AtomicU32::new(0),
            link: AtomicU32::new(0),
        }
    }

    /// Writes a connection into a record that no other thread has, and makes
    /// it live. Readers that came by an old id see the new generation before any
    /// new content (the fence), or the whole content (the release).
    #[inline]
    pub(crate) fn write(&self, content: &Content<K>, life: Life, seen: u32) {
        self.life.store(life.unborn().raw(), Ordering::Release);
        fence(Ordering::Release);
        for (words, key) in self.addresses.iter().zip(&content.keys) {
            store_all(words, &key.addresses);
        }
        for (ports, key) in self.ports.iter().zip(&content.keys) {
            ports.store(key.ports, Ordering::Relaxed);
        }
        for (word, HopId(hop)) in self.hops.iter().zip(content.hops) {
            word.store(hop, Ordering::Relaxed);
        }
        for (word, delta) in self.deltas.iter().zip(content.deltas) {
            let both = u32::from(delta.net) << 16 | u32::from(delta.transport);
            word.store(both, Ordering::Relaxed);
        }
        let [forward, _] = &content.keys;
        let kind = forwarding_bits(content.forwarding) | u32::from(forward.proto.number());
        self.kind.store(kind, Ordering::Relaxed);
        self.service.store(content.service.0, Ordering::Relaxed);
        self.backend.store(content.backend.0, Ordering::Relaxed);
        self.seen.store(seen, Ordering::Relaxed);
        self.life.store(life.raw(), Ordering::Release);
    }

    /// Whether the record's key of `direction` is `key`.
    #[inline]
    pub(crate) fn has(&self, direction: Direction, key: &Key<K>) -> bool {
        let way = direction as usize & 1;
        let mut other = self.addresses[way]
            .iter()
            .zip(key.addresses)
            .fold(0, |other, (word, own)| other | word.load(Ordering::Relaxed) ^ own);
        other |= u64::from(self.ports[way].load(Ordering::Relaxed) ^ key.ports);
        other |= u64::from(self.kind.load(Ordering::Relaxed) as u8 ^ key.proto.number());
        other == 0
    }

    /// The content, for holders of a reference from the index that have not
    /// quiesced since: it doesn't change. Others may get a mixture.
    #[inline]
    pub(crate) fn content(&self) -> Content<K> {
        let kind = self.kind.load(Ordering::Relaxed);
        let proto = Transport::from_number(kind as u8).unwrap_or(Transport::Tcp);
        let key = |way: usize| Key {
            addresses: load_all(&self.addresses[way]),
            ports: self.ports[way].load(Ordering::Relaxed),
            proto,
        };
        let delta = |word: &AtomicU32| {
            let word = word.load(Ordering::Relaxed);
            Deltas { net: (word >> 16) as u16, transport: word as u16 }
        };
        Content {
            keys: [key(0), key(1)],
            deltas: self.deltas.each_ref().map(delta),
            hops: self.hops.each_ref().map(|hop| HopId(hop.load(Ordering::Relaxed))),
            service: self.service(),
            backend: self.backend(),
            forwarding: forwarding_of(kind),
        }
    }

    /// The backend, as [`Self::content`] has it.
    #[inline(always)]
    pub(crate) fn backend(&self) -> BackendId {
        BackendId(self.backend.load(Ordering::Relaxed))
    }

    /// The service, as [`Self::content`] has it.
    pub(crate) fn service(&self) -> ServiceId {
        ServiceId(self.service.load(Ordering::Relaxed))
    }

    /// The first word of the client's 5-tuple, which begins with its address.
    pub(crate) fn first_word(&self) -> u64 {
        self.addresses[0][0].load(Ordering::Relaxed)
    }

    /// Protocol and forwarding, as [`Self::content`] has them.
    pub(crate) fn kind(&self) -> (Transport, Forwarding) {
        let kind = self.kind.load(Ordering::Relaxed);
        let proto = Transport::from_number(kind as u8).unwrap_or(Transport::Tcp);
        (proto, forwarding_of(kind))
    }

    /// Whether answers go past the load balancer.
    pub(crate) fn is_one_way(&self) -> bool {
        let (_, forwarding) = self.kind();
        forwarding.is_one_way()
    }

    /// What `direction` needs to rewrite a packet. Chosen without a branch, as
    /// directions alternate.
    #[inline(always)]
    pub(crate) fn words(&self, direction: Direction) -> Words<K> {
        let way = direction as usize & 1;
        let word = |words: &[AtomicU32; 2], way: usize| words[way].load(Ordering::Relaxed);
        Words {
            other: load_all(&self.addresses[1 - way]),
            other_ports: word(&self.ports, 1 - way),
            deltas: word(&self.deltas, way),
        }
    }

    /// The next hop of `direction`'s packets.
    #[inline(always)]
    pub(crate) fn hop(&self, direction: Direction) -> HopId {
        HopId(self.hops[direction as usize & 1].load(Ordering::Relaxed))
    }

    /// Whether these are `direction`'s addresses and ports.
    #[inline(always)]
    pub(crate) fn carries(&self, direction: Direction, addresses: [u64; K], ports: u32) -> bool {
        let way = direction as usize & 1;
        let word = self.ports[way].load(Ordering::Relaxed);
        load_all(&self.addresses[way]) == addresses && word == ports
    }

    /// Whether the connection is one of protocol `proto` whose packets go in no
    /// tunnel, or, if `in_tunnel`, in one.
    #[inline(always)]
    pub(crate) fn is_of(&self, proto: u8, in_tunnel: bool) -> bool {
        let wanted = u16::from(proto) | if in_tunnel { TUNNEL as u16 } else { 0 };
        self.kind.load(Ordering::Relaxed) as u16 == wanted
    }

    /// The content and the life it belongs to, whole, for anybody; `None` if
    /// no connection lives here, or the one that did was removed and replaced
    /// while it was read.
    pub(crate) fn read(&self) -> Option<(Life, Content<K>)> {
        let life = self.life();
        if !life.is_live() {
            return None;
        }
        let content = self.content();
        fence(Ordering::Acquire);
        let after = Life::from_raw(self.life.load(Ordering::Relaxed));
        (after.generation() == life.generation()).then_some((life, content))
    }

    /// Generation and state. Acquire: a reader of a live one reads its content.
    #[inline]
    pub(crate) fn life(&self) -> Life {
        Life::from_raw(self.life.load(Ordering::Acquire))
    }

    /// Replaces `current` by `new`; otherwise what is there now.
    pub(crate) fn change_life(&self, current: Life, new: Life) -> Result<(), Life> {
        self.life
            .compare_exchange(current.raw(), new.raw(), Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(Life::from_raw)
    }

    /// When a packet was last seen, in ticks.
    pub(crate) fn seen(&self) -> u32 {
        self.seen.load(Ordering::Relaxed)
    }

    /// A blind write, as LB-NIC section 3.2 has it: if the connection was just
    /// replaced by another, that one lives a little longer.
    pub(crate) fn see(&self, tick: u32) {
        if self.seen.load(Ordering::Relaxed) != tick {
            self.seen.store(tick, Ordering::Relaxed);
        }
    }

    /// The link for lists of unused records.
    pub(crate) const fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

/// In the kind of connections whose packets go in a tunnel.
const TUNNEL: u32 = 1 << 8;
/// In the kind of those whose packets go as they are.
const DIRECT: u32 = 1 << 16;

const fn forwarding_bits(forwarding: Forwarding) -> u32 {
    match forwarding {
        Forwarding::Rewrite => 0,
        Forwarding::Direct => DIRECT,
        Forwarding::Tunnel => TUNNEL,
    }
}

const fn forwarding_of(kind: u32) -> Forwarding {
    if kind & TUNNEL != 0 {
        Forwarding::Tunnel
    } else if kind & DIRECT != 0 {
        Forwarding::Direct
    } else {
        Forwarding::Rewrite
    }
}

fn store_all<const K: usize>(words: &[AtomicU64; K], values: &[u64; K]) {
    for (word, value) in words.iter().zip(values) {
        word.store(*value, Ordering::Relaxed);
    }
}

fn load_all<const K: usize>(words: &[AtomicU64; K]) -> [u64; K] {
    words.each_ref().map(|word| word.load(Ordering::Relaxed))
}
