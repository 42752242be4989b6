//! The load balancer as a whole: built from the configuration, started,
//! stopped.
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use config::Config;
use dpdk::{Eal, EalConfig, Telemetry};
use setup::Seed;

use crate::access_log::AccessLog;
use crate::announcing::Announcing;
use crate::balancing::Balancing;
use crate::build::{Parts, SlowThreads};
use crate::checks;
use crate::clock::Clock;
use crate::control::Control;
use crate::device;
use crate::device_lock::{self, DeviceLock};
use crate::encoding;
use crate::error::StartError;
use crate::exception_thread::{FROM_KERNEL, Taps};
use crate::idle::Idle;
use crate::keeper_thread::INJECTED;
use crate::kernel_interface;
use crate::link::{Connector, Links};
use crate::memory::{self, Needs};
use crate::patience::PATIENCE;
use crate::polling::{self, Crew, pin};
use crate::telemetry;
use crate::terminator_thread::FROM_TERMINATOR;
use crate::threads::{Group, Threads};
use crate::tls_terms::TlsTerms;
use crate::xdp_device;

/// A running load balancer. Stops when it is dropped: takes every rule back
/// from the NICs and ends all threads.
pub struct LoadBalancer {
    threads: Threads,
    connector: Connector,
    /// `None`: no commands of ours are at DPDK's telemetry socket.
    telemetry: Option<Telemetry>,
    /// `None` only while it is dropped.
    eal: Option<Eal>,
    _locks: Vec<DeviceLock>,
}

impl LoadBalancer {
    /// Starts everything or nothing. `file` is where `config` is from, and is read
    /// again when that is asked for.
    ///
    /// # Errors
    /// What could not be had; see [`StartError`]. DPDK starts once per process,
    /// so that after most errors only another process can try again.
    pub fn start(config: &Config, file: &Path, seed: [u8; 32]) -> Result<Self, StartError> {
        polling::check_cores(config)?;
        memory::check_machine(config)?;
        let locks = device_lock::lock_all(config, PATIENCE)?;
        device::check_mtus(config)?;
        let eal = Eal::init(&eal_config(config))?;
        let memory = eal.memory().to_string();
        tracing::info!("memory: {memory}");
        let pool = Needs::of(config).pool(config, eal.memory())?;
        let (links, connector) = Links::new();
        let threads = Threads::default();
        let mut balancer =
            Self { eal: Some(eal), telemetry: None, threads, connector, _locks: locks };
        let (health, table) = (part(seed, 0), part(seed, 1));
        let secret = [part(seed, 2), part(seed, 3)];
        let mut devices = device::open_all(config, &pool, table)?;
        let balancing = Balancing::of(config, &devices);
        let chosen = encoding::choose_all(config, &mut devices);
        let (clock, seed) = (Clock::start(), Seed(seed));
        let facts = device::facts(&devices);
        let (shared, control) = setup::start(config, &facts, encoding::offloading(&chosen), seed)?;
        let shared = Arc::new(shared);
        let waiting = xdp_device::take_over(&shared, &mut devices, clock.now_ms());
        let (checks, checker, board) = checks::new();
        let terms = Arc::new(TlsTerms::new(config).map_err(StartError::Tls)?);
        let own = (control, Arc::clone(&terms));
        let control = Control::new(Arc::clone(&shared), own, (config, file), checks);
        keep_ports_from_kernel(config);
        let taps = Taps::open(&shared.snapshot().interfaces)?;
        let announcing = config.announce.as_ref().map(Announcing::start).transpose()?;
        let (ring, injected) = rtrb::RingBuffer::new(INJECTED);
        let (from_kernel, sent) = rtrb::RingBuffer::new(FROM_KERNEL);
        let (from_terminator, sent_too) = rtrb::RingBuffer::new(FROM_TERMINATOR);
        let own = (&shared, &pool, &balancing);
        let crew = Crew::new(config, own, (seed, clock, idle(config)));
        let mut hands = crew.hire(&mut devices, vec![injected, sent, sent_too])?;
        let (own, work) = ((&shared, clock), (control, links));
        let senders = (ring, taps, from_kernel, pool);
        let termination = (terms, from_terminator, handshakes(config)?, secret);
        let log = AccessLog::new(config, &shared)?;
        let more = ((balancing, announcing), (termination, log));
        let parts = Parts::new(config, own, memory, work, board, senders, more);
        let mut slow = parts.slow_threads(devices, chosen, &mut hands);
        slow.keeper.take_over(Arc::clone(&shared), waiting);
        hands.start(&mut balancer.threads)?;
        balancer.start_slow(slow, clock, config.workers.main_core)?;
        let core = config.workers.main_core;
        balancer.threads.start(Group::Control, "health", move |stop| {
            pin(core);
            checker.run(health, stop);
        })?;
        if config.eal.telemetry {
            let connector = balancer.connector.clone();
            balancer.telemetry = Some(telemetry::serve(connector).map_err(StartError::Telemetry)?);
        }
        Ok(balancer)
    }

