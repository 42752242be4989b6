//! Whether a connection lives whose packets no worker sees: its rules' counters
//! tell.
use dpdk::flow::Counters;
use flow::Direction;
use service::Forwarding;

use super::event::{Command, Counted, Fact, Reading};
use super::{Commands, Connection};

/// Readings in which software had seen packets of a connection and one of its
/// rules had counted none, without one between them in which all had counted
/// some, until that rule is taken for lost.
const UNMATCHED: u8 = 3;
/// The connection table's clock ticks in so many milliseconds; what differs by
/// less than two ticks is the same.
const SAME_MS: u64 = 128;

/// What a reading has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
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
    fn read(&mut self, reading: &Reading, whole: bool) -> Seen {
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

impl<R> Connection<R> {
    pub(super) fn age(&mut self, direction: Direction, commands: &mut Commands<R>) {
        let spent = self.age_spent;
        let Some(installed) = self.installed_mut(direction) else { return };
        installed.aged = !spent;
        if self.is_aged() {
            commands.push(Command::Examine);
        }
    }

    /// Whether the card calls all rules idle.
    fn is_aged(&self) -> bool {
        self.is_unseen() && self.installed().all(|installed| installed.aged)
    }

    pub(super) fn counted(&mut self, reading: &Reading, commands: &mut Commands<R>) {
        if self.is_unseen() && self.read(reading, commands) == Seen::Lost {
            self.count_at_port(Fact::Astray, commands);
            self.withdraw(true, commands);
        }
    }

    /// The card or the ager takes the connection for idle. If its counters
    /// agree, its rules go.
    pub(super) fn examined(
        &mut self,
        reading: &Reading,
        idle_ms: Option<u64>,
        timeout_ms: u64,
        commands: &mut Commands<R>,
    ) {
        if !self.is_unseen() {
            return;
        }
        let aged = self.is_aged();
        let seen = self.read(reading, commands);
        if matches!(seen, Seen::Moved(_)) {
            // A card may go on naming a rule that was idle once.
            self.age_spent |= aged;
            return;
        }
        // The table's clock may have been set by a reading that came late.
        let late_ms = if aged { timeout_ms } else { SAME_MS };
        let idle = idle_ms.is_none_or(|idle| idle.saturating_add(late_ms) >= timeout_ms);
        if seen == Seen::Lost {
            self.count_at_port(Fact::Astray, commands);
        } else if idle {
            self.idle = true;
            self.count_at_port(Fact::Aged, commands);
        } else {
            return;
        }
        self.withdraw(true, commands);
    }

    /// What the counters show: `Moved`, `Still` or `Lost`.
    fn read(&mut self, reading: &Reading, commands: &mut Commands<R>) -> Seen {
        for (direction, counted) in Direction::BOTH.into_iter().zip(reading.rules) {
            let moved = matches!(counted, Some(Counted::New(new)) if new.packets > 0);
            if let (true, Some(installed)) = (moved, self.installed_mut(direction)) {
                installed.aged = false;
            }
        }
        let forwarding = self.held.map(|held| held.forwarding);
        // With one direction in software packets are to be expected there.
        let both = reading.rules.iter().flatten().count() == 2;
        let whole = both || forwarding.is_some_and(Forwarding::is_one_way);
        let seen = self.activity.read(reading, whole);
        match seen {
            Seen::Moved(packets) => {
                commands.push(Command::Rearm);
                commands.push(Command::Measured { packets });
            }
            Seen::Unmatched => {
                if forwarding == Some(Forwarding::Tunnel) {
                    // Its packets may have a traffic class: the next rule is a mark.
                    commands.push(Command::Unmatched);
                }
                return Seen::Lost;
            }
            Seen::Still | Seen::Lost => {}
        }
        seen
    }
}
