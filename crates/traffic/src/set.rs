//! The three traffic sets of the LASLB thesis, section 5.2.1, and a bursty one.
//!
//! The thesis made them with TRex profiles that it does not print, so these
//! are generators of our own with the figures that it does print. Where each
//! number comes from:
//!
//! | number | source |
//! |---|---|
//! | set 1: 1900 new connections a second | 5.2.1.1, read as of its first row, 1 Gbit/s |
//! | set 1, set 2: active connections by offered load ([`Load`]) | figure 5.2.1, columns "Average Active Flows" |
//! | set 1: 728 bytes on average; set 2: 707; set 3: 700 | figure 5.2.1, columns "Average Packet size" |
//! | 60 to 1500 bytes | 5.2.1.2 (elephants) and 5.2.1.3 (set 3); taken for set 1 too, whose text only says that packets in networks have 40 to 1500 |
//! | set 2: 20 elephants with 40 % of the traffic, in equal parts, the rest as set 1 | 5.2.1.2 |
//! | set 3: UDP | 5.2.1.3 |
//!
//! What follows from them:
//! - Packets a second are the offered load divided by the mean size; framing
//!   overhead is not counted.
//! - Mean lifetime of a connection in set 1: 3800 active / 1900 a second = 2.0 s
//!   (Little's law), used at every load and for the mice of set 2. So arrivals
//!   are active / 2.0 s. The thesis says that short and long connections are
//!   mixed but not how; lifetimes here are exponential.
//! - The 40 % of the elephants are read as bytes (its source for them speaks
//!   of bandwidth). With 707 bytes over all and 728 for the mice, 41.7 % of
//!   the packets are the elephants', of 677.7 bytes on average.
//! - Sizes have the greatest entropy for their range and mean ([`Sizes`]).
//! - Set 3 has no connections count in the thesis; it is a parameter.
//!
//! - Between the loads of the figure active connections are interpolated, beyond
//!   them in proportion to the load.
//!
//! [`Set::Bursty`] is the thesis' future work (7.1), with numbers of our own: set 2
//! whose elephants send in microbursts and change all at once, and whose mice pause
//! together.
//!
//! The columns "Average Open Flows" are not used: they count what was opened
//! over a run whose length is not given.

use crate::bursts::Bursts;
use crate::error::positive;
use crate::{Churn, Class, Phase, Rng, Sizes, TrafficError, Uniform};

/// Smallest and largest packet, in bytes.
const RANGE: (u16, u16) = (60, 1500);
/// Mean sizes in bytes, sets 1 to 3.
const MEANS: [f64; 3] = [728.0, 707.0, 700.0];
/// Mean lifetime of a connection in seconds, by Little's law.
const LIFETIME: f64 = 3800.0 / 1900.0;
/// Number of elephants in set 2.
const ELEPHANTS: u32 = 20;
/// The elephants' share of the bytes.
const ELEPHANT_BYTES: f64 = 0.4;
/// Where the mice of the bursty set begin, above all its elephants.
const BURSTY_MICE: u32 = 1 << 24;
/// The mice of the bursty set send in the first three quarters of this time.
const ON_OFF_NS: u64 = 10_000_000;
/// Links that elephants of the bursty set come over, each with its part of them.
const LINKS: u32 = 4;

/// Offered load, of those in figure 5.2.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Load {
    /// 1 Gbit/s.
    G1,
    /// 2 Gbit/s.
    G2,
    /// 5 Gbit/s.
    G5,
    /// 6 Gbit/s.
    G6,
    /// 8 Gbit/s.
    G8,
    /// 10 Gbit/s.
    G10,
    /// 15 Gbit/s.
    G15,
}

impl Load {
    /// All of them, ascending.
    pub const ALL: [Self; 7] =
        [Self::G1, Self::G2, Self::G5, Self::G6, Self::G8, Self::G10, Self::G15];

    /// The active connections of sets 1 and 2 at any load in Gbit/s.
    fn connections(gbps: f64) -> (f64, f64) {
        let mut below = (0.0, 0.0, 0.0);
        for load in Self::ALL {
            let row = load.row();
            if gbps <= row.0 {
                let part = (gbps - below.0) / (row.0 - below.0);
                let between = |low: f64, high: f64| low + part * (high - low);
                return (between(below.1, row.1), between(below.2, row.2));
            }
            below = row;
        }
        (below.1 * gbps / below.0, below.2 * gbps / below.0)
    }

