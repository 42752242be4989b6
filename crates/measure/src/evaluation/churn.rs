//! Connections that come and go among others that stay: clients, backends, NIC
//! and keeper on one core, the worker on the other. The NIC is asked about
//! every packet; its rules are made and destroyed, and connections aged, as in
//! operation.
use flow::Encoding;

use crate::report::ChurnRow;
use traffic::{Churn, ChurnPacket, Class, Phase};

use crate::error::MeasureError;
use crate::evaluation::churn_clients::{ChurnClients, Tally};
use crate::evaluation::contest::{Subjects, UNDISTURBED, WISHED};
use crate::evaluation::options::Options;
use crate::evaluation::part::Part;
use crate::evaluation::rate_search::RateSearch;
use crate::systems::system::System;
use crate::testbed::measured::Measured;
use crate::testbed::ports::Testbed;
use crate::testbed::run::MeasuredSystem;
use crate::testbed::scenario::{Plan, Scenario};
use crate::testbed::sequence::Traffic;

/// New connections per second.
const ARRIVALS: [f64; 3] = [5_000.0, 20_000.0, 50_000.0];
/// Where the search for the highest rate begins, and where it ends at last.
const SEARCHED: (f64, f64) = (50_000.0, 800_000.0);
/// Nine of ten are short: ten packets and the ends of the connection within
/// 20 ms. The tenth stays 2 s, with 100 packets a second.
const CLASSES: [Class; 2] = [
    Class { weight: 0.9, lifetime: 0.02, interval: 0.002 },
    Class { weight: 0.1, lifetime: 2.0, interval: 0.01 },
];
/// One connection in so many ends in silence, without FIN.
const SILENT: u32 = 10;
/// The systems that open connections.
pub(crate) const SYSTEMS: [System; 3] = [System::Slb, System::HnlbQueue, System::HnlbMark];
/// Milliseconds before what is measured: longer than a silent connection is
/// remembered, so that as many go as come.
pub(crate) const WARM_MS: u64 = 450;
/// Seconds for which a connection that has ended may be remembered.
const REMEMBERED: f64 = 0.5;
/// Milliseconds of traffic beyond the measured ones: until both cores are at it.
const SPARE_MS: u64 = 100;
/// Requests for rules that may wait.
const REQUESTS: usize = 1 << 14;
/// Tries at a rate before it counts as too high: others may disturb one.
const TRIES: u32 = 2;
/// The share of the connections that come that must have been opened: what is
/// lost while others have a core is no loss, but nothing is learnt from it.
const OPENED: f64 = 0.9;
/// Losses beyond which a rate is too high, as a share of packets; and the share
/// that the source may be behind.
const LOSSES: (f64, f64) = (1e-5, 1e-3);

/// The rates that are measured.
pub(crate) const fn arrivals(quick: bool) -> &'static [f64] {
    if quick { &[20_000.0] } else { &ARRIVALS }
}

/// Most points of the search for the highest rate; none in a quick run.
pub(crate) const fn searched(quick: bool) -> usize {
    if quick { 0 } else { 8 }
}

impl Testbed {
    /// Connections that come and go, at several rates, and the highest rate
    /// without loss.
    ///
    /// # Errors
    /// Something needed is missing; see [`MeasureError`].
    pub fn churn(&mut self, options: &Options) -> Result<Vec<ChurnRow>, MeasureError> {
        let systems: Vec<System> =
            SYSTEMS.into_iter().filter(|system| options.systems.contains(system)).collect();
        let rates = arrivals(options.quick);
        let steps = rates.len() + searched(options.quick);
        let all = options.repetitions.max(1) as usize * steps * systems.len();
        let mut rows = Vec::new();
        let mut done = 0;
        for repetition in (0..options.repetitions.max(1)).take_while(|&n| !options.ended(n)) {
            for &rate in rates {
                let script = Script::of(rate, options.point_ms, repetition)?;
                for &system in systems.iter().take_while(|_| !options.stopped()) {
                    rows.push(self.rate(system, &script, repetition, options)?);
                    done += 1;
                    options.tell(Part::Churn, done, all);
                }
            }
            let searching = || searched(options.quick) > 0 && !options.stopped();
            for &system in systems.iter().take_while(|_| searching()) {
                rows.extend(self.highest(system, repetition, options)?);
                done += searched(options.quick);
                options.tell(Part::Churn, done, all);
            }
        }
        options.tell(Part::Churn, 1, 1);
        Ok(rows)
    }

    /// The highest rate of new connections without loss, and what was in the
    /// way of a higher one; `None` if every rate was too high.
    fn highest(
        &mut self,
        system: System,
        repetition: u32,
        options: &Options,
    ) -> Result<Option<ChurnRow>, MeasureError> {
        let mut search = RateSearch::new(SEARCHED.0, SEARCHED.1, searched(options.quick));
        let (mut best, mut bound) = (None::<ChurnRow>, "the search");
        while let Some(rate) = search.next() {
            let script = Script::of(rate, options.point_ms, repetition)?;
            let mut held = false;
            for _ in 0..TRIES {
                let row = self.rate(system, &script, repetition, options)?;
                let why = too_much(&row);
                held = why.is_none();
                match why {
                    None => best = Some(ChurnRow { highest: true, ..row }),
                    Some(why) => bound = why,
                }
                if held {
                    break;
                }
            }
            search.told(held);
        }
        if search.reached_the_end() {
            bound = "the search";
        }
        Ok(best.map(|row| ChurnRow { bound: bound.to_owned(), ..row }))
    }

