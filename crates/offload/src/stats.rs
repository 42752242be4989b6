//! Counts of the offload side.
use flow::{AdmissionPolicy, BackendId, Direction, Encoding, ServiceId};
use state::metrics;

use crate::{FlowType, TunnelType};

metrics! {
    /// Why rules were not created.
    pub struct Refused: u64 {
        Info {
            full "refused_full" "Times the card said that its table is full (ENOSPC).",
            unsupported "refused_unsupported" "Directions of connections whose flow type the card can't (ENOTSUP, EINVAL), whether it was asked or not.",
            other "refused_other" "Rules refused for any other reason.",
            no_queue "refused_no_queue" "Directions for which no queue was free to name the backend.",
            not_encodable "refused_not_encodable" "Directions that the encoding can't express: `fullnat` in a queue, a tunnel that the card doesn't put packets into.",
            no_mark "refused_no_mark" "Directions that can't be rewritten and for which no mark was free.",
            waiting "refused_waiting" "Requests dropped because too many were waiting.",
            tagged "refused_tagged" "Directions that rules don't rewrite because an interface has a tag.",
            mtu "refused_mtu" "Directions whose packets may be longer than what may be sent there.",
            no_output "refused_no_output" "Directions whose port the card can't send packets out of.",
            unresolved "refused_unresolved" "Times that a next hop's Ethernet address was not known.",
        }
    }
}

metrics! {
    /// What has been done with rules.
    pub struct Done: u64 {
        Info {
            created "created" "Rules created, adopted ones included.",
            destroyed "destroyed" "Rules destroyed, those found lost included.",
            lost "lost" "Rules that the card had lost when they were to be destroyed (ENOENT).",
            late "late" "Requests whose connection had ended before their turn came.",
            retries "retries" "Destroys that failed and were put off.",
            overdue "became_overdue" "Operations of a port's queue that the card has not completed in 5 s.",
            reconciled "reconciled" "Rules of a predecessor that were found and destroyed; counted nowhere else.",
            aged "aged" "Connections whose rules went because the card had seen no packet for their timeout (`rewrite`).",
            astray "astray" "Connections whose rules went because the card had lost one: it was not there any more, or matched nothing while software saw the packets.",
            rerouted "rerouted" "Connections whose rules went because a next hop has another address.",
            marked_instead "marked_instead" "Rules that mark packets because they can't be rewritten (`rewrite`).",
            forwarded_packets "forwarded_packets" "Packets that rules have rewritten and sent on; no worker saw them.",
            forwarded_bytes "forwarded_bytes" "Their bytes.",
            spliced_packets "spliced_packets" "Of these packets, those of spliced connections (services with `protocol = \"http\"` and `\"tls\"`).",
            spliced_bytes "spliced_bytes" "Their bytes.",
        }
        + refused: Refused, "Why rules were not created.";
    }
}

metrics! {
    /// The present state, on one port or on all.
    pub struct Level: usize {
        Level {
            rules "rules" "Rules in the card, those to be destroyed included.",
            rules_forward "rules_forward" "Of these, rules of direction `Forward` that are not to be destroyed.",
            rules_reply "rules_reply" "Of these, rules of direction `Reply` that are not to be destroyed.",
            rules_spliced "rules_spliced" "Of these, rules of spliced connections that are not to be destroyed.",
            adopted "adopted" "Of these, rules that are no connection's and stay until the end: made elsewhere, or what leads packets to the connections' rules.",
            pending "pending" "Directions of connections waiting for a rule.",
            doomed "doomed" "Rules that are to be destroyed.",
            overdue "overdue" "Operations in line at the card for more than 5 s. Of a rule that is to be destroyed the 5-tuple and the tag are not used again meanwhile.",
            settling "settling" "Destroyed rules that a packet may still carry the mark or queue of.",
            marks_in_use "marks_in_use" "Marks of rules.",
            marks_quarantined "marks_quarantined" "Marks that wait to be used again.",
            queues_assigned "queues_assigned" "Queues with a meaning.",
            queues "queues" "Queues that could have one.",
        }
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
    /// Which connections may have rules.
    pub policy: AdmissionPolicy,
    /// The decisions of the policy.
    pub admission: admission::Counters,
    /// Connections with a rule, or waiting for one.
    pub connections: usize,
    /// Requests for connections, all reasons.
    pub requests: u64,
    /// Connections withdrawn.
    pub withdrawn: u64,
    /// Those of them whose next rules name another worker, since theirs had too much.
    pub relieved: u64,
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
