//! What the offload side knows of one connection, as a state machine: events
//! go in, commands come out, and nothing else happens.
//!
//! Each direction of a connection is in one of five stages:
//!
//! ```text
//!                 Wanted: LineUp                Turn: Hold, Create
//!    ┌──────────┐ ─────────────► ┌─────────────┐ ─────────────┐
//!    │ Software │                │ Waiting     │              │ Full, Failed:
//!    │          │ ◄───────────── │ (at a port) │ ◄────────────┤ LineUp again
//!    └──────────┘ Gone, Refused, └─────────────┘              │
//!          ▲      Withdrawn             ▲                     │ Created
//!          │                            └── Refused or Failed, ▼
//!          │                       fallback: LineUp  ┌───────────┐
//!          │ Settled                                 │ Installed │
//!          │                                         └───────────┘
//!    ┌──────────┐   Destroyed    ┌────────────┐            │ Withdrawn, Idle, Lingered, Reopened,
//!    │ Settling │ ◄───────────── │ Destroying │ ◄──────────┘ NextHopChanged, NotCreated, Counted,
//!    └──────────┘                └────────────┘   Destroy    Examined, Audited
//! ```
//!
//! The directions are independent: the card may have taken the rule of one and
//! refused the other's. What they share is the hold. Before the first rule is
//! made the connection is held ([`Command::Hold`]), so that neither its binding
//! nor its id changes; when no direction is beyond `Waiting` any more it is let
//! go ([`Command::LetGo`]), and when none waits either its record ends
//! ([`Command::Forget`]). Between the two, [`Command::Rearm`] starts the
//! connection's timeout anew if packets may have passed the workers by.
//!
//! The machine knows neither cards nor tables. The offloader carries out its commands
//! in their order and passes their results back; a rule `R` that is handed in by
//! [`Event::Created`] comes back in one [`Command::Destroy`].
mod activity;
mod creation;
mod event;
#[cfg(test)]
mod model;
mod stage;

use admission::{CardRefusal, Key};
use dpdk::flow::Counters;
use flow::{Direction, PortId};
use service::Binding;

use self::activity::Activity;
pub(crate) use self::event::{Command, Counted, Event, Fact, LineEnd, Parting, Placement, Reading};
use self::stage::Side;
pub(crate) use self::stage::{Installed, Stage};
use crate::encode::{NotRewritten, Visibility};

/// One connection that has rules or waits for some.
#[derive(Debug)]
pub(crate) struct Connection<R> {
    forward: Side<R>,
    reply: Side<R>,
    /// The binding its rules were made from; `Some` as long as the connection is held.
    held: Option<Binding>,
    /// When its rules go because it has ended.
    linger_ms: Option<u64>,
    /// Packets may have passed the workers by: its timeout starts anew when it
    /// is let go.
    unseen: bool,
    /// Whether its rules were taken back.
    withdrawn: bool,
    /// Whether it lacks a rule for a passing reason: workers may ask again.
    may_ask: bool,
    /// How often a rule of it was refused for a passing reason.
    failures: u8,
    /// The admission's key for it.
    key: Option<Key>,
    /// Whether it has no packets.
    idle: bool,
    /// Why one of its rules was refused for good.
    refusal: Option<CardRefusal>,
    activity: Activity,
    /// Whether the card has called a rule idle whose connection was not: then the
    /// card isn't believed any more.
    age_spent: bool,
    /// Which worker gets the packets of its rules, once that is decided.
    worker: Option<u16>,
}

type Commands<R> = Vec<Command<R>>;

impl<R> Connection<R> {
    /// A connection of which nothing is known yet. `key` is `None` if it is
    /// gone already; `not_rewritten`: why its forward direction can't have a
    /// rule of the port's first encoding, if that is known from before.
    pub(crate) fn new(key: Option<Key>, not_rewritten: Option<NotRewritten>) -> Self {
        Self {
            forward: Side { stage: Stage::Software, not_rewritten },
            reply: Side::default(),
            held: None,
            linger_ms: None,
            unseen: false,
            withdrawn: false,
            may_ask: false,
            failures: 0,
            key,
            idle: false,
            refusal: None,
            activity: Activity::default(),
            age_spent: false,
            worker: None,
        }
    }

