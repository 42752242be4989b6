//! Which next hop leads to an address, as one worker remembers it. The worker
//! searches routes and neighbours again when anything about them may have changed.
use std::net::IpAddr;

use flow::{HopId, InterfaceId};

use crate::context::Context;
use crate::slow::act::hop_to;

/// Number of remembered addresses of each kind; an address takes the place of one
/// whose hash agrees modulo this number.
const SIZE: usize = 256;

/// An address and the hop that leads there.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The era of the [`NextHopCache`](crate::next_hop_cache::NextHopCache) in which
    /// it was found; 0: never.
    era: u64,
    interface: InterfaceId,
    addr: IpAddr,
    hop: HopId,
}

/// One worker's memory of the next hops towards servers and clients. Part of its
/// [`NextHopCache`](crate::next_hop_cache::NextHopCache), whose eras it follows.
#[derive(Debug)]
pub(crate) struct ServerHopCache {
    /// By server.
    servers: Box<[Known; SIZE]>,
    /// By neighbour, since clients are many and gateways few.
    neighbours: Box<[Known; SIZE]>,
}

impl Default for ServerHopCache {
    fn default() -> Self {
        let (interface, addr, hop) = (InterfaceId(0), IpAddr::from([0; 4]), HopId(0));
        let none = Box::new([Known { era: 0, interface, addr, hop }; SIZE]);
        Self { servers: none.clone(), neighbours: none }
    }
}

impl ServerHopCache {
    /// The next hop towards a server; `None` if there is no route.
    #[inline]
    pub(crate) fn server<O>(
        &mut self,
        cx: &Context<'_, O>,
        era: u64,
        addr: IpAddr,
    ) -> Option<HopId> {
        remember(&mut self.servers, era, InterfaceId(0), addr, || hop_to(cx, addr).ok())
    }

    /// The next hop towards a client; `None` if there is no route.
    #[inline]
    pub(crate) fn client<O>(
        &mut self,
        cx: &Context<'_, O>,
        era: u64,
        addr: IpAddr,
    ) -> Option<HopId> {
        let (interface, next) = cx.snapshot.routes.next(addr)?;
        let find = || cx.shared.neighbours().hop(interface, next, cx.now_ms);
        remember(&mut self.neighbours, era, interface, next, find)
    }
}

#[inline(always)]
fn remember(
    all: &mut [Known; SIZE],
    era: u64,
    interface: InterfaceId,
    addr: IpAddr,
    find: impl FnOnce() -> Option<HopId>,
) -> Option<HopId> {
    let bits = match addr {
        IpAddr::V4(addr) => addr.to_bits(),
        IpAddr::V6(addr) => {
            let bits = addr.to_bits();
            (bits ^ bits >> 32 ^ bits >> 64 ^ bits >> 96) as u32
        }
    };
    let known = all.get_mut((bits.wrapping_mul(0x9e37_79b9) >> 24) as usize % SIZE)?;
    if (known.era, known.interface, known.addr) != (era, interface, addr) {
        *known = Known { era, interface, addr, hop: find()? };
    }
    Some(known.hop)
}
