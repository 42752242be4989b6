//! The time that a worker takes for a packet, in software: what the kernel's program is
//! set beside.
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use flow::{Encoding, PortId};
use packet::HeapPacket;
use pipeline::{BURST, Pipeline};
use state::Source;

use crate::error::MeasureError;
use crate::testbed::frames::{DATA, Family};
use crate::testbed::scenario::{Plan, START_MS, Scenario, Spare};

/// Bytes of a frame.
const SIZE: u16 = 64;

/// A worker with connections of one service in its table, none of them in a card.
pub struct Worker {
    scenario: Scenario,
    pipeline: Pipeline<HeapPacket>,
    connections: u32,
}

impl Worker {
    /// Opens the connections.
    ///
    /// # Errors
    /// Something of it could not be set up; see [`MeasureError`].
    pub fn build(connections: u32, v6: bool) -> Result<Self, MeasureError> {
        let family = if v6 { Family::V6 } else { Family::V4 };
        let plan = Plan { family, in_nic: 0, ..Plan::of(connections, 1, Encoding::Off) };
        let scenario = Scenario::build(plan)?;
        let pipeline =
            Pipeline::new(std::sync::Arc::clone(&scenario.shared), 0, scenario.settings())?;
        Ok(Self { scenario, pipeline, connections })
    }

    /// The mean time for one of `packets` clients' packets, in nanoseconds, which come in
    /// bursts as workers receive them; the connections differ by `stride` from packet to
    /// packet. Receiving and sending are not included.
    ///
    /// # Errors
    /// [`MeasureError::NotForwarded`].
    pub fn nanoseconds(&mut self, packets: u32, stride: u32) -> Result<f64, MeasureError> {
        let Self { scenario, pipeline, connections } = self;
        let from = Source { port: PortId(0), queue: 0 };
        let mut burst: ArrayVec<HeapPacket, BURST> = ArrayVec::new();
        let (mut spare, mut number) = (Spare::default(), 0);
        let mut taken = Duration::ZERO;
        let bursts = packets.div_ceil(BURST as u32).max(1);
        for _ in 0..bursts {
            for _ in 0..BURST {
                let spec = scenario.templates.forward(number.into(), SIZE, DATA);
                burst.push(spare.packet(&scenario.templates, &spec));
                number += stride;
                if number >= *connections {
                    number -= *connections;
                }
            }
            let began = Instant::now();
            pipeline.begin();
            pipeline.process(from, &mut burst, START_MS, &mut spare);
            taken += began.elapsed();
            if spare.len() != BURST {
                return Err(MeasureError::NotForwarded(spare.len(), BURST));
            }
        }
        Ok(taken.as_nanos() as f64 / (f64::from(bursts) * BURST as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_sends_all_packets_of_both_families_on() {
        for v6 in [false, true] {
            let mut worker = Worker::build(100, v6).unwrap();
            assert!(worker.nanoseconds(1000, 61).unwrap() > 0.0);
        }
    }
}
