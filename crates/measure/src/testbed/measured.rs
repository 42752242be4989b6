//! The outcome of one measurement.
use crate::machine::windows::{Window, median, offered as offered_windows};
use crate::systems::balancer::RX_BURST;
use crate::testbed::source::Sent;

/// What both cores have noted.
pub(crate) struct Measured {
    pub(crate) windows: Vec<Window>,
    pub(crate) sent: Sent,
    /// Receive queues that were polled.
    pub(crate) queues: usize,
    /// By direction: packets that entered the load balancer and never left.
    pub(crate) dropped: [u64; 2],
    /// Nanoseconds of a cache line's way to the other core and back; `None`:
    /// there was one core, or it isn't known.
    pub(crate) distance: Option<f64>,
    /// Whether that is as near as the cores come.
    pub(crate) near: bool,
}

impl Measured {
    /// Million packets per second.
    pub(crate) fn mpps(&self) -> Option<f64> {
        let per_us = dpdk::cycles_per_second() as f64 / 1e6;
        median(&offered_windows(&self.windows), |window| {
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

    /// Million packets per second that the measured core can, also if the
    /// source kept it waiting.
    pub(crate) fn most(&self) -> f64 {
        let kept_busy = self.ns_per_packet().map_or(0.0, |ns| 1000.0 / ns.max(1.0));
        self.mpps().unwrap_or(0.0).max(kept_busy)
    }

    /// The paper's util.
    pub(crate) fn util(&self) -> Option<f64> {
        median(&offered_windows(&self.windows), |window| Some(window.reading.util()))
    }

    /// The paper's util+.
    pub(crate) fn util_plus(&self) -> Option<f64> {
        median(&offered_windows(&self.windows), |window| {
            Some(window.reading.util_plus(self.queues, RX_BURST))
        })
    }

    /// Share of polls that found nothing.
    pub(crate) fn empty_polls(&self) -> Option<f64> {
        median(&offered_windows(&self.windows), |window| {
            let reading = &window.reading;
            let empty = reading.polls.saturating_sub(reading.bursts);
            (reading.polls > 0).then(|| empty as f64 / reading.polls as f64)
        })
    }

    /// Share of the offered packets that were lost.
    pub(crate) fn loss(&self) -> f64 {
        self.sent.packet_counts.loss()
    }

    /// Million packets offered per second, while both cores were there: those
    /// that the measured core has received, and those lost on the way to it.
    pub(crate) fn offered_mpps(&self) -> Option<f64> {
        self.mpps().map(|received| offered(received, self.loss()))
    }

    /// How well the point was measured: the share of undisturbed time, and less
    /// than nothing if the cores were far apart.
    pub(crate) fn worth(&self) -> f64 {
        self.undisturbed() - if self.near { 0.0 } else { 2.0 }
    }

    /// The share of the time in which both cores were there, from 0 to 1.
    pub(crate) fn undisturbed(&self) -> f64 {
        let good = self.windows.iter().filter(|window| window.was_undisturbed()).count();
        good as f64 / self.windows.len().max(1) as f64
    }

    /// Whether anything can be said: both cores were there some time, and, if
    /// packets were `offered`, the measured one has seen some.
    pub(crate) fn is_usable(&self, offered: bool) -> bool {
        let there = offered_windows(&self.windows);
        let seen = there.iter().any(|window| window.reading.packets > 0);
        !there.is_empty() && (seen || !offered)
    }

    /// Share of the time that others had on the measured core.
    pub(crate) fn stolen(&self) -> f64 {
        let stolen: u64 = self.windows.iter().map(|window| window.stolen).sum();
        let own: u64 = self.windows.iter().map(|window| window.reading.ref_cycles).sum();
        if stolen + own == 0 { 0.0 } else { stolen as f64 / (stolen + own) as f64 }
    }
}

/// The rate of which the share `loss` did not arrive, if `received` did.
fn offered(received: f64, loss: f64) -> f64 {
    received / (1.0 - loss).max(1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::packet_counts::PacketCounts;

    #[test]
    fn what_was_lost_was_offered() {
        assert_eq!([offered(12.0, 0.0), offered(12.0, 0.6), offered(0.0, 0.0)], [12.0, 30.0, 0.0]);
        assert!(offered(0.0, 1.0) == 0.0 && offered(1e-3, 1.0).is_finite());
    }

    #[test]
    fn an_undisturbed_far_measurement_is_worth_less_than_nothing() {
        let measured = |windows, near| Measured {
            windows,
            sent: Sent { packet_counts: PacketCounts::default(), cycles: 0, latency: None },
            queues: 1,
            dropped: [0; 2],
            distance: None,
            near,
        };
        let (undisturbed, disturbed) = (vec![Window::default()], Vec::new());
        assert!((measured(undisturbed.clone(), true).worth() - 1.0).abs() < 1e-9);
        assert!(measured(undisturbed, false).worth() < 0.0);
        assert!(measured(disturbed, true).worth() >= 0.0);
    }
}
