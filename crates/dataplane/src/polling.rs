//! The polling threads: who polls what, on which core.
use std::sync::Arc;

use config::Config;
use dpdk::thread::allowed_cores;
use dpdk::{Mempool, RxQueue, TxQueue, pin_to_core, register_thread};
use flow::{HopId, PortId};
use pipeline::Pipeline;
use setup::Seed;
use splice::Record;
use state::{Shared, Source};

use crate::access_log;
use crate::balancing::{Balancing, Census, WorkerLoop};
use crate::catcher::Catcher;
use crate::clock::Clock;
use crate::device::Device;
use crate::error::StartError;
use crate::exception_thread::{ForKernel, TO_KERNEL};
use crate::handover::{self, Ends};
use crate::idle::{Bell, Idle, Naps};
use crate::nic_thread::NicThread;
use crate::outbox::{MbufOutbox, OffloadRequest, TxPort};
use crate::report::WorkerView;
use crate::terminator_thread::{ForTerminator, TO_TERMINATOR};
use crate::threads::{Group, Threads};
use crate::utilization::LoopCounters;
use crate::worker::{self, Injected, LoopSettings, PolledQueue, Taken, Worker};

/// Next hops that one worker may have asked for at once.
const HOPS: usize = 1024;
/// Parts of captures that wait for one worker: the next one, while the last one ends.
const CATCHERS: usize = 2;

/// What every polling thread is made from.
pub(crate) struct Crew<'a> {
    config: &'a Config,
    seed: Seed,
    shared: &'a Arc<Shared>,
    clock: Clock,
    idle: Idle,
    pool: &'a Mempool,
    balancing: &'a Balancing,
}

/// The threads to be, and the other ends of what they hold.
#[derive(Default)]
pub(crate) struct Hands {
    nics: Vec<(NicThread, Option<u16>)>,
    workers: Vec<(Worker, Option<u16>)>,
    offload: Vec<rtrb::Consumer<OffloadRequest>>,
    resolve: Vec<rtrb::Consumer<HopId>>,
    kernel: Vec<rtrb::Consumer<ForKernel>>,
    terminator: Vec<rtrb::Consumer<ForTerminator>>,
    views: Vec<WorkerView>,
    loops: Vec<WorkerLoop>,
    catchers: Vec<rtrb::Producer<Catcher>>,
    bell: Option<Arc<Bell>>,
    log: Vec<rtrb::Consumer<Record>>,
}

impl Hands {
    /// Takes the rings by which the workers tell the offload thread of connections.
    pub(crate) fn take_requests(&mut self) -> Vec<rtrb::Consumer<OffloadRequest>> {
        std::mem::take(&mut self.offload)
    }

    /// Takes the rings by which the workers ask the keeper for next hops.
    pub(crate) fn take_wanted_hops(&mut self) -> Vec<rtrb::Consumer<HopId>> {
        std::mem::take(&mut self.resolve)
    }

    /// Takes the rings with what the workers have for the kernel.
    pub(crate) fn take_for_kernel(&mut self) -> Vec<rtrb::Consumer<ForKernel>> {
        std::mem::take(&mut self.kernel)
    }

    /// Takes the rings with what the workers have for the terminator.
    pub(crate) fn take_for_terminator(&mut self) -> Vec<rtrb::Consumer<ForTerminator>> {
        std::mem::take(&mut self.terminator)
    }

    /// Takes the rings with what the workers log.
    pub(crate) fn take_for_log(&mut self) -> Vec<rtrb::Consumer<Record>> {
        std::mem::take(&mut self.log)
    }

    /// Takes what the report shows of the workers.
    pub(crate) fn take_views(&mut self) -> Vec<WorkerView> {
        std::mem::take(&mut self.views)
    }

    /// Takes what the balancing thread reads of the workers.
    pub(crate) fn take_loops(&mut self) -> Vec<WorkerLoop> {
        std::mem::take(&mut self.loops)
    }

    /// Takes the rings by which the workers get their parts of captures.
    pub(crate) fn take_catchers(&mut self) -> Vec<rtrb::Producer<Catcher>> {
        std::mem::take(&mut self.catchers)
    }

