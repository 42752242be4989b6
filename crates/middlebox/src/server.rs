//! The running server: devices opened, one thread that polls them.
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use dpdk::{
    Batch, Eal, EalConfig, EalError, Mbuf, Mempool, MempoolError, Port, PortConfig, PortError,
    RxQueue, pin_to_core, register_thread,
};
use nf::Middlebox;

use crate::attachment::Attachment;
use crate::config::{Config, ConfigError, FunctionConfig, Idle};
use crate::inside::Inside;
use crate::outbox::Lanes;
use crate::plug::{Intake, Outlet, Plug};
use crate::report::Report;
use crate::work::{Inspect, Work};

/// Between two pictures and two looks at the links.
const PICTURE: Duration = Duration::from_millis(20);
/// Between two calls that let time pass.
const TICK_NS: u64 = 200_000;
/// Empty rounds before the thread sleeps, and for how long.
const PATIENCE: u32 = 64;
const NAP: Duration = Duration::from_micros(50);
/// Room for two VLAN tags behind a jumbo-free frame.
const DATA_ROOM: u16 = 2048;
/// A buffer with its headroom and DPDK's own words; half of the memory is for buffers,
/// the rest for rings and the drivers.
const BUFFER_BYTES: u32 = 2560;
const MIB: u32 = 1 << 20;

