//! How a bucket of a NIC's redirection table changes its worker without packets that
//! overtake others.
//!
//! No core sees a packet before its worker does, so nothing can hold a single bucket's
//! packets. Instead the new worker leaves its receive queue alone, the entry is written,
//! and when the old worker has emptied its queue of what had come before, the new one
//! goes on. What arrives meanwhile waits in the new worker's queue.
use crate::Move;

/// How buckets of a redirection table move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverOrder {
    /// The entry is written, and nothing waits: packets that the old worker still has are
    /// overtaken.
    Instant,
    /// The new worker waits until the old one has emptied its queue.
    Drain,
    /// As `Drain`, begun at a moment when the old worker has just emptied its queue, so that
    /// the new one hardly waits; without such a moment, after [`HandoverSettings::idle_ns`].
    Idle,
}

/// How a handover waits.
#[derive(Clone, Copy, Debug)]
pub struct HandoverSettings {
    /// How buckets move.
    pub order: HandoverOrder,
    /// Nanoseconds until the card goes by a written entry, and what went by the old one
    /// is in a receive queue.
    pub settle_ns: u64,
    /// The longest time in nanoseconds for which [`HandoverOrder::Idle`] looks for a moment
    /// when the old worker's queue is empty.
    pub idle_ns: u64,
    /// The longest time in nanoseconds until the new worker leaves its queue alone; then
    /// the move is given up.
    pub close_ns: u64,
    /// The longest time in nanoseconds from then on until the old worker has emptied its
    /// queue; then the new one goes on all the same.
    pub empty_ns: u64,
}

impl Default for HandoverSettings {
    /// In order; 1 ms for an idle moment, 50 us for the card, 5 ms for the new worker, and
    /// 50 ms for the old one: a worker that shares its core may not run for so long, and what
    /// it has is late anyway.
    fn default() -> Self {
        Self {
            order: HandoverOrder::Idle,
            idle_ns: 1_000_000,
            settle_ns: 50_000,
            close_ns: 5_000_000,
            empty_ns: 50_000_000,
        }
    }
}

/// What the owner of a [`Handover`] is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Have the bucket's new worker leave its queue alone, and tell [`Event::Closed`]
    /// when it does.
    Close(Move),
    /// Write the bucket's entry, and tell [`Event::Written`] or [`Event::Refused`].
    Write(Move),
    /// Tell [`Event::Emptied`] when the old worker has processed, and sent, what is in
    /// its queue now.
    Await(Move),
    /// Have the new worker poll its queue again.
    Open(Move),
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The new worker leaves its queue alone.
    Closed,
    /// The entry is written.
    Written,
    /// The driver refuses to write the entry.
    Refused,
    /// The old worker's queue has been emptied.
    Emptied,
}

/// Where a move is.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Idling,
    Closing,
    Writing,
    Settling { until_ns: u64 },
    Emptying,
}

/// What became of moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandoverTotals {
    /// Buckets that have another worker.
    pub moved: u64,
    /// Of these, those whose old worker did not empty its queue in time: its packets may
    /// have been overtaken.
    pub late: u64,
    /// Moves that the driver refused.
    pub refused: u64,
    /// Moves given up since the new worker did not answer in time.
    pub given_up: u64,
    /// The longest time in nanoseconds for which a worker left its queue alone.
    pub longest_ns: u64,
}

/// Carries out one move at a time: a worker that waits can't empty its queue for another.
#[derive(Debug)]
pub struct Handover {
    settings: HandoverSettings,
    /// The move on its way, since when, or since when the new worker has been asked to
    /// leave its queue alone, and where it is.
    now: Option<(Move, u64, Stage)>,
    totals: HandoverTotals,
}

impl Handover {
    /// A handover with nothing on its way.
    #[must_use]
    pub fn new(settings: HandoverSettings) -> Self {
        Self { settings, now: None, totals: HandoverTotals::default() }
    }

    /// Whether a move is on its way.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.now.is_some()
    }

    /// What became of moves so far.
    #[must_use]
    pub const fn totals(&self) -> HandoverTotals {
        self.totals
    }

    /// Begins a move; nothing happens while another is on its way.
    pub fn begin(&mut self, wanted: Move, now_ns: u64) -> Option<Command> {
        if self.is_busy() {
            return None;
        }
        let (stage, command) = match self.settings.order {
            HandoverOrder::Instant => (Stage::Writing, Command::Write(wanted)),
            HandoverOrder::Drain => (Stage::Closing, Command::Close(wanted)),
            HandoverOrder::Idle => (Stage::Idling, Command::Await(wanted)),
        };
        self.now = Some((wanted, now_ns, stage));
        Some(command)
    }

    /// Something has happened. An event that the present stage does not wait for changes
    /// nothing.
    pub fn tell(&mut self, event: Event, now_ns: u64) -> Option<Command> {
        let (wanted, since_ns, stage) = self.now?;
        match (stage, event) {
            (Stage::Idling, Event::Emptied) => self.close(wanted, now_ns),
            (Stage::Closing, Event::Closed) => {
                self.now = Some((wanted, since_ns, Stage::Writing));
                Some(Command::Write(wanted))
            }
            (Stage::Writing, Event::Written) => {
                self.totals.moved += 1;
                if self.settings.order == HandoverOrder::Instant {
                    self.now = None;
                    return None;
                }
                let until_ns = now_ns.saturating_add(self.settings.settle_ns);
                self.now = Some((wanted, since_ns, Stage::Settling { until_ns }));
                None
            }
            (Stage::Writing, Event::Refused) => {
                self.totals.refused += 1;
                self.end(now_ns)
            }
            (Stage::Emptying, Event::Emptied) => self.end(now_ns),
            _ => None,
        }
    }

    /// Time has passed.
    pub fn advance(&mut self, now_ns: u64) -> Option<Command> {
        let (wanted, since_ns, stage) = self.now?;
        let HandoverSettings { idle_ns, close_ns, empty_ns, .. } = self.settings;
        let waited_ns = now_ns.saturating_sub(since_ns);
        match stage {
            Stage::Idling if waited_ns >= idle_ns => self.close(wanted, now_ns),
            Stage::Closing if waited_ns >= close_ns => {
                self.totals.given_up += 1;
                self.end(now_ns)
            }
            Stage::Settling { until_ns } if now_ns >= until_ns => {
                self.now = Some((wanted, since_ns, Stage::Emptying));
                Some(Command::Await(wanted))
            }
            Stage::Emptying if waited_ns >= empty_ns => {
                self.totals.late += 1;
                self.end(now_ns)
            }
            _ => None,
        }
    }

    fn close(&mut self, wanted: Move, now_ns: u64) -> Option<Command> {
        self.now = Some((wanted, now_ns, Stage::Closing));
        Some(Command::Close(wanted))
    }

    fn end(&mut self, now_ns: u64) -> Option<Command> {
        let (wanted, since_ns, _) = self.now.take()?;
        if self.settings.order == HandoverOrder::Instant {
            return None;
        }
        let waited_ns = now_ns.saturating_sub(since_ns);
        self.totals.longest_ns = self.totals.longest_ns.max(waited_ns);
        Some(Command::Open(wanted))
    }
}
