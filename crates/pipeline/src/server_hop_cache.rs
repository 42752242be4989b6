//! Which next hop leads to an IPv4 address, as one worker remembers it: routes
//! and neighbours are searched again when anything about them may have changed.
use std::net::{IpAddr, Ipv4Addr};

use flow::{HopId, InterfaceId};

use crate::act::hop_to;
use crate::context::Context;

/// Addresses remembered of each kind; those whose hashes agree take each
/// other's place.
const SIZE: usize = 256;

/// An address and the hop that leads there.
#[derive(Clone, Copy, Debug)]
struct Road {
    /// In which era of [`Hops`](crate::hops::Hops) it was found; 0: never.
    era: u64,
    interface: InterfaceId,
    addr: Ipv4Addr,
    hop: HopId,
}

/// One worker's memory of next hops.
#[derive(Debug)]
pub(crate) struct Roads {
    /// By server.
    servers: Box<[Road; SIZE]>,
    /// By neighbour; clients are many, gateways few.
    neighbours: Box<[Road; SIZE]>,
}

impl Default for Roads {
    fn default() -> Self {
        let (interface, addr, hop) = (InterfaceId(0), Ipv4Addr::UNSPECIFIED, HopId(0));
        let none = Box::new([Road { era: 0, interface, addr, hop }; SIZE]);
        Self { servers: none.clone(), neighbours: none }
    }
}

impl Roads {
    /// The next hop towards a server; `None` if there is no way.
    #[inline]
    pub(crate) fn server<O>(
        &mut self,
        cx: &Context<'_, O>,
        era: u64,
        addr: Ipv4Addr,
    ) -> Option<HopId> {
        remember(&mut self.servers, era, InterfaceId(0), addr, || hop_to(cx, addr.into()).ok())
    }

    /// The next hop towards a client; `None` if there is no way.
    #[inline]
    pub(crate) fn client<O>(
        &mut self,
        cx: &Context<'_, O>,
        era: u64,
        addr: Ipv4Addr,
    ) -> Option<HopId> {
        let (interface, next) = cx.snapshot.routes.next(addr.into())?;
        // IPv4 addresses are reached through neighbours of IPv4 only.
        let IpAddr::V4(addr) = next else { return None };
        let find = || cx.shared.neighbours.hop(interface, next, cx.now_ms);
        remember(&mut self.neighbours, era, interface, addr, find)
    }
}

#[inline]
fn remember(
    roads: &mut [Road; SIZE],
    era: u64,
    interface: InterfaceId,
    addr: Ipv4Addr,
    find: impl FnOnce() -> Option<HopId>,
) -> Option<HopId> {
    let spread = addr.to_bits().wrapping_mul(0x9e37_79b9) >> 24;
    let road = roads.get_mut(spread as usize % SIZE)?;
    if (road.era, road.interface, road.addr) != (era, interface, addr) {
        *road = Road { era, interface, addr, hop: find()? };
    }
    Some(road.hop)
}