/// There is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The configuration's numbers.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// DPDK did not start.
    #[error(transparent)]
    Eal(#[from] EalError),
    /// No buffers.
    #[error(transparent)]
    Mempool(#[from] MempoolError),
    /// A device.
    #[error("{what} '{name}': {source}")]
    Port {
        /// Port or function.
        what: &'static str,
        /// Its name in the configuration.
        name: String,
        /// Why.
        source: PortError,
    },
    /// A memif socket.
    #[error(transparent)]
    Memif(#[from] memif::BindError),
    /// The thread.
    #[error("the polling thread can't be started: {0}")]
    Thread(std::io::Error),
    /// The thread can't have its core.
    #[error(transparent)]
    Core(#[from] dpdk::ThreadError),
    /// The thread has ended.
    #[error("the polling thread has ended, which it never should; its last words are above")]
    Ended,
}

/// The server. Ends when it is dropped.
pub struct Server {
    config: Config,
    ports: Vec<Port>,
    functions: Vec<Plug>,
    /// Functions in this process.
    inside: Vec<Inside>,
    links: Arc<Vec<AtomicBool>>,
    port_links: Vec<bool>,
    report: Arc<ArcSwap<Report>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    started: Instant,
    eal: Option<Eal>,
}

impl Server {
    /// Opens every device and starts to forward. Functions that are attached by `ring` are
    /// plain forwarders.
    ///
    /// # Errors
    /// [`ServerError`] says what could not be had.
    pub fn start(config: Config) -> Result<Self, ServerError> {
        Self::start_with(config, |_| Box::new(Work::default()))
    }

    /// As [`Server::start`], with these functions, by name, where the configuration attaches
    /// them by `ring`.
    ///
    /// # Errors
    /// [`ServerError`] says what could not be had.
    pub fn start_with(
        config: Config,
        mut function: impl FnMut(&str) -> Box<dyn Inspect + Send>,
    ) -> Result<Self, ServerError> {
        let server = Middlebox::new(config.settings()?).map_err(ConfigError::from)?;
        let pci = config.ports.iter().any(|port| config::is_pci(&port.device))
            || config.functions.iter().any(|function| function.attach.is_pci());
        let eal = Eal::init(&EalConfig {
            memory_mb: config.memory_mb,
            huge_pages: match config.huge_pages {
                config::HugePages::Auto => dpdk::HugePages::Auto,
                config::HugePages::Require => dpdk::HugePages::Require,
                config::HugePages::Never => dpdk::HugePages::Never,
            },
            pci,
            ..EalConfig::default()
        })?;
        let buffers = (config.memory_mb * (MIB / 2 / BUFFER_BYTES)).min(262_143);
        let pool = Mempool::new("middlebox", buffers, 256, DATA_ROOM)?;
        let (mut ports, mut functions, mut inside) = (Vec::new(), Vec::new(), Vec::new());
        let mut ends = Vec::new();
        for port in &config.ports {
            let wanted = PortConfig {
                rx_desc: port.rx_descriptors,
                tx_desc: port.tx_descriptors,
                mtu: Some(port.mtu),
                ..PortConfig::default()
            };
            ports.push(open("port", &port.name, &port.device, &wanted, &pool)?);
        }
        for (number, FunctionConfig { name, attach, core, .. }) in
            config.functions.iter().enumerate()
        {
            if let Some(directory) = attach.socket().and_then(std::path::Path::parent) {
                private(directory);
            }
            let device = |port| {
                let of =
                    |source| ServerError::Port { what: "function", name: name.clone(), source };
                Plug::device(port).map_err(of)
            };
            let (plug, intake, outlet) = match attach {
                Attachment::Memif(path) => Plug::memif(path, &pool)?,
                Attachment::Ring => {
                    let (port, own) = Inside::start(number, name, *core, function(name), &pool)?;
                    inside.push(own);
                    device(port)?
                }
                Attachment::Vhost(_) | Attachment::Device(_) => {
                    let wanted = PortConfig::default();
                    device(open("function", name, &attach.device(number), &wanted, &pool)?)?
                }
            };
            functions.push(plug);
            ends.push((intake, outlet));
        }
        let links: Vec<AtomicBool> = functions.iter().map(|_| AtomicBool::new(false)).collect();
        let mut this = Self {
            port_links: vec![false; ports.len()],
            config,
            ports,
            functions,
            inside,
            links: Arc::new(links),
            report: Arc::default(),
            stop: Arc::default(),
            thread: None,
            started: Instant::now(),
            eal: Some(eal),
        };
        this.look();
        this.spawn(server, ends)?;
        Ok(this)
    }

    fn spawn(
        &mut self,
        server: Middlebox<Mbuf>,
        ends: Vec<(Intake, Outlet)>,
    ) -> Result<(), ServerError> {
        let (mut port_rx, mut port_tx) = (Vec::new(), Vec::new());
        for (named, port) in self.config.ports.iter().zip(&mut self.ports) {
            let name = &named.name;
            let of = |source| ServerError::Port { what: "port", name: name.clone(), source };
            port_rx.push(port.rx_queue(0).map_err(of)?);
            port_tx.push(Outlet::Device(port.tx_queue(0).map_err(of)?));
        }
        let port_names: Vec<String> =
            self.config.ports.iter().map(|port| port.name.clone()).collect();
        let names: Vec<String> =
            self.config.functions.iter().map(|function| function.name.clone()).collect();
        let (function_rx, function_tx) = ends.into_iter().unzip();
        let poller = Poller {
            server,
            port_rx,
            function_rx,
            lanes: Lanes::new(port_tx, function_tx),
            links: Arc::clone(&self.links),
            linked: vec![None; names.len()],
            report: Arc::clone(&self.report),
            port_names,
            names,
            idle: self.config.idle,
        };
        let (stop, core) = (Arc::clone(&self.stop), self.config.core);
        let run = move || poller.run(core, &stop);
        let thread = std::thread::Builder::new().name("middlebox".to_owned());
        self.thread = Some(thread.spawn(run).map_err(ServerError::Thread)?);
        Ok(())
    }

    /// Looks at the links. To be called often: a dead function is known by its link.
    ///
    /// # Errors
    /// The polling thread has ended.
    pub fn watch(&mut self) -> Result<(), ServerError> {
        self.look();
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(ServerError::Ended);
        }
        Ok(())
    }

    fn look(&mut self) {
        let functions = self.functions.iter().zip(&self.config.functions).zip(self.links.iter());
        for ((plug, function), link) in functions {
            let up = plug.link_up();
            if link.swap(up, Ordering::AcqRel) != up {
                let state = if up { "attached" } else { "gone" };
                tracing::info!(function = function.name, "the network function is {state}");
            }
        }
        for ((port, up), named) in
            self.ports.iter().zip(&mut self.port_links).zip(&self.config.ports)
        {
            let now = port.link_up();
            if std::mem::replace(up, now) != now {
                let state = if now { "up" } else { "down" };
                tracing::info!(port = named.name, "the link is {state}");
            }
        }
    }

    /// A picture of the server, at most 20 ms old.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut report = Report::clone(&self.report.load());
        report.uptime_s = self.started.elapsed().as_secs_f64();
        report.algorithm = format!("{:?}", self.config.algorithm).to_lowercase();
        for (port, link) in report.ports.iter_mut().zip(&self.port_links) {
            port.link = *link;
        }
        report
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let joined = self.thread.take().is_none_or(|thread| thread.join().is_ok());
        self.inside.clear();
        self.ports.clear();
        self.functions.clear();
        if !joined {
            tracing::error!("the polling thread has panicked");
        }
        drop(self.eal.take());
    }
}

fn open(
    what: &'static str,
    name: &str,
    device: &str,
    wanted: &PortConfig,
    pool: &Mempool,
) -> Result<Port, ServerError> {
    let failed = |source| ServerError::Port { what, name: name.to_owned(), source };
    let mut port = Port::open(device, wanted, pool).map_err(failed)?;
    port.start().map_err(failed)?;
    Ok(port)
}

/// Makes the directory of a socket, for its owner only, if it isn't there.
fn private(directory: &std::path::Path) {
    if directory.exists() {
        return;
    }
    let made = std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700)));
    if let Err(error) = made {
        tracing::warn!("{} can't be made: {error}", directory.display());
    }
}

