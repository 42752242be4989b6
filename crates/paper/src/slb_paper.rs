//! The software load balancer that the paper compares with: for every packet
//! by itself it reads the header, hashes it and looks it up in DPDK's
//! `rte_hash` (sections III and VI).
use dpdk::hash::{Hash, HashFunction, HashKey};
use dpdk::{Batch, Mbuf};
use packet::PacketBuf;
use wire::{FlowKey, Headers};

use crate::balancer::{Balancer, RX_BURST};
use crate::error::PaperError;
use crate::flows;
use crate::limit::Action;
use crate::outbox::Out;
use crate::world::World;

/// A connection's backend by the place of its key in the hash table, as the
/// paper's DIP table.
pub(crate) struct SlbPaper {
    table: Hash,
    backends: Vec<u16>,
    actions: Vec<Action>,
}

impl SlbPaper {
    /// The same connections, to the same backends, as in `world`.
    pub(crate) fn new(world: &World, connections: u32) -> Result<Self, PaperError> {
        let failed = |error: String| PaperError::Hash(error);
        // A cuckoo table can't be filled to the last place.
        let entries = (connections / 4 * 5).max(1 << 16);
        let mut table = Hash::new("slb_paper", entries, HashFunction::Crc)
            .map_err(|error| failed(error.to_string()))?;
        let (mut backends, mut actions) = (Vec::new(), Vec::new());
        for number in 0..u64::from(connections) {
            let missing = || PaperError::NotOpened(number, connections.into());
            let (backend, action) = world.action(number).ok_or_else(missing)?;
            let key = flows::key(number).and_then(|key| hash_key(&key)).ok_or_else(missing)?;
            let place = table.add(&key).map_err(|error| failed(error.to_string()))?;
            put(&mut backends, place as usize, backend, 0);
            put(&mut actions, usize::from(backend), action, action);
        }
        Ok(Self { table, backends, actions })
    }

    #[inline]
    fn one(&self, packet: Mbuf, out: &mut Out<'_>) -> Option<()> {
        let headers = Headers::parse(packet.bytes()).ok()?;
        let key = hash_key(&headers.flow(packet.bytes())?)?;
        let place = self.table.lookup(&key)?;
        let backend = *self.backends.get(place as usize)?;
        self.actions.get(usize::from(backend))?.act(packet, &headers, out);
        Some(())
    }
}

impl Balancer for SlbPaper {
    #[inline]
    fn process(&mut self, _: u16, burst: &mut Batch<RX_BURST>, _: u64, out: &mut Out<'_>) {
        for packet in burst.drain() {
            // Packets of no connection are dropped: the measurement has none.
            let _ = self.one(packet, out);
        }
    }
}

/// The 5-tuple in 13 bytes, padded.
#[inline]
fn hash_key(key: &FlowKey) -> Option<HashKey> {
    let FlowKey::V4(flow) = key else { return None };
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&flow.src.octets());
    bytes[4..8].copy_from_slice(&flow.dst.octets());
    bytes[8..10].copy_from_slice(&flow.sport.to_be_bytes());
    bytes[10..12].copy_from_slice(&flow.dport.to_be_bytes());
    bytes[12] = flow.proto.number();
    Some(bytes)
}

fn put<T: Copy>(values: &mut Vec<T>, at: usize, value: T, filler: T) {
    if values.len() <= at {
        values.resize(at + 1, filler);
    }
    if let Some(place) = values.get_mut(at) {
        *place = value;
    }
}
