//! The load balancer as a whole: built from the configuration, started,
//! stopped.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use config::Config;
use dpdk::{Eal, EalConfig, Mempool};
use offload::{Encoding, OffloadConfig, Offloader};
use pipeline::{Ager, AgerSettings, Resolver, Shared};
use setup::{PortFacts, Seed};

use crate::clock::Clock;
use crate::device::{self, Device};
use crate::encoding::{self, Chosen};
use crate::error::EngineError;
use crate::idle::Idle;
use crate::keeper::{Injector, Keeper};
use crate::report::{PortView, Reporter};
use crate::status_socket::StatusSocket;
use crate::threads::{self, Crew};

/// Frame bytes around an IP packet: Ethernet header with a VLAN tag.
const ETHERNET: u16 = 18;
/// Packets a mempool cache holds for each thread.
const POOL_CACHE: u32 = 256;
/// Frames of the keeper's that may wait for a worker.
const INJECTED: usize = 1024;

/// A running load balancer. Stops when it is dropped.
pub struct Engine {
    stop_keeper: Arc<AtomicBool>,
    stop_workers: Arc<AtomicBool>,
    keeper: Option<JoinHandle<()>>,
    crew: Vec<JoinHandle<()>>,
    // Last: everything of DPDK's is gone before.
    _eal: Eal,
}

impl Engine {
    /// Starts everything or nothing.
    ///
    /// # Errors
    /// What could not be had; see [`EngineError`].
    pub fn start(config: &Config, seed: [u8; 32]) -> Result<Self, EngineError> {
        let socket = StatusSocket::bind(&config.status.socket)?;
        let eal = Eal::init(&eal_config(config))?;
        tracing::info!("memory: {}", eal.memory());
        let pool = mempool(config)?;
        let mut devices = device::open_all(config, &pool)?;
        let chosen = choose_encodings(config, &mut devices);
        let clock = Clock::start();
        let seed = Seed(seed);
        let shared = Arc::new(shared_state(config, &devices, &chosen, seed)?);
        let (injected_in, injected_out) = rtrb::RingBuffer::new(INJECTED);
        let crew = Crew { config, seed, shared: &shared, clock, idle: idle(config), pool: &pool };
        let hands = crew.hire(&mut devices, injected_out)?;
        let stop_workers = Arc::new(AtomicBool::new(false));
        let mut engine = Self {
            stop_keeper: Arc::new(AtomicBool::new(false)),
            stop_workers,
            keeper: None,
            crew: Vec::new(),
            _eal: eal,
        };
        let views = hands.views;
        engine.crew = threads::start(hands.nics, hands.workers, &engine.stop_workers)?;
        let (flows, nics, ports) = split(config, devices, &chosen);
        let keeper = Keeper {
            shared: Arc::clone(&shared),
            clock,
            requests: hands.requests,
            injector: Injector { ring: injected_in, pool },
            resolver: resolver(config, &shared),
            ager: Ager::new(Arc::clone(&shared), AgerSettings::default()),
            offloader: offloader(&shared, chosen),
            flows,
            nics,
            reporter: Reporter {
                shared: Arc::clone(&shared),
                clock,
                memory: engine._eal.memory().to_string(),
                ports,
                workers: views,
                backends: setup::backend_addresses(config),
                window_started_ms: 0,
            },
            socket,
        };
        let stop = Arc::clone(&engine.stop_keeper);
        engine.keeper = Some(threads::spawn("keeper", move || keeper.run(&stop))?);
        Ok(engine)
    }

    /// Whether a thread has ended although nobody asked it to.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.crew.iter().chain(&self.keeper).any(JoinHandle::is_finished)
    }

    /// Takes every rule back from the NICs and ends all threads.
    pub fn stop(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        self.stop_keeper.store(true, Ordering::Relaxed);
        join(self.keeper.take());
        self.stop_workers.store(true, Ordering::Relaxed);
        self.crew.drain(..).for_each(|thread| join(Some(thread)));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.halt();
    }
}

fn join(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread {
        let name = thread.thread().name().unwrap_or("?").to_owned();
        if thread.join().is_err() {
            tracing::error!(thread = name, "the thread had failed");
        }
    }
}

fn eal_config(config: &Config) -> EalConfig {
    let eal = &config.eal;
    EalConfig {
        args: eal.args.clone(),
        memory_mb: eal.memory_mb,
        huge_pages: match eal.huge_pages {
            config::HugePages::Auto => dpdk::HugePages::Auto,
            config::HugePages::Require => dpdk::HugePages::Require,
            config::HugePages::Never => dpdk::HugePages::Never,
        },
        pci: config.ports.iter().any(|port| is_pci(&port.device)),
        ..EalConfig::default()
    }
}

