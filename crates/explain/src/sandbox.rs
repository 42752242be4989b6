//! The data path over a copy of a running load balancer's state.
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use arrayvec::ArrayVec;
use conntrack::{ConnState, ConnTable, Hit, ReaderError, Segment, TableConfig, TableError};
use flow::{Direction, HopId, PortId};
use l3::NeighbourTable;
use packet::HeapPacket;
use pipeline::{Pipeline, Settings};
use service::{Binding, Timeouts};
use state::{
    CounterKind, Counters, Gates, MarkTable, Metric, PortShared, QueueEpochs, QueueTable, Shared,
    Snapshot, Source,
};
use status::PacketStory;
use wire::{FlowKey, TcpFlags};

use crate::ground::{Ground, Known};
use crate::outbox::Collected;
use crate::trace::{Departure, Trace, Verdict, raised};

/// Connections that a sandbox has room for, of each family.
const CONNECTIONS: usize = 4096;
/// Next hops that it has room for at least.
const HOPS: usize = 4096;
/// Datagrams and fragments that it follows.
const FRAGMENTS: usize = 64;

/// Why there is no sandbox.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SandboxError {
    /// No memory for its table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Its table has no reader.
    #[error(transparent)]
    Reader(#[from] ReaderError),
}

/// A worker of its own, with a connection table and a neighbour table of its own, and
/// the running load balancer's services, interfaces and routes. What it needs of the
/// running tables is copied when a packet needs it, so that it sees what the next
/// packet would see, and leaves no trace there.
pub struct Sandbox {
    shared: Arc<Shared>,
    worker: Pipeline<HeapPacket>,
    counters: Arc<Counters>,
    out: Collected,
    number: u64,
}

impl Sandbox {
    /// A sandbox of the state that `live` has now.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn of(live: &Shared) -> Result<Self, SandboxError> {
        let snapshot = live.snapshot();
        // A table that refuses connections refuses them here, too.
        let room = |refuses: bool| if refuses { 0 } else { CONNECTIONS };
        let table = ConnTable::new(&TableConfig {
            connections: room(live.table().refuses::<1>()),
            connections_v6: room(live.table().refuses::<4>()),
            seed: [0; 32],
            timeouts: Timeouts::default(),
        })?;
        table.set_timeouts((*live.table().timeouts()).clone());
        let backends = snapshot.services.backends().len();
        let neighbours = NeighbourTable::new(HOPS.max(backends * 2), 0);
        let ports = live.ports().iter().map(port).collect();
        let shared = Shared::new(snapshot, table, neighbours, ports);
        let shared = Arc::new(shared.with_loads(live.loads().copied()));
        let settings = Settings {
            fragment_datagrams: FRAGMENTS,
            fragments_held: FRAGMENTS,
            seed: 0,
            workers: 1,
            log_sample: 0,
        };
        let worker = Pipeline::new(Arc::clone(&shared), 0, settings)?;
        let counters = worker.counters();
        Ok(Self { shared, worker, counters, out: Collected::default(), number: 0 })
    }

    /// What a worker would do with `frame`, which comes in on `port`, and why. `names`
    /// are those of the ports. A packet that opens a connection here opens it for the
    /// packets that are told of behind it.
    pub fn story(
        &mut self,
        live: &Shared,
        (port, frame): (PortId, &[u8]),
        names: &[&str],
        now_ms: u64,
    ) -> (Ground, PacketStory) {
        let own = Ground::of(live, frame, now_ms);
        self.copy(live, &own, now_ms);
        let ground = Ground::of(&self.shared, frame, now_ms);
        let mut raised = self.serve(port, frame, now_ms);
        // An error about a packet in a tunnel may go to a station that the error itself
        // does not name; it opens no connection, so that it can be served again.
        if ground.flow.is_none() && self.copy_wanted_hops(live, now_ms) {
            raised = self.serve(port, frame, now_ms);
        }
        self.number += 1;
        let sent = std::mem::take(&mut self.out).sent;
        let trace = Trace {
            frame: self.number,
            port: port.0,
            verdict: Verdict::of(&raised),
            counters: raised.iter().map(|metric| metric.name).collect(),
            sent: sent.iter().map(|sent| Departure::of(frame, sent)).collect(),
        };
        let telling: Vec<Metric> =
            raised.into_iter().filter(|metric| metric.kind != CounterKind::In).collect();
        let story = ground.story(&self.shared, (&trace, &telling), names, now_ms);
        (own, story)
    }

    /// Serves `frame`; the counters that it raises.
    fn serve(&mut self, port: PortId, frame: &[u8], now_ms: u64) -> Vec<Metric> {
        let before = self.metrics();
        self.out = Collected::default();
        self.worker.begin();
        let mut burst = ArrayVec::new();
        burst.push(HeapPacket::new(frame));
        self.worker.process(Source { port, queue: 0 }, &mut burst, now_ms, &mut self.out);
        raised(&before, &self.metrics())
    }

    /// Copies the Ethernet addresses that the worker has asked for. Whether there are
    /// any.
    fn copy_wanted_hops(&self, live: &Shared, now_ms: u64) -> bool {
        let wanted = self.out.resolve.iter().filter_map(|hop| self.shared.neighbours().get(*hop));
        let mut any = false;
        for wanted in wanted {
            let hop = live.neighbours().find(wanted.interface, wanted.addr);
            let mac = hop.and_then(|hop| live.neighbours().get(hop)).and_then(|found| found.mac);
            if let Some(mac) = mac {
                self.shared.neighbours().learn(wanted.interface, wanted.addr, mac, now_ms);
                any = true;
            }
        }
        any
    }

    fn metrics(&self) -> BTreeMap<&'static str, Metric> {
        self.counters.metrics().map(|metric| (metric.name, metric)).collect()
    }

    /// Copies what the packet of `ground` may need: its connection and next hops.
    fn copy(&self, live: &Shared, ground: &Ground, now_ms: u64) {
        let Some(flow) = &ground.about else { return };
        let snapshot = live.snapshot();
        let mut stations = vec![flow.src().ip(), flow.dst().ip()];
        if let Some(Known { binding, .. }) = &ground.known {
            stations.push(binding.client.ip());
            stations.extend(address(&snapshot, binding));
        }
        let service = snapshot.services.lookup(flow);
        let backends = service.iter().flat_map(|service| service.backends());
        stations.extend(backends.map(|own| own.address));
        if let Some((_, backend)) = snapshot.services.claimant(flow) {
            stations.extend(snapshot.services.backend(backend).map(|own| own.address));
        }
        for station in stations {
            self.copy_hop(live, station, now_ms);
        }
        let known = ground.known.filter(|_| self.shared.table().lookup(flow).is_none());
        if let Some(known) = known {
            self.copy_connection(flow, &known, now_ms);
        }
    }

    /// Copies the Ethernet address of the next hop towards `station`. Without one, the
    /// worker finds none here either.
    fn copy_hop(&self, live: &Shared, station: IpAddr, now_ms: u64) {
        let snapshot = live.snapshot();
        let Some((interface, next)) = snapshot.routes.next(station) else { return };
        let hop = live.neighbours().find(interface, next);
        let mac = hop.and_then(|hop| live.neighbours().get(hop)).and_then(|found| found.mac);
        let Some(mac) = mac else { return };
        if self.shared.neighbours().hop(interface, next, now_ms).is_some() {
            self.shared.neighbours().learn(interface, next, mac, now_ms);
        }
    }

    fn copy_connection(&self, flow: &FlowKey, known: &Known, now_ms: u64) {
        let Known { binding, state, idle_ms, .. } = known;
        let last_ms = now_ms.saturating_sub(*idle_ms);
        let snapshot = self.shared.snapshot();
        let hop = |addr: Option<IpAddr>| -> Option<HopId> { self.shared.hop_to(addr?, now_ms) };
        let server = address(&snapshot, binding);
        let (Some(there), Some(back)) = (hop(server), hop(Some(binding.client.ip()))) else {
            return;
        };
        let table = self.shared.table();
        let Ok(conn) = table.insert_answered(binding, [there, back], last_ms) else { return };
        for (direction, flags) in way_to(*state, binding) {
            let segment = flags.map(|flags| Segment { flags, ..Segment::default() });
            table.touch(Hit { conn, direction }, segment, last_ms);
        }
        if *state == ConnState::Revoked {
            table.revoke(conn, last_ms);
        }
        debug_assert!(table.lookup(flow).is_some());
    }
}

