//! The actions that receive queues and the marks of shared queues stand for, compiled
//! for the fast path and kept until anything about them may have changed.
use std::net::{IpAddr, SocketAddr};

use flow::{Account, Direction};
use service::Delivery;
use state::{PortShared, QueueAction};
use wire::{FastHeader, FastRewrite, Rewrite, Side, Transport};

use crate::context::Context;
use crate::next_hop_cache::{NextHop, NextHopCache};
use crate::verdict::Family;

/// A queue's action, compiled. It doesn't depend on the connection, so masks say
/// which parts of a packet stay. Words are in the order in which packets have them in
/// memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueRewrite<const K: usize> {
    proto: Transport,
    /// The addresses and ports that the packets carry, and which bits of them must
    /// agree.
    addresses: ([u64; K], [u64; K]),
    ports: (u32, u32),
    /// The addresses and ports that the packets get, and which bits they keep.
    new_addresses: ([u64; K], [u64; K]),
    new_ports: (u32, u32),
    net_delta: u16,
    transport_delta: u16,
    hop: NextHop,
    account: Account,
    /// Whether the packets enter the tunnel to the backend.
    tunnel: bool,
}

/// The parts of a [`Rewrite`] that both families have.
struct Plan<'a> {
    addresses: &'a [u8],
    ports: [u8; 4],
    net_delta: u16,
    transport_delta: u16,
    side: Option<Side>,
    port_side: Option<Side>,
}

/// The parts for packets that stay as they are.
const UNCHANGED: Plan<'_> = Plan {
    addresses: &[0; 32],
    ports: [0; 4],
    net_delta: 0,
    transport_delta: 0,
    side: None,
    port_side: None,
};

/// The first words of `bytes`, in memory order.
fn words<const K: usize>(bytes: &[u8]) -> [u64; K] {
    let mut words = [0; K];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    }
    words
}

/// A mask of the halves that `side` names of a field of `bytes` bytes that has
/// source and destination.
fn mask(side: Option<Side>, bytes: usize) -> [u8; 32] {
    std::array::from_fn(|at| {
        let named = side
            .is_some_and(|side| if at < bytes / 2 { side.source() } else { side.destination() });
        if named && at < bytes { 0xff } else { 0 }
    })
}

impl<const K: usize> QueueRewrite<K> {
    fn new(action: &QueueAction, plan: &Plan<'_>, hop: NextHop) -> Self {
        // The end of the connection that the action's packets have in common.
        let common = match action.direction {
            Direction::Forward => Side::Destination,
            Direction::Reply => Side::Source,
        };
        let bytes = 8 * K;
        let address: [u8; 16] = match action.endpoint.ip() {
            IpAddr::V4(ip) => {
                let [a, b, c, d] = ip.octets();
                [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
            }
            IpAddr::V6(ip) => ip.octets(),
        };
        let compared = mask(Some(common), bytes);
        let endpoint: [u8; 32] = std::array::from_fn(|at| {
            let octet = address.get(at % (bytes / 2)).copied().unwrap_or(0);
            if compared.get(at).is_some_and(|&byte| byte != 0) { octet } else { 0 }
        });
        let port = action.endpoint.port();
        let [high, low] = port.to_be_bytes();
        let port_mask = if port == 0 { [0; 4] } else { ports(mask(Some(common), 4)) };
        let port = u32::from_ne_bytes([high, low, high, low]) & u32::from_ne_bytes(port_mask);
        let new_ports = ports(mask(plan.port_side, 4));
        let account = Account { backend: action.backend, direction: action.direction };
        Self {
            proto: action.proto,
            addresses: (words(&endpoint), words(&compared)),
            ports: (port, u32::from_ne_bytes(port_mask)),
            new_addresses: (
                words(plan.addresses),
                words(&mask(plan.side, bytes)).map(|word: u64| !word),
            ),
            new_ports: (u32::from_ne_bytes(plan.ports), !u32::from_ne_bytes(new_ports)),
            net_delta: plan.net_delta.to_be(),
            transport_delta: plan.transport_delta.to_be(),
            hop,
            account,
            tunnel: matches!(action.delivery, Delivery::Tunnel(_)),
        }
    }

    /// The next hop of the packets.
    #[inline(always)]
    pub(super) const fn hop(&self) -> &NextHop {
        &self.hop
    }

    /// For whom the packets count.
    #[inline(always)]
    pub(super) const fn account(&self) -> Account {
        self.account
    }

    /// Whether the packets enter the tunnel to the backend.
    #[inline(always)]
    pub(super) const fn is_tunnel(&self) -> bool {
        self.tunnel
    }

    /// Whether the queue's rules may have matched the packet: then software would do
    /// the same to it.
    #[inline(always)]
    pub(super) fn carries(&self, header: &FastHeader<K>) -> bool {
        let ((addresses, compared), (ports, compared_ports)) = (&self.addresses, &self.ports);
        if header.proto != self.proto || (header.ports ^ ports) & compared_ports != 0 {
            return false;
        }
        let all = header.addresses.iter().zip(addresses).zip(compared);
        all.fold(0, |other, ((own, word), mask)| other | (own ^ word) & mask) == 0
    }

    /// What the packet with `header` gets.
    #[inline(always)]
    pub(super) fn rewrite(&self, header: &FastHeader<K>) -> FastRewrite<K> {
        let ((addresses, kept), (ports, kept_ports)) = (&self.new_addresses, &self.new_ports);
        let mut new = header.addresses;
        for ((new, word), kept) in new.iter_mut().zip(addresses).zip(kept) {
            *new = word | *new & kept;
        }
        FastRewrite {
            addresses: new,
            ports: ports | header.ports & kept_ports,
            net_delta: self.net_delta,
            transport_delta: self.transport_delta,
        }
    }
}

fn ports(mask: [u8; 32]) -> [u8; 4] {
    let [a, b, c, d, ..] = mask;
    [a, b, c, d]
}

/// A queue's action for the fast path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Rewrites {
    /// The slow path alone carries the action out.
    #[default]
    None,
    /// An action for IPv4 packets.
    V4(QueueRewrite<1>),
    /// An action for IPv6 packets.
    V6(QueueRewrite<4>),
}

