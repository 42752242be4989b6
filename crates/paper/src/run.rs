//! One measured point: both cores at work for some time.
use std::sync::atomic::Ordering;

use dpdk::{pin_to_core, register_thread};

use crate::balancer::{Hnlb, RX_BURST};
use crate::error::PaperError;
use crate::flows::Shot;
use crate::host::{self, Signals};
use crate::limit::Limit;
use crate::outbox::{Out, TxPort};
use crate::plan::Options;
use crate::slb_paper::SlbPaper;
use crate::source::{Generator, Pace, Sent};
use crate::testbed::Testbed;
use crate::windows::{Window, Windows, median};

/// Milliseconds of one window.
const WINDOW_MS: u64 = 2;
/// Milliseconds before the first window.
const WARM_UP_MS: u64 = 20;
/// Microseconds that no burst takes: a longer iteration was interrupted.
const INTERRUPTED_US: u64 = 60;

/// A system ready to be measured.
pub(crate) enum Subject {
    Limit(Limit),
    SlbPaper(Box<SlbPaper>),
    Hnlb(Box<Hnlb>),
}

/// What one point is.
pub(crate) struct Point<'a> {
    /// What is sent, in order, again and again.
    pub(crate) shots: &'a [Shot],
    /// The frame that all packets are copies of.
    pub(crate) frame: &'a [u8],
    /// Receive queues that are polled, from 0.
    pub(crate) queues: usize,
    pub(crate) pace: Pace,
}

/// What came of it.
pub(crate) struct Measured {
    pub(crate) windows: Vec<Window>,
    pub(crate) sent: Sent,
    pub(crate) queues: usize,
    /// Packets that entered the load balancer and never left.
    pub(crate) dropped: u64,
}

impl Testbed {
    /// Measures `subject` at `point`.
    pub(crate) fn measure(
        &mut self,
        subject: &mut Subject,
        point: &Point<'_>,
        options: &Options,
    ) -> Result<Measured, PaperError> {
        let [source_core, host_core] = options.cores.unwrap_or([0, 1]);
        let windows = windows(options);
        let signals = Signals::default();
        let Self { rx, tx: [clients, servers], to_host, from_host, pool, .. } = self;
        let queues = rx.get_mut(..point.queues).unwrap_or_default();
        let generator = Generator {
            shots: point.shots,
            frame: point.frame,
            to_host,
            from_host,
            pool,
            signals: &signals,
        };
        let (windows, sent) = std::thread::scope(|scope| {
            let host = scope.spawn(|| {
                let mut windows = windows;
                let ready = pin_to_core(host_core).and_then(|()| register_thread());
                let _guard = ready.inspect_err(|_| {
                    signals.measured.store(true, Ordering::Relaxed);
                })?;
                let ports = [TxPort::new(clients), TxPort::new(servers)];
                let mut out = Out { ports, pool, requests: 0 };
                subject.poll(queues, &mut out, &mut windows, &signals);
                Ok::<_, PaperError>(windows.into_done())
            });
            let source = scope.spawn(|| {
                let ready = pin_to_core(source_core).and_then(|()| register_thread());
                signals.started.store(true, Ordering::Relaxed);
                let _guard = ready?;
                Ok::<_, PaperError>(generator.send(point.pace))
            });
            let sent = source.join().map_err(|_| PaperError::ThreadFailed("source"));
            let windows = host.join().map_err(|_| PaperError::ThreadFailed("load balancer"));
            Ok::<_, PaperError>((windows??, sent??))
        })?;
        Ok(self.settle(windows, sent, point.queues))
    }

    /// Measures `subject` with source and load balancer on one core, by turns:
    /// packets are in the core's cache already, and no other core matters.
    pub(crate) fn measure_alone(
        &mut self,
        subject: &mut Subject,
        point: &Point<'_>,
        options: &Options,
    ) -> Result<Measured, PaperError> {
        let [_, core] = options.cores.unwrap_or([0, 1]);
        let mut windows = windows(options);
        let signals = Signals::default();
        let Self { rx, tx: [clients, servers], to_host, from_host, pool, .. } = self;
        let queues = rx.get_mut(..point.queues).unwrap_or_default();
        let generator = Generator {
            shots: point.shots,
            frame: point.frame,
            to_host,
            from_host,
            pool,
            signals: &signals,
        };
        let (windows, sent) = std::thread::scope(|scope| {
            let both = scope.spawn(|| {
                pin_to_core(core)?;
                let _guard = register_thread()?;
                let ports = [TxPort::new(clients), TxPort::new(servers)];
                let mut out = Out { ports, pool, requests: 0 };
                let sent = generator.alternate(|| subject.drain(queues, &mut out, &mut windows));
                Ok::<_, PaperError>((windows.into_done(), sent))
            });
            both.join().map_err(|_| PaperError::ThreadFailed("measuring"))?
        })?;
        Ok(self.settle(windows, sent, point.queues))
    }

