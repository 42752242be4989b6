//! Collects what the status says.
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ::control::{Question, Refusal, Request};
use announce::Standing;
use conntrack::TableStats;
use health::{Board, State, TargetKey};
use offload::{OffloadStats, RulesReport, StatelessStats};
use service::{Backend, Service};
use state::{Counter, CounterKind, Counters, Metric, Shared};

use crate::admission_report;
use crate::announcing::Announcing;
use crate::autoscaling::Autoscaling;
use crate::balancing::BalanceBoard;
use crate::captures::Captures;
use crate::checks;
use crate::clock::Clock;
use crate::connections::Search;
use crate::control;
use crate::idle::Naps;
use crate::link::Outcome;
use crate::offload_thread::RulesDesk;
use crate::packets::stories;
use crate::port_view::PortView;
use crate::services_report::{self, Known};
use crate::utilization::LoopCounters;
use status::{
    AnnounceStatus, ConnectionStatus, LoopReading, NicStatus, PacketStories, ServiceStatus, Status,
    WorkerStatus,
};

/// How long util and util+ are averaged, in milliseconds.
const WINDOW_MS: u64 = 1000;

/// One worker as the reporter sees it.
pub(crate) struct WorkerView {
    queues: usize,
    /// Packets received at once.
    burst: usize,
    cycles: Arc<LoopCounters>,
    naps: Arc<Naps>,
    counters: Arc<Counters>,
    /// The reading at the start of the present window.
    window: LoopReading,
    /// What the last whole window counted.
    last: LoopReading,
}

/// Everything the status is made of.
pub(crate) struct Reporter {
    shared: Arc<Shared>,
    clock: Clock,
    /// The memory that DPDK has, in words.
    memory: String,
    ports: Vec<PortView>,
    workers: Vec<WorkerView>,
    /// Counters of what the keeper and the kernel send by themselves.
    slow: Vec<Arc<Counters>>,
    desk: RulesDesk,
    checks: Arc<Board>,
    balance: Arc<BalanceBoard>,
    captures: Captures,
    /// `None` without `[announce]`.
    announcing: Option<Announcing>,
    autoscaling: Autoscaling,
    /// When the window of util ends and the links are looked at again.
    next_look_ms: u64,
}

impl Reporter {
    /// The reporter of these ports and workers, of the counters of slow threads, and of the
    /// rules that `desk` knows about. Health checks and the balancing thread write on
    /// the boards, `captures` has the workers catch packets, and `announcing` tells the
    /// kernel of VIPs.
    pub(crate) fn new(
        shared: Arc<Shared>,
        clock: Clock,
        memory: String,
        (ports, workers): (Vec<PortView>, Vec<WorkerView>),
        slow: Vec<Arc<Counters>>,
        (desk, captures, announcing): (RulesDesk, Captures, Option<Announcing>),
        (checks, balance): (Arc<Board>, Arc<BalanceBoard>),
    ) -> Self {
        let (next_look_ms, autoscaling) = (0, Autoscaling::default());
        Self {
            shared,
            clock,
            memory,
            ports,
            workers,
            slow,
            desk,
            checks,
            balance,
            captures,
            announcing,
            autoscaling,
            next_look_ms,
        }
    }

    /// Closes the window of util and looks at the links, once a second.
    /// Whether a link has come up.
    pub(crate) fn tick(&mut self, now_ms: u64) -> bool {
        self.captures.tick(&self.shared, now_ms);
        self.announce(now_ms);
        if now_ms < self.next_look_ms {
            return false;
        }
        self.next_look_ms = now_ms + WINDOW_MS;
        self.workers.iter_mut().for_each(WorkerView::close_window);
        let busiest = self.workers.iter().map(WorkerView::util_plus).fold(0.0, f64::max);
        self.autoscaling.note(now_ms, busiest);
        // Not `any`: every port is looked at.
        self.ports.iter_mut().map(PortView::look_at_link).fold(false, |any, came| any | came)
    }

    /// The answer to a question; `None` while the question's `search` has not come to
    /// its end.
    pub(crate) fn answer(
        &mut self,
        request: &Request,
        search: &mut Search,
        now_ms: u64,
    ) -> Option<Outcome> {
        match request {
            Request::Connection { client } => {
                search.advance(*client, &self.shared, &self.desk, now_ms).map(control::outcome)
            }
            Request::Connections(filter) => {
                search.list(filter, &self.shared, &self.desk, now_ms).map(control::outcome)
            }
            Request::OffloadCauses => {
                search.count_causes(&self.shared, &self.desk, now_ms).map(control::outcome)
            }
            Request::StartCapture(order) => {
                let Self { captures, ports, shared, .. } = self;
                let names: Vec<&str> = ports.iter().map(PortView::name).collect();
                Some(control::outcome(captures.start(order, shared, &names, now_ms)))
            }
            Request::TakeCapture { id } => Some(control::outcome(self.captures.take(*id, now_ms))),
            Request::StopCapture { id } => {
                let Self { captures, shared, .. } = self;
                Some(control::outcome(captures.stop(*id, shared, now_ms)))
            }
            Request::Announce { withdraw } => {
                Some(control::outcome(self.steer_announcing(*withdraw, now_ms)))
            }
            Request::Explain(question) => Some(control::outcome(self.stories(question, now_ms))),
            _ => {
                let rules = self.desk.report().clone();
                Some(control::outcome(Ok(self.status(&rules, now_ms))))
            }
        }
    }

