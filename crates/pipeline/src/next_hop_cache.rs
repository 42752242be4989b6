//! Next hops as one worker needs them: compiled once, used until anything about
//! them may have changed.
use flow::{HopId, PortId};
use l3::NeighbourTable;
use state::Snapshot;
use wire::fast_header::mac_pair;

use crate::context::Context;

/// Bytes of an Ethernet header without a tag.
pub(crate) const ETHERNET: usize = 14;

/// Compiled hops kept at once; those whose numbers agree modulo this take each
/// other's place.
const SIZE: usize = 512;
/// A compiled hop is used at most so long, so that the neighbour table learns
/// that it is in use.
const LEASE_MS: u64 = 512;

/// What a packet needs to leave by a hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// Ethernet destination and source.
    pub(crate) macs: [u8; 12],
    pub(crate) port: PortId,
    /// The longest untagged frame, in bytes.
    longest: u16,
}

impl Way {
    /// Whether an untagged frame of `len` bytes isn't too long. Padding is the
    /// part of frames too short for any limit.
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
}

#[derive(Clone, Copy, Debug)]
struct Compiled {
    hop: HopId,
    /// In which era it was compiled; 0: never.
    era: u64,
    way: Way,
}

/// One worker's compiled hops. The slow way compiles, the fast way compares one
/// number and goes.
#[derive(Debug)]
pub(crate) struct Hops {
    compiled: Box<[Compiled; SIZE]>,
    era: u64,
    /// What began the era: changes of the neighbour table, and the time.
    changes: u64,
    lease: u64,
}

impl Default for Hops {
    fn default() -> Self {
        let way = Way { macs: [0; 12], port: PortId(0), longest: 0 };
        let compiled = Box::new([Compiled { hop: HopId(0), era: 0, way }; SIZE]);
        Self { compiled, era: 1, changes: 0, lease: 0 }
    }
}

impl Hops {
    /// Forgets everything: there is a new configuration.
    pub(crate) fn forget(&mut self) {
        self.era += 1;
    }

    /// What was compiled in another era must be compiled anew.
    #[inline]
    pub(crate) const fn era(&self) -> u64 {
        self.era
    }

    /// The top of a burst: a new era begins if a neighbour has changed since
    /// the last one, or the lease is over.
    #[inline]
    pub(crate) fn begin(&mut self, changes: u64, now_ms: u64) {
        let lease = now_ms / LEASE_MS;
        if (changes, lease) != (self.changes, self.lease) {
            (self.changes, self.lease) = (changes, lease);
            self.era += 1;
        }
    }

    /// The way by `hop`; `None` if packets need more than Ethernet addresses
    /// there (a tag, an address that isn't known yet).
    #[inline(always)]
    pub(crate) fn way<O>(&mut self, cx: &Context<'_, O>, hop: HopId) -> Option<&Way> {
        let era = self.era;
        let place = self.compiled.get_mut(NeighbourTable::slot_of(hop) % SIZE)?;
        if (place.hop, place.era) != (hop, era) {
            *place = Compiled { hop, era, way: compile(cx, hop)? };
        }
        Some(&place.way)
    }
}

#[cold]
#[inline(never)]
fn compile<O>(cx: &Context<'_, O>, hop: HopId) -> Option<Way> {
    let snapshot: &Snapshot = cx.snapshot;
    let (interface, mac) = cx.shared.neighbours.resolve(hop, cx.now_ms)?;
    let interface = snapshot.interfaces.get(interface).filter(|found| found.vlan.is_none())?;
    let longest = interface.mtu.saturating_add(ETHERNET as u16);
    Some(Way { macs: mac_pair(mac?, interface.mac), port: interface.port, longest })
}
