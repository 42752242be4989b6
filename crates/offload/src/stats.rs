//! Counts of the offload side.
use flow::{AdmissionPolicy, BackendId, Direction, Encoding, ServiceId};

use crate::{FlowType, TunnelType};

/// Why rules were not created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Times the card said that its table is full (ENOSPC).
    pub full: u64,
    /// Directions of connections whose flow type the card can't (ENOTSUP,
    /// EINVAL), whether it was asked or not.
    pub unsupported: u64,
    /// Rules refused for any other reason.
    pub other: u64,
    /// Directions for which no queue was free to name the backend.
    pub no_queue: u64,
    /// Directions that the encoding can't express: `fullnat` in a queue, a
    /// tunnel that the card doesn't put packets into.
    pub not_encodable: u64,
    /// Directions that can't be rewritten and for which no mark was free.
    pub no_mark: u64,
    /// Requests dropped because too many were waiting.
    pub waiting: u64,
    /// Directions that rules don't rewrite because an interface has a tag.
    pub tagged: u64,
    /// Directions whose packets may be longer than what may be sent there.
    pub mtu: u64,
    /// Directions whose port the card can't send packets out of.
    pub no_output: u64,
    /// Times that a next hop's Ethernet address was not known.
    pub unresolved: u64,
}

impl Refused {
    fn add(&mut self, other: &Self) {
        self.full += other.full;
        self.unsupported += other.unsupported;
        self.other += other.other;
        self.no_queue += other.no_queue;
        self.not_encodable += other.not_encodable;
        self.no_mark += other.no_mark;
        self.waiting += other.waiting;
        self.tagged += other.tagged;
        self.mtu += other.mtu;
        self.no_output += other.no_output;
        self.unresolved += other.unresolved;
    }
}

/// What has been done with rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Rules created, adopted ones included.
    pub created: u64,
    /// Rules destroyed, those found lost included.
    pub destroyed: u64,
    /// Rules that the card had lost when they were to be destroyed (ENOENT).
    pub lost: u64,
    /// Requests whose connection had ended before their turn came.
    pub late: u64,
    /// Destroys that failed and were put off.
    pub retries: u64,
    /// Operations of a port's queue that the card has not completed in 5 s.
    pub overdue: u64,
    /// Rules of a predecessor that were found and destroyed; counted nowhere else.
    pub reconciled: u64,
    /// Connections whose rules went because the card had seen no packet for
    /// their timeout (`rewrite`).
    pub aged: u64,
    /// Connections whose rules went because the card had lost one: it was not
    /// there any more, or matched nothing while software saw the packets.
    pub astray: u64,
    /// Connections whose rules went because a next hop has another address.
    pub rerouted: u64,
    /// Rules that mark packets because they can't be rewritten (`rewrite`).
    pub marked_instead: u64,
    /// Packets that rules have rewritten and sent on; no worker saw them.
    pub forwarded_packets: u64,
    /// Their bytes.
    pub forwarded_bytes: u64,
    /// Why rules were not created.
    pub refused: Refused,
}

impl Done {
    fn add(&mut self, other: &Self) {
        self.created += other.created;
        self.destroyed += other.destroyed;
        self.lost += other.lost;
        self.late += other.late;
        self.retries += other.retries;
        self.overdue += other.overdue;
        self.reconciled += other.reconciled;
        self.aged += other.aged;
        self.astray += other.astray;
        self.rerouted += other.rerouted;
        self.marked_instead += other.marked_instead;
        self.forwarded_packets += other.forwarded_packets;
        self.forwarded_bytes += other.forwarded_bytes;
        self.refused.add(&other.refused);
    }
}

