//! Next hops in the form that one worker needs: each is compiled once and used until
//! anything about it may have changed. Two comparisons per packet replace the
//! sequence lock of the neighbour table.
use std::net::IpAddr;

use flow::{HopId, PortId};
use l3::NeighbourTable;
use packet::PacketBuf;
use state::Snapshot;
use wire::fast_header::mac_pair;
use wire::vlan;

use crate::context::Context;
use crate::server_hop_cache::ServerHopCache;

/// Bytes of an Ethernet header without a tag.
pub(crate) const ETHERNET: usize = 14;

/// Number of compiled hops kept at once; a hop takes the place of one whose id agrees
/// modulo this number.
const SIZE: usize = 512;
/// The longest use of a compiled hop without the neighbour table, which so learns
/// that the hop is in use.
const LEASE_MS: u64 = 512;

/// What a packet needs to leave by a hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextHop {
    /// Ethernet destination and source.
    macs: [u8; 12],
    pub(crate) port: PortId,
    /// The longest frame, without its tag, in bytes.
    longest: u16,
    /// The VLAN of the interface; `None`: frames leave untagged.
    vlan: Option<u16>,
}

impl NextHop {
    /// Whether a frame of `len` bytes, not counting its tag, is short enough. Only
    /// frames that are too short for any limit have padding.
    #[inline(always)]
    pub(crate) fn takes(&self, len: usize) -> bool {
        len <= usize::from(self.longest)
    }

    /// Writes the Ethernet addresses.
    #[inline(always)]
    pub(crate) fn write(&self, frame: &mut [u8]) {
        if let Some(macs) = frame.first_chunk_mut() {
            *macs = self.macs;
        }
    }

    /// Exchanges the frame's tag of `tag` bytes for the hop's and returns the length
    /// of the new tag. `None`, with the frame untouched: there is no room for the
    /// tag.
    #[inline]
    pub(crate) fn retag<B: PacketBuf>(&self, buf: &mut B, tag: usize) -> Option<usize> {
        let done = match (tag, self.vlan) {
            (0, None) => true,
            (0, Some(id)) => vlan::push(buf, id),
            (_, Some(id)) => vlan::replace(buf.bytes_mut(), id),
            (_, None) => vlan::pop(buf),
        };
        done.then_some(if self.vlan.is_some() { vlan::LEN } else { 0 })
    }
}

#[derive(Clone, Copy, Debug)]
struct Compiled {
    id: HopId,
    /// The era in which the hop was compiled; 0: never.
    era: u64,
    hop: NextHop,
}

/// One worker's compiled hops. The slow path compiles hops; the fast path compares
/// one number and uses them.
#[derive(Debug)]
pub(crate) struct NextHopCache {
    compiled: Box<[Compiled; SIZE]>,
    era: u64,
    /// The changes of next hops in use, and the time, at which the era began.
    moves: u64,
    lease: u64,
    /// Which hop leads to an address.
    towards: ServerHopCache,
}

impl Default for NextHopCache {
    fn default() -> Self {
        let hop = NextHop { macs: [0; 12], port: PortId(0), longest: 0, vlan: None };
        let compiled = Box::new([Compiled { id: HopId(0), era: 0, hop }; SIZE]);
        Self { compiled, era: 1, moves: 0, lease: 0, towards: ServerHopCache::default() }
    }
}

impl NextHopCache {
    /// Forgets all hops, because the configuration is new.
    pub(crate) fn forget(&mut self) {
        self.era += 1;
    }

    /// The present era: hops compiled in another one must be compiled anew.
    #[inline]
    pub(crate) const fn era(&self) -> u64 {
        self.era
    }

    /// Begins a burst: a new era begins if a next hop in use has changed since the
    /// last burst, or if the lease is over.
    #[inline]
    pub(crate) fn begin(&mut self, moves: u64, now_ms: u64) {
        let lease = now_ms / LEASE_MS;
        if (moves, lease) != (self.moves, self.lease) {
            (self.moves, self.lease) = (moves, lease);
            self.era += 1;
        }
    }

    /// The hop towards a server; `None` if there is no route.
    #[inline]
    pub(crate) fn server<O>(&mut self, cx: &Context<'_, O>, addr: IpAddr) -> Option<HopId> {
        self.towards.server(cx, self.era, addr)
    }

    /// The hop towards a client; `None` if there is no route.
    #[inline]
    pub(crate) fn client<O>(&mut self, cx: &Context<'_, O>, addr: IpAddr) -> Option<HopId> {
        self.towards.client(cx, self.era, addr)
    }

    /// The next hop `id`; `None` if its Ethernet address isn't known yet.
    #[inline(always)]
    pub(crate) fn get<O>(&mut self, cx: &Context<'_, O>, id: HopId) -> Option<&NextHop> {
        let era = self.era;
        let place = self.compiled.get_mut(NeighbourTable::slot_of(id) % SIZE)?;
        if (place.id, place.era) != (id, era) {
            *place = Compiled { id, era, hop: compile(cx, id)? };
        }
        Some(&place.hop)
    }
}

#[cold]
#[inline(never)]
fn compile<O>(cx: &Context<'_, O>, id: HopId) -> Option<NextHop> {
    let snapshot: &Snapshot = cx.snapshot;
    let (interface, mac) = cx.shared.neighbours().resolve(id, cx.now_ms)?;
    let interface = snapshot.interfaces.get(interface)?;
    let (vlan, longest) = (interface.vlan, interface.mtu.saturating_add(ETHERNET as u16));
    // The length of a frame with a tag must still fit 16 bits.
    let longest = longest.min(u16::MAX - vlan::LEN as u16);
    Some(NextHop { macs: mac_pair(mac?, interface.mac), port: interface.port, longest, vlan })
}