    /// What wakes the only worker; `None`: nothing does.
    pub(crate) fn bell(&self) -> Option<Arc<Bell>> {
        self.bell.clone()
    }

    /// Starts the emulated NICs, then the workers.
    pub(crate) fn start(self, threads: &mut Threads) -> Result<(), StartError> {
        for (number, (nic, core)) in self.nics.into_iter().enumerate() {
            let name = format!("nic{number}");
            threads.start(Group::Polling, &name, move |stop| as_lcore(core, || nic.run(stop)))?;
        }
        for (number, (worker, core)) in self.workers.into_iter().enumerate() {
            let name = format!("worker{number}");
            threads
                .start(Group::Polling, &name, move |stop| as_lcore(core, || worker.run(stop)))?;
        }
        Ok(())
    }
}

/// The queues of one worker.
#[derive(Default)]
struct Share {
    receive: Vec<PolledQueue>,
    send: Vec<TxPort>,
}

impl<'a> Crew<'a> {
    /// A crew of these.
    pub(crate) const fn new(
        config: &'a Config,
        (shared, pool, balancing): (&'a Arc<Shared>, &'a Mempool, &'a Balancing),
        (seed, clock, idle): (Seed, Clock, Idle),
    ) -> Self {
        Self { config, seed, shared, clock, idle, pool, balancing }
    }

    /// Distributes the queues of all devices. What is `injected` goes to the first
    /// worker.
    pub(crate) fn hire(
        &self,
        devices: &mut [Device],
        mut injected: Vec<rtrb::Consumer<Injected>>,
    ) -> Result<Hands, StartError> {
        let count = usize::from(self.config.workers.count);
        let mut shares: Vec<Share> = (0..count).map(|_| Share::default()).collect();
        for (at, device) in devices.iter_mut().enumerate() {
            let name = &device.name;
            let failed = |source| StartError::Port { name: name.clone(), source };
            let (mut receive, mut send) = device.port.queues().map_err(failed)?;
            for port in &mut device.more {
                let (further, sending) = port.queues().map_err(failed)?;
                receive.extend(further);
                send.extend(sending);
            }
            if send.len() < count {
                return Err(StartError::TooFewQueues {
                    name: device.name.clone(),
                    direction: "send",
                    has: send.len() as u16,
                    wanted: self.config.workers.count,
                    key: "[workers] count",
                });
            }
            self.deal(PortId(at as u16), receive, send, &mut shares);
        }
        // Workers make no system call for each other, and a real card rings no bell.
        let rings = count == 1 && devices.iter().all(|device| device.emulated.is_some());
        let bell = rings.then(Arc::<Bell>::default);
        let nics = devices.iter_mut().filter_map(|device| self.nic_thread(device, bell.as_ref()));
        let mut hands = Hands { nics: nics.collect(), bell, ..Hands::default() };
        for (number, (share, ends)) in shares.into_iter().zip(handover::rings(count)).enumerate() {
            self.worker(number, (share, ends), std::mem::take(&mut injected), &mut hands)?;
        }
        Ok(hands)
    }

    fn nic_thread(
        &self,
        device: &mut Device,
        bell: Option<&Arc<Bell>>,
    ) -> Option<(NicThread, Option<u16>)> {
        let emulated = device.emulated.as_mut()?;
        let ends = emulated.ends.take()?;
        let (nic, counters) = (emulated.nic.clone(), Arc::clone(&emulated.counters));
        let thread = NicThread::new(nic, ends, counters, self.clock, (self.idle, bell.cloned()));
        Some((thread, emulated.core))
    }

    fn worker(
        &self,
        number: usize,
        (share, ends): (Share, Ends),
        injected: Vec<rtrb::Consumer<Injected>>,
        hands: &mut Hands,
    ) -> Result<(), StartError> {
        let burst = usize::from(self.config.workers.burst).min(worker::BURST);
        let depth = self.config.offload.queue_depth as usize;
        let (offload, offload_taken) = rtrb::RingBuffer::new(depth);
        let (resolve, resolve_taken) = rtrb::RingBuffer::new(HOPS);
        let (kernel, kernel_taken) = rtrb::RingBuffer::new(TO_KERNEL);
        let (terminator, terminator_taken) = rtrb::RingBuffer::new(TO_TERMINATOR);
        let settings = setup::settings(self.config, self.seed);
        let pipeline = Pipeline::new(Arc::clone(self.shared), number, settings)?;
        let cycles = Arc::<LoopCounters>::default();
        hands.offload.push(offload_taken);
        hands.resolve.push(resolve_taken);
        hands.kernel.push(kernel_taken);
        hands.terminator.push(terminator_taken);
        let (log, log_taken) = access_log::ring(self.config).unzip();
        hands.log.extend(log_taken);
        let (queues, counters) = (share.receive.len(), pipeline.counters());
        let counters_of_loop = Arc::clone(&cycles);
        hands.loops.push(WorkerLoop { counters: counters_of_loop, queues, burst });
        let naps = Arc::<Naps>::default();
        let rounds = (Arc::clone(&cycles), Arc::clone(&naps));
        hands.views.push(WorkerView::new(queues, burst, rounds, counters));
        let outbox = MbufOutbox {
            ports: share.send,
            offload,
            resolve,
            kernel,
            terminator,
            log,
            workers: ends.to,
            pool: self.pool.clone(),
            counters: pipeline.counters(),
        };
        let (shared, clock, idle) = (Arc::clone(self.shared), self.clock, self.idle);
        let bell = hands.bell();
        let settings = LoopSettings { counters: cycles, clock, idle, bell, naps, burst };
        let (catcher, catchers) = rtrb::RingBuffer::new(CATCHERS);
        hands.catchers.push(catcher);
        let taken = Taken { injected, handed_over: ends.from, catchers };
        let worker = Worker::new(share.receive, pipeline, outbox, taken, shared, settings);
        hands.workers.push((worker, self.config.workers.cores.get(number).copied()));
        Ok(())
    }

    /// Receive queue q goes to worker q mod workers, send queue w to worker w.
    fn deal(&self, port: PortId, receive: Vec<RxQueue>, send: Vec<TxQueue>, shares: &mut [Share]) {
        let workers = shares.len().max(1);
        for (queue, rx) in receive.into_iter().enumerate() {
            let worker = queue % workers;
            if let Some(share) = shares.get_mut(worker) {
                let counts = self.balancing.counts(usize::from(port.0), worker);
                let census = counts.map(|counts| Census::new(counts, queue < workers));
                let source = Source { port, queue: queue as u16 };
                share.receive.push(PolledQueue { source, rx, census });
            }
        }
        for (share, queue) in shares.iter_mut().zip(send) {
            share.send.push(TxPort { queue, batch: dpdk::Batch::default() });
        }
    }
}

/// Whether this process may use every core that the configuration names.
pub(crate) fn check_cores(config: &Config) -> Result<(), StartError> {
    let allowed = allowed_cores();
    let workers = config
        .workers
        .cores
        .iter()
        .take(config.workers.count.into())
        .map(|core| ("[workers] cores".to_owned(), *core));
    let main = config.workers.main_core.map(|core| ("[workers] main_core".to_owned(), core));
    let nics = config.ports.iter().filter_map(|port| {
        let core = port.nic.as_ref()?.core?;
        Some((format!("port '{}': [port.nic] core", port.name), core))
    });
    let mut all = workers.chain(main).chain(nics);
    match all.find(|(_, core)| !allowed.contains(&u32::from(*core))) {
        Some((key, core)) => Err(StartError::Core { key, core, allowed }),
        None => Ok(()),
    }
}

/// Runs with an lcore id, and so with a cache in every mempool.
fn as_lcore(core: Option<u16>, run: impl FnOnce()) {
    pin(core);
    match register_thread() {
        Ok(_guard) => run(),
        Err(error) => {
            tracing::warn!(%error, "a thread runs without a mempool cache");
            run();
        }
    }
}

/// Runs on `core`, if there is one given.
pub(crate) fn pin(core: Option<u16>) {
    if let Some(Err(error)) = core.map(|core| pin_to_core(usize::from(core))) {
        tracing::warn!(%error, "a thread runs on any core instead");
    }
}
