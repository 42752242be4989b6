//! What the parts of a new connection's first packet cost by themselves, in the
//! order and with the calls of the pipeline's short way for such packets.
use std::hint::black_box;
use std::net::IpAddr;

use arrayvec::ArrayVec;
use conntrack::{FastKey, Key, PreparedInsert};
use dpdk::cycles;
use flow::HopId;
use service::WorkerScheduleState;
use state::{Shared, Snapshot};
use wire::fast_header::{is_for, mac_pair};
use wire::{FastHeader, FlowKey};

use crate::error::MeasureError;
use crate::evaluation::new_connections::Spent;
use crate::systems::balancer::RX_BURST;
use crate::testbed::frames::{CLIENT_SIDE, FrameSpec, ROUTER, SERVER_SIDE, SHORTEST};
use crate::testbed::run::INTERRUPTED_US;
use crate::testbed::scenario::Scenario;

/// The parts, in their order.
pub(crate) const PARTS: [&str; 5] = ["parse", "lookup", "schedule", "insert", "rewrite"];

/// One burst on its way through the parts.
struct Walk<'a> {
    shared: &'a Shared,
    snapshot: &'a Snapshot,
    state: WorkerScheduleState,
    /// By backend, and the way back.
    hops: (Vec<HopId>, HopId),
    headers: ArrayVec<FastHeader<1>, RX_BURST>,
    openings: ArrayVec<PreparedInsert<1>, RX_BURST>,
}

/// The time that connections took which are opened by `specs`, by part.
///
/// # Errors
/// The table is too full, or the configuration isn't the measured one.
pub(crate) fn measure(
    scenario: &Scenario,
    specs: &[FrameSpec],
) -> Result<[Spent; 5], MeasureError> {
    let snapshot = scenario.shared.snapshot.load_full();
    let missing = || MeasureError::NotOpened(0, specs.len() as u64);
    let hop = |addr| scenario.shared.hop_to(addr, 0).ok_or_else(missing);
    let backends = snapshot.services.services().iter().flat_map(service::Service::backends);
    let there: Result<Vec<_>, _> = backends.map(|backend| hop(backend.address)).collect();
    let back = hop(IpAddr::from([100, 64, 0, 1]))?;
    let mut walk = Walk {
        shared: &scenario.shared,
        snapshot: &snapshot,
        state: WorkerScheduleState::new(0, &snapshot.services),
        hops: (there?, back),
        headers: ArrayVec::new(),
        openings: ArrayVec::new(),
    };
    let interrupted = INTERRUPTED_US * (dpdk::cycles_per_second() / 1_000_000);
    let mut spent = [Spent::default(); 5];
    let mut frames = [[0; SHORTEST]; RX_BURST];
    for burst in specs.chunks(RX_BURST) {
        for (spec, frame) in burst.iter().zip(&mut frames) {
            scenario.templates.write(spec, frame);
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
        self.headers.clear();
        let ours = frames.iter().filter(|frame| is_for(*frame, CLIENT_SIDE));
        self.headers.extend(ours.filter_map(|frame| Some(FastHeader::or_opening(frame, 0)?.0)));
    }

    fn look_up(&self) {
        let keys: ArrayVec<Key<1>, RX_BURST> = self.headers.iter().map(Key::from).collect();
        let mut hits = [None; RX_BURST];
        self.shared.table.lookup_burst(&keys, &mut hits);
        black_box(&hits);
    }

    fn schedule(&mut self) {
        self.openings.clear();
        for header in &self.headers {
            let key = Key::from(header);
            self.openings.extend(choose(
                self.snapshot,
                self.shared,
                &mut self.state,
                &self.hops,
                &key,
            ));
        }
    }

    /// As many as the table takes stay among the openings.
    fn insert(&mut self) {
        let table = &self.shared.table;
        for opening in &self.openings {
            table.prefetch_further(opening);
        }
        self.openings.retain(|opening| {
            self.shared.loads.opened(opening.backend());
            table.insert_prepared(opening, 1).is_ok()
        });
    }

    fn rewrite(&self, frames: &mut [[u8; SHORTEST]]) {
        let macs = mac_pair(ROUTER, SERVER_SIDE);
        for ((opening, frame), header) in self.openings.iter().zip(frames).zip(&self.headers) {
            frame[..macs.len()].copy_from_slice(&macs);
            opening.rewrite().apply(frame, 0, header.proto);
        }
    }
}

fn choose(
    snapshot: &Snapshot,
    shared: &Shared,
    state: &mut WorkerScheduleState,
    (there, back): &(Vec<HopId>, HopId),
    key: &Key<1>,
) -> Option<PreparedInsert<1>> {
    let flow = FlowKey::from(key);
    let service = snapshot.services.lookup(&flow)?;
    let backend = service.schedule(&flow, state, &shared.loads)?;
    let server = service.server(backend, flow.dst().port())?;
    let owner = (service.id(), backend, service.forwarding());
    let keys = [*key, key.answers(server, owner.2)?];
    let hops = [*there.get(usize::from(backend.0))?, *back];
    Some(shared.table.prepare_insert(keys, owner, hops))
}
