//! One measured point: both cores at work for some time.
use std::ops::Range;
use std::sync::atomic::Ordering;

use dpdk::{Mempool, TxQueue, pin_to_core, register_thread};
use flow::PortId;
use state::Source;

use crate::error::MeasureError;
use crate::evaluation::options::Options;
use crate::machine::core_distance::PingPong;
use crate::machine::core_time::Interruption;
use crate::machine::windows::{Window, Windows};
use crate::systems::balancer::Balancer;
use crate::testbed::frames::{FrameSpec, Templates};
use crate::testbed::measured::Measured;
use crate::testbed::outbox::{Out, Requests, TxPort};
use crate::testbed::poll_loop::{self, Polled, Signals};
use crate::testbed::ports::{Lane, Testbed};
use crate::testbed::source::{BetweenBursts, Generator, Pace, Sent, SourceRings};

/// Milliseconds of one window.
const WINDOW_MS: u64 = 2;
/// Milliseconds before the first window.
pub(crate) const WARM_UP_MS: u64 = 20;
/// Microseconds that no burst takes: a longer iteration was interrupted.
pub(crate) const INTERRUPTED_US: u64 = 60;

/// The receive queues that are polled, by port.
pub(crate) type Queues = [Range<usize>; 2];

/// What one point is.
pub(crate) struct Point<'a, 's> {
    /// What is sent, in order, again and again.
    pub(crate) specs: &'a [FrameSpec],
    pub(crate) templates: &'a Templates,
    /// Bytes of the longest frame.
    pub(crate) longest: usize,
    pub(crate) queues: Queues,
    pub(crate) pace: Pace,
    pub(crate) between_bursts: Option<BetweenBursts<'a, 's>>,
}

/// What of a measurement isn't the source's.
pub(crate) struct MeasuredSystem<'a> {
    pub(crate) subject: &'a mut dyn Balancer,
    pub(crate) queues: Queues,
    /// Where requests for rules go.
    pub(crate) requests: Option<Requests>,
    /// Milliseconds before the first window.
    pub(crate) warm_up_ms: u64,
}

impl Testbed {
    /// Measures `subject` at `point`.
    pub(crate) fn measure(
        &mut self,
        subject: &mut dyn Balancer,
        point: Point<'_, '_>,
        options: &Options,
    ) -> Result<Measured, MeasureError> {
        let Point { specs, templates, longest, queues, pace, between_bursts } = point;
        let measured_system =
            MeasuredSystem { subject, queues, requests: None, warm_up_ms: WARM_UP_MS };
        self.measure_with(measured_system, options, |rings| {
            Generator { specs, templates, longest, rings, between_bursts }.send(pace)
        })
    }

