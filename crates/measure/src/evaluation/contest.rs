//! The systems of one setting, side by side.
use std::sync::Arc;

use crate::report::Row;
use flow::Direction;

use crate::error::MeasureError;
use crate::evaluation::figure::{Figure, Setting};
use crate::evaluation::options::Options;
use crate::evaluation::part::Part;
use crate::systems::balancer::{Balancer, Hnlb};
use crate::systems::limit::Limit;
use crate::systems::rte_hash::{Connections, SlbBulk, SlbPaper};
use crate::systems::system::{Card, System};
use crate::testbed::frames::{FrameSpec, Templates};
use crate::testbed::measured::Measured;
use crate::testbed::ports::Testbed;
use crate::testbed::run::{Point, Queues};
use crate::testbed::scenario::{Plan, QUEUES, Scenario};
use crate::testbed::sequence::{Sequence, Traffic};
use crate::testbed::source::Pace;

/// Packets on their way in a saturation run.
pub(crate) const WINDOW: usize = 1024;

/// Tries at a point of which nothing can be said, since other processes had the
/// cores; and at one in which they had them for too long.
const TRIES: u32 = 20;
pub(crate) const WISHED: u32 = 3;
/// The share of a point's time in which both cores should be there.
pub(crate) const UNDISTURBED: f64 = 0.6;

/// The systems of one setting, ready.
pub(crate) struct Contest {
    pub(crate) connections: u32,
    pub(crate) contestants: Vec<Contestant>,
    setting: Setting,
    templates: Templates,
    longest: usize,
    scenarios: Vec<Scenario>,
    /// By scenario.
    specs: Vec<Vec<FrameSpec>>,
}

/// One system on the contest.
pub(crate) struct Contestant {
    pub(crate) system: System,
    pub(crate) matched: f64,
    subject: Box<dyn Balancer>,
    /// Which of the contest's scenarios is its.
    scenario: usize,
    card: Card,
    queues: Queues,
}

impl Contest {
    /// Opens the setting's connections for each of `systems` for which the
    /// setting makes sense.
    pub(crate) fn build(setting: Setting, systems: &[System]) -> Result<Self, MeasureError> {
        let Setting { connections, backends, size, traffic } = setting;
        let directions = traffic.directions();
        let sequence = traffic.sequence(connections, size, 1)?;
        let mut contest = Self {
            connections: sequence.connections,
            contestants: Vec::with_capacity(System::ALL.len()),
            setting,
            templates: Templates::new(traffic.family(), traffic.proto()),
            longest: 0,
            scenarios: Vec::new(),
            specs: Vec::new(),
        };
        for card in cards(systems, backends) {
            let of_card = || {
                let some = systems.iter().copied().filter(|s| is_alike(s.card(backends), card));
                some.filter(|system| traffic.suits(*system))
            };
            if of_card().next().is_none() {
                continue;
            }
            let plan = Plan {
                queues: if card.shares { card.queues } else { QUEUES },
                shares: card.shares,
                both_ways: directions.len() > 1,
                mode: traffic.mode(),
                family: traffic.family(),
                proto: traffic.proto(),
                ..Plan::of(sequence.connections, card.backends, card.encoding)
            };
            let scenario = Scenario::build(plan)?;
            let mut subjects = Subjects::of(&scenario, traffic);
            for system in of_card() {
                contest.contestants.push(Contestant {
                    system,
                    matched: 0.0,
                    subject: subjects.make(system, 0)?,
                    scenario: contest.scenarios.len(),
                    card: system.card(backends),
                    queues: queues(system, backends, directions),
                });
            }
            contest.scenarios.push(scenario);
        }
        contest.write_specs(&sequence);
        Ok(contest)
    }

    /// The contest for `setting`: the one before, if its connections are the same
    /// and only come in another order.
    fn after(
        before: Option<Self>,
        setting: Setting,
        systems: &[System],
    ) -> Result<Self, MeasureError> {
        match before {
            Some(mut contest) if contest.setting.scenario() == setting.scenario() => {
                let Setting { connections, size, traffic, .. } = setting;
                contest.setting = setting;
                contest.write_specs(&traffic.sequence(connections, size, 1)?);
                Ok(contest)
            }
            before => {
                // Its memory is free before more is taken.
                drop(before);
                Self::build(setting, systems)
            }
        }
    }

    /// Makes the specs of `sequence` for all scenarios.
    fn write_specs(&mut self, sequence: &Sequence) {
        let sizes = sequence.draws.iter().map(|draw| usize::from(draw.size));
        self.longest = sizes.max().unwrap_or(64);
        self.specs.clear();
        for (at, scenario) in self.scenarios.iter().enumerate() {
            let (specs, matched) = specs(scenario, sequence);
            self.specs.push(specs);
            for contestant in
                self.contestants.iter_mut().filter(|contestant| contestant.scenario == at)
            {
                contestant.matched = matched;
            }
        }
    }
}

