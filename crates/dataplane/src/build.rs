//! What the threads for slow work are made of.
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use balance::{HandoverOrder, HandoverSettings};
use config::{Config, MoveOrder};
use dpdk::Mempool;
use dpdk::flow::FlowPort;
use flow::PortId;
use health::Board;
use keeper::{AgerSettings, Keeper, ResolverSettings};
use nic::Nic;
use offload::{OffloadConfig, Offloader, Rules};
use pipeline::Sample;
use state::Shared;

use crate::access_log::{self, AccessLog};
use crate::announcing::Announcing;
use crate::balancing::{BalanceBoard, BalanceThread, Balancing, Mover, WorkerLoop};
use crate::captures::Captures;
use crate::clock::{self, Clock};
use crate::control::Control;
use crate::control_thread::ControlThread;
use crate::device::Device;
use crate::encoding::{self, Chosen};
use crate::exception_thread::{ExceptionThread, Taps};
use crate::keeper_thread::{KeeperOut, KeeperThread, REPORTS, injector};
use crate::link::Links;
use crate::no_flows::NoFlows;
use crate::offload_thread::OffloadThread;
use crate::polling::Hands;
use crate::port_view::PortView;
use crate::report::Reporter;
use crate::terminator_thread::{HOPS, TerminatorThread, Ways};
use crate::tls_terms::TlsTerms;
use crate::worker::Injected;

/// The keeper's way to the worker that sends for it, the kernel's interfaces, the way
/// of their packets to that worker, and the buffers of both.
pub(crate) type Senders = (rtrb::Producer<Injected>, Taps, rtrb::Producer<Injected>, Mempool);

/// What the terminator is made of: the terms of its services, its way to the worker that
/// sends for it, its pool of handshakes, and its secret.
pub(crate) type Termination =
    (Arc<TlsTerms>, rtrb::Producer<Injected>, Option<tls::Pool>, [u64; 2]);

/// What there is before the threads.
pub(crate) struct Parts<'a> {
    config: &'a Config,
    shared: &'a Arc<Shared>,
    clock: Clock,
    memory: String,
    links: Links,
    control: Control,
    checks: Arc<Board>,
    injected: rtrb::Producer<Injected>,
    taps: Taps,
    from_kernel: rtrb::Producer<Injected>,
    pool: Mempool,
    balancing: Balancing,
    announcing: Option<Announcing>,
    termination: Termination,
    access_log: Option<AccessLog>,
}

/// The threads for slow work.
pub(crate) struct SlowThreads {
    pub(crate) keeper: KeeperThread,
    pub(crate) offload: OffloadThread,
    pub(crate) control: ControlThread,
    /// `None`: no bucket can move.
    pub(crate) balance: Option<BalanceThread>,
    pub(crate) kernel: ExceptionThread,
    pub(crate) terminator: TerminatorThread,
    /// `None`: requests are not logged.
    pub(crate) access_log: Option<AccessLog>,
}

/// What moves buckets, what tells of VIPs, what terminates TLS, and what logs requests.
pub(crate) type More = ((Balancing, Option<Announcing>), (Termination, Option<AccessLog>));

