//! Whether a connection lives whose packets no worker sees: its rules' counters
//! tell.
use dpdk::flow::Counters;

use super::event::{Counted, Reading};

/// Readings in which software had seen packets of a connection and one of its
/// rules had counted none, without one between them in which all had counted
/// some, until that rule is taken for lost.
const UNMATCHED: u8 = 3;
/// The connection table's clock ticks in so many milliseconds; what differs by
/// less than two ticks is the same.
pub(super) const SAME_MS: u64 = 128;

/// What a reading has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// So many packets.
    Moved(u64),
    /// No packets.
    Still,
    /// The card has lost a rule.
    Lost,
    /// The packets don't match a rule that is there.
    Unmatched,
}

/// What the rules of one connection have counted.
#[derive(Debug, Default)]
pub(super) struct Activity {
    total: Counters,
    /// When the counters were last read.
    read_ms: u64,
    /// When the timeout was last started anew because a counter had moved.
    rearmed_ms: u64,
    /// How often software has seen packets while a rule counted none.
    unmatched: u8,
}

impl Activity {
    /// Takes note of a reading. `whole`: all packets of the connection should
    /// meet a rule.
    pub(super) fn read(&mut self, reading: &Reading, whole: bool) -> Seen {
        self.read_ms = reading.now_ms;
        let mut sum = Counters::default();
        let mut still = 0;
        for counted in reading.rules.into_iter().flatten() {
            let Counted::New(new) = counted else { return Seen::Lost };
            still += usize::from(new.packets == 0);
            sum.packets += new.packets;
            sum.bytes += new.bytes;
        }
        self.total.packets += sum.packets;
        self.total.bytes += sum.bytes;
        let touched = reading.touched_ms > self.rearmed_ms.saturating_add(SAME_MS);
        if still == 0 {
            self.unmatched = 0;
        } else if touched && whole {
            self.unmatched = self.unmatched.saturating_add(1);
        }
        if touched {
            self.rearmed_ms = reading.touched_ms;
        }
        if self.unmatched >= UNMATCHED {
            return Seen::Unmatched;
        }
        if sum.packets == 0 {
            return Seen::Still;
        }
        self.rearmed_ms = reading.now_ms;
        Seen::Moved(sum.packets)
    }

    /// What the rules have counted in all.
    pub(super) const fn total(&self) -> Counters {
        self.total
    }

    /// Whether the counters were last read at least `every_ms` ago.
    pub(super) const fn is_due(&self, now_ms: u64, every_ms: u64) -> bool {
        now_ms >= self.read_ms.saturating_add(every_ms)
    }
}
