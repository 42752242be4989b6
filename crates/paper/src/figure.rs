//! The figures: which points are measured for each.
use offload::Encoding;

use crate::balancer::Hnlb;
use crate::error::PaperError;
use crate::flows::{self, DATA, Shot};
use crate::limit::Limit;
use crate::plan::Options;
use crate::row::Row;
use crate::run::{Measured, Point, Subject};
use crate::slb_paper::SlbPaper;
use crate::source::Pace;
use crate::system::System;
use crate::testbed::Testbed;
use crate::traffic::Traffic;
use crate::world::{Plan, QUEUES, World};

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

/// Packets on their way in a saturation run.
pub(crate) const WINDOW: usize = 1024;

/// Tries at a point during which the source's core was somebody else's.
const TRIES: u32 = 5;

/// Frame sizes of figures 6 and 8.
const SIZES: [u16; 6] = [64, 128, 256, 512, 1024, 1518];

/// Offered rates of figures 7 and 8, as parts of what the system can.
const PARTS: [f64; 13] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2];

/// One curve's x value: everything but system and rate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setting {
    connections: u32,
    backends: u8,
    size: u16,
    traffic: Traffic,
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Fig4, Self::Fig5, Self::Fig6, Self::Fig7, Self::Fig8];

    /// Its number in the paper.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    fn settings(self, quick: bool) -> Vec<Setting> {
        let setting = |connections, size| Setting {
            connections,
            backends: 10,
            size,
            traffic: Traffic::Uniform,
        };
        let small: &[u32] = &[1, 10, 100, 1000, 8000];
        let large: &[u32] =
            if quick { &[1 << 16, 1 << 20] } else { &[1 << 16, 1 << 18, 1 << 20, 1 << 22] };
        match self {
            Self::Fig4 => vec![Setting { backends: 1, ..setting(1, 64) }],
            Self::Fig5 => {
                let uniform = small.iter().chain(large).map(|&n| setting(n, 64));
                let zipf = large.iter().flat_map(|&n| {
                    [1.0, 1.2].map(|a| Setting { traffic: Traffic::Zipf(a), ..setting(n, 64) })
                });
                uniform.chain(zipf).collect()
            }
            Self::Fig6 => SIZES.iter().map(|&size| setting(1000, size)).collect(),
            Self::Fig7 => [1, 100, 1000, 8000].iter().map(|&n| setting(n, 64)).collect(),
            Self::Fig8 => SIZES.iter().map(|&size| setting(1000, size)).collect(),
        }
    }

    const fn is_open_loop(self) -> bool {
        matches!(self, Self::Fig7 | Self::Fig8)
    }
}

/// The systems of one setting, ready.
struct Stage {
    setting: Setting,
    frame: Vec<u8>,
    entrants: Vec<Entrant>,
}

struct Entrant {
    system: System,
    subject: Subject,
    shots: Vec<Shot>,
    queues: usize,
    matched: f64,
}

impl Testbed {
    /// Measures `figure`. Rows come in the order of measurement: the systems
    /// by turns, one repetition after the other, for each setting.
    ///
    /// # Errors
    /// Something needed is missing; see [`PaperError`].
    pub fn run(&mut self, figure: Figure, options: &Options) -> Result<Vec<Row>, PaperError> {
        let mut settings = figure.settings(options.quick);
        if !options.connections.is_empty() {
            settings.retain(|setting| options.connections.contains(&setting.connections));
        }
        let rates = if figure.is_open_loop() { PARTS.len() + 1 } else { 1 };
        let all = settings.len() * options.systems.len() * rates * options.repetitions as usize;
        let mut rows = Vec::with_capacity(all);
        let mut done = 0;
        for setting in settings {
            let mut stage = Stage::build(setting, &options.systems)?;
            for repetition in 0..options.repetitions {
                for at in 0..stage.entrants.len() {
                    if figure.is_open_loop() {
                        self.curve(&mut stage, at, figure, options, repetition, &mut rows)?;
                    } else {
                        rows.push(self.point(&mut stage, at, figure, options, repetition, None)?);
                    }
                    done += rates;
                    if let Some(progress) = &options.progress {
                        progress(done, all);
                    }
                }
            }
        }
        Ok(rows)
    }

    /// One system from no traffic to more than it can.
    fn curve(
        &mut self,
        stage: &mut Stage,
        at: usize,
        figure: Figure,
        options: &Options,
        repetition: u32,
        rows: &mut Vec<Row>,
    ) -> Result<(), PaperError> {
        let best = self.point(stage, at, figure, options, repetition, None)?;
        // What the measured core can, also if the source was kept waiting.
        let most = best.mpps.max(1000.0 / best.ns_per_packet.max(1.0));
        for part in PARTS {
            let rate = Some(most * part);
            rows.push(self.point(stage, at, figure, options, repetition, rate)?);
        }
        Ok(())
    }

