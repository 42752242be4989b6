//! Which connection sends next.
use flow::{Direction, Mode};
use traffic::{Load, Rng, Set, TrafficSet, Zipf};
use wire::Transport;

use crate::error::MeasureError;
use crate::systems::system::System;
use crate::testbed::frames::{FCS, Family};

/// How packets are spread over connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Traffic {
    /// All alike, from the clients to the backends.
    Uniform,
    /// All alike, clients and backends by turns, each at its own port.
    BothWays,
    /// All alike, from the clients to the backends, over IPv6.
    Ipv6,
    /// All alike, from the clients to the backends, in mode dsr: packets keep
    /// their addresses, and the table has one key a connection.
    Dsr,
    /// Connection k has a share proportional to 1 / k^alpha.
    Zipf(f64),
    /// The LASLB thesis' traffic set 1 to 3 at 10 Gbit/s, as it is at one
    /// moment: connections that are open stay so.
    Laslb(u8),
}

/// Least and most packets of a sequence before it starts again.
const LEAST: usize = 1 << 16;
const MOST: usize = 1 << 22;
/// Packets of a thesis' traffic set.
const SET: usize = 1 << 18;
/// UDP flows of traffic set 3, whose number the thesis doesn't give.
const UDP_FLOWS: u32 = 10_000;

/// One packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    pub(crate) connection: u32,
    pub(crate) direction: Direction,
    /// Bytes on the wire.
    pub(crate) size: u16,
}

/// A sequence of packets, to be repeated.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    /// Connections are numbered below this.
    pub(crate) connections: u32,
    pub(crate) draws: Vec<Draw>,
}

impl Traffic {
    /// The name in rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::BothWays => "both-ways",
            Self::Ipv6 => "ipv6",
            Self::Dsr => "dsr",
            Self::Zipf(alpha) if alpha > 1.1 => "zipf-1.2",
            Self::Zipf(_) => "zipf-1.0",
            Self::Laslb(1) => "laslb-1",
            Self::Laslb(2) => "laslb-2",
            Self::Laslb(_) => "laslb-3",
        }
    }

    /// What its packets are.
    pub(crate) const fn proto(self) -> Transport {
        if matches!(self, Self::Laslb(3)) { Transport::Udp } else { Transport::Tcp }
    }

    /// Whether `system` can be measured with it: the limit has one action for all
    /// packets, so it knows one direction; tables of rte_hash have IPv4 keys; and
    /// what more backends than queues cost is measured in mode nat only.
    pub(crate) fn suits(self, system: System) -> bool {
        match system {
            System::Limit => self.directions().len() == 1,
            System::SlbPaper | System::SlbBulk => self.family() == Family::V4,
            System::HnlbShared => self.family() == Family::V4 && self.mode() == Mode::Nat,
            System::Slb | System::HnlbQueue | System::HnlbMark => true,
        }
    }

    /// How they reach the backends.
    pub(crate) const fn mode(self) -> Mode {
        if matches!(self, Self::Dsr) { Mode::Dsr } else { Mode::Nat }
    }

    /// The family of its packets.
    pub(crate) const fn family(self) -> Family {
        if matches!(self, Self::Ipv6) { Family::V6 } else { Family::V4 }
    }

    /// The directions of its packets.
    pub(crate) const fn directions(self) -> &'static [Direction] {
        if matches!(self, Self::BothWays) { &Direction::BOTH } else { &[Direction::Forward] }
    }

    /// A sequence over `connections` of packets of `size` bytes; the sets have
    /// their own. Uniform: every connection equally often, in random order.
    pub(crate) fn sequence(
        self,
        connections: u32,
        size: u16,
        seed: u64,
    ) -> Result<Sequence, MeasureError> {
        let connections = connections.max(1);
        let there = |connection| Draw { connection, direction: Direction::Forward, size };
        let draws = match self {
            Self::Uniform | Self::Ipv6 | Self::Dsr => {
                shuffled(connections, seed).map(there).collect()
            }
            Self::BothWays => shuffled(connections, seed)
                .flat_map(|connection| {
                    Direction::BOTH.map(|direction| Draw { connection, direction, size })
                })
                .collect(),
            Self::Zipf(alpha) => {
                let length = (connections as usize * 4).clamp(LEAST, MOST);
                Zipf::new(connections, alpha, seed)?.take(length).map(there).collect()
            }
            Self::Laslb(number) => return set(number, seed),
        };
        Ok(Sequence { connections, draws })
    }
}

