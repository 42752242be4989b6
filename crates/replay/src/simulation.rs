//! HNLB in one thread, with heap packets.
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrayvec::ArrayVec;
use config::Config;
use conntrack::{ConnId, ReaderError};
use control::{Applied, BackendKey, Control, Drained, Plan, Refusal, Steered};
use dpdk::flow::FlowPort;
use flow::{CardProfile, Encoding, EncodingChoice, PortId};
use keeper::{AgerSettings, Keeper, KeeperOutbox, LinkNotice, ResolverSettings};
use nic::{Disposition, Nic, NicConfig, NicError, NicFlows, Reta};
use offload::{
    OffloadConfig, OffloadStats, Offloader, PortConfig, ProbeInput, ReceiveQueues, Rules,
    RulesReport, probe_card,
};
use packet::{HeapPacket, PacketBuf};
use pipeline::{BURST, Pipeline};
use service::Health;
use setup::{PortFacts, Seed, SetupError};
use state::{Counters, Metric, Offload, Shared, Source};
use wire::Mac;

use crate::neighbours;
use explain::{Collected, Sent};

/// Packets a worker takes from a queue at once.
const POLL: usize = 32;
/// Receive descriptors of every simulated queue.
const RING: u32 = 1024;
/// How fast the table is walked: a simulation has few connections, and the walk
/// is the greater part of a turn of the keeper.
const AGEING: AgerSettings = AgerSettings { records_per_tick: 256, buckets_per_tick: 32 };

/// What differs from one simulation to another beside the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The emulated NIC in front of every port; `None`: none.
    pub nic: Option<CardProfile>,
    /// How many rules it holds; `None`: its default.
    pub capacity: Option<usize>,
    /// Its receive queues.
    pub queues: u16,
    /// The encoding; `off` without a NIC.
    pub encoding: Encoding,
    /// Rules the keeper may create in one turn.
    pub creations_per_tick: usize,
    /// The Ethernet addresses of the ports, for interfaces that have none of their own.
    /// A port without one has [`Options::MAC`].
    pub macs: Vec<Option<Mac>>,
    /// Seed of all secrets.
    pub seed: [u8; 32],
}

impl Options {
    /// The Ethernet address of a port of which nothing else is known.
    pub const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

    /// The Ethernet address of `port`.
    #[must_use]
    pub fn mac(&self, port: PortId) -> Mac {
        self.macs.get(usize::from(port.0)).copied().flatten().unwrap_or(Self::MAC)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nic: None,
            capacity: None,
            queues: 16,
            encoding: Encoding::Off,
            creations_per_tick: 64,
            macs: Vec::new(),
            seed: [7; 32],
        }
    }
}

/// Why a simulation can't be built.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The emulated NIC.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// The shared state.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The workers.
    #[error(transparent)]
    Readers(#[from] ReaderError),
}

/// Frames that no worker received. The others are counted as `received`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// Sent on by a NIC, past the workers.
    pub nic_forwarded: u64,
    /// Dropped by a NIC.
    pub nic_dropped: u64,
    /// Dropped since their receive queue was full.
    pub queue_full: u64,
}

/// One port: an emulated NIC, if there is one, and its receive queues.
struct SimulatedPort {
    nic: Option<(Nic, NicFlows)>,
    queues: Vec<VecDeque<HeapPacket>>,
}

/// The load balancer, to be driven packet by packet and turn by turn.
pub struct Simulation {
    shared: Arc<Shared>,
    control: Control,
    ports: Vec<SimulatedPort>,
    workers: Vec<Pipeline<HeapPacket>>,
    rules: Rules,
    keeper: Keeper,
    collected: Collected,
    intake: Intake,
}