/// The polling thread.
struct Poller {
    server: Middlebox<Mbuf>,
    port_rx: Vec<RxQueue>,
    function_rx: Vec<Intake>,
    lanes: Lanes,
    links: Arc<Vec<AtomicBool>>,
    /// The links as the middlebox knows them.
    linked: Vec<Option<bool>>,
    report: Arc<ArcSwap<Report>>,
    port_names: Vec<String>,
    names: Vec<String>,
    idle: Idle,
}

impl Poller {
    fn run(mut self, core: Option<u16>, stop: &AtomicBool) {
        let ready = register_thread().and_then(|guard| {
            core.map_or(Ok(()), |core| pin_to_core(core.into()))?;
            Ok(guard)
        });
        let _guard = match ready {
            Ok(guard) => guard,
            Err(error) => return tracing::error!("the polling thread can't run: {error}"),
        };
        let start = dpdk::eal::cycles();
        // Not 0, so that the first moment is one.
        let now = || 1 + dpdk::eal::nanoseconds(dpdk::eal::cycles().saturating_sub(start));
        let (mut empty, mut ticked, mut pictured) = (0_u32, 0, 0);
        let (mut busy_ns, mut last) = (0, now());
        while !stop.load(Ordering::Relaxed) {
            let now_ns = now();
            let found = self.round(now_ns);
            if now_ns - ticked > TICK_NS {
                ticked = now_ns;
                self.follow_links(now_ns);
                self.server.advance(now_ns, &mut self.lanes);
            }
            self.lanes.flush(&mut self.server, now_ns);
            if found > 0 {
                busy_ns += now_ns - last;
                empty = 0;
            } else {
                empty = empty.saturating_add(1);
                if self.idle == Idle::Yield && empty > PATIENCE {
                    std::thread::sleep(NAP);
                }
            }
            last = now_ns;
            if now_ns - pictured > PICTURE.as_nanos() as u64 {
                let busy = busy_ns as f64 / (now_ns - pictured) as f64 * 100.0;
                (pictured, busy_ns) = (now_ns, 0);
                self.picture(busy);
            }
        }
    }

    /// Takes one burst from every device.
    fn round(&mut self, now_ns: u64) -> usize {
        let mut batch = Batch::<32>::new();
        let mut found = 0;
        // Functions first: what they have has waited for longer.
        for (number, intake) in (0..).zip(&mut self.function_rx) {
            let garbled = intake.take(&mut batch);
            if garbled > 0 {
                self.server.garbled_by_function(number, garbled);
            }
            found += batch.len();
            for mbuf in batch.drain() {
                self.server.from_function(number, mbuf, now_ns, &mut self.lanes);
            }
        }
        for (number, rx) in (0..).zip(&mut self.port_rx) {
            found += rx.rx_burst(&mut batch);
            for mbuf in batch.drain() {
                self.server.from_port(number, mbuf, now_ns, &mut self.lanes);
            }
        }
        found
    }

    fn follow_links(&mut self, now_ns: u64) {
        for ((number, link), known) in (0..).zip(self.links.iter()).zip(&mut self.linked) {
            let up = link.load(Ordering::Acquire);
            if *known != Some(up) {
                *known = Some(up);
                self.server.set_link(number, up, now_ns, &mut self.lanes);
            }
        }
    }

    fn picture(&self, busy_percent: f64) {
        let ports = self.port_names.iter().map(|name| (name.clone(), false));
        let report = Report::of(&self.server, ports, &self.names);
        self.report.store(Arc::new(Report { busy_percent, ..report }));
    }
}
