//! Collects what the status says.
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use conntrack::TableStats;
use control::Request;
use dpdk::Port;
use nic::Nic;
use offload::{OffloadStats, RulesReport};
use state::{CounterSet, Counters, Metric, Shared};

use crate::admission_report;
use crate::clock::Clock;
use crate::explain;
use crate::kernel_interface;
use crate::nic_thread::NicCounter;
use crate::offload_thread::RulesDesk;
use crate::services_report;
use crate::status::{ConnectionStatus, NicStatus, PortStatus, Status, WorkerStatus};
use crate::utilization::{LoopCounters, LoopReading};

/// How long util and util+ are averaged, in milliseconds.
const WINDOW_MS: u64 = 1000;

/// One worker as the reporter sees it.
pub(crate) struct WorkerView {
    pub(crate) queues: usize,
    /// Packets received at once.
    pub(crate) burst: usize,
    pub(crate) cycles: Arc<LoopCounters>,
    pub(crate) counters: Arc<Counters>,
    /// The reading at the start of the present window.
    pub(crate) window: LoopReading,
    /// What the last whole window counted.
    pub(crate) last: LoopReading,
}

/// One port as the reporter sees it.
pub(crate) struct PortView {
    pub(crate) name: String,
    pub(crate) device: String,
    pub(crate) driver: String,
    pub(crate) encoding: String,
    pub(crate) reasons: Vec<String>,
    pub(crate) mac: String,
    /// What the workers poll.
    pub(crate) port: Port,
    /// The emulated NIC and the wire behind it.
    pub(crate) emulated: Option<(Nic, Port, Arc<CounterSet<NicCounter>>)>,
    /// What the last look at the link showed.
    pub(crate) link: Option<LinkState>,
    /// As configured.
    pub(crate) mtu: u16,
    /// What the last look at the kernel's interface showed, if there is one.
    pub(crate) link_mtu: Option<u32>,
}

/// A port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Up,
    Down,
    /// The device has gone away. It doesn't come back: a driver holds on to
    /// the one that went.
    Gone,
}

/// Everything the status is made of.
pub(crate) struct Reporter {
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Clock,
    pub(crate) memory: String,
    pub(crate) ports: Vec<PortView>,
    pub(crate) workers: Vec<WorkerView>,
    /// Counters of what the keeper sends by itself.
    pub(crate) keeper: Arc<Counters>,
    pub(crate) desk: RulesDesk,
    /// When the window of util ends and the links are looked at again.
    pub(crate) next_look_ms: u64,
}

impl Reporter {
    /// Closes the window of util and looks at the links, once a second.
    /// Whether a link has come up.
    pub(crate) fn tick(&mut self, now_ms: u64) -> bool {
        if now_ms < self.next_look_ms {
            return false;
        }
        self.next_look_ms = now_ms + WINDOW_MS;
        for worker in &mut self.workers {
            let now = worker.cycles.read();
            worker.last = now.since(worker.window);
            worker.window = now;
        }
        // Not `any`: every port is looked at.
        self.ports.iter_mut().map(PortView::look_at_link).fold(false, |any, came| any | came)
    }

    /// The answer to a question of the status socket, as JSON.
    pub(crate) fn answer(&mut self, request: &Request, now_ms: u64) -> String {
        match request {
            Request::Connection { client } => {
                explain::answer(*client, &self.shared, &self.desk, now_ms)
            }
            _ => self.json(now_ms),
        }
    }

    /// The report as JSON.
    fn json(&mut self, now_ms: u64) -> String {
        let rules = self.desk.report().clone();
        serde_json::to_string(&self.status(&rules, now_ms)).unwrap_or_else(|error| {
            tracing::error!(%error, "cannot serialise the status");
            "{}".to_owned()
        })
    }

