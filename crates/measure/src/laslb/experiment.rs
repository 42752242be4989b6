//! The thesis' experiments as points: traffic, loads, systems.
use balance::Kind;
use traffic::Set;

use crate::laslb::service::Function;
use crate::laslb::system::System;

/// The thesis' loads, those at which RSS breaks, and beyond, in Gbit/s.
const LOADS: [f64; 10] = [1.0, 2.0, 5.0, 6.0, 8.0, 10.0, 13.0, 13.7, 15.0, 17.0];
const QUICK_LOADS: [f64; 5] = [1.0, 8.0, 13.0, 15.0, 17.0];
/// Flows of set 3, for which the thesis has no number.
const UDP_FLOWS: u32 = 10_000;

/// A section of the thesis, or traffic that it leaves to future work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// 6.1 to 6.5, B.1 and B.2: all systems over the loads.
    Loads,
    /// 6.6: LOW2 with three times between triggers.
    Periodicity,
    /// 6.7: a plain forwarder.
    Throughput,
    /// The future work: bursts and sudden changes.
    Bursty,
}

/// One point, which all its systems are run for with the same packets.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) experiment: Experiment,
    pub(crate) set: Set,
    pub(crate) gbps: f64,
    pub(crate) function: Function,
    pub(crate) systems: Vec<System>,
}

impl Point {
    /// The traffic's name in rows.
    pub(crate) const fn traffic(&self) -> &'static str {
        match self.set {
            Set::Balanced => "1",
            Set::Imbalanced => "2",
            Set::Udp { .. } => "3",
            Set::Bursty => "bursty",
        }
    }

    /// The sections of the thesis that show a run of this point.
    pub(crate) fn sections(&self) -> &'static [&'static str] {
        let (imbalanced, high) = (self.set == Set::Imbalanced, self.gbps >= 8.0);
        match (self.experiment, imbalanced) {
            (Experiment::Loads, true) if high => &["6.1", "6.2", "6.3", "6.4", "6.5", "B.1", "B.2"],
            (Experiment::Loads, true) => &["6.1", "6.2", "6.3", "6.4", "B.1", "B.2"],
            (Experiment::Loads, false) => &["6.1", "6.2", "6.3"],
            (Experiment::Periodicity, _) => &["6.6"],
            (Experiment::Throughput, _) => &["6.7"],
            (Experiment::Bursty, _) => &["bursty"],
        }
    }

    /// All points, in the order of the thesis.
    pub(crate) fn all(quick: bool, inspection: &Function) -> Vec<Self> {
        let loads = if quick { &QUICK_LOADS[..] } else { &LOADS[..] };
        let point = |experiment, set, gbps, systems: &[System]| Self {
            experiment,
            set,
            gbps,
            function: inspection.clone(),
            systems: systems.to_vec(),
        };
        let mut points = Vec::new();
        for set in [Set::Balanced, Set::Imbalanced] {
            let all = System::all();
            points.extend(loads.iter().map(|gbps| point(Experiment::Loads, set, *gbps, &all)));
        }
        let bursty: &[f64] = if quick { &[8.0, 13.0] } else { &[1.0, 5.0, 8.0, 10.0, 13.0] };
        points.extend(
            bursty.iter().map(|gbps| point(Experiment::Bursty, Set::Bursty, *gbps, &System::all())),
        );
        for set in [Set::Balanced, Set::Imbalanced] {
            let periods: &[f64] = if quick { &[15.0] } else { &[1.0, 5.0, 8.0, 10.0, 15.0] };
            let systems = System::periodicities();
            points.extend(
                periods.iter().map(|gbps| point(Experiment::Periodicity, set, *gbps, &systems)),
            );
        }
        let most: &[f64] = if quick { &[38.0] } else { &[15.0, 25.0, 35.0, 38.0] };
        let plain = |system: &System| {
            matches!(
                system,
                System::Rss | System::Buckets(Kind::Low2(_) | Kind::Max(_) | Kind::Even, _)
            )
        };
        let systems: Vec<System> = System::all().into_iter().filter(plain).collect();
        points.extend(most.iter().map(|gbps| {
            let set = Set::Udp { flows: UDP_FLOWS };
            let function = Function::Forwarder;
            Self { function, ..point(Experiment::Throughput, set, *gbps, &systems) }
        }));
        points
    }
}
