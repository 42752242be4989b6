//! The figures: which points are measured for each.
use crate::systems::system::System;
use crate::testbed::sequence::Traffic;

/// A figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Figure {
    /// Best case: a single flow, a single backend.
    Fig4 = 4,
    /// Throughput against the number of concurrent connections.
    Fig5 = 5,
    /// Throughput against the packet size.
    Fig6 = 6,
    /// util+ against the offered rate, for numbers of connections.
    Fig7 = 7,
    /// util+ against the offered rate, for packet sizes.
    Fig8 = 8,
}

/// Frame sizes of figures 6 and 8.
const SIZES: [u16; 6] = [64, 128, 256, 512, 1024, 1518];

/// The shortest frame with IPv6 and TCP header.
const SHORTEST_V6: u16 = 78;

/// Offered rates of figures 7 and 8, as parts of what the system can.
const PARTS: [f64; 13] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2];

/// The same, for a quick run.
const FEW_PARTS: [f64; 7] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2];

/// Rates of figure 4: in steps of 1 % around what the closed loop gives, for
/// the highest without loss.
const AROUND: [f64; 15] =
    [0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 1.0, 1.01, 1.02, 1.03, 1.04];

/// The same, for a quick run.
const FEW_AROUND: [f64; 3] = [0.95, 1.0, 1.05];

/// One curve's x value: everything but system and rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Setting {
    pub(crate) connections: u32,
    pub(crate) backends: u8,
    pub(crate) size: u16,
    pub(crate) traffic: Traffic,
}

impl Setting {
    /// Uniform traffic to 10 backends.
    pub(crate) const fn of(connections: u32, size: u16) -> Self {
        Self { connections, backends: 10, size, traffic: Traffic::Uniform }
    }

    /// What the connections depend on: settings that are alike in this differ
    /// only in who sends what. The thesis' sets have connections of their own.
    pub(crate) const fn scenario(&self) -> (u32, u8, usize, u8) {
        let own = match self.traffic {
            Traffic::Laslb(set) => set,
            Traffic::Ipv6 => u8::MAX,
            Traffic::Dsr => u8::MAX - 1,
            Traffic::Uniform | Traffic::BothWays | Traffic::Zipf(_) => 0,
        };
        (self.connections, self.backends, self.traffic.directions().len(), own)
    }
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Fig4, Self::Fig5, Self::Fig6, Self::Fig7, Self::Fig8];

    /// Its number in the paper.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its points but for systems and rates; beside the paper's those of other
    /// traffic. Those with the same connections follow each other.
    pub(crate) fn settings(self, quick: bool) -> Vec<Setting> {
        match self {
            Self::Fig4 => vec![Setting { backends: 1, ..Setting::of(1, 64) }],
            Self::Fig5 => by_connections(quick),
            Self::Fig6 => SIZES.iter().map(|&size| Setting::of(1000, size)).collect(),
            Self::Fig7 => {
                let some: &[u32] = if quick { &[1, 1000] } else { &[1, 100, 1000, 8000] };
                some.iter().map(|&n| Setting::of(n, 64)).collect()
            }
            Self::Fig8 => {
                let some: &[u16] = if quick { &[64, 1518] } else { &SIZES };
                some.iter().map(|&size| Setting::of(1000, size)).collect()
            }
        }
    }

    /// Those of `systems` that it compares: more backends than queues are
    /// nothing that the other figures are about.
    pub(crate) fn systems(self, systems: &[System]) -> Vec<System> {
        let all = systems.iter().copied();
        all.filter(|system| self == Self::Fig5 || *system != System::HnlbShared).collect()
    }

    /// The rates of its points, as parts of what the system can; none: as much
    /// as is taken.
    pub(crate) const fn rates(self, quick: bool) -> &'static [f64] {
        match (self, quick) {
            (Self::Fig4, true) => &FEW_AROUND,
            (Self::Fig4, false) => &AROUND,
            (Self::Fig7 | Self::Fig8, true) => &FEW_PARTS,
            (Self::Fig7 | Self::Fig8, false) => &PARTS,
            _ => &[],
        }
    }
}

/// Figure 5: the paper's numbers of connections and more; the same under
/// other traffic, from the NIC's capacity on.
fn by_connections(quick: bool) -> Vec<Setting> {
    const M: u32 = 1 << 20;
    let uniform: &[u32] = if quick {
        &[1, 100, 1000, 8000, 1 << 16, M]
    } else {
        &[1, 10, 100, 1000, 8000, 1 << 16, 1 << 18, M, 1 << 22]
    };
    let large: &[u32] = if quick { &[M] } else { &[1 << 16, 1 << 18, M, 1 << 22] };
    let both: &[u32] = if quick { &[1000] } else { &[1, 1000, 8000, M] };
    let with = |n: u32, traffic| Setting { traffic, ..Setting::of(n, 64) };
    let mut all: Vec<Setting> = uniform.iter().map(|&n| Setting::of(n, 64)).collect();
    for alpha in [1.0, 1.2] {
        all.extend(large.iter().map(|&n| with(n, Traffic::Zipf(alpha))));
    }
    all.extend(both.iter().map(|&n| with(n, Traffic::BothWays)));
    let direct: &[u32] = if quick { &[8000] } else { &[8000, M] };
    all.extend(direct.iter().map(|&n| with(n, Traffic::Dsr)));
    all.push(Setting { size: SHORTEST_V6, ..with(8000, Traffic::Ipv6) });
    let sets: &[u8] = if quick { &[2] } else { &[1, 2, 3] };
    all.extend(sets.iter().map(|&set| with(0, Traffic::Laslb(set))));
    all.sort_by_key(|setting| (setting.traffic.directions().len(), setting.scenario()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_are_built_once() {
        for quick in [false, true] {
            let settings = Figure::Fig5.settings(quick);
            let mut scenarios: Vec<_> = settings.iter().map(Setting::scenario).collect();
            scenarios.dedup();
            let built = scenarios.len();
            scenarios.sort_unstable();
            scenarios.dedup();
            assert_eq!(scenarios.len(), built, "no scenario is left and built again");
            assert!(built < settings.len(), "Zipf traffic has the scenarios of uniform traffic");
        }
    }
}