    fn status(&self, rules: &RulesReport, now_ms: u64) -> Status {
        let RulesReport { connections: stats, stateless } = rules;
        let waiting_for = self.waiting_for();
        let workers: Vec<WorkerStatus> =
            self.workers.iter().enumerate().map(|(n, worker)| worker.status(n)).collect();
        let mut counters = BTreeMap::new();
        for worker in &workers {
            for (name, value) in &worker.counters {
                *counters.entry(name.clone()).or_insert(0) += value;
            }
        }
        for Metric { name, value, .. } in self.keeper.metrics() {
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
            counters,
            workers,
            offload: offload_counters(stats, stateless.reconciled),
            rules_busy_ms: self.desk.busy_ms(now_ms),
            admission: admission_report::admission(stats),
            connections: self.connections(),
            services: services_report::services(&self.shared, stateless, &|addr| {
                self.hop(addr).unwrap_or_else(|why| why)
            }),
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        let down = self.ports.iter().filter(|port| port.link != Some(LinkState::Up));
        let links = down.map(|port| format!("link of port {}", port.name));
        let snapshot = self.shared.snapshot.load();
        let backends = snapshot.services.backends().iter().map(|own| own.address);
        let backends: BTreeSet<IpAddr> = backends.collect();
        let unresolved = backends.iter().filter(|addr| self.hop(**addr).is_err());
        links.chain(unresolved.map(|addr| format!("next hop of {addr}"))).collect()
    }

    /// The Ethernet address of the next hop towards `addr`, or why there is none.
    fn hop(&self, addr: IpAddr) -> Result<String, String> {
        let hop = self.shared.hop_to(addr, self.clock.now_ms());
        let hop = hop.ok_or_else(|| "no route".to_owned())?;
        let neighbour = self.shared.neighbours.get(hop).ok_or_else(|| "unknown".to_owned())?;
        neighbour.mac.map(|mac| mac.to_string()).ok_or_else(|| "no answer".to_owned())
    }

    fn nic(&self) -> NicStatus {
        let mut sum = NicStatus::default();
        for (nic, _, counters) in self.ports.iter().filter_map(|port| port.emulated.as_ref()) {
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
        sum
    }

    fn connections(&self) -> ConnectionStatus {
        let TableStats { v4, v6 } = self.shared.table.stats();
        ConnectionStatus {
            active: (v4.len + v6.len) as u64,
            created: v4.inserts + v6.inserts,
            capacity: v4.capacity as u64,
            capacity_v6: v6.capacity as u64,
            memory_bytes: (v4.memory_bytes + v6.memory_bytes) as u64,
        }
    }
}

/// The offload side's counts by name.
fn offload_counters(stats: &OffloadStats, reconciled: usize) -> BTreeMap<String, u64> {
    let own = [
        ("stateless_reconciled", reconciled as u64),
        ("connections", stats.connections as u64),
        ("requests", stats.requests),
        ("withdrawn", stats.withdrawn),
        ("orphaned", stats.orphaned),
    ];
    let (now, done) = (stats.now(), stats.done());
    let others = now.metrics().chain(done.metrics()).map(|metric| (metric.name, metric.value));
    own.into_iter().chain(others).map(|(name, count)| (name.to_owned(), count)).collect()
}

impl WorkerView {
    fn status(&self, worker: usize) -> WorkerStatus {
        let named = |metric: Metric| (metric.name.to_owned(), metric.value);
        WorkerStatus {
            worker,
            queues: self.queues,
            burst: self.burst,
            util: self.last.util(),
            util_plus: self.last.util_plus(self.queues, self.burst),
            totals: self.cycles.read(),
            counters: self.counters.metrics().map(named).collect(),
        }
    }
}

impl PortView {
    /// The port whose link is the wire's.
    fn wire(&self) -> &Port {
        self.emulated.as_ref().map_or(&self.port, |(_, wire, _)| wire)
    }

    /// Logs a change of the interface's MTU to less than the port's, and back.
    fn look_at_mtu(&mut self) {
        let Some(interface) = kernel_interface::name(&self.device) else { return };
        let (port, mtu) = (&self.name, self.mtu);
        let link = kernel_interface::mtu(interface);
        let before = std::mem::replace(&mut self.link_mtu, link);
        let short = |link| kernel_interface::is_short(link, mtu);
        match (link, short(before), short(link)) {
            (Some(link), false, true) => tracing::error!(
                port,
                "the mtu of {interface} is {link}, and [[port]] mtu is {mtu}: longer packets are lost"
            ),
            (Some(link), true, false) => {
                tracing::info!(
                    port,
                    "the mtu of {interface} is {link}, as [[port]] mtu = {mtu} needs"
                );
            }
            _ => {}
        }
    }

    /// Whether the link has come up since the last look.
    fn look_at_link(&mut self) -> bool {
        self.look_at_mtu();
        let wire = self.wire();
        let state = match (wire.is_alive(), wire.link_up()) {
            (false, _) => LinkState::Gone,
            (true, false) => LinkState::Down,
            (true, true) => LinkState::Up,
        };
        if self.link.replace(state) == Some(state) {
            return false;
        }
        let (port, device) = (&self.name, &self.device);
        match state {
            LinkState::Up => tracing::info!(port, device, "the link is up"),
            LinkState::Down => tracing::error!(
                port,
                device,
                "the link is down: traffic on it stops until it is up again; other ports go on"
            ),
            LinkState::Gone => tracing::error!(
                port,
                device,
                "the device is gone: traffic on it stops, other ports go on; to use it again, restart hnlb once it is back"
            ),
        }
        state == LinkState::Up
    }

    fn status(&self, rules: Option<&offload::PortStats>) -> PortStatus {
        let past_workers = rules.map_or(0, |rules| rules.done.forwarded_packets);
        let stats = self.wire().stats();
        let counters = [
            ("rx_packets", stats.rx_packets),
            ("rx_bytes", stats.rx_bytes),
            ("rx_missed", stats.rx_missed),
            ("rx_errors", stats.rx_errors),
            ("rx_no_mbuf", stats.rx_no_mbuf),
            ("tx_packets", stats.tx_packets),
            ("tx_bytes", stats.tx_bytes),
            ("tx_errors", stats.tx_errors),
            ("past_workers", past_workers),
        ];
        PortStatus {
            name: self.name.clone(),
            device: self.device.clone(),
            driver: self.driver.clone(),
            link_up: self.link == Some(LinkState::Up),
            mac: self.mac.clone(),
            mtu: self.mtu,
            link_mtu: self.link_mtu,
            encoding: self.encoding.clone(),
            reasons: self.reasons.clone(),
            counters: counters.into_iter().map(|(name, n)| (name.to_owned(), n)).collect(),
        }
    }
}
