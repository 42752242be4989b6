//! Software load balancers on DPDK's `rte_hash`: as the paper has it, and as a
//! DPDK program is written.
use std::sync::Arc;

use arrayvec::ArrayVec;
use dpdk::hash::{Hash, HashFunction, HashKey};
use dpdk::{Batch, Mbuf};
use flow::Direction;
use packet::PacketBuf;
use pipeline::BURST;
use state::Source;
use wire::{FastHeader, FlowKey, Headers};

use crate::error::MeasureError;
use crate::systems::action::{Action, FastAction};
use crate::systems::balancer::Balancer;
use crate::testbed::outbox::Out;
use crate::testbed::scenario::Scenario;

/// Connections in a hash table, and each one's backend and direction by the
/// place of its key, as the paper's DIP table.
pub(crate) struct Connections {
    table: Hash,
    /// By place: which action.
    chosen: Vec<u16>,
    actions: Vec<Action>,
}

impl Connections {
    /// The same connections, to the same backends, as in `scenario`, of all
    /// `directions`.
    pub(crate) fn new(scenario: &Scenario, directions: &[Direction]) -> Result<Self, MeasureError> {
        let failed = |error: String| MeasureError::Hash(error);
        let connections = scenario.open();
        // A cuckoo table can't be filled to the last place.
        let keys = connections.saturating_mul(directions.len() as u32);
        let entries = (keys / 4).saturating_mul(5).max(1 << 16);
        let mut table = Hash::new("connections", entries, HashFunction::Crc)
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
}

/// The paper's software load balancer to the letter (sections III and VI): for
/// every packet by itself it reads the header, hashes it, looks it up and
/// rewrites it, a pass for each change, and prefetches nothing.
pub(crate) struct SlbPaper(pub(crate) Arc<Connections>);

impl SlbPaper {
    #[inline]
    fn one(&self, packet: Mbuf, out: &mut Out<'_>) -> Option<()> {
        let headers = Headers::parse(packet.bytes()).ok()?;
        let key = hash_key(&headers.flow(packet.bytes())?)?;
        let place = self.0.table.lookup(&key)?;
        let choice = *self.0.chosen.get(place as usize)?;
        self.0.actions.get(usize::from(choice))?.act(packet, &headers, out);
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

/// The same table as DPDK's examples use it: frames are prefetched, a burst is
/// looked up at once (`rte_hash_lookup_bulk`), and HNLB's own code reads the
/// headers and rewrites them in one pass.
pub(crate) struct SlbBulk {
    connections: Arc<Connections>,
    actions: Vec<FastAction<1>>,
}

impl SlbBulk {
    pub(crate) fn new(connections: Arc<Connections>) -> Self {
        let actions = connections.actions.iter().filter_map(FastAction::v4).collect();
        Self { connections, actions }
    }
}

impl Balancer for SlbBulk {
    #[inline]
    fn process(&mut self, _: Source, burst: &mut Batch, _: u64, out: &mut Out<'_>) {
        for packet in burst.iter() {
            packet.prefetch();
        }
        let headers: ArrayVec<Option<FastHeader<1>>, BURST> =
            burst.iter().map(|packet| FastHeader::of(packet.bytes(), 0)).collect();
        // A packet without such a header has a key that is in no table.
        let keys: ArrayVec<HashKey, BURST> =
            headers.iter().map(|header| header.as_ref().map_or([0; 16], fast_key)).collect();
        let keys: ArrayVec<&HashKey, BURST> = keys.iter().collect();
        let mut places = [-1; BURST];
        if !keys.is_empty() {
            self.connections.table.lookup_bulk(&keys, &mut places);
        }
        for ((packet, header), place) in burst.drain().zip(&headers).zip(places) {
            let choice = usize::try_from(place).ok().and_then(|at| self.connections.chosen.get(at));
            let action = choice.and_then(|choice| self.actions.get(usize::from(*choice)));
            if let (Some(action), Some(header)) = (action, header) {
                action.act(packet, Some(header), header.proto, out);
            }
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

/// The same bytes from the words of a header.
#[inline]
fn fast_key(header: &FastHeader<1>) -> HashKey {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&header.addresses[0].to_ne_bytes());
    bytes[8..12].copy_from_slice(&header.ports.to_ne_bytes());
    bytes[12] = header.proto.number();
    bytes
}

fn put<T: Copy>(values: &mut Vec<T>, at: usize, value: T, filler: T) {
    if values.len() <= at {
        values.resize(at + 1, filler);
    }
    if let Some(place) = values.get_mut(at) {
        *place = value;
    }
}