impl<'a> Parts<'a> {
    /// What the threads for slow work are made of. `memory` says in words what DPDK
    /// has, `checks` is what health checks know of each backend, and `injected` the
    /// keeper's way to the worker that sends for it, in buffers of the pool. `taps` are
    /// the kernel's interfaces, whose packets go the way of `from_kernel`. `balancing`
    /// has the ports whose buckets move, and `announcing` tells the kernel of VIPs.
    pub(crate) fn new(
        config: &'a Config,
        (shared, clock): (&'a Arc<Shared>, Clock),
        memory: String,
        (control, links): (Control, Links),
        checks: Arc<Board>,
        (injected, taps, from_kernel, pool): Senders,
        ((balancing, announcing), (termination, access_log)): More,
    ) -> Self {
        Self {
            config,
            shared,
            clock,
            memory,
            links,
            control,
            checks,
            injected,
            taps,
            from_kernel,
            pool,
            balancing,
            announcing,
            termination,
            access_log,
        }
    }

    /// The threads beside those of `hands`, for `devices`, whose queues have
    /// been given away.
    pub(crate) fn slow_threads(
        self,
        devices: Vec<Device>,
        chosen: Vec<Chosen>,
        hands: &mut Hands,
    ) -> SlowThreads {
        let Self {
            config,
            shared,
            clock,
            memory,
            links,
            control,
            checks,
            injected,
            taps,
            from_kernel,
            pool,
            balancing,
            announcing,
            termination,
            mut access_log,
        } = self;
        let given = hands.take_for_kernel();
        let kernel = ExceptionThread::new(
            Arc::clone(shared),
            taps,
            given,
            (from_kernel, hands.bell()),
            pool.clone(),
        );
        let (terms, send, handshakes, secret) = termination;
        let (resolve, wanted_by_terminator) = rtrb::RingBuffer::new(HOPS);
        let ways = Ways { send, resolve, pool: pool.clone(), bell: hands.bell() };
        let given = hands.take_for_terminator();
        let own = (handshakes, secret);
        let (log, to_log) = access_log::ring(config).unzip();
        let sample = Sample::new(config.access_log.as_ref().map_or(0, |own| own.sample));
        let logging = (log, sample);
        let terminator =
            TerminatorThread::new(Arc::clone(shared), terms, given, ways, own, logging);
        let (balance, board) =
            balance_thread(config, shared, balancing, (hands.take_loops(), &chosen));
        let (flows, nics, ports) = split(config, devices, &chosen);
        let (reports, reported) = rtrb::RingBuffer::new(REPORTS);
        let mut requests = hands.take_requests();
        requests.push(reported);
        let rules = Rules::new(offloader(config, shared, chosen), Arc::clone(shared));
        let (offload, desk) = OffloadThread::new(rules, requests, flows, nics);
        let (ager, resolver) = (AgerSettings::default(), ResolverSettings::default());
        let keeper = Keeper::new(shared, ager, resolver);
        let (announce, counters) = (Arc::new(AtomicBool::new(false)), keeper.counters());
        let views = (ports, hands.take_views());
        let mut slow_counters =
            vec![Arc::clone(&counters), kernel.counters(), terminator.counters()];
        if let Some(log) = &mut access_log {
            log.read(hands.take_for_log().into_iter().chain(to_log));
            slow_counters.push(log.counters());
        }
        let captures = Captures::new(hands.take_catchers());
        let reporter = Reporter::new(
            Arc::clone(shared),
            clock,
            memory,
            views,
            slow_counters,
            (desk, captures, announcing),
            (checks, board),
        );
        let control = ControlThread::new(control, reporter, links, Arc::clone(&announce));
        let out = KeeperOut { send: injector(injected, pool, hands.bell()), reports, counters };
        let mut wanted = hands.take_wanted_hops();
        wanted.push(wanted_by_terminator);
        let keeper = KeeperThread::new(keeper, wanted, out, announce);
        SlowThreads { keeper, offload, control, balance, kernel, terminator, access_log }
    }
}

/// The thread that reads the workers' loads, if rules or buckets can go by them, and where
/// it tells of itself.
fn balance_thread(
    config: &Config,
    shared: &Arc<Shared>,
    balancing: Balancing,
    (loops, chosen): (Vec<WorkerLoop>, &[Chosen]),
) -> (Option<BalanceThread>, Arc<BalanceBoard>) {
    let is_on = !balancing.ports.is_empty();
    let by_rules = balancing.is_wanted && encoding::offloading(chosen);
    let counted = |(worker, own)| (own, balancing.counts_of(worker));
    let loops: Vec<_> = loops.into_iter().enumerate().map(counted).collect();
    let Balancing { ports, reasons, .. } = balancing;
    let board = Arc::new(BalanceBoard::new(is_on, reasons, loops.len()));
    let order = match config.workers.move_order {
        MoveOrder::Idle => HandoverOrder::Idle,
        MoveOrder::Drain => HandoverOrder::Drain,
        MoveOrder::Instant => HandoverOrder::Instant,
    };
    let settings = HandoverSettings { order, ..HandoverSettings::default() };
    let thread = (is_on || by_rules).then(|| {
        let mover = Mover::new(ports, settings, Arc::clone(shared));
        BalanceThread::new(mover, loops, Arc::clone(&board))
    });
    (thread, board)
}

fn offloader(config: &Config, shared: &Arc<Shared>, chosen: Vec<Chosen>) -> Offloader {
    let ports = chosen.iter().map(|chosen| chosen.config.clone()).collect();
    let admission = setup::admission(config);
    let settle_ms = config.offload.settle_ms.into();
    let settings = OffloadConfig { ports, admission, settle_ms, ..OffloadConfig::default() };
    let mut offloader = Offloader::new(settings, Arc::clone(shared));
    offloader.measure(clock::nanoseconds);
    for (at, chosen) in chosen.into_iter().enumerate() {
        offloader.adopt(PortId(at as u16), chosen.owned);
    }
    offloader
}

type Split = (Vec<Box<dyn FlowPort + Send>>, Vec<Nic>, Vec<PortView>);

/// What the offload thread programs and advances, and what is reported.
fn split(config: &Config, devices: Vec<Device>, chosen: &[Chosen]) -> Split {
    let (mut flows, mut nics, mut views) = (Vec::new(), Vec::new(), Vec::new());
    for ((mut device, chosen), port) in devices.into_iter().zip(chosen).zip(&config.ports) {
        flows.push(device.flows.take().unwrap_or_else(|| Box::new(NoFlows)));
        nics.extend(device.emulated.as_ref().map(|emulated| emulated.nic.clone()));
        views.push(PortView::new(device, port, chosen));
    }
    (flows, nics, views)
}
