//! The parts of a whole run.
use crate::evaluation::figure::Figure;

/// One part of a run, which has a command of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// A figure of the paper.
    Figure(Figure),
    /// The cost of new connections and of rule installation.
    New,
    /// The latency.
    Latency,
    /// Connections that come and go.
    Churn,
    /// Several workers.
    Workers,
}

impl Part {
    /// All of them, in the order of a whole run.
    pub const ALL: [Self; 9] = [
        Self::Figure(Figure::Fig4),
        Self::Figure(Figure::Fig5),
        Self::Figure(Figure::Fig6),
        Self::Figure(Figure::Fig7),
        Self::Figure(Figure::Fig8),
        Self::Latency,
        Self::New,
        Self::Churn,
        Self::Workers,
    ];

    /// Its name for readers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Figure(Figure::Fig4) => "figure 4",
            Self::Figure(Figure::Fig5) => "figure 5",
            Self::Figure(Figure::Fig6) => "figure 6",
            Self::Figure(Figure::Fig7) => "figure 7",
            Self::Figure(Figure::Fig8) => "figure 8",
            Self::New => "new connections",
            Self::Latency => "latency",
            Self::Churn => "churn",
            Self::Workers => "workers",
        }
    }
}