    /// Measures what is `measured_system` while `source` sends on the other core, until
    /// the measured core says that it is done.
    pub(crate) fn measure_with(
        &mut self,
        measured_system: MeasuredSystem<'_>,
        options: &Options,
        source: impl FnOnce(SourceRings<'_>) -> Sent + Send,
    ) -> Result<Measured, MeasureError> {
        let [source_core, host_core] = options.cores.unwrap_or([0, 1]);
        let windows = windows(options, measured_system.warm_up_ms);
        let signals = Signals::default();
        let Self { lanes: [lane, ..], pool, core_distance, .. } = self;
        let MeasuredSystem { subject, queues, requests, .. } = measured_system;
        let count = queues.iter().map(Range::len).sum();
        let (mut polled, [clients, servers], rings) =
            lane.split(queues, pool, &signals, interruption(options));
        let pool = &*pool;
        let [before, after] = &signals.pings;
        // On a busy machine the ping falls.
        let throw = |ping: &PingPong| if options.busy { None } else { ping.throw() };
        let returns = |ping: &PingPong| {
            if !options.busy {
                ping.returns()
            }
        };
        let (windows, sent) = std::thread::scope(|scope| {
            let host = scope.spawn(|| {
                let mut windows = windows;
                let ready = pin_to_core(host_core).and_then(|()| register_thread());
                let _guard = ready.inspect_err(|_| {
                    signals.measured.store(true, Ordering::Relaxed);
                })?;
                let ports = [TxPort::new(clients), TxPort::new(servers)];
                let mut out = Out { ports, pool, requests, unheard: 0 };
                let before = throw(before);
                let strict = options.strict_round_robin;
                poll_loop::poll(subject, &mut polled, &mut out, &mut windows, &signals, strict);
                // They may have been moved meanwhile: the longer way counts.
                let distance = before.into_iter().chain(throw(after)).reduce(f64::max);
                Ok::<_, MeasureError>((windows.into_done(), distance))
            });
            let source = scope.spawn(|| {
                let ready = pin_to_core(source_core).and_then(|()| register_thread());
                if ready.is_ok() {
                    returns(before);
                }
                // Not earlier: windows without a source would be full before it sends.
                signals.started.store(true, Ordering::Relaxed);
                let _guard = ready?;
                let sent = source(rings);
                returns(after);
                Ok::<_, MeasureError>(sent)
            });
            let sent = source.join().map_err(|_| MeasureError::ThreadFailed("source"));
            let windows = host.join().map_err(|_| MeasureError::ThreadFailed("load balancer"));
            Ok::<_, MeasureError>((windows??, sent??))
        })?;
        let (windows, distance) = windows;
        let near = core_distance.judge(distance);
        Ok(Measured { distance, near, ..settle(lane, windows, sent, count) })
    }

    /// Measures each of `workers` with a source of its own by turns on one core,
    /// all workers at the same time: packets are in the core's cache already, and
    /// cores share the tables only.
    pub(crate) fn measure_alone(
        &mut self,
        workers: Vec<(&mut dyn Balancer, Point<'_, '_>)>,
        options: &Options,
    ) -> Result<Vec<Measured>, MeasureError> {
        let [second, first] = options.cores.unwrap_or([0, 1]);
        let Self { lanes, pool, .. } = self;
        let pool = &*pool;
        std::thread::scope(|scope| {
            let lanes = lanes.iter_mut().zip([first, second]);
            let threads = workers.into_iter().zip(lanes).map(|((subject, point), (lane, core))| {
                scope.spawn(move || {
                    pin_to_core(core)?;
                    let _guard = register_thread()?;
                    let (mut windows, signals) = (windows(options, WARM_UP_MS), Signals::default());
                    let Point { specs, templates, longest, queues, between_bursts, .. } = point;
                    let count = queues.iter().map(Range::len).sum();
                    let (mut polled, [clients, servers], rings) =
                        lane.split(queues, pool, &signals, interruption(options));
                    let generator = Generator { specs, templates, longest, rings, between_bursts };
                    let ports = [TxPort::new(clients), TxPort::new(servers)];
                    let mut out = Out { ports, pool, requests: None, unheard: 0 };
                    let sent = generator.alternate(|| {
                        poll_loop::drain(subject, &mut polled, &mut out, &mut windows)
                    });
                    Ok::<_, MeasureError>(settle(lane, windows.into_done(), sent, count))
                })
            });
            let threads: Vec<_> = threads.collect();
            let join = threads.into_iter().map(|thread| thread.join());
            join.map(|done| done.map_err(|_| MeasureError::ThreadFailed("measuring"))?).collect()
        })
    }
}

/// Packets that are still in the rings count as on their way.
fn settle(lane: &mut Lane, windows: Vec<Window>, sent: Sent, queues: usize) -> Measured {
    let [before, behind] = lane.drain();
    let dropped = sent.packet_counts.dropped(before, behind);
    Measured { windows, sent, queues, dropped, distance: None, near: true }
}

impl Lane {
    /// The load balancer's receive and send queues, and the source's rings.
    fn split<'a>(
        &'a mut self,
        queues: Queues,
        pool: &'a Mempool,
        signals: &'a Signals,
        interruption: Interruption,
    ) -> (Vec<Polled<'a>>, &'a mut [TxQueue; 2], SourceRings<'a>) {
        let Self { rx, tx, to_host, from_host, .. } = self;
        let ports = (0..).map(PortId).zip(rx.iter_mut().zip(queues));
        let polled = ports.flat_map(|(port, (rx, range))| {
            let queues = (0..).zip(rx.iter_mut()).take(range.end).skip(range.start);
            queues.map(move |(queue, rx)| Polled { from: Source { port, queue }, rx })
        });
        let rings = SourceRings { to_host, from_host, pool, signals, interruption };
        (polled.collect(), tx, rings)
    }
}

/// Of a measurement that goes on for a given time.
fn windows(options: &Options, warm_up_ms: u64) -> Windows {
    let per_ms = (dpdk::cycles_per_second() / 1000).max(1);
    let (count, skipped) = ((options.point_ms / WINDOW_MS).max(1), warm_up_ms / WINDOW_MS);
    Windows::new(count as usize, skipped as usize, WINDOW_MS * per_ms, interruption(options))
}

/// What counts as an interruption of either core.
fn interruption(options: &Options) -> Interruption {
    if options.busy {
        return Interruption::endless();
    }
    Interruption::new(INTERRUPTED_US, (dpdk::cycles_per_second() / 1_000_000).max(1))
}
