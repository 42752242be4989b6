//! What happens to a connection, and what is to be done about it.
use admission::CardRefusal;
use dpdk::flow::Counters;
use flow::{Direction, PortId};
use service::Binding;

use super::Installed;
use crate::encode::{NotRewritten, Visibility};

/// Something that happens to a connection or to one of its rules.
#[derive(Debug)]
pub(crate) enum Event<R> {
    /// A worker or the admission wants rules. By [`Direction::index`]: where
    /// the rule of each direction would be made.
    Wanted([Placement; 2]),
    /// It is the turn of `direction` in the line of `port`. `ready`: the
    /// connection's state allows a rule there.
    Turn { direction: Direction, port: PortId, ready: bool },
    /// The answer to [`Command::Hold`]; `None`: the connection is gone.
    Held(Direction, Option<Binding>),
    /// The packets of a waiting direction arrive at another port by now.
    PathChanged(Direction, Placement),
    /// The connection, or a next hop, is gone before the direction had a rule.
    Gone(Direction),
    /// The rule is in the card, or handed to it.
    Created { direction: Direction, rule: R, visibility: Visibility },
    /// The card has no room now.
    Full(Direction),
    /// The rule could not be made this time. `fallback`: the card refused it,
    /// and the port has another encoding to fall back on.
    Failed { direction: Direction, fallback: bool },
    /// The rule can never be made. `fallback`: why, if the port has another
    /// encoding to fall back on.
    Refused { direction: Direction, fallback: Option<NotRewritten> },
    /// The card could not create the rule that was handed to it.
    NotCreated(Direction),
    /// Both ends have finished, or one has reset the connection. Its rules may
    /// stay until `due_ms`, for packets that are still on their way.
    Closing { due_ms: u64 },
    /// The time of [`Command::Linger`] has come.
    Lingered { due_ms: u64 },
    /// A client opens the connection anew; it is bound to `binding` now.
    Reopened { binding: Option<Binding> },
    /// The ager sees no packets.
    Idle,
    /// Its rules must go: it was evicted, or the process ends.
    Withdrawn,
    /// The rule's next hop or tunnel is not what the rule was made from.
    NextHopChanged,
    /// The rule is out of the card; packets on their way may still carry its tag.
    Destroyed(Direction),
    /// No packet carries the destroyed rule's tag any more.
    Settled(Direction),
    /// The card reports that the rule's timeout has passed without a packet.
    Aged(Direction),
    /// The rules' counters were read in their turn.
    Counted(Reading),
    /// The answer to [`Command::Examine`].
    Examined {
        reading: Reading,
        /// Milliseconds since the last packet that a worker saw; `None`: the
        /// connection is gone.
        idle_ms: Option<u64>,
        /// The connection's timeout; 0 if it is gone.
        timeout_ms: u64,
    },
    /// The connection table has this binding under the connection's id, of a
    /// connection that is `established` or not.
    Audited { binding: Option<Binding>, established: bool },
}

/// Something to be done for a connection.
#[derive(Debug)]
pub(crate) enum Command<R> {
    /// Puts `direction` in the line of `port`.
    LineUp { direction: Direction, port: PortId, end: LineEnd },
    /// Keeps the connection from being removed, and answers
    /// [`Held`](Event::Held).
    Hold(Direction),
    /// Makes the rule. The answer is `Created`, `Full`, `Failed`, `Refused`,
    /// `PathChanged` or `Gone`.
    Create {
        direction: Direction,
        binding: Binding,
        /// The port's first encoding can't express the rule.
        fallback: bool,
    },
    /// Destroys the rule of `Direction`; `Destroyed` and `Settled` follow.
    Destroy(Direction, Installed<R>),
    /// Notes that the connection's rules are on their way out.
    Withdrawing,
    /// Answers [`Lingered`](Event::Lingered) at the given time.
    Linger { due_ms: u64 },
    /// Reads the rules' counters and answers [`Examined`](Event::Examined).
    Examine,
    /// The connection's timeout starts anew.
    Rearm,
    /// No rule and no packet refers to the connection: the ager may remove it.
    /// `ask_again`: workers may ask for rules again.
    LetGo { ask_again: bool },
    /// The connection's record ends here.
    Forget(Parting),
    /// The rules have counted so many packets since the last reading.
    Measured { packets: u64 },
    /// The packets did not match the rule for a tunnel.
    Unmatched,
    /// Something to be counted.
    Count(Fact),
}

/// Where the rule of one direction would be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Nowhere: the direction has no packets, or its port makes no rules.
    Software,
    /// On this port.
    Port(PortId),
    /// Nowhere now: the port's line is full, or the path is unknown.
    Crowded,
}

/// An end of a port's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnd {
    Front,
    Back,
}

/// What the admission learns of a connection whose record ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parting {
    /// It has no packets: what was measured of it is over.
    Idle,
    /// The card refused a rule of it.
    Refused(CardRefusal),
    /// It has no rules any more.
    Left,
}

/// Something that the statistics count, most of them by port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// A connection's rules are taken back for the first time.
    Withdrawn,
    /// A connection with rules was gone, or was another.
    Orphaned,
    /// A direction left the line because its connection had ended.
    Late(PortId),
    /// Rules go because the card has seen no packet for the timeout.
    Aged(PortId),
    /// Rules go because the card has lost one.
    Astray(PortId),
    /// Rules go because a next hop has changed.
    Rerouted(PortId),
}

/// What the counters of a connection's rules say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// When they were read.
    pub(super) now_ms: u64,
    /// When a worker last saw a packet of the connection, or its timeout
    /// started anew.
    pub(super) touched_ms: u64,
    /// By [`Direction::index`]; `None`: the direction has no rule whose packets
    /// pass the workers by.
    pub(super) rules: [Option<Counted>; 2],
}

impl Reading {
    /// What the rules have counted by `now_ms`, by [`Direction::index`]. The
    /// last packet that a worker saw came, or the timeout started anew, at
    /// `touched_ms`.
    pub(crate) const fn new(now_ms: u64, touched_ms: u64, rules: [Option<Counted>; 2]) -> Self {
        Self { now_ms, touched_ms, rules }
    }
}

/// What one rule's counter says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The card has no such rule.
    Lost,
    /// What it has counted since the last reading.
    New(Counters),
}