    /// One point; `offered` in Mpps, or as much as is taken.
    fn point(
        &mut self,
        stage: &mut Stage,
        at: usize,
        figure: Figure,
        options: &Options,
        repetition: u32,
        offered: Option<f64>,
    ) -> Result<Row, PaperError> {
        let Stage { setting, frame, entrants } = stage;
        let entrant = entrants.get_mut(at).ok_or(PaperError::NoPackets("nobody"))?;
        let pace = match offered {
            None => Pace::Closed(WINDOW),
            Some(mpps) => Pace::Open { rate: mpps * 1e6, stamped: false },
        };
        let point = Point { shots: &entrant.shots, frame, queues: entrant.queues, pace };
        let name = entrant.system.name();
        let mut tries = 0..TRIES;
        let measured = loop {
            let measured = if options.alone && offered.is_none() {
                self.measure_alone(&mut entrant.subject, &point, options)?
            } else {
                self.measure(&mut entrant.subject, &point, options)?
            };
            if offered.is_some() || measured.ns_per_packet().is_some() {
                break measured;
            }
            tries.next().ok_or(PaperError::NoPackets(name))?;
        };
        let row = Row {
            figure: figure.number(),
            system: name,
            connections: setting.connections.into(),
            packet_size: setting.size,
            matched: entrant.matched,
            traffic: setting.traffic.name(),
            repetition,
            ..row(&measured, offered.is_some())
        };
        Ok(row)
    }
}

/// The measured fields of a row.
fn row(measured: &Measured, open_loop: bool) -> Row {
    Row {
        figure: 0,
        system: "",
        connections: 0,
        packet_size: 0,
        mpps: measured.mpps().unwrap_or(0.0),
        ns_per_packet: measured.ns_per_packet().unwrap_or(0.0),
        util: measured.util(),
        util_plus: measured.util_plus(),
        loss: measured.loss(),
        offered_mpps: open_loop.then(|| measured.offered_mpps()),
        empty_polls: measured.empty_polls(),
        repetition: 0,
        traffic: "",
        matched: 0.0,
        dropped: measured.dropped,
        stolen: measured.stolen(),
    }
}

impl Stage {
    fn build(setting: Setting, systems: &[System]) -> Result<Self, PaperError> {
        let sequence = setting.traffic.sequence(setting.connections, 1);
        let mut entrants = Vec::with_capacity(System::ALL.len());
        for encoding in [Encoding::Off, Encoding::Queue, Encoding::Mark] {
            let of_encoding = systems.iter().copied().filter(|s| s.encoding() == encoding);
            if of_encoding.clone().next().is_none() {
                continue;
            }
            let Setting { connections, backends, .. } = setting;
            let world = World::build(Plan { connections, open: connections, backends, encoding })?;
            let shots: Vec<Shot> =
                sequence.iter().filter_map(|&n| world.shots.get(n as usize).copied()).collect();
            let hits = sequence.iter().filter(|&&n| world.matched.get(n as usize) == Some(&true));
            let matched = hits.count() as f64 / sequence.len().max(1) as f64;
            for system in of_encoding {
                entrants.push(Entrant {
                    system,
                    subject: subject(system, &world, connections)?,
                    shots: shots.clone(),
                    queues: queues(system, backends),
                    matched,
                });
            }
        }
        Ok(Self { setting, frame: flows::frame(0, setting.size, DATA), entrants })
    }
}

pub(crate) fn subject(
    system: System,
    world: &World,
    connections: u32,
) -> Result<Subject, PaperError> {
    Ok(match system {
        System::Limit => {
            let action = world.action(0).and_then(|(_, action)| Limit::new(action));
            Subject::Limit(action.ok_or(PaperError::NotOpened(0, connections.into()))?)
        }
        System::SlbPaper => Subject::SlbPaper(Box::new(SlbPaper::new(world, connections)?)),
        System::Slb | System::HnlbQueue | System::HnlbMark => {
            Subject::Hnlb(Box::new(Hnlb::new(world)?))
        }
    })
}

/// Queues that the system polls: with encoding `queue` one for misses and one
/// for each backend, otherwise one.
pub(crate) fn queues(system: System, backends: u8) -> usize {
    match system.encoding() {
        Encoding::Queue => usize::from(backends.min(QUEUES as u8 - 1)) + 1,
        Encoding::Mark | Encoding::Off | Encoding::Rewrite => 1,
    }
}