/// Whole rounds over all connections, each in an order of its own.
fn shuffled(connections: u32, seed: u64) -> impl Iterator<Item = u32> {
    let mut rng = Rng::new(seed);
    let rounds = LEAST.div_ceil(connections as usize);
    let mut all: Vec<u32> = (0..connections).collect();
    (0..rounds).flat_map(move |_| {
        for at in (1..all.len()).rev() {
            all.swap(at, rng.below(at as u64 + 1) as usize);
        }
        all.clone()
    })
}

/// Connections are numbered by their first packets: those that send most tend
/// to come first.
fn set(number: u8, seed: u64) -> Result<Sequence, MeasureError> {
    let set = match number {
        1 => Set::Balanced,
        2 => Set::Imbalanced,
        _ => Set::Udp { flows: UDP_FLOWS },
    };
    let mut numbers = std::collections::HashMap::new();
    let draws = TrafficSet::new(set, Load::G10, seed)?.take(SET).map(|packet| {
        let next = numbers.len() as u32;
        let connection = *numbers.entry(packet.flow).or_insert(next);
        // The sets' sizes have no frame check sequence.
        let size = packet.size + FCS;
        Draw { connection, direction: Direction::Forward, size }
    });
    let draws: Vec<Draw> = draws.collect();
    Ok(Sequence { connections: numbers.len() as u32, draws })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(traffic: Traffic, connections: u32) -> Vec<u32> {
        let sequence = traffic.sequence(connections, 64, 1).unwrap();
        sequence.draws.iter().map(|draw| draw.connection).collect()
    }

    #[test]
    fn uniform_is_every_connection_equally_often() {
        for n in [1, 10, 1000, 100_000] {
            let sequence = connections(Traffic::Uniform, n);
            let mut count = vec![0; n as usize];
            sequence.iter().for_each(|&at| count[at as usize] += 1);
            assert!(count.iter().all(|&n| n == count[0]), "{n}");
            assert!(sequence.len() >= LEAST);
        }
        assert_ne!(
            connections(Traffic::Uniform, 10)[..10],
            connections(Traffic::Uniform, 10)[10..20]
        );
    }

    #[test]
    fn both_ways_is_a_reply_for_every_request() {
        let sequence = Traffic::BothWays.sequence(100, 64, 1).unwrap();
        for pair in sequence.draws.chunks(2) {
            assert_eq!(pair[0].connection, pair[1].connection);
            assert_eq!(pair.iter().map(|d| d.direction).collect::<Vec<_>>(), Direction::BOTH);
        }
    }

    #[test]
    fn zipf_has_its_shares() {
        let sequence = connections(Traffic::Zipf(1.0), 1000);
        let share = |rank: u32| {
            sequence.iter().filter(|&&at| at == rank).count() as f64 / sequence.len() as f64
        };
        let harmonic: f64 = (1..=1000).map(|k| 1.0 / f64::from(k)).sum();
        for rank in [0, 1, 9] {
            let wanted = 1.0 / (f64::from(rank + 1) * harmonic);
            assert!((share(rank) / wanted - 1.0).abs() < 0.1, "rank {rank}");
        }
        assert!(sequence.iter().all(|&at| at < 1000));
    }

    #[test]
    fn the_thesis_sets_are_numbered_without_gaps() {
        for number in [1, 2, 3] {
            let Sequence { connections, draws } = Traffic::Laslb(number).sequence(0, 0, 1).unwrap();
            let mut seen = vec![0_u32; connections as usize];
            draws.iter().for_each(|draw| seen[draw.connection as usize] += 1);
            assert!(seen.iter().all(|&n| n > 0));
            let mean = draws.iter().map(|d| f64::from(d.size)).sum::<f64>() / draws.len() as f64;
            assert!((690.0..750.0).contains(&mean), "{mean}");
            let heavy: u32 = {
                seen.sort_unstable();
                seen.iter().rev().take(20).sum()
            };
            let share = f64::from(heavy) / draws.len() as f64;
            assert_eq!(share > 0.3, number == 2, "elephants are in set 2 only: {share}");
        }
    }
}