    /// Starts the threads for slow work, on one core: none of them needs one for
    /// itself.
    fn start_slow(
        &mut self,
        slow: SlowThreads,
        clock: Clock,
        core: Option<u16>,
    ) -> Result<(), StartError> {
        let SlowThreads { keeper, offload, control, balance, kernel, terminator, access_log } =
            slow;
        let threads = &mut self.threads;
        threads.watch(offload.calls());
        if let Some(balance) = balance {
            threads.start(Group::Control, "balance", move |stop| {
                pin(core);
                balance.run(clock, stop);
            })?;
        }
        threads.start(Group::Keeper, "keeper", move |stop| {
            pin(core);
            keeper.run(clock, stop);
        })?;
        threads.start(Group::Keeper, "kernel", move |stop| {
            pin(core);
            kernel.run(clock, stop);
        })?;
        if let Some(access_log) = access_log {
            threads.start(Group::Keeper, "access-log", move |stop| {
                pin(core);
                access_log.run(clock, stop);
            })?;
        }
        threads.start(Group::Keeper, "terminator", move |stop| {
            pin(core);
            terminator.run(clock, stop);
        })?;
        threads.start(Group::Offload, "offload", move |stop| {
            pin(core);
            offload.run(clock, stop);
        })?;
        threads.start(Group::Control, "control", move |stop| {
            pin(core);
            control.run(clock, stop);
        })
    }

    /// The name of a thread that has ended before it was told to: the
    /// load balancer is not whole any more and should be stopped.
    #[must_use]
    pub fn failed_thread(&self) -> Option<&str> {
        self.threads.failed()
    }

    /// A new link to the control thread: requests go in and answers come out, as
    /// [`control::Asked`] and [`control::Answered`]; see [`Caller`](crate::link::Caller).
    ///
    /// # Errors
    /// The system gives no socket, or the control thread has ended.
    pub fn connect(&self) -> std::io::Result<UnixStream> {
        self.connector.connect()
    }

    /// Takes every rule back from the NICs and ends all threads.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for LoadBalancer {
    /// Everything of DPDK's is gone before DPDK is. Under a driver that has not
    /// returned it is left to the end of the process.
    fn drop(&mut self) {
        drop(self.telemetry.take());
        let all_ended = self.threads.end();
        let eal = self.eal.take();
        if !all_ended {
            std::mem::forget(eal);
        }
    }
}

/// Part `number` of the process' random bytes: load balancers of a fleet probe at different
/// times, and nobody knows the hash of their tables in the kernel.
fn part(seed: [u8; 32], number: usize) -> u64 {
    let bytes = seed.iter().skip(8 * number).take(8);
    bytes.fold(0, |word, byte| (word << 8) | u64::from(*byte))
}

/// The pool of handshakes. A configuration without a service that terminates TLS may get
/// one later, so there is always one; its thread sleeps while nothing is to be done.
fn handshakes(config: &Config) -> Result<Option<tls::Pool>, StartError> {
    let settings = tls::PoolSettings::default();
    let core = config.workers.main_core;
    Ok(Some(tls::Pool::on(settings, move || pin(core))?))
}

/// The kernel gets the packets of an interface with `kernel` over its TAP only.
fn keep_ports_from_kernel(config: &Config) {
    for interface in config.interfaces.iter().filter(|own| own.kernel.is_some()) {
        let port = config.ports.iter().find(|port| port.name == interface.port);
        if let Some(name) = port.and_then(config::Port::kernel_interface) {
            kernel_interface::keep_from_kernel(name);
        }
    }
}

pub(crate) fn eal_config(config: &Config) -> EalConfig {
    let eal = &config.eal;
    EalConfig {
        args: eal.args.clone(),
        memory_mb: eal.memory_mb,
        huge_pages: match eal.huge_pages {
            config::HugePages::Auto => dpdk::HugePages::Auto,
            config::HugePages::Require => dpdk::HugePages::Require,
            config::HugePages::Never => dpdk::HugePages::Never,
        },
        telemetry: eal.telemetry,
        pci: config.ports.iter().any(|port| config::is_pci(&port.device)),
        ..EalConfig::default()
    }
}

/// Polling threads beside those for slow work against the cores there are.
fn idle(config: &Config) -> Idle {
    match config.workers.idle {
        config::Idle::Spin => Idle::Spin,
        config::Idle::Yield => Idle::Yield,
        config::Idle::Auto => {
            // The kernel forwards on the same cores, and a thread that spins is in its way.
            if config.ports.iter().any(|port| port.xdp_interface().is_some()) {
                return Idle::Yield;
            }
            let nics = config.ports.iter().filter(|port| port.nic.is_some()).count();
            let threads = usize::from(config.workers.count) + nics;
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            if threads < cores { Idle::Spin } else { Idle::Yield }
        }
    }
}