/// A PCI address has a domain or bus before its first colon: `0000:3b:00.0`.
fn is_pci(device: &str) -> bool {
    let address = device.split(',').next().unwrap_or_default();
    address.contains(':')
        && address.split([':', '.']).all(|part| u32::from_str_radix(part, 16).is_ok())
}

/// Room for every descriptor, every ring and what threads hold in between.
fn mempool(config: &Config) -> Result<Mempool, EngineError> {
    let workers = u32::from(config.workers.count);
    let queued: u32 = config
        .ports
        .iter()
        .map(|port| {
            let queues = u32::from(port.receive_queues(config.workers.queues));
            let rings = if port.nic.is_some() { 2 } else { 1 };
            let receive = u32::from(port.rx_descriptors) * (queues + rings);
            receive + u32::from(port.tx_descriptors) * workers * rings
        })
        .sum();
    let held = config.fragments.datagrams / 4 * workers;
    let caches = (workers + 4) * POOL_CACHE * 2;
    let count = (queued + held + caches).max(4096);
    let mtu = config.ports.iter().map(|port| port.mtu).max().unwrap_or(1500);
    let room = (ETHERNET + mtu).max(2048);
    Ok(Mempool::new("hnlb", count, POOL_CACHE, room)?)
}

fn choose_encodings(config: &Config, devices: &mut [Device]) -> Vec<Chosen> {
    let wanted = encoding::wanted(config);
    let workers = config.workers.count;
    devices.iter_mut().map(|device| encoding::choose(device, wanted, workers)).collect()
}

fn shared_state(
    config: &Config,
    devices: &[Device],
    chosen: &[Chosen],
    seed: Seed,
) -> Result<Shared, EngineError> {
    let facts: Vec<PortFacts> = devices
        .iter()
        .map(|device| PortFacts {
            mac: device.mac,
            queues: device.queues,
            ring: u32::from(device.ring),
        })
        .collect();
    let offloading = chosen.iter().any(|chosen| chosen.config.encoding != Encoding::Off);
    Ok(setup::shared(config, &facts, offloading, seed)?)
}

fn offloader(shared: &Arc<Shared>, chosen: Vec<Chosen>) -> Offloader {
    let ports = chosen.iter().map(|chosen| chosen.config.clone()).collect();
    let config = OffloadConfig { ports, ..OffloadConfig::default() };
    let mut offloader = Offloader::new(config, Arc::clone(shared));
    for (at, chosen) in chosen.into_iter().enumerate() {
        offloader.adopt(pipeline::PortId(at as u16), chosen.owned);
    }
    offloader
}

/// A resolver that keeps the next hops of backends and gateways fresh.
fn resolver(config: &Config, shared: &Arc<Shared>) -> Resolver {
    let mut resolver = Resolver::new(Arc::clone(shared), setup::resolver_settings(config));
    let gateways = config.routes.iter().map(|route| route.via);
    let hops = setup::backend_addresses(config).into_iter().chain(gateways);
    resolver.keep(hops.filter_map(|addr| shared.hop_to(addr, 0)).collect());
    resolver
}

type Split = (Vec<Box<dyn dpdk::flow::FlowPort + Send>>, Vec<nic::Nic>, Vec<PortView>);

/// What the keeper programs, what it advances, and what it reports.
fn split(config: &Config, devices: Vec<Device>, chosen: &[Chosen]) -> Split {
    let (mut flows, mut nics, mut views) = (Vec::new(), Vec::new(), Vec::new());
    for ((device, chosen), port) in devices.into_iter().zip(chosen).zip(&config.ports) {
        flows.push(device.flows.unwrap_or_else(|| Box::new(crate::no_flows::NoFlows)));
        let capabilities = device.port.capabilities();
        let driver = match &device.emulated {
            Some(emulated) => format!("emulated {}", emulated.nic.profile()),
            None => capabilities.map_or_else(|_| "?".to_owned(), |can| can.driver),
        };
        let emulated = device.emulated.map(|emulated| {
            nics.push(emulated.nic.clone());
            (emulated.nic, emulated.wire, emulated.counters)
        });
        views.push(PortView {
            name: device.name,
            device: port.device.clone(),
            driver,
            encoding: chosen.config.encoding.to_string(),
            reasons: chosen.reasons.clone(),
            mac: device.mac.to_string(),
            port: device.port,
            emulated,
            link_up: true,
        });
    }
    (flows, nics, views)
}

/// Polling threads beside the keeper against the cores there are.
fn idle(config: &Config) -> Idle {
    match config.workers.idle {
        config::Idle::Spin => Idle::Spin,
        config::Idle::Yield => Idle::Yield,
        config::Idle::Auto => {
            let nics = config.ports.iter().filter(|port| port.nic.is_some()).count();
            let threads = usize::from(config.workers.count) + nics;
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            if threads < cores { Idle::Spin } else { Idle::Yield }
        }
    }
}
