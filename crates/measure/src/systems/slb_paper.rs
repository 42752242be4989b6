//! The software load balancer that the paper compares with: for every packet
//! by itself it reads the header, hashes it and looks it up in DPDK's
//! `rte_hash` (sections III and VI).
use dpdk::hash::{Hash, HashFunction, HashKey};
use dpdk::{Batch, Mbuf};
use flow::Direction;
use packet::PacketBuf;
use state::Source;
use wire::{FlowKey, Headers};

use crate::error::MeasureError;
use crate::systems::balancer::Balancer;
use crate::systems::limit::Action;
use crate::testbed::outbox::Out;
use crate::testbed::scenario::Scenario;

/// A connection's backend and direction by the place of its key in the hash
/// table, as the paper's DIP table.
pub(crate) struct SlbPaper {
    table: Hash,
    /// By place: which action.
    chosen: Vec<u16>,
    actions: Vec<Action>,
}

impl SlbPaper {
    /// The same connections, to the same backends, as in `scenario`, of all
    /// `directions`.
    pub(crate) fn new(scenario: &Scenario, directions: &[Direction]) -> Result<Self, MeasureError> {
        let failed = |error: String| MeasureError::Hash(error);
        let connections = scenario.open();
        // A cuckoo table can't be filled to the last place.
        let keys = connections.saturating_mul(directions.len() as u32);
        let entries = (keys / 4).saturating_mul(5).max(1 << 16);
        let mut table = Hash::new("slb_paper", entries, HashFunction::Crc)
            .map_err(|error| failed(error.to_string()))?;
        let (mut chosen, mut actions) = (Vec::new(), Vec::new());
        for number in 0..u64::from(connections) {
            for (at, &direction) in directions.iter().enumerate() {
                let missing = || MeasureError::NotOpened(number, connections.into());
                let (backend, action) = scenario.action(number, direction).ok_or_else(missing)?;
                let key = scenario.key(number, direction).and_then(|key| hash_key(&key));
                let place = table
                    .add(&key.ok_or_else(missing)?)
                    .map_err(|error| failed(error.to_string()))?;
                let choice = u16::from(backend) * 2 + at as u16;
                put(&mut chosen, place as usize, choice, 0);
                put(&mut actions, usize::from(choice), action, action);
            }
        }
        Ok(Self { table, chosen, actions })
    }

    #[inline]
    fn one(&self, packet: Mbuf, out: &mut Out<'_>) -> Option<()> {
        let headers = Headers::parse(packet.bytes()).ok()?;
        let key = hash_key(&headers.flow(packet.bytes())?)?;
        let place = self.table.lookup(&key)?;
        let choice = *self.chosen.get(place as usize)?;
        self.actions.get(usize::from(choice))?.act(packet, &headers, out);
        Some(())
    }
}

impl Balancer for SlbPaper {
    #[inline]
    fn process(&mut self, _: Source, burst: &mut Batch, _: u64, out: &mut Out<'_>) {
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
