//! The measured core's loop: algorithm 1 of the paper.
use std::sync::atomic::{AtomicBool, Ordering};

use dataplane::poll_schedule::PollSchedule;
use dpdk::{Batch, RxQueue, cycles};
use pipeline::BURST;
use state::Source;

use crate::machine::core_distance::PingPong;
use crate::machine::core_time::CoreTime;
use crate::machine::windows::Windows;
use crate::systems::balancer::{Balancer, RX_BURST};
use crate::testbed::outbox::Out;
use crate::testbed::scenario::START_MS;

/// What both threads see of each other.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// The measured core is done.
    pub(crate) measured: AtomicBool,
    /// The source runs, or will never.
    pub(crate) started: AtomicBool,
    /// Whether the measured core is the load balancer's.
    pub(crate) host: CoreTime,
    /// Whether the other core is the source's.
    pub(crate) source: CoreTime,
    /// How far apart the cores are before and after; thrown by the measured one.
    pub(crate) pings: [PingPong; 2],
}

/// A receive queue that is polled.
pub(crate) struct Polled<'a> {
    pub(crate) from: Source,
    pub(crate) rx: &'a mut RxQueue,
}

/// Polls `queues` round robin until all windows are full; unless `strict`, as
/// the paper's loop is, queues that bring little rest under load, as those of
/// HNLB's workers.
pub(crate) fn poll(
    balancer: &mut dyn Balancer,
    queues: &mut [Polled<'_>],
    out: &mut Out<'_>,
    windows: &mut Windows,
    signals: &Signals,
    strict: bool,
) {
    let per_ms = (dpdk::cycles_per_second() / 1000).max(1);
    while !signals.started.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    let start = cycles();
    let mut batch = Batch::<BURST>::new();
    windows.start(start);
    let interruption = windows.interruption();
    let mut schedule = PollSchedule::new(queues.len());
    loop {
        balancer.begin();
        schedule.begin();
        for (at, Polled { from, rx }) in queues.iter_mut().enumerate() {
            if !strict && !schedule.asks(at) {
                continue;
            }
            let before = cycles();
            signals.host.beat(before, interruption);
            if !windows.iteration(before, Some(&signals.source)) {
                return signals.measured.store(true, Ordering::Relaxed);
            }
            let received = rx.rx_at_most(&mut batch, RX_BURST);
            if received > 0 {
                let now_ms = START_MS + before.wrapping_sub(start) / per_ms;
                balancer.process(*from, &mut batch, now_ms, out);
                out.flush();
                windows.found(received, cycles().wrapping_sub(before));
            }
            schedule.polled(at, received, RX_BURST);
            balancer.polled(*from, received);
        }
    }
}

/// Polls all queues until they are empty, in measured iterations; for a source
/// on the same core. `false`: all windows are full.
pub(crate) fn drain(
    balancer: &mut dyn Balancer,
    queues: &mut [Polled<'_>],
    out: &mut Out<'_>,
    windows: &mut Windows,
) -> bool {
    let mut batch = Batch::<BURST>::new();
    windows.resume(cycles());
    loop {
        balancer.begin();
        let mut found = 0;
        for Polled { from, rx } in queues.iter_mut() {
            let before = cycles();
            if !windows.iteration(before, None) {
                return false;
            }
            let received = rx.rx_at_most(&mut batch, RX_BURST);
            if received > 0 {
                balancer.process(*from, &mut batch, START_MS, out);
                out.flush();
                windows.found(received, cycles().wrapping_sub(before));
                found += received;
            }
            balancer.polled(*from, received);
        }
        if found == 0 {
            return true;
        }
    }
}
