//! Faults on order: each makes the card misbehave in one way, so that tests can show
//! how software copes.

use crate::redirection::Lateness;

/// A fault to order. Each kind can be in force at the same time as the others;
/// ordering one again replaces it. Shares are drawn from their own seeded
/// sequence, so a run can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Refuses the next `count` creates.
    RefuseCreates {
        /// The number of refusals.
        count: u64,
    },
    /// Refuses `per_mille` of 1000 creates.
    RefuseShare {
        /// Share in thousandths.
        per_mille: u16,
        /// Seed of the draw.
        seed: u64,
    },
    /// The table is full with `at` rules, whatever its capacity.
    FullAt {
        /// How many rules fit.
        at: usize,
    },
    /// A full table takes rules and never matches them, as an ixgbe driver
    /// that doesn't read the card's failure counter.
    SilentlyFull,
    /// A created rule matches only `ns` later.
    LateCreate {
        /// Nanoseconds of the NIC's time.
        ns: u64,
    },
    /// A destroyed rule still matches for `ns`.
    LateDestroy {
        /// Nanoseconds of the NIC's time.
        ns: u64,
    },
    /// `per_mille` of 1000 rules are taken and never match.
    SilentLoss {
        /// Share in thousandths.
        per_mille: u16,
        /// Seed of the draw.
        seed: u64,
    },
    /// Each create takes `ns`, one after the other.
    SlowCreate {
        /// Nanoseconds.
        ns: u64,
        /// Whether the caller really waits; else the time is only accounted
        /// for in the NIC's time.
        sleep: bool,
    },
    /// An update of the redirection table takes effect only `ns` later.
    LateReta {
        /// Nanoseconds of the NIC's time.
        ns: u64,
        /// Whether every other frame goes by the new table already before, as in a card
        /// whose engines take it up at different times: packets of one bucket then come
        /// through two queues, and the card itself lets them overtake each other.
        mixed: bool,
    },
    /// Refuses the next `count` updates of the redirection table.
    RefuseRetaUpdates {
        /// The number of refusals.
        count: u64,
    },
    /// Refuses the next `count` destroys.
    RefuseDestroys {
        /// The number of refusals.
        count: u64,
    },
    /// Refuses to read the next `count` counters, as a firmware command that fails.
    RefuseQueries {
        /// The number of refusals.
        count: u64,
    },
}

/// A share in thousandths and the state of its draw (splitmix64).
#[derive(Clone, Copy, Debug)]
struct Share {
    per_mille: u16,
    state: u64,
}

impl Share {
    fn hits(&mut self) -> bool {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % 1000 < u64::from(self.per_mille)
    }
}

/// The faults in force.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    refuse_creates: u64,
    refuse_share: Option<Share>,
    /// Full with so many rules.
    pub(crate) full_at: Option<usize>,
    /// Whether a full table takes rules without an error.
    pub(crate) silently_full: bool,
    /// Delay of creation.
    pub(crate) late_create_ns: u64,
    /// Delay of destruction.
    pub(crate) late_destroy_ns: u64,
    silent_loss: Option<Share>,
    /// The time that a create takes.
    pub(crate) slow_create_ns: u64,
    /// Whether a create takes so much of the caller's time.
    pub(crate) sleep: bool,
    refuse_destroys: u64,
    refuse_queries: u64,
    /// How late updates of the redirection table are.
    pub(crate) late_reta: Lateness,
    refuse_reta_updates: u64,
}

impl Faults {
    pub(crate) fn order(&mut self, fault: Fault) {
        let share = |per_mille, seed| (per_mille > 0).then_some(Share { per_mille, state: seed });
        match fault {
            Fault::RefuseCreates { count } => self.refuse_creates = count,
            Fault::RefuseShare { per_mille, seed } => self.refuse_share = share(per_mille, seed),
            Fault::FullAt { at } => self.full_at = Some(at),
            Fault::SilentlyFull => self.silently_full = true,
            Fault::LateCreate { ns } => self.late_create_ns = ns,
            Fault::LateDestroy { ns } => self.late_destroy_ns = ns,
            Fault::SilentLoss { per_mille, seed } => self.silent_loss = share(per_mille, seed),
            Fault::SlowCreate { ns, sleep } => (self.slow_create_ns, self.sleep) = (ns, sleep),
            Fault::LateReta { ns, mixed } => self.late_reta = Lateness { ns, mixed },
            Fault::RefuseRetaUpdates { count } => self.refuse_reta_updates = count,
            Fault::RefuseDestroys { count } => self.refuse_destroys = count,
            Fault::RefuseQueries { count } => self.refuse_queries = count,
        }
    }

    pub(crate) fn refuses_create(&mut self) -> bool {
        if self.refuse_creates > 0 {
            self.refuse_creates -= 1;
            return true;
        }
        self.refuse_share.as_mut().is_some_and(Share::hits)
    }

    pub(crate) fn refuses_destroy(&mut self) -> bool {
        let refuses = self.refuse_destroys > 0;
        self.refuse_destroys = self.refuse_destroys.saturating_sub(1);
        refuses
    }

    pub(crate) fn refuses_query(&mut self) -> bool {
        let refuses = self.refuse_queries > 0;
        self.refuse_queries = self.refuse_queries.saturating_sub(1);
        refuses
    }

    pub(crate) fn refuses_reta_update(&mut self) -> bool {
        let refuses = self.refuse_reta_updates > 0;
        self.refuse_reta_updates = self.refuse_reta_updates.saturating_sub(1);
        refuses
    }

    pub(crate) fn loses(&mut self) -> bool {
        self.silent_loss.as_mut().is_some_and(Share::hits)
    }
}
