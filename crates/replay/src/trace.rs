//! The story of a frame of a capture.
use std::collections::BTreeMap;

use capture::Captured;
use explain::{Departure, Sent, Trace, Verdict, raised};
use flow::PortId;
use state::{CounterKind, Metric};

use crate::simulation::{Intake, Simulation};

/// The counters before a frame.
pub(crate) struct Before {
    counters: BTreeMap<&'static str, Metric>,
    intake: Intake,
}

impl Before {
    pub(crate) fn of(simulation: &Simulation) -> Self {
        Self { counters: simulation.metrics(), intake: simulation.intake() }
    }

    /// The story of `frame`, which arrived at `port` since then.
    pub(crate) fn story(
        &self,
        simulation: &Simulation,
        port: PortId,
        frame: &Captured,
        sent: &[Sent],
    ) -> Trace {
        let raised = raised(&self.counters, &simulation.metrics());
        let (intake, mut counters) = (simulation.intake(), Vec::new());
        let verdict = if intake.nic_forwarded > self.intake.nic_forwarded {
            Verdict::ForwardedByNic
        } else if intake.nic_dropped > self.intake.nic_dropped {
            counters.push("nic_dropped");
            Verdict::Dropped
        } else if intake.queue_full > self.intake.queue_full {
            counters.push("queue_full");
            Verdict::Dropped
        } else {
            Verdict::of(&raised)
        };
        let telling = raised
            .iter()
            .filter(|metric| !matches!(metric.kind, CounterKind::In | CounterKind::Sent));
        counters.extend(telling.map(|metric| metric.name));
        let sent = sent.iter().map(|sent| Departure::of(&frame.frame, sent)).collect();
        Trace { frame: frame.number, port: port.0, verdict, counters, sent }
    }
}
