//! The decisions, in numbers.

/// Samples of connections in software that led to no entry, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// There were too few packets yet, or too short a time, to know a rate.
    pub too_young: u64,
    /// The card is full, and the connections in it are not clearly lighter.
    pub too_light: u64,
    /// The connection is worth an entry but its turn has not come: the budget is used
    /// up, or no entry is free yet.
    pub in_turn: u64,
    /// The card has refused its rules lately.
    pub refused_by_card: u64,
}

/// Counts since the start, and the present state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Connections that were given an entry.
    pub admitted: u64,
    /// Connections whose entry was taken for a heavier one, or because the card
    /// holds fewer than before.
    pub evicted: u64,
    /// Connections chosen whose rules the card then refused.
    pub refused_by_card: u64,
    /// Connections chosen that had ended, or were not established.
    pub ended: u64,
    /// Samples of connections in software, by why they had no entry.
    pub passed: Passed,
    /// Samples, of all connections.
    pub samples: u64,
    /// Samples of connections with an entry, also counted in `samples`.
    pub samples_matched: u64,
    /// Connections with an entry, in line for one, or leaving it.
    pub held: usize,
    /// Connections in software whose rate is known.
    pub tracked: usize,
    /// Connections in software that are measured well enough for an entry.
    pub candidates: usize,
    /// Number of entries, as far as it is known; `None`: the card has never been
    /// full.
    pub limit: Option<usize>,
    /// Packets per second that a newcomer needs at present; 0: there is room for
    /// every measured connection.
    pub threshold: f64,
    /// Of the samples of the last second, the share of connections with an entry.
    pub share_matched: f64,
    /// Connections admitted in the last second.
    pub admitted_last_second: u64,
}
