//! Ages connections and keeps the index tidy: walks over the table in small steps.
use std::sync::Arc;

use conntrack::{ConnId, Expiry, OffloadState};
use state::Shared;

/// How fast the table is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgerSettings {
    /// Records looked at in one [`Ager::tick`].
    pub records_per_tick: usize,
    /// Buckets of the index looked at in one tick: see [`ConnTable::tidy`].
    ///
    /// [`ConnTable::tidy`]: conntrack::ConnTable::tidy
    pub buckets_per_tick: usize,
}

impl Default for AgerSettings {
    /// 2048 records: at a tick a millisecond, a million connections in half a second.
    /// 128 buckets: the index of a million in five seconds, for 2 % of a core.
    fn default() -> Self {
        Self { records_per_tick: 2048, buckets_per_tick: 128 }
    }
}

/// Removes connections whose timeout has passed. One with rules in the NIC is
/// given to the offload side first: with encoding `queue` its packets may have
/// come unseen. When the rules are gone and its new timeout passes as well, it
/// is removed.
#[derive(Debug)]
pub struct Ager {
    shared: Arc<Shared>,
    settings: AgerSettings,
    removed: u64,
}

impl Ager {
    /// An ager of `shared`'s table.
    #[must_use]
    pub fn new(shared: Arc<Shared>, settings: AgerSettings) -> Self {
        Self { shared, settings, removed: 0 }
    }

    /// Walks on; called about once a millisecond by one thread. `withdraw` is
    /// told of expired connections with rules, again in every round until the
    /// rules are gone.
    pub fn tick(&mut self, now_ms: u64, withdraw: &mut dyn FnMut(ConnId)) {
        let Self { shared, settings, removed } = self;
        let mut report = |conn: ConnId, expiry: Expiry| match expiry.offload {
            OffloadState::None => {
                if let Some(binding) = shared.table.remove(conn) {
                    shared.active.closed(binding.backend);
                    *removed += 1;
                }
            }
            OffloadState::Wanted | OffloadState::Installed => withdraw(conn),
            OffloadState::Withdrawing => {}
        };
        shared.table.sweep(now_ms, settings.records_per_tick, &mut report);
        shared.table.reclaim();
        shared.table.tidy(settings.buckets_per_tick);
    }

    /// Connections removed so far.
    #[must_use]
    pub const fn removed(&self) -> u64 {
        self.removed
    }
}