/// The address that packets of the connection go to.
fn address(snapshot: &Snapshot, binding: &Binding) -> Option<IpAddr> {
    let mut all = snapshot.services.all_backends();
    all.find(|own| own.id == binding.backend).map(|own| own.address)
}

fn port(live: &PortShared) -> PortShared {
    PortShared {
        marks: MarkTable::new(0),
        queues: QueueTable::new(1, 0),
        queue_epochs: QueueEpochs::new(1, 64),
        gates: Gates::new(1),
        mac: live.mac,
        mtu: live.mtu,
    }
}

/// The packets that lead a new connection to `state`.
fn way_to(state: ConnState, binding: &Binding) -> Vec<(Direction, Option<TcpFlags>)> {
    use Direction::{Forward, Reply};
    const SYN: u8 = TcpFlags::SYN;
    const ACK: u8 = TcpFlags::ACK;
    let tcp = |direction, bits| (direction, Some(TcpFlags(bits)));
    let opening = || vec![tcp(Forward, SYN), tcp(Reply, SYN | ACK), tcp(Forward, ACK)];
    let open = if binding.forwarding.is_one_way() {
        vec![tcp(Forward, SYN), tcp(Forward, ACK)]
    } else {
        opening()
    };
    let ended = |ends: &[(Direction, Option<TcpFlags>)]| [open.as_slice(), ends].concat();
    match state {
        ConnState::New | ConnState::Revoked => Vec::new(),
        ConnState::Unanswered => vec![(Forward, None)],
        ConnState::Stream => vec![(Forward, None), (Reply, None)],
        ConnState::Syn => vec![tcp(Forward, SYN)],
        ConnState::SynAck => vec![tcp(Forward, SYN), tcp(Reply, SYN | ACK)],
        ConnState::Established => open,
        ConnState::PickedUp => vec![tcp(Forward, ACK)],
        ConnState::HalfClosed(side) => ended(&[tcp(side, TcpFlags::FIN | ACK)]),
        ConnState::Closing => {
            ended(&[tcp(Forward, TcpFlags::FIN | ACK), tcp(Reply, TcpFlags::FIN | ACK)])
        }
        ConnState::Reset if binding.forwarding.is_one_way() => {
            ended(&[tcp(Forward, TcpFlags::RST)])
        }
        ConnState::Reset => ended(&[tcp(Reply, TcpFlags::RST)]),
    }
}
