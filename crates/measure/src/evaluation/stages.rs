//! What the parts of a new connection's first packet cost by themselves, in the
//! order and with the calls of the pipeline's short way for such packets.
use std::hint::black_box;
use std::net::IpAddr;

use arrayvec::ArrayVec;
use conntrack::{PlainKey, PlainOpening};
use dpdk::cycles;
use flow::HopId;
use service::WorkerScheduleState;
use state::{Shared, Snapshot};
use wire::plain::mac_pair;
use wire::{FlowKey, FlowV4, Plain, PlainRewrite};

use crate::error::MeasureError;
use crate::evaluation::new_connections::Spent;
use crate::systems::balancer::RX_BURST;
use crate::testbed::frames::{CLIENT_SIDE, ROUTER, SERVER_SIDE, SHORTEST, Shot};
use crate::testbed::run::INTERRUPTED_US;
use crate::testbed::world::World;

/// The parts, in their order.
pub(crate) const PARTS: [&str; 5] = ["parse", "lookup", "schedule", "insert", "rewrite"];

/// One burst on its way through the parts.
struct Walk<'a> {
    shared: &'a Shared,
    snapshot: &'a Snapshot,
    state: WorkerScheduleState,
    /// By backend, and the way back.
    hops: (Vec<HopId>, HopId),
    plains: ArrayVec<Plain, RX_BURST>,
    openings: ArrayVec<PlainOpening, RX_BURST>,
}

/// The time that connections took which are opened by `shots`, by part.
///
/// # Errors
/// The table is too full, or the configuration isn't the measured one.
pub(crate) fn measure(world: &World, shots: &[Shot]) -> Result<[Spent; 5], MeasureError> {
    let snapshot = world.shared.snapshot.load_full();
    let missing = || MeasureError::NotOpened(0, shots.len() as u64);
    let hop = |addr| world.shared.hop_to(addr, 0).ok_or_else(missing);
    let backends = snapshot.services.services().iter().flat_map(service::Service::backends);
    let there: Result<Vec<_>, _> = backends.map(|backend| hop(backend.address)).collect();
    let back = hop(IpAddr::from([100, 64, 0, 1]))?;
    let mut walk = Walk {
        shared: &world.shared,
        snapshot: &snapshot,
        state: WorkerScheduleState::new(0, &snapshot.services),
        hops: (there?, back),
        plains: ArrayVec::new(),
        openings: ArrayVec::new(),
    };
    let interrupted = INTERRUPTED_US * (dpdk::cycles_per_second() / 1_000_000);
    let mut spent = [Spent::default(); 5];
    let mut frames = [[0; SHORTEST]; RX_BURST];
    for burst in shots.chunks(RX_BURST) {
        for (shot, frame) in burst.iter().zip(&mut frames) {
            world.moulds.write(shot, frame);
        }
        let frames = frames.get_mut(..burst.len()).unwrap_or_default();
        let mut before = cycles();
        for (part, spent) in spent.iter_mut().enumerate() {
            walk.part(part, frames);
            let now = cycles();
            spent.add(now.wrapping_sub(before), burst.len(), interrupted);
            before = now;
        }
        if walk.openings.len() < burst.len() {
            return Err(missing());
        }
    }
    Ok(spent)
}

impl Walk<'_> {
    /// Part number `part` of all `frames`.
    fn part(&mut self, part: usize, frames: &mut [[u8; SHORTEST]]) {
        match part {
            0 => self.parse(frames),
            1 => self.look_up(),
            2 => self.schedule(),
            3 => self.insert(),
            _ => self.rewrite(frames),
        }
    }

    fn parse(&mut self, frames: &[[u8; SHORTEST]]) {
        self.plains.clear();
        let parsed = frames
            .iter()
            .filter_map(|frame| Plain::first(frame.first_chunk()?, frame.len(), CLIENT_SIDE));
        self.plains.extend(parsed);
    }

    fn look_up(&self) {
        let keys: ArrayVec<PlainKey, RX_BURST> = self.plains.iter().map(key).collect();
        let mut hits = [None; RX_BURST];
        self.shared.table.lookup_burst(&keys, &mut hits);
        black_box(&hits);
    }

    fn schedule(&mut self) {
        self.openings.clear();
        for plain in &self.plains {
            if let FlowKey::V4(flow) = FlowKey::from(key(plain)) {
                self.openings.extend(choose(
                    self.snapshot,
                    self.shared,
                    &mut self.state,
                    &self.hops,
                    &flow,
                ));
            }
        }
    }

    /// As many as the table takes stay among the openings.
    fn insert(&mut self) {
        let table = &self.shared.table;
        for opening in &self.openings {
            table.prepare_further(opening);
        }
        self.openings.retain(|opening| {
            self.shared.active.opened(opening.backend());
            table.open(opening, 1).is_ok()
        });
    }

    fn rewrite(&self, frames: &mut [[u8; SHORTEST]]) {
        let macs = mac_pair(ROUTER, SERVER_SIDE);
        for ((opening, frame), plain) in self.openings.iter().zip(frames).zip(&self.plains) {
            let action = opening.action();
            let rewrite = PlainRewrite {
                macs,
                addresses: action.addresses,
                ports: action.ports,
                net_delta: action.net_delta,
                transport_delta: action.transport_delta,
            };
            if let Some(head) = frame.first_chunk_mut() {
                rewrite.apply(head, plain.proto);
            }
        }
    }
}

fn choose(
    snapshot: &Snapshot,
    shared: &Shared,
    state: &mut WorkerScheduleState,
    (there, back): &(Vec<HopId>, HopId),
    flow: &FlowV4,
) -> Option<PlainOpening> {
    let service = snapshot.services.lookup_v4(flow.dst, flow.dport, flow.proto)?;
    let backend = service.schedule(&FlowKey::V4(*flow), state, &shared.active)?;
    let server = service.nat_server(backend, flow.dport)?;
    let hops = [*there.get(usize::from(backend.0))?, *back];
    Some(shared.table.prepare(flow, server, (service.id(), backend), hops))
}

fn key(plain: &Plain) -> PlainKey {
    PlainKey { addresses: plain.addresses, ports: plain.ports, proto: plain.proto }
}