    /// Announces the VIPs that can serve, now and then.
    fn announce(&mut self, now_ms: u64) {
        if self.announcing.as_ref().is_none_or(|own| !own.is_due(now_ms)) {
            return;
        }
        let vips = self.vips();
        if let Some(own) = &mut self.announcing {
            own.follow(&vips, now_ms);
        }
    }

    fn steer_announcing(
        &mut self,
        withdraw: Option<bool>,
        now_ms: u64,
    ) -> Result<AnnounceStatus, Refusal> {
        let vips = self.vips();
        let own = self.announcing.as_mut().ok_or(Refusal::NoAnnounce)?;
        own.steer(withdraw, &vips, now_ms)
    }

    /// What is known of each VIP: that of the best of its services.
    fn vips(&self) -> BTreeMap<IpAddr, Standing> {
        let mut vips = BTreeMap::new();
        for service in self.shared.snapshot().services.services() {
            let announced =
                self.announcing.as_ref().is_some_and(|own| own.announces(service.vip()));
            let mut backends = service.backends().iter();
            let serves =
                backends.any(|own| service.serves(own.id) && self.hop(own.address).is_ok());
            // Only before it is announced: all backends are looked at.
            let probed = announced || self.is_probed(service);
            let own = vips.entry(service.vip()).or_insert(Standing { serves: false, probed: true });
            own.serves |= serves;
            own.probed &= probed;
        }
        vips
    }

    /// Whether each backend that is checked has been probed.
    fn is_probed(&self, service: &Service) -> bool {
        service.backends().iter().all(|own| {
            let (address, port) = (own.address, own.port);
            let record =
                self.checks.get(&TargetKey { service: service.name().to_owned(), address, port });
            record.is_none_or(|record| record.state != State::Unknown)
        })
    }

    /// What becomes of packets, and why.
    fn stories(&self, question: &Question, now_ms: u64) -> Result<PacketStories, Refusal> {
        let names: Vec<&str> = self.ports.iter().map(PortView::name).collect();
        stories(question, &self.shared, &names, &self.desk, now_ms)
    }