    fn settle(&mut self, windows: Vec<Window>, sent: Sent, queues: usize) -> Measured {
        let [before, behind] = self.drain();
        let gone = sent.lost + sent.returned + before + behind;
        let dropped = sent.offered.saturating_sub(gone);
        Measured { windows, sent, queues, dropped }
    }
}

/// Of a measurement that goes on for a given time.
fn windows(options: &Options) -> Windows {
    let per_ms = (dpdk::cycles_per_second() / 1000).max(1);
    let (count, skipped) = (options.point_ms() / WINDOW_MS, WARM_UP_MS / WINDOW_MS);
    let interrupted = INTERRUPTED_US * per_ms / 1000;
    Windows::new(count as usize, skipped as usize, WINDOW_MS * per_ms, interrupted)
}

impl Subject {
    fn poll(
        &mut self,
        queues: &mut [dpdk::RxQueue],
        out: &mut Out<'_>,
        windows: &mut Windows,
        signals: &Signals,
    ) {
        match self {
            Self::Limit(subject) => host::poll(subject, queues, out, windows, signals),
            Self::SlbPaper(subject) => host::poll(&mut **subject, queues, out, windows, signals),
            Self::Hnlb(subject) => host::poll(&mut **subject, queues, out, windows, signals),
        }
    }
}

impl Subject {
    fn drain(
        &mut self,
        queues: &mut [dpdk::RxQueue],
        out: &mut Out<'_>,
        windows: &mut Windows,
    ) -> bool {
        match self {
            Self::Limit(subject) => host::drain(subject, queues, out, windows),
            Self::SlbPaper(subject) => host::drain(&mut **subject, queues, out, windows),
            Self::Hnlb(subject) => host::drain(&mut **subject, queues, out, windows),
        }
    }
}

impl Measured {
    /// Million packets per second.
    pub(crate) fn mpps(&self) -> Option<f64> {
        let per_us = dpdk::cycles_per_second() as f64 / 1e6;
        median(&self.windows, |window| {
            let cycles = window.reading.ref_cycles;
            (cycles > 0).then(|| window.reading.packets as f64 / (cycles as f64 / per_us))
        })
    }

    /// Nanoseconds per packet of iterations that found packets.
    pub(crate) fn ns_per_packet(&self) -> Option<f64> {
        let per_ns = dpdk::cycles_per_second() as f64 / 1e9;
        median(&self.windows, |window| {
            let packets = window.reading.packets;
            (packets > 0).then(|| window.reading.ops_cycles as f64 / per_ns / packets as f64)
        })
    }

    /// The paper's util.
    pub(crate) fn util(&self) -> f64 {
        median(&self.windows, |window| Some(window.reading.util())).unwrap_or(0.0)
    }

    /// The paper's util+.
    pub(crate) fn util_plus(&self) -> f64 {
        median(&self.windows, |window| Some(window.reading.util_plus(self.queues, RX_BURST)))
            .unwrap_or(0.0)
    }

    /// Share of polls that found nothing.
    pub(crate) fn empty_polls(&self) -> f64 {
        median(&self.windows, |window| {
            let reading = &window.reading;
            let empty = reading.polls.saturating_sub(reading.bursts);
            (reading.polls > 0).then(|| empty as f64 / reading.polls as f64)
        })
        .unwrap_or(1.0)
    }

    /// Share of the offered packets that were lost.
    pub(crate) fn loss(&self) -> f64 {
        if self.sent.offered == 0 { 0.0 } else { self.sent.lost as f64 / self.sent.offered as f64 }
    }

    /// Million packets offered per second.
    pub(crate) fn offered_mpps(&self) -> f64 {
        let seconds = self.sent.cycles as f64 / dpdk::cycles_per_second().max(1) as f64;
        self.sent.offered as f64 / seconds.max(1e-9) / 1e6
    }

    /// Share of the time that others had on the measured core.
    pub(crate) fn stolen(&self) -> f64 {
        let stolen: u64 = self.windows.iter().map(|window| window.stolen).sum();
        let own: u64 = self.windows.iter().map(|window| window.reading.ref_cycles).sum();
        if stolen + own == 0 { 0.0 } else { stolen as f64 / (stolen + own) as f64 }
    }
}
