//! One measured point: both cores at work for some time.
use std::sync::atomic::Ordering;

use dpdk::{RxQueue, pin_to_core, register_thread};
use flow::PortId;
use state::Source;

use crate::error::MeasureError;
use crate::evaluation::options::Options;
use crate::machine::core_distance::PingPong;
use crate::machine::core_time::Interruption;
use crate::machine::windows::{Window, Windows};
use crate::systems::balancer::Hnlb;
use crate::systems::limit::Limit;
use crate::systems::slb_paper::SlbPaper;
use crate::testbed::frames::{FrameSpec, Templates};
use crate::testbed::measured::Measured;
use crate::testbed::outbox::{Out, Requests, TxPort};
use crate::testbed::poll_loop::{self, Polled, Signals};
use crate::testbed::ports::Testbed;
use crate::testbed::source::{BetweenBursts, Generator, Pace, Sent, SourceRings};

/// Milliseconds of one window.
const WINDOW_MS: u64 = 2;
/// Milliseconds before the first window.
pub(crate) const WARM_UP_MS: u64 = 20;
/// Microseconds that no burst takes: a longer iteration was interrupted.
pub(crate) const INTERRUPTED_US: u64 = 60;

/// A system ready to be measured.
pub(crate) enum Subject {
    Limit(Limit),
    SlbPaper(Box<SlbPaper>),
    Hnlb(Box<Hnlb>),
}

/// What one point is.
pub(crate) struct Point<'a, 's> {
    /// What is sent, in order, again and again.
    pub(crate) specs: &'a [FrameSpec],
    pub(crate) templates: &'a Templates,
    /// Bytes of the longest frame.
    pub(crate) longest: usize,
    /// Receive queues that are polled, from 0, by port.
    pub(crate) queues: [usize; 2],
    pub(crate) pace: Pace,
    pub(crate) between_bursts: Option<BetweenBursts<'a, 's>>,
}

/// What of a measurement isn't the source's.
pub(crate) struct MeasuredSystem<'a> {
    pub(crate) subject: &'a mut Subject,
    /// Receive queues that are polled, from 0, by port.
    pub(crate) queues: [usize; 2],
    /// Where requests for rules go.
    pub(crate) requests: Option<Requests>,
    /// Milliseconds before the first window.
    pub(crate) warm_up_ms: u64,
}

impl Testbed {
    /// Measures `subject` at `point`.
    pub(crate) fn measure(
        &mut self,
        subject: &mut Subject,
        point: Point<'_, '_>,
        options: &Options,
    ) -> Result<Measured, MeasureError> {
        let queues = point.queues;
        let measured_system =
            MeasuredSystem { subject, queues, requests: None, warm_up_ms: WARM_UP_MS };
        self.measure_with(measured_system, options, |rings| {
            let Point { specs, templates, longest, pace, between_bursts, .. } = point;
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
        let Self { rx, tx: [clients, servers], to_host, from_host, pool, .. } = self;
        let MeasuredSystem { subject, queues, requests, .. } = measured_system;
        let mut polled = polled(rx, queues);
        let rings = SourceRings {
            to_host,
            from_host,
            pool,
            signals: &signals,
            interruption: interruption(options),
        };
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
                subject.poll(&mut polled, &mut out, &mut windows, &signals);
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
        Ok(self.settle(windows, sent, queues, distance))
    }

    /// Measures `subject` with source and load balancer on one core, by turns:
    /// packets are in the core's cache already, and no other core matters.
    pub(crate) fn measure_alone(
        &mut self,
        subject: &mut Subject,
        point: Point<'_, '_>,
        options: &Options,
    ) -> Result<Measured, MeasureError> {
        let [_, core] = options.cores.unwrap_or([0, 1]);
        let mut windows = windows(options, WARM_UP_MS);
        let signals = Signals::default();
        let Self { rx, tx: [clients, servers], to_host, from_host, pool, .. } = self;
        let Point { specs, templates, longest, queues, between_bursts, .. } = point;
        let mut polled = polled(rx, queues);
        let rings = SourceRings {
            to_host,
            from_host,
            pool,
            signals: &signals,
            interruption: interruption(options),
        };
        let pool = &*pool;
        let generator = Generator { specs, templates, longest, rings, between_bursts };
        let (windows, sent) = std::thread::scope(|scope| {
            let both = scope.spawn(|| {
                pin_to_core(core)?;
                let _guard = register_thread()?;
                let ports = [TxPort::new(clients), TxPort::new(servers)];
                let mut out = Out { ports, pool, requests: None, unheard: 0 };
                let sent =
                    generator.alternate(|| subject.drain(&mut polled, &mut out, &mut windows));
                Ok::<_, MeasureError>((windows.into_done(), sent))
            });
            both.join().map_err(|_| MeasureError::ThreadFailed("measuring"))?
        })?;
        Ok(self.settle(windows, sent, queues, None))
    }

    fn settle(
        &mut self,
        windows: Vec<Window>,
        sent: Sent,
        queues: [usize; 2],
        distance: Option<f64>,
    ) -> Measured {
        let [before, behind] = self.drain();
        let dropped = sent.packet_counts.dropped(before, behind);
        let near = self.core_distance.judge(distance);
        Measured { windows, sent, queues: queues.iter().sum(), dropped, distance, near }
    }
}

/// The first receive queues of both ports.
fn polled(rx: &mut [Vec<RxQueue>; 2], queues: [usize; 2]) -> Vec<Polled<'_>> {
    let ports = (0..).map(PortId).zip(rx.iter_mut().zip(queues));
    let queues = ports.flat_map(|(port, (rx, count))| {
        let queues = (0..).zip(rx.iter_mut()).take(count);
        queues.map(move |(queue, rx)| Polled { from: Source { port, queue }, rx })
    });
    queues.collect()
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

impl Subject {
    fn poll(
        &mut self,
        queues: &mut [Polled<'_>],
        out: &mut Out<'_>,
        windows: &mut Windows,
        signals: &Signals,
    ) {
        match self {
            Self::Limit(subject) => poll_loop::poll(subject, queues, out, windows, signals),
            Self::SlbPaper(subject) => {
                poll_loop::poll(&mut **subject, queues, out, windows, signals)
            }
            Self::Hnlb(subject) => poll_loop::poll(&mut **subject, queues, out, windows, signals),
        }
    }

    fn drain(
        &mut self,
        queues: &mut [Polled<'_>],
        out: &mut Out<'_>,
        windows: &mut Windows,
    ) -> bool {
        match self {
            Self::Limit(subject) => poll_loop::drain(subject, queues, out, windows),
            Self::SlbPaper(subject) => poll_loop::drain(&mut **subject, queues, out, windows),
            Self::Hnlb(subject) => poll_loop::drain(&mut **subject, queues, out, windows),
        }
    }
}