    /// In Gbit/s, and the active connections of sets 1 and 2 at it.
    const fn row(self) -> (f64, f64, f64) {
        match self {
            Self::G1 => (1.0, 3_800.0, 1_900.0),
            Self::G2 => (2.0, 11_600.0, 5_800.0),
            Self::G5 => (5.0, 19_500.0, 9_800.0),
            Self::G6 => (6.0, 27_700.0, 11_300.0),
            Self::G8 => (8.0, 35_800.0, 16_600.0),
            Self::G10 => (10.0, 45_300.0, 20_000.0),
            Self::G15 => (15.0, 100_000.0, 35_900.0),
        }
    }

    /// In Gbit/s.
    #[must_use]
    pub const fn gbps(self) -> f64 {
        self.row().0
    }
}

/// Which traffic set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// Traffic set 1, balanced: many connections that come and go.
    Balanced,
    /// Traffic set 2, imbalanced: 20 elephants and the connections of set 1.
    Imbalanced,
    /// Set 2 with elephants that send bursts of 32 packets at the rate of a 10 Gbit/s
    /// link and give way to 20 others every 250 ms, and mice that all pause for 2.5 ms of
    /// every 10.
    Bursty,
    /// Traffic set 3: UDP packets of this many flows, all alike.
    Udp {
        /// Number of flows.
        flows: u32,
    },
}

/// A timed packet of a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// When it comes, in nanoseconds from the start.
    pub at_ns: u64,
    /// Its flow; in set 2 the elephants are 0 to 19, in the bursty set the numbers below
    /// 2^24.
    pub flow: u32,
    /// Its size in bytes.
    pub size: u16,
    /// Where in its connection's life; [`Phase::Data`] for UDP and elephants.
    pub phase: Phase,
}

/// Packets of one of the sets at an offered load, from a moment in the middle
/// of the run: connections are open already.
#[derive(Debug, Clone)]
pub struct TrafficSet {
    parts: Vec<Part>,
}

/// Packets of one kind, with the next one looked at already.
#[derive(Debug, Clone)]
struct Part {
    source: Source,
    sizes: Sizes,
    next: Packet,
}

#[derive(Debug, Clone)]
enum Source {
    /// Connections that come and go, numbered from `first` on.
    Mice { churn: Churn, first: u32 },
    /// Flows that stay, as a Poisson stream.
    Steady { flows: Uniform, rng: Rng, interval: f64, now: f64 },
    /// As [`Source::Mice`], all in the first part of every [`ON_OFF_NS`].
    Pausing { churn: Churn, first: u32 },
    /// Flows that burst and change.
    Bursting(Bursts),
}

impl TrafficSet {
    /// The packets of a set at a load.
    ///
    /// # Errors
    /// [`TrafficError::NoFlows`] for UDP of no flows.
    pub fn new(set: Set, load: Load, seed: u64) -> Result<Self, TrafficError> {
        Self::at(set, load.gbps(), seed)
    }

    /// The packets of a set at any load in Gbit/s.
    ///
    /// # Errors
    /// [`TrafficError::NoFlows`] for UDP of no flows, [`TrafficError::NotPositive`] for
    /// a load that is not above 0.
    pub fn at(set: Set, gbps: f64, seed: u64) -> Result<Self, TrafficError> {
        positive("load", gbps)?;
        let mut rng = Rng::new(seed);
        let (balanced, imbalanced) = Load::connections(gbps);
        let rate = |mean: f64| gbps * 1e9 / 8.0 / mean;
        let [one, two, three] = MEANS;
        let parts = match set {
            Set::Balanced => vec![Part::mice(rate(one), balanced, 0, &mut rng)?],
            Set::Bursty => {
                let (mice, mean) = mice_and_mean();
                let each = rate(two) * (1.0 - mice) / f64::from(LINKS);
                let mut parts = Vec::new();
                for link in 0..LINKS {
                    let bursts = Bursts::new(link, ELEPHANTS / LINKS, ELEPHANTS, each, &mut rng)?;
                    parts.push(Part::new(Source::Bursting(bursts), mean, &mut rng)?);
                }
                let active = imbalanced - f64::from(ELEPHANTS);
                let mice = churn(rate(two) * mice, active, &mut rng)?;
                let source = Source::Pausing { churn: mice, first: BURSTY_MICE };
                parts.push(Part::new(source, MEANS[0], &mut rng)?);
                parts
            }
            Set::Imbalanced => {
                let (mice, mean) = mice_and_mean();
                let elephants = rate(two) * (1.0 - mice);
                vec![
                    Part::steady(elephants, ELEPHANTS, mean, &mut rng)?,
                    Part::mice(
                        rate(two) * mice,
                        imbalanced - f64::from(ELEPHANTS),
                        ELEPHANTS,
                        &mut rng,
                    )?,
                ]
            }
            Set::Udp { flows } => vec![Part::steady(rate(three), flows, three, &mut rng)?],
        };
        Ok(Self { parts })
    }
}

