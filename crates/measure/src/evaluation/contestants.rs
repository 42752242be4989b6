//! The systems of one setting, side by side.
use crate::report::Row;
use flow::Direction;

use crate::error::MeasureError;
use crate::evaluation::figure::{Figure, Setting};
use crate::evaluation::options::Options;
use crate::evaluation::part::Part;
use crate::systems::balancer::Hnlb;
use crate::systems::limit::Limit;
use crate::systems::slb_paper::SlbPaper;
use crate::systems::system::{Card, System};
use crate::testbed::frames::{Moulds, Shot};
use crate::testbed::measured::Measured;
use crate::testbed::ports::Testbed;
use crate::testbed::run::{Point, Subject};
use crate::testbed::sequence::{Sequence, Traffic};
use crate::testbed::source::Pace;
use crate::testbed::world::{Plan, QUEUES, World};

/// Packets on their way in a saturation run.
pub(crate) const WINDOW: usize = 1024;

/// Tries at a point of which nothing can be said, since the cores were somebody
/// else's; and at one in which they were so for too long.
const TRIES: u32 = 20;
pub(crate) const WISHED: u32 = 3;
/// The share of a point's time in which both cores should be there.
pub(crate) const CALM: f64 = 0.6;

/// The systems of one setting, ready.
pub(crate) struct Stage {
    pub(crate) connections: u32,
    pub(crate) entrants: Vec<Entrant>,
    setting: Setting,
    moulds: Moulds,
    longest: usize,
    worlds: Vec<World>,
    /// By world.
    shots: Vec<Vec<Shot>>,
}

/// One system on the stage.
pub(crate) struct Entrant {
    pub(crate) system: System,
    pub(crate) matched: f64,
    subject: Subject,
    /// Which of the stage's worlds is its.
    world: usize,
    card: Card,
    queues: [usize; 2],
}

impl Stage {
    /// Opens the setting's connections for each of `systems` for which the
    /// setting makes sense.
    pub(crate) fn build(setting: Setting, systems: &[System]) -> Result<Self, MeasureError> {
        let Setting { connections, backends, size, traffic } = setting;
        let directions = traffic.directions();
        let sequence = traffic.sequence(connections, size, 1)?;
        let mut stage = Self {
            connections: sequence.connections,
            entrants: Vec::with_capacity(System::ALL.len()),
            setting,
            moulds: Moulds::new(traffic.proto()),
            longest: 0,
            worlds: Vec::new(),
            shots: Vec::new(),
        };
        for card in cards(systems, backends) {
            let of_card = || {
                let some = systems.iter().copied().filter(|s| is_alike(s.card(backends), card));
                // One action for all packets knows one direction only.
                some.filter(|s| *s != System::Limit || directions.len() == 1)
            };
            if of_card().next().is_none() {
                continue;
            }
            let plan = Plan {
                queues: if card.shares { card.queues } else { QUEUES },
                shares: card.shares,
                both_ways: directions.len() > 1,
                one_way: directions.len() == 1,
                proto: traffic.proto(),
                ..Plan::of(sequence.connections, card.backends, card.encoding)
            };
            let world = World::build(plan)?;
            for system in of_card() {
                stage.entrants.push(Entrant {
                    system,
                    matched: 0.0,
                    subject: subject(system, &world, traffic)?,
                    world: stage.worlds.len(),
                    card: system.card(backends),
                    queues: queues(system, backends, directions),
                });
            }
            stage.worlds.push(world);
        }
        stage.aim(&sequence);
        Ok(stage)
    }

    /// The stage for `setting`: the one before, if its connections are the same
    /// and only come in another order.
    fn after(
        before: Option<Self>,
        setting: Setting,
        systems: &[System],
    ) -> Result<Self, MeasureError> {
        match before {
            Some(mut stage) if stage.setting.world() == setting.world() => {
                let Setting { connections, size, traffic, .. } = setting;
                stage.setting = setting;
                stage.aim(&traffic.sequence(connections, size, 1)?);
                Ok(stage)
            }
            before => {
                // Its memory is free before more is taken.
                drop(before);
                Self::build(setting, systems)
            }
        }
    }

    /// Makes the shots of `sequence` for all worlds.
    fn aim(&mut self, sequence: &Sequence) {
        let sizes = sequence.draws.iter().map(|draw| usize::from(draw.size));
        self.longest = sizes.max().unwrap_or(64);
        self.shots.clear();
        for (at, world) in self.worlds.iter().enumerate() {
            let (shots, matched) = shots(world, sequence);
            self.shots.push(shots);
            for entrant in self.entrants.iter_mut().filter(|entrant| entrant.world == at) {
                entrant.matched = matched;
            }
        }
    }
}

/// What is sent, and the share of it that the NIC has matched.
fn shots(world: &World, sequence: &Sequence) -> (Vec<Shot>, f64) {
    let mut hits = 0_u64;
    let shots = sequence.draws.iter().filter_map(|draw| {
        let (shot, matched) = world.shot(draw.connection, draw.direction, draw.size)?;
        hits += u64::from(matched);
        Some(shot)
    });
    let shots: Vec<Shot> = shots.collect();
    let share = hits as f64 / shots.len().max(1) as f64;
    (shots, share)
}

