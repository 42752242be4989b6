//! Connections that come and go among others that stay: clients, backends, NIC
//! and keeper on one core, the worker on the other. The NIC is asked about
//! every packet, and its rules are made and destroyed as in operation.
use ::traffic::{Churn, ChurnPacket, Class};
use dpdk::cycles_per_second;
use offload::Encoding;
use report::ChurnRow;
use service::Direction;

use crate::crowd::{Crowd, Tally};
use crate::error::PaperError;
use crate::part::Part;
use crate::plan::Options;
use crate::run::{Hosted, WARM_UP_MS};
use crate::stage::{queues, subject};
use crate::system::System;
use crate::testbed::Testbed;
use crate::traffic::Traffic;
use crate::world::{Plan, World};

/// New connections per second.
const ARRIVALS: [f64; 3] = [5_000.0, 20_000.0, 50_000.0];
/// Nine of ten are short: ten packets and the ends of the connection within
/// 20 ms. The tenth stays 2 s, with 100 packets a second.
const CLASSES: [Class; 2] = [
    Class { weight: 0.9, lifetime: 0.02, interval: 0.002 },
    Class { weight: 0.1, lifetime: 2.0, interval: 0.01 },
];
/// The systems that open connections.
pub(crate) const SYSTEMS: [System; 3] = [System::Slb, System::HnlbQueue, System::HnlbMark];
/// Milliseconds of traffic beyond the measured ones: until both cores are at it.
const SPARE_MS: u64 = 100;
/// Requests for rules that may wait.
const REQUESTS: usize = 1 << 14;

/// The rates that are measured.
pub(crate) const fn arrivals(quick: bool) -> &'static [f64] {
    if quick { &[20_000.0] } else { &ARRIVALS }
}

impl Testbed {
    /// Connections that come and go, at several rates.
    ///
    /// # Errors
    /// Something needed is missing; see [`PaperError`].
    pub fn churn(&mut self, options: &Options) -> Result<Vec<ChurnRow>, PaperError> {
        let systems: Vec<System> =
            SYSTEMS.into_iter().filter(|system| options.systems.contains(system)).collect();
        let rates = arrivals(options.quick);
        let all = options.repetitions.max(1) as usize * rates.len() * systems.len();
        let mut rows = Vec::new();
        for repetition in 0..options.repetitions.max(1) {
            let late = options.deadline.is_some_and(|end| std::time::Instant::now() > end);
            if repetition > 0 && late {
                break;
            }
            for &rate in rates {
                let traffic = Script::of(rate, options.point_ms, repetition)?;
                for &system in &systems {
                    rows.push(self.crowd(system, &traffic, repetition, options)?);
                    options.tell(Part::Churn, rows.len(), all);
                }
            }
        }
        options.tell(Part::Churn, 1, 1);
        Ok(rows)
    }

    fn crowd(
        &mut self,
        system: System,
        script: &Script,
        repetition: u32,
        options: &Options,
    ) -> Result<ChurnRow, PaperError> {
        let open = script.open;
        // Those that come, and those that have gone and are still remembered.
        let room = open + script.packets.len() as u32;
        let in_nic = if system.encoding() == Encoding::Off { 0 } else { open };
        let plan =
            Plan { connections: room, open, in_nic, ..Plan::of(room, 10, system.encoding()) };
        let mut world = World::build(plan)?;
        let mut subject = subject(system, &world, Traffic::Uniform)?;
        let (requests, asked) = rtrb::RingBuffer::new(REQUESTS);
        let hosted = Hosted {
            subject: &mut subject,
            queues: queues(system, 10, &Direction::BOTH),
            requests: Some(requests),
        };
        let mut tally = Tally::default();
        let told = &mut tally;
        let world = &mut world;
        let measured = self.measure_with(hosted, options, move |wires| {
            let (sent, counted) = Crowd::new(wires, world, &script.packets, asked).send();
            *told = counted;
            sent
        })?;
        let seconds = measured.sent.cycles as f64 / cycles_per_second().max(1) as f64;
        Ok(ChurnRow {
            figure: "churn".to_owned(),
            system: system.name().to_owned(),
            arrivals_per_second: script.arrivals,
            opened_per_second: tally.opened as f64 / seconds.max(1e-9),
            connections: open.into(),
            mpps: measured.offered_mpps(),
            ns_per_packet: measured.ns_per_packet().unwrap_or(0.0),
            util: measured.util(),
            matched: tally.matched as f64 / tally.asked.max(1) as f64,
            loss: measured.loss(),
            behind: tally.behind as f64 / (tally.behind + tally.sent).max(1) as f64,
            repetition,
        })
    }
}

/// What the clients send.
struct Script {
    arrivals: f64,
    /// Connections that are open at the start: those numbered below this.
    open: u32,
    packets: Vec<ChurnPacket>,
}

impl Script {
    fn of(arrivals: f64, point_ms: u64, seed: u32) -> Result<Self, PaperError> {
        let churn = Churn::established(arrivals, &CLASSES, seed.into())?;
        let open = churn.open() as u32;
        let end = (point_ms + WARM_UP_MS + SPARE_MS) * 1_000_000;
        let packets = churn.take_while(|packet| packet.at_ns < end).collect();
        Ok(Self { arrivals, open, packets })
    }
}

#[cfg(test)]
mod tests {
    use ::traffic::Phase;

    use super::*;
    use crate::world::NIC_CAPACITY;

    #[test]
    fn a_script_opens_what_it_sends() {
        let script = Script::of(20_000.0, 100, 3).unwrap();
        let mut open = script.open;
        assert!((3000..6000).contains(&open), "{open}");
        assert!((open as usize) < NIC_CAPACITY);
        for packet in &script.packets {
            if packet.phase == Phase::Open {
                assert_eq!(packet.flow, open, "connections are numbered without gaps");
                open += 1;
            }
            assert!(packet.flow < open);
        }
        let opened = f64::from(open - script.open);
        assert!((opened / (20_000.0 * 0.22) - 1.0).abs() < 0.1, "{opened}");
    }
}