impl Iterator for TrafficSet {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        self.parts.iter_mut().min_by_key(|part| part.next.at_ns)?.take()
    }
}

/// The mice's share of the packets of set 2, and the mean size of the elephants'.
fn mice_and_mean() -> (f64, f64) {
    let mice = (1.0 - ELEPHANT_BYTES) * MEANS[1] / MEANS[0];
    (mice, ELEPHANT_BYTES * MEANS[1] / (1.0 - mice))
}

/// `rate` packets a second of `active` connections.
fn churn(rate: f64, active: f64, rng: &mut Rng) -> Result<Churn, TrafficError> {
    let arrivals = active / LIFETIME;
    // Each connection's first and last packet come on top of those at intervals.
    let interval = active / (rate - 2.0 * arrivals);
    let class = Class { weight: 1.0, lifetime: LIFETIME, interval };
    Churn::established(arrivals, &[class], rng.next_u64())
}

impl Part {
    /// `rate` packets a second of `active` connections.
    fn mice(rate: f64, active: f64, first: u32, rng: &mut Rng) -> Result<Self, TrafficError> {
        let churn = churn(rate, active, rng)?;
        Self::new(Source::Mice { churn, first }, MEANS[0], rng)
    }

    /// `rate` packets a second of `flows` flows that stay.
    fn steady(rate: f64, flows: u32, mean: f64, rng: &mut Rng) -> Result<Self, TrafficError> {
        let uniform = Uniform::new(flows, rng.next_u64())?;
        let interval = 1.0 / rate;
        Self::new(
            Source::Steady { flows: uniform, rng: rng.split(), interval, now: 0.0 },
            mean,
            rng,
        )
    }

    fn new(source: Source, mean: f64, rng: &mut Rng) -> Result<Self, TrafficError> {
        let sizes = Sizes::new(RANGE.0, RANGE.1, mean, rng.next_u64())?;
        let nothing = Packet { at_ns: 0, flow: 0, size: 0, phase: Phase::Data };
        let mut part = Self { source, sizes, next: nothing };
        part.take();
        Ok(part)
    }

    /// The next packet; looks at the one after it.
    fn take(&mut self) -> Option<Packet> {
        let size = self.sizes.next()?;
        let following = match &mut self.source {
            Source::Mice { churn, first } => {
                let packet = churn.next()?;
                let flow = packet.flow.wrapping_add(*first);
                Packet { at_ns: packet.at_ns, flow, size, phase: packet.phase }
            }
            Source::Pausing { churn, first } => {
                let packet = churn.next()?;
                let flow = packet.flow.wrapping_add(*first);
                let begin = packet.at_ns / ON_OFF_NS * ON_OFF_NS;
                let at_ns = begin + (packet.at_ns - begin) / 4 * 3;
                Packet { at_ns, flow, size, phase: packet.phase }
            }
            Source::Bursting(bursts) => {
                let (at_ns, flow) = bursts.next()?;
                Packet { at_ns, flow, size, phase: Phase::Data }
            }
            Source::Steady { flows, rng, interval, now } => {
                *now += rng.exponential(*interval);
                let at_ns = (*now * 1e9) as u64;
                Packet { at_ns, flow: flows.next()?, size, phase: Phase::Data }
            }
        };
        Some(std::mem::replace(&mut self.next, following))
    }
}
