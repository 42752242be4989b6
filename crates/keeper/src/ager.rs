//! Ages connections and keeps the index tidy: walks over the table in small steps.
use std::sync::Arc;

use conntrack::{ConnId, Expiry, OffloadState};
use flow::OnRemove;
use state::{Offload, Shared};

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

/// Removes connections whose timeout has passed, and those that must move because
/// their backend has left the configuration; revokes those that must be reset. A
/// connection with rules in the NIC is reported to the offload side first, since its
/// packets may have come unseen; it is removed when the rules are gone and its new
/// timeout has passed as well.
///
/// The offload side may be a thread of its own, and may be asked for rules by a
/// worker at any moment: only a connection in [`OffloadState::None`] is removed,
/// and the table checks that in the same step as it removes.
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

    /// Continues the walk; one thread calls it about once a millisecond. `report`
    /// gets the connections with rules that have expired or ended, again in every
    /// round until the rules are gone, so a report may be lost.
    pub fn tick(&mut self, now_ms: u64, report: &mut dyn FnMut(ConnId, Offload)) {
        let Self { shared, settings, removed } = self;
        let snapshot = shared.snapshot();
        let services = &snapshot.services;
        let is_reset = |conn| {
            let binding = shared.table().binding(conn);
            binding.is_some_and(|own| services.on_remove(own.backend) == OnRemove::Reset)
        };
        let any = services.gives_up_connections();
        let mut swept = |conn: ConnId, expiry: Expiry| match expiry.offload {
            OffloadState::None
                if expiry.is_leaving && is_reset(conn) && shared.table().revoke(conn, now_ms) => {}
            OffloadState::None => {
                if let Some(binding) = shared.table().remove_from_software(conn) {
                    shared.loads().closed(binding.backend);
                    *removed += 1;
                }
            }
            // Packets of a connection that is to leave don't keep its rules.
            OffloadState::Wanted | OffloadState::Installed
                if expiry.is_over && !expiry.is_leaving =>
            {
                report(conn, Offload::Expired);
            }
            OffloadState::Wanted | OffloadState::Installed => report(conn, Offload::Closing),
            OffloadState::Withdrawing => {}
        };
        let leaves = |backend| any && !services.on_remove(backend).is_keep();
        shared.table().sweep_leaving(now_ms, settings.records_per_tick, &leaves, &mut swept);
        shared.table().reclaim();
        shared.table().tidy(settings.buckets_per_tick);
    }

    /// Connections in the table.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.table().len()
    }

    /// Connections removed so far.
    #[must_use]
    pub const fn removed(&self) -> u64 {
        self.removed
    }
}