    /// Takes note of `event` and appends the commands that follow from it. An event
    /// that doesn't fit the stage of its direction changes nothing.
    pub(crate) fn step(&mut self, event: Event<R>, commands: &mut Commands<R>) {
        match event {
            Event::Turn { direction, port, ready } => {
                return self.turn(direction, port, ready, commands);
            }
            Event::Held(direction, binding) => return self.hold(direction, binding, commands),
            Event::Wanted(placements) => self.line_up_both(placements, commands),
            Event::PathChanged(direction, placement) if self.is_waiting(direction) => {
                self.line_up(direction, placement, commands);
            }
            Event::Gone(direction) => self.leave_line(direction, commands),
            Event::Created { direction, rule, visibility } => {
                self.created(direction, rule, visibility);
            }
            Event::Full(direction) => self.line_up_again(direction, LineEnd::Front, commands),
            Event::Failed { direction, fallback } => self.failed(direction, fallback, commands),
            Event::Refused { direction, fallback } => self.refused(direction, fallback, commands),
            Event::NotCreated(direction) => {
                if matches!(self.stage(direction), Stage::Installed(_)) {
                    self.withdraw(false, commands);
                }
            }
            Event::Closing { due_ms } => self.close(due_ms, commands),
            Event::Lingered { due_ms } => {
                if self.linger_ms == Some(due_ms) {
                    self.withdraw(false, commands);
                }
            }
            Event::Reopened { binding } => self.reopen(binding, commands),
            Event::Idle if self.is_unseen() => commands.push(Command::Examine),
            Event::Idle => {
                self.idle = true;
                self.withdraw(true, commands);
            }
            Event::Withdrawn => self.withdraw(true, commands),
            Event::NextHopChanged => {
                self.count_at_port(Fact::Rerouted, commands);
                self.withdraw(true, commands);
            }
            Event::Destroyed(direction) => {
                let stage = &mut self.side_mut(direction).stage;
                if matches!(stage, Stage::Destroying) {
                    *stage = Stage::Settling;
                }
            }
            Event::Settled(direction) => {
                let stage = &mut self.side_mut(direction).stage;
                if matches!(stage, Stage::Settling) {
                    *stage = Stage::Software;
                }
            }
            Event::Aged(direction) => self.age(direction, commands),
            Event::Counted(reading) => self.counted(&reading, commands),
            Event::Examined { reading, idle_ms, timeout_ms } => {
                self.examined(&reading, idle_ms, timeout_ms, commands);
            }
            Event::Audited { binding, established } => {
                self.audit(binding, established, commands);
            }
            Event::PathChanged(..) => {}
        }
        self.finish(commands);
    }

    /// How far `direction` is.
    pub(crate) const fn stage(&self, direction: Direction) -> &Stage<R> {
        &self.side(direction).stage
    }

    /// Why the port's first encoding can't express the rule of `direction`;
    /// `None`: it can, as far as is known.
    pub(crate) const fn not_rewritten(&self, direction: Direction) -> Option<NotRewritten> {
        self.side(direction).not_rewritten
    }

    /// The admission's key for it.
    pub(crate) const fn key(&self) -> Option<Key> {
        self.key
    }

    /// Which worker gets the packets of its rules; `None`: that is not decided.
    pub(crate) const fn worker(&self) -> Option<u16> {
        self.worker
    }

    /// Decides which worker gets the packets of its next rules.
    pub(crate) const fn set_worker(&mut self, worker: Option<u16>) {
        self.worker = worker;
    }

    /// Whether workers see all packets of its rules, and it has some.
    pub(crate) fn is_seen(&self) -> bool {
        let mut installed = self.installed().peekable();
        installed.peek().is_some() && installed.all(|own| own.visibility == Visibility::All)
    }

    /// Why one of its rules was refused for good.
    pub(crate) const fn refusal(&self) -> Option<CardRefusal> {
        self.refusal
    }

    /// The counts of its rules.
    pub(crate) const fn hardware(&self) -> Counters {
        self.activity.total()
    }

    /// By [`Direction::index`]: the port where the direction has a rule (`true`)
    /// or waits for one (`false`).
    pub(crate) fn footprint(&self) -> [Option<(PortId, bool)>; 2] {
        Direction::BOTH.map(|direction| match self.stage(direction) {
            Stage::Waiting(port) => Some((*port, false)),
            Stage::Installed(installed) => Some((installed.port, true)),
            Stage::Software | Stage::Destroying | Stage::Settling => None,
        })
    }

    /// Whether `direction` is in line on `port`.
    pub(crate) fn waits_on(&self, direction: Direction, port: PortId) -> bool {
        matches!(self.stage(direction), Stage::Waiting(at) if *at == port)
    }

    /// Whether packets of it pass the workers by.
    pub(crate) fn is_unseen(&self) -> bool {
        self.installed().any(|installed| installed.is_unseen())
    }

    /// Whether the counters of its rules should be read at `now_ms`, if they
    /// are read each `every_ms`.
    pub(crate) fn is_to_be_read(&self, now_ms: u64, every_ms: u64) -> bool {
        self.activity.is_due(now_ms, every_ms) && self.is_unseen()
    }

    /// Ends the record, whatever rules there are. Returns whether packets may have
    /// passed the workers by.
    pub(crate) fn into_unseen(self) -> bool {
        self.unseen
    }