    fn status(&self, rules: &RulesReport, now_ms: u64) -> Status {
        let RulesReport { connections: stats, stateless } = rules;
        let waiting_for = self.waiting_for();
        let workers: Vec<WorkerStatus> = self
            .workers
            .iter()
            .enumerate()
            .map(|(n, worker)| worker.status(n, self.balance.buckets(n)))
            .collect();
        let mut counters = BTreeMap::new();
        for worker in &workers {
            for (name, value) in &worker.counters {
                *counters.entry(name.clone()).or_insert(0) += value;
            }
        }
        for Metric { name, value, .. } in self.slow.iter().flat_map(|own| own.metrics()) {
            *counters.entry(name.to_owned()).or_insert(0) += value;
        }
        let mut nic = self.nic();
        nic.rules = (stats.now().rules + stateless.rules) as u64;
        let done = stats.done();
        // An emulated NIC knows better than the counters that are read now and then.
        nic.forwarded = nic.forwarded.max(done.forwarded_packets);
        nic.forwarded_bytes = nic.forwarded_bytes.max(done.forwarded_bytes);
        if nic.capacity == 0 {
            let learnt = stats.ports.iter().filter_map(|port| port.capacity_learnt);
            nic.capacity = learnt.sum::<usize>() as u64;
        }
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ready: waiting_for.is_empty(),
            waiting_for,
            uptime_seconds: self.clock.now_ms() as f64 / 1000.0,
            memory: self.memory.clone(),
            ports: self
                .ports
                .iter()
                .enumerate()
                .map(|(at, p)| p.status(stats.ports.get(at)))
                .collect(),
            nic,
            drops: dropped(&counters),
            counters,
            workers,
            autoscaling: self.autoscaling.status(),
            balance: self.balance.status(),
            offload: offload_counters(stats, stateless.reconciled),
            rules_busy_ms: self.desk.busy_ms(now_ms),
            admission: admission_report::admission(stats),
            connections: self.connections(),
            announce: self.announcing.as_ref().map(Announcing::status),
            services: self.services(stateless),
        }
    }

    fn services(&self, stateless: &StatelessStats) -> Vec<ServiceStatus> {
        let next_hop = |addr| self.hop(addr).unwrap_or_else(|why| why);
        let health = |service: &str, own: &Backend| checks::status(&self.checks, service, own);
        let known = Known { next_hop: &next_hop, health: &health };
        services_report::services(&self.shared, stateless, &known)
    }

    fn waiting_for(&self) -> Vec<String> {
        let down = self.ports.iter().filter(|port| !port.is_up());
        let links = down.map(|port| format!("link of port {}", port.name()));
        let snapshot = self.shared.snapshot();
        let up = |service: &&Service, own: &&Backend| !service.is_down(own.id);
        let services = snapshot.services.services().iter();
        let backends =
            services.flat_map(|one| one.backends().iter().filter(move |own| up(&one, own)));
        let backends: BTreeSet<IpAddr> = backends.map(|own| own.address).collect();
        let unresolved = backends.iter().filter(|addr| self.hop(**addr).is_err());
        links.chain(unresolved.map(|addr| format!("next hop of {addr}"))).collect()
    }

    /// The Ethernet address of the next hop towards `addr`, or why there is none.
    fn hop(&self, addr: IpAddr) -> Result<String, String> {
        let hop = self.shared.hop_to(addr, self.clock.now_ms());
        let hop = hop.ok_or_else(|| "no route".to_owned())?;
        let neighbour = self.shared.neighbours().get(hop).ok_or_else(|| "unknown".to_owned())?;
        neighbour.mac.map(|mac| mac.to_string()).ok_or_else(|| "no answer".to_owned())
    }

    fn nic(&self) -> NicStatus {
        let mut sum = NicStatus::default();
        for (nic, counters) in self.ports.iter().filter_map(PortView::emulated) {
            let stats = nic.stats();
            sum.capacity += stats.capacity as u64;
            sum.matched += stats.matched;
            sum.missed += stats.missed;
            sum.forwarded += stats.forwarded;
            sum.forwarded_bytes += stats.forwarded_bytes;
            for Metric { name, value, .. } in counters.metrics() {
                *sum.drops.entry(name.to_owned()).or_insert(0) += value;
            }
        }
        sum.capacity += self.ports.iter().map(|own| u64::from(own.kernel_capacity())).sum::<u64>();
        sum
    }

    fn connections(&self) -> ConnectionStatus {
        let TableStats { v4, v6 } = self.shared.table().stats();
        ConnectionStatus {
            active: (v4.len + v6.len) as u64,
            created: v4.inserts + v6.inserts,
            capacity: v4.capacity as u64,
            capacity_v6: v6.capacity as u64,
            memory_bytes: (v4.memory_bytes + v6.memory_bytes) as u64,
        }
    }
}

/// Those of `counters` that count dropped packets, without the zeros.
fn dropped(counters: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let reasons = Counter::ALL.iter().filter(|own| own.kind() == CounterKind::Dropped);
    let counted = reasons.filter_map(|own| counters.get_key_value(own.name()));
    counted.filter(|(_, value)| **value > 0).map(|(name, value)| (name.clone(), *value)).collect()
}

/// The offload side's counts by name.
fn offload_counters(stats: &OffloadStats, reconciled: usize) -> BTreeMap<String, u64> {
    let own = [
        ("stateless_reconciled", reconciled as u64),
        ("connections", stats.connections as u64),
        ("requests", stats.requests),
        ("withdrawn", stats.withdrawn),
        ("relieved", stats.relieved),
        ("orphaned", stats.orphaned),
    ];
    let (now, done) = (stats.now(), stats.done());
    let others = now.metrics().chain(done.metrics()).map(|metric| (metric.name, metric.value));
    own.into_iter().chain(others).map(|(name, count)| (name.to_owned(), count)).collect()
}

impl WorkerView {
    /// A worker that polls `queues` queues for at most `burst` packets at once.
    pub(crate) fn new(
        queues: usize,
        burst: usize,
        (cycles, naps): (Arc<LoopCounters>, Arc<Naps>),
        counters: Arc<Counters>,
    ) -> Self {
        let (window, last) = (LoopReading::default(), LoopReading::default());
        Self { queues, burst, cycles, naps, counters, window, last }
    }

    fn close_window(&mut self) {
        let now = self.cycles.read();
        self.last = now.since(self.window);
        self.window = now;
    }

    /// util+ over the last whole window.
    fn util_plus(&self) -> f64 {
        self.last.util_plus(self.queues, self.burst)
    }

    fn status(&self, worker: usize, buckets: u64) -> WorkerStatus {
        let counters = self.counters.metrics().map(|own| (own.name.to_owned(), own.value));
        let counters: BTreeMap<String, u64> = counters.collect();
        let (naps, slept_ns) = self.naps.read();
        WorkerStatus {
            worker,
            queues: self.queues,
            burst: self.burst,
            buckets,
            util: self.last.util(),
            util_plus: self.util_plus(),
            totals: self.cycles.read(),
            naps,
            slept_ms: slept_ns / 1_000_000,
            dropped: dropped(&counters).values().sum(),
            counters,
        }
    }
}