/// What is sent, and the share of it that the NIC has matched.
fn specs(scenario: &Scenario, sequence: &Sequence) -> (Vec<FrameSpec>, f64) {
    let mut hits = 0_u64;
    let specs = sequence.draws.iter().filter_map(|draw| {
        let (spec, matched) = scenario.spec(draw.connection, draw.direction, draw.size)?;
        hits += u64::from(matched);
        Some(spec)
    });
    let specs: Vec<FrameSpec> = specs.collect();
    let share = hits as f64 / specs.len().max(1) as f64;
    (specs, share)
}

/// Makes systems with the connections of a scenario.
pub(crate) struct Subjects<'s> {
    scenario: &'s Scenario,
    traffic: Traffic,
    /// The table of the systems that have `rte_hash`.
    rte_hash: Option<Arc<Connections>>,
}

impl<'s> Subjects<'s> {
    pub(crate) const fn of(scenario: &'s Scenario, traffic: Traffic) -> Self {
        Self { scenario, traffic, rte_hash: None }
    }

    pub(crate) const fn templates(&self) -> &'s Templates {
        &self.scenario.templates
    }

    /// `system` for worker number `worker`.
    pub(crate) fn make(
        &mut self,
        system: System,
        worker: usize,
    ) -> Result<Box<dyn Balancer>, MeasureError> {
        Ok(match system {
            System::Limit => {
                let action = self.scenario.action(0, Direction::Forward);
                let limit =
                    action.and_then(|(_, action)| Limit::new(&action, self.traffic.proto()));
                let open = self.scenario.open().into();
                Box::new(limit.ok_or(MeasureError::NotOpened(0, open))?)
            }
            System::SlbPaper => Box::new(SlbPaper(self.rte_hash()?)),
            System::SlbBulk => Box::new(SlbBulk::new(self.rte_hash()?)),
            System::Slb | System::HnlbQueue | System::HnlbMark | System::HnlbShared => {
                Box::new(Hnlb::new(self.scenario, worker)?)
            }
        })
    }

    fn rte_hash(&mut self) -> Result<Arc<Connections>, MeasureError> {
        if self.rte_hash.is_none() {
            let connections = Connections::new(self.scenario, self.traffic.directions())?;
            self.rte_hash = Some(Arc::new(connections));
        }
        self.rte_hash.clone().ok_or(MeasureError::NoPackets("a system that is not there"))
    }
}

/// The cards of `systems`, those of one scenario once.
pub(crate) fn cards(systems: &[System], backends: u8) -> Vec<Card> {
    let mut cards: Vec<Card> = Vec::new();
    for system in System::ALL.into_iter().filter(|system| systems.contains(system)) {
        let card = system.card(backends);
        if !cards.iter().any(|other| is_alike(*other, card)) {
            cards.push(card);
        }
    }
    cards
}

/// Whether both can have the same connections and rules.
fn is_alike(one: Card, other: Card) -> bool {
    (one.encoding, one.shares) == (other.encoding, other.shares)
}

/// Queues that the system polls, by port; of the servers' port none if nothing
/// comes from there.
pub(crate) fn queues(system: System, backends: u8, directions: &[Direction]) -> Queues {
    let card = system.card(backends);
    let end = usize::from((card.first + card.queues).min(QUEUES));
    let each = usize::from(card.first)..end;
    [each.clone(), if directions.contains(&Direction::Reply) { each } else { 0..0 }]
}

impl Testbed {
    /// Measures `figure`. Rows come in the order of measurement: the systems
    /// by turns, one repetition after the other, for each setting.
    ///
    /// # Errors
    /// Something needed is missing; see [`MeasureError`].
    pub fn run(&mut self, figure: Figure, options: &Options) -> Result<Vec<Row>, MeasureError> {
        let options = &Options { systems: figure.systems(&options.systems), ..options.clone() };
        let mut settings = figure.settings(options.quick);
        if !options.connections.is_empty() {
            settings.retain(|setting| options.connections.contains(&setting.connections));
        }
        let repetitions = options.repetitions.max(1) as usize;
        let all = settings.len() * repetitions * options.systems.len();
        let mut rows = Vec::new();
        let mut before = None;
        for (place, setting) in settings.iter().enumerate() {
            if options.stopped() {
                break;
            }
            let deadline = options.until(settings.len() - place);
            let own = Options { deadline, ..options.clone() };
            let mut contest = Contest::after(before.take(), *setting, &options.systems)?;
            for repetition in (0..repetitions).take_while(|&n| !own.ended(n as u32)) {
                for at in 0..contest.contestants.len() {
                    if options.stopped() {
                        break;
                    }
                    self.contestant(
                        &mut contest,
                        at,
                        figure,
                        options,
                        repetition as u32,
                        &mut rows,
                    )?;
                    let done = (place * repetitions + repetition) * options.systems.len() + at + 1;
                    options.tell(Part::Figure(figure), done, all);
                }
            }
            options.tell(Part::Figure(figure), place + 1, settings.len());
            before = Some(contest);
        }
        if rows.is_empty() && !options.stopped() && !settings.is_empty() {
            return Err(MeasureError::NoPackets("the load balancer"));
        }
        Ok(rows)
    }