    /// One point; again, if others had the cores for too long.
    fn rate(
        &mut self,
        system: System,
        script: &Script,
        repetition: u32,
        options: &Options,
    ) -> Result<ChurnRow, MeasureError> {
        let mut best = self.rate_once(system, script, options)?;
        let tries = if options.is_late() { 1 } else { WISHED };
        for _ in (1..tries).take_while(|_| !options.stopped()) {
            if best.1 >= UNDISTURBED {
                break;
            }
            let next = self.rate_once(system, script, options)?;
            if next.1 > best.1 {
                best = next;
            }
        }
        Ok(ChurnRow { repetition, ..best.0 })
    }

    /// One point, and how well it was measured ([`Measured::worth`]).
    fn rate_once(
        &mut self,
        system: System,
        script: &Script,
        options: &Options,
    ) -> Result<(ChurnRow, f64), MeasureError> {
        let Script { open, room, .. } = *script;
        let card = system.card(10);
        let in_nic = if system.encoding() == Encoding::Off { 0 } else { open };
        // Queues that are not polled would never be seen to be empty.
        let queues = card.queues;
        let of = Plan::of(room, 10, system.encoding());
        let mut scenario = Scenario::build(Plan { open, in_nic, queues, brief: true, ..of })?;
        let mut subject = Subjects::of(&scenario, Traffic::Uniform).make(system, 0)?;
        let (requests, asked) = rtrb::RingBuffer::new(REQUESTS);
        let measured_system = MeasuredSystem {
            subject: &mut *subject,
            // The servers' port has no rules.
            queues: [0..usize::from(queues), 0..1],
            requests: Some(requests),
            warm_up_ms: WARM_MS,
        };
        let mut tally = Tally::default();
        let told = &mut tally;
        let scenario = &mut scenario;
        let measured = self.measure_with(measured_system, options, move |rings| {
            let (sent, counted) =
                ChurnClients::new(rings, scenario, &script.packets, asked, WARM_MS).send();
            *told = counted;
            sent
        })?;
        Ok((row(system, script, &measured, &tally), measured.worth()))
    }
}

fn row(system: System, script: &Script, measured: &Measured, tally: &Tally) -> ChurnRow {
    let counts = tally.counts;
    let a_second = |count: u64| count as f64 / tally.seconds.max(1e-9);
    ChurnRow {
        figure: "churn".to_owned(),
        system: system.name().to_owned(),
        arrivals_per_second: script.arrivals,
        opened_per_second: a_second(counts.opened),
        removed_per_second: a_second(counts.removed),
        rules_made_per_second: a_second(counts.created),
        rules_undone_per_second: a_second(counts.destroyed),
        connections: script.open.into(),
        mpps: measured.offered_mpps(),
        ns_per_packet: measured.ns_per_packet(),
        util: measured.util(),
        matched: counts.matched as f64 / counts.asked.max(1) as f64,
        loss: measured.loss(),
        behind: tally.behind as f64 / (tally.behind + tally.sent).max(1) as f64,
        highest: false,
        bound: "-".to_owned(),
        repetition: 0,
    }
}

/// Why the rate of `row` is too high; `None`: it isn't.
fn too_much(row: &ChurnRow) -> Option<&'static str> {
    let (most, behind) = LOSSES;
    if row.loss > most {
        Some("loss")
    } else if row.behind > behind {
        Some("the source")
    } else if row.opened_per_second < OPENED * row.arrivals_per_second {
        Some("others")
    } else {
        None
    }
}

/// What the clients send.
struct Script {
    arrivals: f64,
    /// Connections that are open at the start: those numbered below this.
    open: u32,
    /// Connections that the table has room for.
    room: u32,
    packets: Vec<ChurnPacket>,
}

impl Script {
    fn of(arrivals: f64, point_ms: u64, seed: u32) -> Result<Self, MeasureError> {
        let churn = Churn::established(arrivals, &CLASSES, seed.into())?;
        let open = churn.open() as u32;
        let end = (point_ms + WARM_MS + SPARE_MS) * 1_000_000;
        let told = |packet: &ChurnPacket| {
            packet.phase != Phase::Close || packet.flow % SILENT != SILENT - 1
        };
        let packets = churn.take_while(|packet| packet.at_ns < end).filter(told).collect();
        // Those that are open, and those that have gone and are still remembered.
        let room = (f64::from(open) + arrivals * REMEMBERED) * 1.5;
        Ok(Self { arrivals, open, room: room as u32, packets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::scenario::NIC_CAPACITY;

    #[test]
    fn a_script_opens_what_it_sends_and_closes_most() {
        let script = Script::of(20_000.0, 100, 3).unwrap();
        let mut open = script.open;
        assert!((3000..6000).contains(&open), "{open}");
        assert!((open as usize) < NIC_CAPACITY);
        let mut closed = 0;
        for packet in &script.packets {
            if packet.phase == Phase::Open {
                assert_eq!(packet.flow, open, "connections are numbered without gaps");
                open += 1;
            }
            closed += u32::from(packet.phase == Phase::Close);
            assert!(packet.flow < open);
        }
        let opened = f64::from(open - script.open);
        let seconds = (100 + WARM_MS + SPARE_MS) as f64 / 1e3;
        assert!((opened / (20_000.0 * seconds) - 1.0).abs() < 0.1, "{opened}");
        assert!((f64::from(closed) / opened - 0.9).abs() < 0.05, "one in ten is silent: {closed}");
    }
}
