//! The fast lane of packets whose receive queue means a backend, or, where
//! several share it, whose mark does: what the queue's action does to them,
//! compiled once.
use flow::{Direction, PortId};
use service::Delivery;
use state::{PortShared, QueueAction};
use wire::fast_header::is_for;
use wire::{FastHeader, FastRewrite, Mac, Rewrite, Transport};

use crate::context::Context;
use crate::hops::{Hops, Way};

/// A queue's action, compiled. It doesn't depend on the
/// connection, so what it leaves of a packet is told by masks. Words are as
/// packets have them in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueLane {
    proto: Transport,
    /// What its packets carry, and which bits of that must agree.
    addresses: (u64, u64),
    ports: (u32, u32),
    /// What they get, and which bits they keep.
    new_addresses: (u64, u64),
    new_ports: (u32, u32),
    net_delta: u16,
    transport_delta: u16,
    way: Way,
}

impl QueueLane {
    /// `None`: the queue means nothing, or nothing for this lane.
    pub(crate) fn compile<O>(
        cx: &Context<'_, O>,
        hops: &mut Hops,
        action: Option<&QueueAction>,
    ) -> Option<Self> {
        let action = action?;
        let Delivery::Rewrite(Rewrite::V4(rewrite)) = action.delivery else { return None };
        let std::net::SocketAddr::V4(endpoint) = action.endpoint else { return None };
        let (ip, port) = (u64::from(endpoint.ip().to_bits()), u32::from(endpoint.port()));
        let ports_count = if port == 0 { 0 } else { u32::from(u16::MAX) };
        let (shift, port_shift) = match action.direction {
            Direction::Forward => (0, 0),
            Direction::Reply => (32, 16),
        };
        let side = |side: wire::Side| {
            (if side.source() { u64::MAX << 32 } else { 0 })
                | if side.destination() { u64::from(u32::MAX) } else { 0 }
        };
        // 64 bits of addresses and 32 of ports have the same halves.
        let port_side = rewrite.port_side.map_or(0, side);
        let new_ports = (port_side >> 48 << 16) as u32 | (port_side & 0xffff) as u32;
        Some(Self {
            proto: action.proto,
            addresses: ((ip << shift).to_be(), (u64::from(u32::MAX) << shift).to_be()),
            ports: ((port << port_shift).to_be(), (ports_count << port_shift).to_be()),
            new_addresses: (u64::from_ne_bytes(rewrite.addresses), !side(rewrite.side).to_be()),
            new_ports: (u32::from_ne_bytes(rewrite.ports), !new_ports.to_be()),
            net_delta: rewrite.net_delta.to_be(),
            transport_delta: rewrite.transport_delta.to_be(),
            way: *hops.way(cx, action.hop)?,
        })
    }

    /// Whether the packet is one that the queue's rules may have matched: then
    /// software would do the same to it.
    #[inline(always)]
    fn carries(&self, plain: &FastHeader<1>) -> bool {
        let (addresses, counted) = self.addresses;
        let (ports, counted_ports) = self.ports;
        let [carried] = plain.addresses;
        ((carried ^ addresses) & counted)
            | u64::from((plain.ports ^ ports) & counted_ports)
            | u64::from(plain.proto.number() ^ self.proto.number())
            == 0
    }

    /// Third pass, for a packet of a queue that means something: rewrites it;
    /// what it was. `None`, and nothing happens: the general way must be taken.
    #[inline(always)]
    pub(crate) fn pass(&self, station: Mac, frame: &mut [u8]) -> Option<FastHeader<1>> {
        let plain = FastHeader::of(frame, 0).filter(|_| is_for(frame, station))?;
        if !self.carries(&plain) || !self.way.takes(frame.len()) {
            return None;
        }
        self.way.write(frame);
        self.rewrite(&plain).apply(frame, 0, plain.proto);
        Some(plain)
    }

    /// Where its packets leave.
    #[inline(always)]
    pub(crate) const fn port(&self) -> PortId {
        self.way.port
    }

    #[inline(always)]
    fn rewrite(&self, plain: &FastHeader<1>) -> FastRewrite<1> {
        let (addresses, kept) = self.new_addresses;
        let (ports, kept_ports) = self.new_ports;
        let [carried] = plain.addresses;
        FastRewrite {
            addresses: [addresses | carried & kept],
            ports: ports | plain.ports & kept_ports,
            net_delta: self.net_delta,
            transport_delta: self.transport_delta,
        }
    }
}

/// The compiled actions of queues, and of the marks of shared ones, by tag;
/// those whose numbers agree modulo the size take each other's place.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Box<[Compiled; LANES]>,
}

/// When it was compiled: the era of the hops, and the changes of the table.
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
}

/// What a tag says of its packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meaning {
    /// Something.
    pub(crate) any: bool,
    /// And it can be done in this lane.
    pub(crate) lane: Option<QueueLane>,
}

/// Compiled actions kept at once.
const LANES: usize = 1024;

impl Default for Lanes {
    fn default() -> Self {
        Self { lanes: Box::new([Compiled::default(); LANES]) }
    }
}

impl Lanes {
    /// What is done to packets with `tag`, compiled if it was not since
    /// anything about it may have changed.
    #[inline]
    pub(crate) fn meaning<O>(
        &mut self,
        cx: &Context<'_, O>,
        hops: &mut Hops,
        port: &PortShared,
        tag: u16,
    ) -> &Meaning {
        let changes = port.queues.changes();
        let stamp = Stamp { port: cx.from.port.0, tag, era: hops.era(), changes };
        let place = &mut self.lanes[usize::from(tag) % LANES];
        if place.stamp != stamp {
            let action = port.queues.get(tag);
            let lane = QueueLane::compile(cx, hops, action.as_ref());
            *place = Compiled { stamp, meaning: Meaning { any: action.is_some(), lane } };
        }
        &place.meaning
    }
}