/// `system` with the connections of `world`.
pub(crate) fn subject(
    system: System,
    world: &World,
    traffic: Traffic,
) -> Result<Subject, MeasureError> {
    Ok(match system {
        System::Limit => {
            let action = world.action(0, Direction::Forward);
            let limit = action.and_then(|(_, action)| Limit::new(action, traffic.proto()));
            Subject::Limit(limit.ok_or(MeasureError::NotOpened(0, world.open().into()))?)
        }
        System::SlbPaper => {
            Subject::SlbPaper(Box::new(SlbPaper::new(world, traffic.directions())?))
        }
        System::Slb | System::HnlbQueue | System::HnlbMark | System::HnlbShared => {
            Subject::Hnlb(Box::new(Hnlb::new(world)?))
        }
    })
}

/// The cards of `systems`, those of one world once.
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
pub(crate) fn queues(system: System, backends: u8, directions: &[Direction]) -> [usize; 2] {
    let each = usize::from(system.card(backends).queues.min(QUEUES));
    [each, if directions.contains(&Direction::Reply) { each } else { 0 }]
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
            let mut stage = Stage::after(before.take(), *setting, &options.systems)?;
            for repetition in (0..repetitions).take_while(|&n| !own.ended(n as u32)) {
                for at in 0..stage.entrants.len() {
                    if options.stopped() {
                        break;
                    }
                    self.entrant(&mut stage, at, figure, options, repetition as u32, &mut rows)?;
                    let done = (place * repetitions + repetition) * options.systems.len() + at + 1;
                    options.tell(Part::Figure(figure), done, all);
                }
            }
            options.tell(Part::Figure(figure), place + 1, settings.len());
            before = Some(stage);
        }
        if rows.is_empty() && !options.stopped() && !settings.is_empty() {
            return Err(MeasureError::NoPackets("the load balancer"));
        }
        Ok(rows)
    }

    /// One repetition of one system: a point, or from no traffic to more than
    /// it can.
    fn entrant(
        &mut self,
        stage: &mut Stage,
        at: usize,
        figure: Figure,
        options: &Options,
        repetition: u32,
        rows: &mut Vec<Row>,
    ) -> Result<(), MeasureError> {
        let rates = figure.rates(options.quick);
        let Some(best) = self.point(stage, at, None, options)? else { return Ok(()) };
        let number = figure.number();
        rows.push(Row { figure: number, repetition, ..stage.row(at, &best, false) });
        let most = best.most();
        for part in rates {
            if options.stopped() {
                break;
            }
            if let Some(measured) = self.point(stage, at, Some((most * part, false)), options)? {
                rows.push(Row { figure: number, repetition, ..stage.row(at, &measured, true) });
            }
        }
        Ok(())
    }

    /// One point; `offered`: at which rate in Mpps and whether packets carry
    /// their time, or as much as is taken. Again, if others had the cores for too
    /// long; `None` if nothing can be said of it.
    pub(crate) fn point(
        &mut self,
        stage: &mut Stage,
        at: usize,
        offered: Option<(f64, bool)>,
        options: &Options,
    ) -> Result<Option<Measured>, MeasureError> {
        let Stage { entrants, moulds, longest, shots, .. } = stage;
        let nobody = MeasureError::NoPackets("nobody");
        let entrant = entrants.get_mut(at).ok_or(nobody)?;
        let shots = shots.get(entrant.world).map_or(&[][..], Vec::as_slice);
        let pace = match offered {
            None => Pace::Closed(WINDOW),
            Some((mpps, stamped)) => Pace::Open { rate: mpps * 1e6, stamped },
        };
        let wished = if options.is_late() { 1 } else { WISHED };
        let mut best: Option<Measured> = None;
        for tried in 1..=TRIES {
            let queues = entrant.queues;
            let point = Point { shots, moulds, longest: *longest, queues, pace, aside: None };
            let measured = if options.alone && offered.is_none() {
                self.measure_alone(&mut entrant.subject, point, options)?
            } else {
                self.measure(&mut entrant.subject, point, options)?
            };
            let near = measured.near;
            let packets = offered.is_none_or(|(mpps, _)| mpps > 0.0);
            // The calmest one is worth nothing if no packet came.
            let better = best.as_ref().is_none_or(|best| best.worth() < measured.worth());
            if better && measured.is_usable(packets) {
                best = Some(measured);
            }
            if best.as_ref().is_some_and(|best| tried >= wished || best.worth() >= CALM) {
                return Ok(best);
            }
            if !near {
                self.await_near(options);
            }
            if options.stopped() {
                break;
            }
        }
        Ok(None)
    }
}

impl Stage {
    /// A row of what was measured of the entrant `at`.
    fn row(&self, at: usize, measured: &Measured, open_loop: bool) -> Row {
        let entrant = self.entrants.get(at);
        let mixed = matches!(self.setting.traffic, Traffic::Laslb(_));
        Row {
            figure: 0,
            system: entrant.map_or("", |entrant| entrant.system.name()).to_owned(),
            backends: entrant.map_or(0, |entrant| entrant.card.backends.into()),
            queues: entrant.map_or(0, |entrant| entrant.card.queues),
            connections: self.connections.into(),
            // Of mixed sizes, the greatest.
            packet_size: if mixed { self.longest as u16 } else { self.setting.size },
            mpps: measured.mpps().unwrap_or(0.0),
            ns_per_packet: measured.ns_per_packet().unwrap_or(0.0),
            util: measured.util(),
            util_plus: measured.util_plus(),
            loss: measured.loss(),
            offered_mpps: open_loop.then(|| measured.offered_mpps()),
            empty_polls: measured.empty_polls(),
            repetition: 0,
            traffic: self.setting.traffic.name().to_owned(),
            matched: entrant.map_or(0.0, |entrant| entrant.matched),
            dropped: measured.dropped.iter().sum(),
            stolen: measured.stolen(),
            distance_ns: measured.distance.unwrap_or(0.0),
        }
    }
}
