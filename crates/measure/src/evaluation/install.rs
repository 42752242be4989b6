//! What the worker pays while rules are installed.
use crate::report::InstallRow;
use dpdk::cycles_per_second;
use flow::Direction;

use crate::error::MeasureError;
use crate::evaluation::contest::{Subjects, WINDOW, queues};
use crate::evaluation::options::Options;
use crate::systems::system::System;
use crate::testbed::frames::FrameSpec;
use crate::testbed::ports::Testbed;
use crate::testbed::run::Point;
use crate::testbed::scenario::{NIC_CAPACITY, Plan, Scenario};
use crate::testbed::sequence::Traffic;
use crate::testbed::source::Pace;

/// Rules a second that are asked for.
pub(crate) const RATES: [f64; 3] = [0.0, 5_000.0, 40_000.0];
/// Connections that send, all in the NIC.
const SENDING: u32 = 1000;
/// Microseconds between two turns of the keeper.
const TURN_US: u64 = 100;

/// The systems that have rules.
pub(crate) const SYSTEMS: [System; 2] = [System::HnlbQueue, System::HnlbMark];

/// A keeper that installs rules at a rate.
struct Installing<'a> {
    scenario: &'a mut Scenario,
    rate: f64,
    next: u64,
    start: Option<u64>,
    turned: u64,
}

impl Installing<'_> {
    /// Asks for what is due, and has it installed.
    fn turn(&mut self, now: u64) {
        let per_second = cycles_per_second().max(1);
        let start = *self.start.get_or_insert(now);
        if now.wrapping_sub(self.turned) < per_second / 1_000_000 * TURN_US {
            return;
        }
        self.turned = now;
        let seconds = now.wrapping_sub(start) as f64 / per_second as f64;
        let upto = u64::from(SENDING) + (seconds * self.rate) as u64;
        while self.next < upto.min(NIC_CAPACITY as u64) {
            self.scenario.request(self.next);
            self.next += 1;
        }
        // Its clock goes on from where building the scenario has left it.
        self.scenario.tick(1000 + (seconds * 1e3) as u64);
    }
}

impl Testbed {
    /// The worker's time per packet with and without rules being installed for
    /// connections that send nothing.
    pub(crate) fn installs(
        &mut self,
        options: &Options,
        tell: &(dyn Fn() + Sync),
    ) -> Result<Vec<InstallRow>, MeasureError> {
        let mut rows = Vec::new();
        for repetition in (0..options.repetitions.max(1)).take_while(|&n| !options.ended(n)) {
            for system in SYSTEMS {
                for rate in RATES.into_iter().take_while(|_| !options.stopped()) {
                    rows.push(self.install(system, rate, repetition, options)?);
                    tell();
                }
            }
        }
        Ok(rows)
    }

    fn install(
        &mut self,
        system: System,
        rate: f64,
        repetition: u32,
        options: &Options,
    ) -> Result<InstallRow, MeasureError> {
        let all = NIC_CAPACITY as u32;
        let plan = Plan { in_nic: SENDING, ..Plan::of(all, 10, system.encoding()) };
        let mut scenario = Scenario::build(plan)?;
        let draws = Traffic::Uniform.sequence(SENDING, 64, 1)?.draws;
        let spec = |connection| scenario.spec(connection, Direction::Forward, 64);
        let specs: Vec<FrameSpec> =
            draws.iter().filter_map(|draw| Some(spec(draw.connection)?.0)).collect();
        let mut subject = Subjects::of(&scenario, Traffic::Uniform).make(system, 0)?;
        let templates = scenario.templates.clone();
        let before = scenario.installed();
        let mut keeper = Installing {
            scenario: &mut scenario,
            rate,
            next: SENDING.into(),
            start: None,
            turned: 0,
        };
        let mut between_bursts = |now| keeper.turn(now);
        let point = Point {
            specs: &specs,
            templates: &templates,
            longest: 64,
            queues: queues(system, 10, &[Direction::Forward]),
            pace: Pace::Closed(WINDOW),
            between_bursts: Some(&mut between_bursts),
        };
        let measured = self.measure(&mut *subject, point, options)?;
        let seconds = measured.sent.cycles as f64 / cycles_per_second().max(1) as f64;
        let installed = scenario.installed().saturating_sub(before);
        Ok(InstallRow {
            figure: "install".to_owned(),
            system: system.name().to_owned(),
            rules_per_second: installed as f64 / seconds.max(1e-9),
            ns_per_packet: measured.ns_per_packet(),
            mpps: measured.mpps(),
            repetition,
        })
    }
}
