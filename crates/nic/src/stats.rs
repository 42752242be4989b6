//! Counts of the NIC.

/// Creates and destroys that were refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The card can't do what the rule says.
    pub unsupported: u64,
    /// The table was full.
    pub full: u64,
    /// The rule was there already.
    pub duplicate: u64,
    /// Other rules had another input mask.
    pub mask: u64,
    /// The soft id was another rule's.
    pub soft_id: u64,
    /// An ordered fault refused the create.
    pub fault: u64,
    /// An ordered fault refused the destroy.
    pub destroy: u64,
    /// The handle was no rule's (any more).
    pub unknown: u64,
    /// The port was stopped.
    pub stopped: u64,
}

impl Refused {
    /// All creates that were refused.
    #[must_use]
    pub fn creates(&self) -> u64 {
        let wishes = self.unsupported + self.full + self.duplicate + self.mask + self.soft_id;
        wishes + self.fault + self.stopped
    }
}

/// How often ordered faults took effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultHits {
    /// Creates refused.
    pub refused_creates: u64,
    /// Destroys refused.
    pub refused_destroys: u64,
    /// Rules that matched late.
    pub late_creates: u64,
    /// Rules that matched on after their end.
    pub late_destroys: u64,
    /// Rules that never match.
    pub lost: u64,
    /// Creates that took long.
    pub slow_creates: u64,
}

/// What the NIC has done since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicStats {
    /// Frames from the wire: `matched` and `missed` and, while the port is stopped, neither.
    pub received: u64,
    /// Frames whose fate a rule decided: a queue, RSS, a drop or another port. A
    /// rule with JUMP decides nothing.
    pub matched: u64,
    /// Frames whose fate no rule decided: RSS sent them to a default queue, or
    /// they are among `unmatched`.
    pub missed: u64,
    /// Matched frames that a rule dropped.
    pub dropped: u64,
    /// Matched frames that the NIC sent out of a port itself.
    pub forwarded: u64,
    /// Bytes of them, from the Ethernet header on, as they came.
    pub forwarded_bytes: u64,
    /// Of these, frames that go into a tunnel.
    pub tunnelled: u64,
    /// Frames that matched an ingress rule with JUMP and none of the group that
    /// it names: dropped.
    pub unmatched: u64,
    /// Frames that came while the port was stopped.
    pub stopped: u64,
    /// Frames per receive queue.
    pub per_queue: Vec<u64>,
    /// Filters in the hardware's table, those on their way in and out included.
    pub rules: usize,
    /// Rules in the driver's list: created and not destroyed. A rule that was
    /// silently lost is among them, although no filter is left of it.
    pub listed: usize,
    /// The most filters at a time.
    pub rules_peak: usize,
    /// How many filters fit. A connection that is translated in both
    /// directions takes two.
    pub capacity: usize,
    /// The receive buffer that the filters leave, in KiB, where they share it.
    pub rx_buffer_kib: Option<u32>,
    /// Rules created.
    pub created: u64,
    /// Rules destroyed.
    pub destroyed: u64,
    /// Refusals.
    pub refused: Refused,
    /// Ordered faults that took effect.
    pub faults: FaultHits,
    /// Updates of the redirection table.
    pub reta_updates: u64,
    /// Nanoseconds that slow creates took, of the NIC's time.
    pub create_ns: u64,
}