    /// One repetition of one system: a point, or from no traffic to more than
    /// it can.
    fn contestant(
        &mut self,
        contest: &mut Contest,
        at: usize,
        figure: Figure,
        options: &Options,
        repetition: u32,
        rows: &mut Vec<Row>,
    ) -> Result<(), MeasureError> {
        let rates = figure.rates(options.quick);
        let Some(best) = self.point(contest, at, None, options)? else { return Ok(()) };
        let number = figure.number();
        rows.push(Row { figure: number, repetition, ..contest.row(at, &best, false) });
        let most = best.most();
        for part in rates {
            if options.stopped() {
                break;
            }
            if let Some(measured) = self.point(contest, at, Some((most * part, false)), options)? {
                rows.push(Row { figure: number, repetition, ..contest.row(at, &measured, true) });
            }
        }
        Ok(())
    }

    /// One point; `offered`: at which rate in Mpps and whether packets carry
    /// their time, or as much as is taken. Again, if others had the cores for too
    /// long; `None` if nothing can be said of it.
    pub(crate) fn point(
        &mut self,
        contest: &mut Contest,
        at: usize,
        offered: Option<(f64, bool)>,
        options: &Options,
    ) -> Result<Option<Measured>, MeasureError> {
        let Contest { contestants, templates, longest, specs, .. } = contest;
        let missing = MeasureError::NoPackets("a system that is not there");
        let contestant = contestants.get_mut(at).ok_or(missing)?;
        let specs = specs.get(contestant.scenario).map_or(&[][..], Vec::as_slice);
        let pace = match offered {
            None => Pace::Closed(WINDOW),
            Some((mpps, stamped)) => Pace::Open { rate: mpps * 1e6, stamped },
        };
        let wished = if options.is_late() { 1 } else { WISHED };
        let mut best: Option<Measured> = None;
        for tried in 1..=TRIES {
            let queues = contestant.queues.clone();
            let point =
                Point { specs, templates, longest: *longest, queues, pace, between_bursts: None };
            let subject = &mut *contestant.subject;
            let measured = if options.alone && offered.is_none() {
                let mut one = self.measure_alone(vec![(subject, point)], options)?;
                one.pop().ok_or(MeasureError::NoPackets("the load balancer"))?
            } else {
                self.measure(subject, point, options)?
            };
            let packets = offered.is_none_or(|(mpps, _)| mpps > 0.0);
            // The calmest one is worth nothing if no packet came.
            let better = best.as_ref().is_none_or(|best| best.worth() < measured.worth());
            if better && measured.is_usable(packets) {
                best = Some(measured);
            }
            if best.as_ref().is_some_and(|best| tried >= wished || best.worth() >= UNDISTURBED) {
                return Ok(best);
            }
            if options.stopped() {
                break;
            }
        }
        Ok(None)
    }
}

impl Contest {
    /// A row of what was measured of the contestant `at`.
    fn row(&self, at: usize, measured: &Measured, open_loop: bool) -> Row {
        let contestant = self.contestants.get(at);
        let mixed = matches!(self.setting.traffic, Traffic::Laslb(_));
        Row {
            figure: 0,
            system: contestant.map_or("", |contestant| contestant.system.name()).to_owned(),
            backends: contestant.map_or(0, |contestant| contestant.card.backends.into()),
            queues: contestant.map_or(0, |contestant| contestant.card.queues),
            connections: self.connections.into(),
            // Of mixed sizes, the greatest.
            packet_size: if mixed { self.longest as u16 } else { self.setting.size },
            mpps: measured.mpps(),
            ns_per_packet: measured.ns_per_packet(),
            util: measured.util(),
            util_plus: measured.util_plus(),
            loss: measured.loss(),
            offered_mpps: if open_loop { measured.offered_mpps() } else { None },
            empty_polls: measured.empty_polls(),
            repetition: 0,
            traffic: self.setting.traffic.name().to_owned(),
            matched: contestant.map_or(0.0, |contestant| contestant.matched),
            dropped: measured.dropped.iter().sum(),
            stolen: measured.stolen(),
            distance_ns: measured.distance,
        }
    }
}