impl Simulation {
    /// The load balancer of `config`. All backends' next hops are known.
    ///
    /// # Errors
    /// The configuration can't be built, or the NIC hasn't what is asked.
    pub fn new(config: &Config, options: &Options) -> Result<Self, SimulationError> {
        let workers = config.workers.count;
        let numbers: Vec<u16> = (0..).take(config.ports.len()).collect();
        let mut ports = numbers
            .iter()
            .map(|_| SimulatedPort::new(options, workers, &numbers))
            .collect::<Result<Vec<_>, _>>()?;
        let facts: Vec<PortFacts> = numbers
            .iter()
            .map(|number| PortFacts {
                mac: options.mac(PortId(*number)),
                queues: queue_count(options, workers),
                ring: RING,
            })
            .collect();
        let seed = Seed(options.seed);
        let offloading = options.nic.is_some() && options.encoding != Encoding::Off;
        let (shared, control) = setup::start(config, &facts, offloading, seed)?;
        let shared = Arc::new(shared);
        let pipelines = (0..usize::from(workers)).map(|worker| {
            Pipeline::new(Arc::clone(&shared), worker, setup::settings(config, seed))
        });
        let workers_made = pipelines.collect::<Result<Vec<_>, _>>()?;
        assume_hops(&shared, config, 0);
        let offload_config = OffloadConfig {
            ports: ports.iter_mut().map(|port| port.offload(options, workers, &numbers)).collect(),
            creations_per_tick: options.creations_per_tick,
            admission: setup::admission(config),
            settle_ms: config.offload.settle_ms.into(),
            ..OffloadConfig::default()
        };
        Ok(Self {
            rules: Rules::new(
                Offloader::new(offload_config, Arc::clone(&shared)),
                Arc::clone(&shared),
            ),
            keeper: Keeper::new(&shared, AGEING, ResolverSettings::default()),
            shared,
            control,
            ports,
            workers: workers_made,
            collected: Collected::default(),
            intake: Intake::default(),
        })
    }

    /// Brings about `config`, as a reload of the running program does; workers
    /// follow with their next poll.
    ///
    /// # Errors
    /// It needs a restart, or can't be brought about: then nothing has changed.
    pub fn reload(&mut self, config: &Config, now_ms: u64) -> Result<Applied, Refusal> {
        let before = self.control.plan();
        let wanted = Plan::of(config).with_drained(&before.drained).with_health(&before.health);
        let applied = self.control.apply(&self.shared, &wanted)?;
        assume_hops(&self.shared, config, now_ms);
        Ok(applied)
    }

    /// Drains a backend (`drain`), or lets it serve again.
    ///
    /// # Errors
    /// There is no such backend, or it is so already.
    pub fn steer(&mut self, one: &Drained, drain: bool) -> Result<Steered, Refusal> {
        self.control.steer(&self.shared, one, drain)
    }

    /// Brings about what health checks have found.
    ///
    /// # Errors
    /// See [`control::Control::set_health`].
    pub fn set_health(
        &mut self,
        found: impl IntoIterator<Item = ((String, BackendKey), Health)>,
    ) -> Result<Applied, Refusal> {
        self.control.set_health(&self.shared, found)
    }

    /// What changes the configuration.
    #[must_use]
    pub const fn control(&self) -> &Control {
        &self.control
    }

    /// The tables that everything shares.
    #[must_use]
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The emulated NIC of `port`, for faults and statistics.
    #[must_use]
    pub fn nic(&self, port: PortId) -> Option<&Nic> {
        let (nic, _) = self.ports.get(usize::from(port.0))?.nic.as_ref()?;
        Some(nic)
    }

    /// A frame arrives on `port`: the NIC decides its queue and mark, or sends
    /// it on itself: then it is among what [`Self::take_sent`] gives. `false`
    /// if there is no such port, the queue is full or a rule drops it.
    pub fn arrive(&mut self, port: PortId, frame: &[u8], now_ns: u64) -> bool {
        let packet = HeapPacket::new(frame);
        neighbours::learn_sender(&self.shared, port, &packet, now_ns / 1_000_000);
        let Some(target) = self.ports.get_mut(usize::from(port.0)) else { return false };
        match target.arrive(packet, now_ns) {
            Arrived::Queued => true,
            Arrived::Forwarded(sent) => {
                self.intake.nic_forwarded += 1;
                self.collected.sent.push(sent);
                true
            }
            Arrived::NicDropped => {
                self.intake.nic_dropped += 1;
                false
            }
            Arrived::QueueFull => {
                self.intake.queue_full += 1;
                false
            }
        }
    }