impl Rewrites {
    fn compile<O>(cx: &Context<'_, O>, next_hops: &mut NextHopCache, action: &QueueAction) -> Self {
        let Some(hop) = next_hops.get(cx, action.hop).copied() else { return Self::None };
        match (&action.delivery, action.endpoint) {
            (Delivery::Rewrite(Rewrite::V4(plan)), SocketAddr::V4(_)) => {
                let plan = Plan {
                    addresses: &plan.addresses,
                    ports: plan.ports,
                    net_delta: plan.net_delta,
                    transport_delta: plan.transport_delta,
                    side: Some(plan.side),
                    port_side: plan.port_side,
                };
                Self::V4(QueueRewrite::new(action, &plan, hop))
            }
            (Delivery::Rewrite(Rewrite::V6(plan)), SocketAddr::V6(_)) => {
                let plan = Plan {
                    addresses: &plan.addresses,
                    ports: plan.ports,
                    net_delta: 0,
                    transport_delta: plan.transport_delta,
                    side: Some(plan.side),
                    port_side: plan.port_side,
                };
                Self::V6(QueueRewrite::new(action, &plan, hop))
            }
            (Delivery::Direct(_) | Delivery::Tunnel(_) | Delivery::Plain, SocketAddr::V4(_)) => {
                Self::V4(QueueRewrite::new(action, &UNCHANGED, hop))
            }
            (Delivery::Direct(_) | Delivery::Tunnel(_) | Delivery::Plain, SocketAddr::V6(_)) => {
                Self::V6(QueueRewrite::new(action, &UNCHANGED, hop))
            }
            (Delivery::Rewrite(_), _) => Self::None,
        }
    }
}

/// What a tag says about its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Nothing.
    #[default]
    Nothing,
    /// An action that only the slow path carries out.
    SlowOnly,
    /// An action of the fast path, for packets of one family.
    Fast(Family),
}

/// The compiled actions of queues, and of the marks of shared queues, by tag;
/// those whose numbers agree modulo the size take each other's place.
#[derive(Debug)]
pub(crate) struct QueueRewrites {
    compiled: Box<[Compiled]>,
}

/// When an action was compiled: the era of the hops, and the changes of the table by
/// then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamp {
    port: u16,
    tag: u16,
    era: u64,
    changes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Compiled {
    stamp: Stamp,
    meaning: Meaning,
    rewrites: Rewrites,
}

/// Compiled actions kept at once.
const SIZE: usize = 1024;

impl Default for QueueRewrites {
    fn default() -> Self {
        Self { compiled: vec![Compiled::default(); SIZE].into_boxed_slice() }
    }
}

impl QueueRewrites {
    /// What `tag` says about its packets; its action is compiled again if anything
    /// about it may have changed since.
    #[inline]
    pub(crate) fn meaning<O>(
        &mut self,
        cx: &Context<'_, O>,
        next_hops: &mut NextHopCache,
        port: &PortShared,
        tag: u16,
    ) -> Meaning {
        let changes = port.queues.changes();
        let stamp = Stamp { port: cx.from.port.0, tag, era: next_hops.era(), changes };
        let Some(place) = self.compiled.get_mut(usize::from(tag) % SIZE) else {
            return Meaning::SlowOnly;
        };
        if place.stamp != stamp {
            let action = port.queues.get(tag);
            let compile = |action: &QueueAction| Rewrites::compile(cx, next_hops, action);
            let rewrites = action.as_ref().map_or(Rewrites::None, compile);
            let meaning = match (&action, &rewrites) {
                (None, _) => Meaning::Nothing,
                (Some(_), Rewrites::None) => Meaning::SlowOnly,
                (Some(_), Rewrites::V4(_)) => Meaning::Fast(Family::V4),
                (Some(_), Rewrites::V6(_)) => Meaning::Fast(Family::V6),
            };
            *place = Compiled { stamp, meaning, rewrites };
        }
        place.meaning
    }

    /// The action of `tag`, which was the last argument of [`Self::meaning`].
    #[inline]
    pub(crate) fn rewrites(&self, tag: u16) -> &Rewrites {
        self.compiled.get(usize::from(tag) % SIZE).map_or(&Rewrites::None, |place| &place.rewrites)
    }
}
