//! What the offload side knows of one connection.
use admission::{CardRefusal, Key};
use dpdk::flow::{Counters, RuleHandle};
use flow::{Direction, PortId};
use service::Binding;
use wire::FlowKey;

use crate::mark_fallback::NotRewritten;
use crate::offloader::reroute::Goal;

/// What a rule gives its packets, by which workers know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// A mark of the connection's own.
    Mark(u32),
    /// A queue, or a mark in a queue of several backends, that all connections
    /// with the same action have.
    Queue(u16),
    /// Nothing: no worker sees them.
    Nothing,
}

/// A rule in the card.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) port: PortId,
    pub(crate) handle: RuleHandle,
    pub(crate) tag: Tag,
    /// Where its packets went when it was made.
    pub(crate) goal: Goal,
    /// What it had counted when it was last looked at.
    pub(crate) counted: Counters,
    /// What it matches.
    pub(crate) key: FlowKey,
    /// Its timeout has passed, says the card.
    pub(crate) aged: bool,
}

/// How far one direction of a connection is. Directions are independent: one
/// may be in the card while the other is refused.
#[derive(Debug, Default)]
pub(crate) enum Stage {
    /// Served in software.
    #[default]
    Software,
    /// In line for a rule on this port.
    Waiting(PortId),
    /// Its rule is in the card.
    Installed(Installed),
    /// Its rule is being destroyed, or packets may still carry its tag.
    Leaving,
}

/// One connection that has rules or waits for some.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// By [`Direction::index`].
    stages: [Stage; 2],
    /// Why a direction can't be rewritten, so that it is to have a mark.
    not_rewritten: [Option<NotRewritten>; 2],
    /// The binding its rules were made from; `Some` as long as the connection is held.
    pub(crate) held: Option<Binding>,
    /// When its rules go because it is closing.
    pub(crate) closing_ms: Option<u64>,
    /// A packet may have come unseen while it had rules: its timeout starts anew.
    pub(crate) unseen: bool,
    /// Its rules were taken back.
    pub(crate) withdrawn: bool,
    /// Rules were refused for another reason than that the card can't: workers
    /// may ask again.
    pub(crate) may_ask: bool,
    /// How often a rule of it was refused for once.
    pub(crate) failures: u8,
    /// As whom the policy knows it.
    pub(crate) key: Option<Key>,
    /// It has no packets: what was measured of it is over.
    pub(crate) idle: bool,
    /// Why one of its rules was refused for good; `None`: none was.
    pub(crate) refusal: Option<CardRefusal>,
    /// Packets that its rules have counted.
    pub(crate) hardware: Counters,
    /// When its rules' counters were last read.
    pub(crate) counted_ms: u64,
    /// When its timeout was last started anew because a counter had moved.
    pub(crate) rearmed_ms: u64,
    /// The card has called a rule idle whose connection was not: it isn't
    /// believed any more.
    pub(crate) age_spent: bool,
    /// How often software has seen its packets while a rule counted none.
    pub(crate) unmatched: u8,
}

impl Entry {
    /// A connection that asks; `key` is `None` if it is gone already.
    pub(crate) fn new(key: Option<Key>) -> Self {
        Self { key, ..Self::default() }
    }

    pub(crate) fn stage(&self, direction: Direction) -> &Stage {
        let [forward, reply] = &self.stages;
        match direction {
            Direction::Forward => forward,
            Direction::Reply => reply,
        }
    }

    pub(crate) fn stage_mut(&mut self, direction: Direction) -> &mut Stage {
        let [forward, reply] = &mut self.stages;
        match direction {
            Direction::Forward => forward,
            Direction::Reply => reply,
        }
    }

    /// Why `direction` can't be rewritten; `None`: it can, as far as is known.
    pub(crate) fn not_rewritten(&self, direction: Direction) -> Option<NotRewritten> {
        let [forward, reply] = self.not_rewritten;
        match direction {
            Direction::Forward => forward,
            Direction::Reply => reply,
        }
    }

    /// As [`Self::not_rewritten`], to be changed.
    pub(crate) fn not_rewritten_mut(&mut self, direction: Direction) -> &mut Option<NotRewritten> {
        let [forward, reply] = &mut self.not_rewritten;
        match direction {
            Direction::Forward => forward,
            Direction::Reply => reply,
        }
    }

    /// Whether the card has, or packets may refer to, a rule of it.
    pub(crate) fn has_rules(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, Stage::Installed(_) | Stage::Leaving))
    }

    /// The rule of `direction`, if the card has it.
    pub(crate) fn installed(&self, direction: Direction) -> Option<&Installed> {
        match self.stage(direction) {
            Stage::Installed(installed) => Some(installed),
            _ => None,
        }
    }

    /// As [`Self::installed`], to be changed.
    pub(crate) fn installed_mut(&mut self, direction: Direction) -> Option<&mut Installed> {
        match self.stage_mut(direction) {
            Stage::Installed(installed) => Some(installed),
            _ => None,
        }
    }

    /// Whether a direction is in line.
    pub(crate) fn is_waiting(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, Stage::Waiting(_)))
    }

    /// Whether `direction` is in line on `port`.
    pub(crate) fn waits_on(&self, direction: Direction, port: PortId) -> bool {
        matches!(self.stage(direction), Stage::Waiting(at) if *at == port)
    }
}