    /// Every worker polls all its queues until they are empty.
    pub fn poll(&mut self, now_ms: u64) {
        while self.poll_once(now_ms) > 0 {}
    }

    /// Every worker polls each of its queues once. Returns how many packets
    /// were found.
    pub fn poll_once(&mut self, now_ms: u64) -> usize {
        let count = self.workers.len();
        let mut found = 0;
        for (number, worker) in self.workers.iter_mut().enumerate() {
            worker.begin();
            for (at, port) in self.ports.iter_mut().enumerate() {
                let port_id = PortId(at as u16);
                for (queue, ring) in port.queues.iter_mut().enumerate().skip(number).step_by(count)
                {
                    let got = ring.len().min(POLL);
                    found += got;
                    // As a worker does with a burst of nothing.
                    if got > 0 {
                        let mut burst: ArrayVec<HeapPacket, BURST> = ring.drain(..got).collect();
                        let source = Source { port: port_id, queue: queue as u16 };
                        worker.process(source, &mut burst, now_ms, &mut self.collected);
                    }
                    if let Some(shared) = self.shared.port(port_id) {
                        shared.queue_epochs.polled(queue as u16, got);
                    }
                }
            }
            worker.tick(now_ms, &mut self.collected);
        }
        self.hand_over(now_ms);
        found
    }

    /// Workers get what is theirs and others have received.
    fn hand_over(&mut self, now_ms: u64) {
        for (worker, from, packet) in std::mem::take(&mut self.collected.handed_over) {
            let mut burst: ArrayVec<HeapPacket, BURST> = ArrayVec::new();
            burst.push(packet);
            if let Some(worker) = self.workers.get_mut(worker) {
                worker.process_handed_over(from, &mut burst, now_ms, &mut self.collected);
            }
        }
    }

    /// One turn of the keeper and one of the rules' owner.
    pub fn keep(&mut self, now_ms: u64) {
        self.control.tick(&self.shared, now_ms);
        let Collected { offload, resolve, .. } = &mut self.collected;
        let mut link = Link { shared: &self.shared, now_ms, requests: offload };
        self.keeper.turn(now_ms, resolve.drain(..), &mut link);
        let mut flows: Vec<&mut dyn FlowPort> = Vec::with_capacity(self.ports.len());
        for port in &mut self.ports {
            if let Some((nic, own)) = &mut port.nic {
                nic.advance(now_ms * 1_000_000);
                flows.push(own);
            }
        }
        self.rules.turn(now_ms, offload.drain(..), &mut flows);
    }

    /// Takes every rule back, as the program does when it stops. Returns how
    /// many the NICs would not destroy.
    pub fn shutdown(&mut self) -> usize {
        let flows = self.ports.iter_mut().filter_map(|port| port.nic.as_mut());
        let mut flows: Vec<&mut dyn FlowPort> =
            flows.map(|(_, own)| own as &mut dyn FlowPort).collect();
        self.rules.shutdown(&mut flows)
    }

    /// All rules, and what has been done with them.
    #[must_use]
    pub fn rules(&self) -> RulesReport {
        self.rules.report()
    }

    /// What has been sent since the last call.
    pub fn take_sent(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.collected.sent)
    }

    /// Every counter, all workers added up.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        let metrics = self.metrics().into_values().map(|metric| (metric.name, metric.value));
        metrics.chain([("queue_full", self.intake.queue_full)]).collect()
    }

    /// Every counter of the workers with its kind, all workers added up.
    #[must_use]
    pub fn metrics(&self) -> BTreeMap<&'static str, Metric> {
        let mut sum = BTreeMap::new();
        for worker in &self.workers {
            for metric in worker.counters().metrics() {
                let empty = Metric { value: 0, ..metric };
                sum.entry(metric.name).or_insert(empty).value += metric.value;
            }
        }
        sum
    }

    /// What became of the frames that no worker received.
    #[must_use]
    pub const fn intake(&self) -> Intake {
        self.intake
    }

    /// The workers' counters.
    #[must_use]
    pub fn worker_counters(&self) -> Vec<Arc<Counters>> {
        self.workers.iter().map(Pipeline::counters).collect()
    }

    /// The offload side's counters.
    #[must_use]
    pub fn offload_stats(&self) -> OffloadStats {
        self.rules.report().connections
    }
}