    /// The rule of `direction`, if the card has it.
    pub(crate) fn installed_mut(&mut self, direction: Direction) -> Option<&mut Installed<R>> {
        match &mut self.side_mut(direction).stage {
            Stage::Installed(installed) => Some(installed),
            _ => None,
        }
    }

    const fn side(&self, direction: Direction) -> &Side<R> {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Reply => &self.reply,
        }
    }

    const fn side_mut(&mut self, direction: Direction) -> &mut Side<R> {
        match direction {
            Direction::Forward => &mut self.forward,
            Direction::Reply => &mut self.reply,
        }
    }

    fn installed(&self) -> impl Iterator<Item = &Installed<R>> {
        [&self.forward, &self.reply].into_iter().filter_map(|side| match &side.stage {
            Stage::Installed(installed) => Some(installed),
            _ => None,
        })
    }

    fn is_waiting(&self, direction: Direction) -> bool {
        matches!(self.stage(direction), Stage::Waiting(_))
    }

    /// Whether the card has a rule of it, or packets may refer to one.
    fn has_rules(&self) -> bool {
        use Stage::{Destroying, Installed, Settling};
        let stages = [&self.forward.stage, &self.reply.stage];
        stages.iter().any(|stage| matches!(stage, Installed(_) | Destroying | Settling))
    }

    fn close(&mut self, due_ms: u64, commands: &mut Commands<R>) {
        if !self.has_rules() {
            return self.withdraw(false, commands);
        }
        if self.linger_ms.is_none() {
            self.linger_ms = Some(due_ms);
            commands.push(Command::Linger { due_ms });
        }
    }

    fn reopen(&mut self, binding: Option<Binding>, commands: &mut Commands<R>) {
        let moved = self.held.is_some() && self.held != binding;
        // The rules stay right for the same backend; but software must see all
        // of the new handshake.
        if moved || self.is_unseen() {
            return self.withdraw(false, commands);
        }
        self.linger_ms = None;
    }

    /// Takes both directions out of their lines and their rules out of the card.
    /// `unseen`: packets may have come since without being counted.
    fn withdraw(&mut self, unseen: bool, commands: &mut Commands<R>) {
        if !self.withdrawn {
            commands.push(Command::Count(Fact::Withdrawn));
        }
        self.withdrawn = true;
        self.linger_ms = None;
        for direction in Direction::BOTH {
            let stage = &mut self.side_mut(direction).stage;
            match std::mem::take(stage) {
                Stage::Software | Stage::Waiting(_) => {}
                Stage::Installed(installed) => {
                    *stage = Stage::Destroying;
                    self.unseen |= unseen && installed.visibility != Visibility::All;
                    commands.push(Command::Destroy(direction, installed));
                }
                leaving @ (Stage::Destroying | Stage::Settling) => *stage = leaving,
            }
        }
        if self.has_rules() {
            commands.push(Command::Withdrawing);
        }
    }

    /// A connection with rules should never be gone or be another's. One in
    /// line may be gone, and leaves the line. One whose packets pass the workers by is
    /// established or ends; any other has been opened anew, and the message that said
    /// so was lost.
    fn audit(&mut self, binding: Option<Binding>, established: bool, commands: &mut Commands<R>) {
        if self.held.is_some() && self.held != binding {
            if !self.withdrawn {
                commands.push(Command::Count(Fact::Orphaned));
            }
            self.withdraw(false, commands);
        } else if self.is_unseen() && !established && self.linger_ms.is_none() {
            self.reopen(binding, commands);
        } else if binding.is_none() {
            Direction::BOTH.into_iter().for_each(|direction| self.leave_line(direction, commands));
        }
    }

    /// Counts at the port of a rule.
    fn count_at_port(&self, fact: impl FnOnce(PortId) -> Fact, commands: &mut Commands<R>) {
        if let Some(installed) = self.installed().next() {
            commands.push(Command::Count(fact(installed.port)));
        }
    }

    /// Lets go of a connection that has no rule, and ends its record unless a
    /// direction is in line.
    fn finish(&mut self, commands: &mut Commands<R>) {
        if self.has_rules() {
            return;
        }
        let was_held = self.held.take().is_some();
        if std::mem::take(&mut self.unseen) {
            commands.push(Command::Rearm);
        }
        if Direction::BOTH.into_iter().any(|direction| self.is_waiting(direction)) {
            if was_held {
                commands.push(Command::LetGo { ask_again: false });
            }
            return;
        }
        let parting = match self.refusal.filter(|_| !self.withdrawn) {
            _ if self.idle => Parting::Idle,
            Some(why) => Parting::Refused(why),
            None => Parting::Left,
        };
        commands.push(Command::Forget(parting));
        commands.push(Command::LetGo { ask_again: self.withdrawn || self.may_ask });
    }
}