/// What there is now, on one port or on all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Rules in the card, those to be destroyed included.
    pub rules: usize,
    /// Of these, rules of direction `Forward` that are not to be destroyed.
    pub rules_forward: usize,
    /// Of these, rules of direction `Reply` that are not to be destroyed.
    pub rules_reply: usize,
    /// Of these, rules that are no connection's and stay until the end: made
    /// elsewhere, or what leads packets to the connections' rules.
    pub adopted: usize,
    /// Directions of connections waiting for a rule.
    pub pending: usize,
    /// Rules that are to be destroyed.
    pub doomed: usize,
    /// Operations in line at the card for more than 5 s. Of a rule that is to
    /// be destroyed the 5-tuple and the tag are not used again meanwhile.
    pub overdue: usize,
    /// Destroyed rules that a packet may still carry the mark or queue of.
    pub settling: usize,
    /// Marks of rules.
    pub marks_in_use: usize,
    /// Marks that wait to be used again.
    pub marks_quarantined: usize,
    /// Queues with a meaning.
    pub queues_assigned: usize,
    /// Queues that could have one.
    pub queues: usize,
}

impl Level {
    fn add(&mut self, other: &Self) {
        self.rules += other.rules;
        self.rules_forward += other.rules_forward;
        self.rules_reply += other.rules_reply;
        self.adopted += other.adopted;
        self.pending += other.pending;
        self.doomed += other.doomed;
        self.overdue += other.overdue;
        self.settling += other.settling;
        self.marks_in_use += other.marks_in_use;
        self.marks_quarantined += other.marks_quarantined;
        self.queues_assigned += other.queues_assigned;
        self.queues += other.queues;
    }
}

/// A queue with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueUse {
    /// The queue.
    pub queue: u16,
    /// The mark that tells its packets from those of others in the same queue.
    pub mark: Option<u16>,
    /// The service of its packets.
    pub service: ServiceId,
    /// The backend they go to or come from.
    pub backend: BackendId,
    /// Their direction.
    pub direction: Direction,
    /// Rules that name it, those destroyed but still settling included.
    pub rules: usize,
}

/// The state of one port's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// How its rules tell what they matched.
    pub encoding: Encoding,
    /// What there is now.
    pub now: Level,
    /// What has been done so far.
    pub done: Done,
    /// How many of our rules the card held when it last said it was full; `None`:
    /// it never was. A connection takes two, one for each direction.
    pub capacity_learnt: Option<usize>,
    /// Flow types that the card refuses at present.
    pub unsupported: Vec<FlowType>,
    /// What the queues with a meaning stand for.
    pub queues: Vec<QueueUse>,
    /// Rules that the card may be asked to create in a second at present;
    /// `None`: as many as one likes.
    pub budget: Option<u64>,
    /// What one creation takes, in nanoseconds; `None`: not measured.
    pub creation_ns: Option<u64>,
    /// Whether rules go through a queue of operations.
    pub queued: bool,
    /// With `rewrite`: whether connections that can't be rewritten get a mark.
    pub mark_instead: bool,
    /// With `rewrite`: the tunnels that the card puts packets into.
    pub tunnels: Vec<TunnelType>,
}

/// The state of all rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffloadStats {
    /// Who may have rules.
    pub policy: AdmissionPolicy,
    /// What the policy has decided.
    pub admission: admission::Counters,
    /// Connections with a rule, or waiting for one.
    pub connections: usize,
    /// Requests for connections, all reasons.
    pub requests: u64,
    /// Connections withdrawn.
    pub withdrawn: u64,
    /// Connections that were gone or another's while they had rules; should
    /// stay 0.
    pub orphaned: u64,
    /// By port.
    pub ports: Vec<PortStats>,
}

impl OffloadStats {
    /// What there is now on all ports together.
    #[must_use]
    pub fn now(&self) -> Level {
        let mut sum = Level::default();
        self.ports.iter().for_each(|port| sum.add(&port.now));
        sum
    }

    /// What has been done on all ports together.
    #[must_use]
    pub fn done(&self) -> Done {
        let mut sum = Done::default();
        self.ports.iter().for_each(|port| sum.add(&port.done));
        sum
    }
}