/// The links of all ports, on which every neighbour that is asked for answers.
struct Link<'a> {
    shared: &'a Shared,
    now_ms: u64,
    requests: &'a mut Vec<(ConnId, Offload)>,
}

impl KeeperOutbox for Link<'_> {
    fn send(&mut self, port: PortId, frame: &[u8]) {
        neighbours::answer(self.shared, port, frame, self.now_ms);
    }

    fn report(&mut self, conn: ConnId, reason: Offload) {
        self.requests.push((conn, reason));
    }

    fn notice(&mut self, _: &LinkNotice) {}
}

/// The next hops of `config` have addresses.
fn assume_hops(shared: &Shared, config: &Config, now_ms: u64) {
    let gateways = config.routes.iter().map(|route| route.via);
    for addr in setup::backend_addresses(config).into_iter().chain(gateways) {
        neighbours::assume(shared, addr, now_ms);
    }
}

fn queue_count(options: &Options, workers: u16) -> u16 {
    if options.nic.is_some() { options.queues.max(workers) } else { workers }
}

impl SimulatedPort {
    /// A port whose NIC, if there is one, is one switch with those of all ports.
    fn new(options: &Options, workers: u16, numbers: &[u16]) -> Result<Self, NicError> {
        let queues = queue_count(options, workers);
        let nic = match options.nic {
            None => None,
            Some(profile) => {
                let nic = Nic::new(&NicConfig {
                    capacity: options.capacity,
                    reta: Reta::Queues(workers),
                    switch: if profile.rewrites() { numbers.to_vec() } else { Vec::new() },
                    ..NicConfig::new(profile, queues)
                })?;
                let flows = nic.flows();
                Some((nic, flows))
            }
        };
        Ok(Self { nic, queues: (0..queues).map(|_| VecDeque::new()).collect() })
    }

    /// How the offload side makes this port's rules.
    fn offload(&mut self, options: &Options, workers: u16, numbers: &[u16]) -> PortConfig {
        let encoding = options.encoding;
        let receive = ReceiveQueues {
            count: options.queues,
            workers,
            marks_repeat: options.nic.is_some_and(|profile| !profile.needs_unique_marks()),
        };
        let mut config = PortConfig::new(encoding, receive);
        let outputs: Vec<Option<u16>> = numbers.iter().copied().map(Some).collect();
        if let (Some((_, flows)), Encoding::Rewrite) = (&mut self.nic, encoding) {
            let card = ProbeInput { queues: options.queues, outputs: &outputs, mark_arrives: None };
            let probe = probe_card(flows, &card, EncodingChoice::Fixed(encoding));
            (config.rewrite, config.mark_instead) = (probe.rewrite, probe.mark_instead);
        }
        config
    }

    fn arrive(&mut self, mut packet: HeapPacket, now_ns: u64) -> Arrived {
        let mut disposition = [Disposition::default()];
        if let Some((nic, _)) = &self.nic {
            nic.receive_burst([packet.bytes()], now_ns, &mut disposition);
        }
        let [disposition] = disposition;
        let Disposition { queue, mark, dropped, forward, .. } = disposition;
        if dropped.is_some() || !disposition.change(&mut packet) {
            return Arrived::NicDropped;
        }
        if let Some(port) = forward {
            return Arrived::Forwarded(Sent { port: PortId(port), packet });
        }
        match self.queues.get_mut(usize::from(queue)) {
            Some(ring) if ring.len() < RING as usize => {
                ring.push_back(packet.with_mark(mark));
                Arrived::Queued
            }
            _ => Arrived::QueueFull,
        }
    }
}

/// Where the NIC has put a frame.
enum Arrived {
    /// In a receive queue.
    Queued,
    /// Nowhere, by the NIC's rules.
    NicDropped,
    /// Nowhere: the receive queue is full.
    QueueFull,
    /// On a wire, past the workers.
    Forwarded(Sent),
}
