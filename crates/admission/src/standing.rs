//! Why one connection is, or is not, in hardware.
use std::fmt;

/// Why the card didn't take a connection's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CardRefusal {
    /// It can't take them, or the encoding can't express them.
    Unsupported,
    /// It refused them after several tries.
    Failed,
    /// Too many rules were in line.
    Crowded,
}

/// Why a connection has no entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// Nothing is offloaded.
    Off,
    /// Its handshake is not complete, or it is ending.
    NotEstablished,
    /// With the policy `all`: no worker has asked for it since its rules went, or the
    /// line was too long.
    NotAsked,
    /// None of its packets was sampled lately, or others were sampled more.
    Unseen {
        /// Packets per second below which that may happen.
        below: f64,
    },
    /// Too few samples to know a rate.
    TooYoung {
        /// Samples so far.
        samples: u64,
        /// Samples needed.
        needed: u64,
        /// Milliseconds it has been measured.
        measured_ms: u64,
        /// Milliseconds needed.
        needed_ms: u64,
    },
    /// It has not been seen for so long that it has probably ended.
    Silent {
        /// Milliseconds since its last sample.
        for_ms: u64,
    },
    /// The entries are taken, and none of their owners is clearly lighter.
    TooLight {
        /// Packets per second, at least.
        rate: f64,
        /// Packets per second that it would need.
        threshold: f64,
        /// Its place among all that are measured, the heaviest being 1.
        rank: usize,
    },
    /// It is worth an entry and its turn has not come.
    InTurn {
        /// Packets per second, at least.
        rate: f64,
        /// Packets per second that it needs.
        threshold: f64,
        /// Its place among those without an entry, the heaviest being 1.
        rank: usize,
    },
    /// The card has refused its rules.
    Refused {
        /// Why.
        why: CardRefusal,
        /// Milliseconds until it may be chosen again.
        again_in_ms: u64,
    },
}

/// A reason in a word, for totals over many connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// See [`Reason::Off`].
    Off,
    /// See [`Reason::NotEstablished`].
    NotEstablished,
    /// See [`Reason::NotAsked`].
    NotAsked,
    /// See [`Reason::Unseen`].
    Unseen,
    /// See [`Reason::TooYoung`].
    TooYoung,
    /// See [`Reason::Silent`].
    Silent,
    /// See [`Reason::TooLight`].
    TooLight,
    /// See [`Reason::InTurn`].
    InTurn,
    /// See [`Reason::Refused`].
    Refused(CardRefusal),
}

impl Reason {
    /// The reason in a word.
    #[must_use]
    pub const fn cause(&self) -> Cause {
        match self {
            Self::Off => Cause::Off,
            Self::NotEstablished => Cause::NotEstablished,
            Self::NotAsked => Cause::NotAsked,
            Self::Unseen { .. } => Cause::Unseen,
            Self::TooYoung { .. } => Cause::TooYoung,
            Self::Silent { .. } => Cause::Silent,
            Self::TooLight { .. } => Cause::TooLight,
            Self::InTurn { .. } => Cause::InTurn,
            Self::Refused { why, .. } => Cause::Refused(*why),
        }
    }
}

/// Where a connection stands, and since when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing {
    /// Served in software.
    Software {
        /// Why.
        reason: Reason,
        /// Since when, as far as is remembered.
        since_ms: Option<u64>,
        /// Packets per second, if measured.
        rate: Option<f64>,
    },
    /// Chosen, in line for its rules.
    InLine {
        /// Since when.
        since_ms: u64,
        /// Packets per second.
        rate: f64,
    },
    /// Its rules are in the card.
    Hardware {
        /// Since when.
        since_ms: u64,
        /// Packets per second.
        rate: f64,
        /// Its place among those with an entry, the heaviest being 1.
        rank: usize,
        /// Packets per second with which a newcomer would take an entry.
        threshold: f64,
    },
    /// Its rules are being taken back.
    Leaving {
        /// Since when.
        since_ms: u64,
        /// Packets per second.
        rate: f64,
    },
}

impl Standing {
    /// Packets per second, if measured.
    #[must_use]
    pub const fn rate(&self) -> Option<f64> {
        match self {
            Self::Software { rate, .. } => *rate,
            Self::InLine { rate, .. }
            | Self::Hardware { rate, .. }
            | Self::Leaving { rate, .. } => Some(*rate),
        }
    }
}

impl fmt::Display for CardRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unsupported => "it can't match this flow type, or the encoding can't express it",
            Self::Failed => "it would not, after several tries",
            Self::Crowded => "too many were in line",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("nothing is offloaded"),
            Self::NotEstablished => f.write_str("its handshake is not complete, or it is ending"),
            Self::NotAsked => f.write_str("it has not asked again, or the line was too long"),
            Self::Unseen { below } => {
                write!(f, "too few of its packets were sampled: below {below:.0} packets/s")
            }
            Self::TooYoung { samples, needed, measured_ms, needed_ms } => write!(
                f,
                "too young: {samples} samples of {needed} needed, measured for {measured_ms} ms of {needed_ms}"
            ),
            Self::Silent { for_ms } => {
                write!(f, "none of its packets was sampled for {for_ms} ms")
            }
            Self::TooLight { rate, threshold, rank } => write!(
                f,
                "too light: at least {rate:.0} packets/s, {threshold:.0} needed, rank {rank}"
            ),
            Self::InTurn { rate, threshold, rank } => write!(
                f,
                "its turn comes: at least {rate:.0} packets/s, {threshold:.0} needed, number {rank} in turn"
            ),
            Self::Refused { why, again_in_ms } => {
                write!(f, "the card refused it: {why}; again in {again_in_ms} ms")
            }
        }
    }
}
