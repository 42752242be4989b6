//! Lazy ageing: an endless walk over all records, a slice at a time.
use flow::BackendId;
use service::ServiceTimeouts;

use crate::family::FamilyTable;
use crate::id::ConnId;
use crate::key::{Family, Key};
use crate::offload::OffloadState;
use crate::shares::Round;
use crate::state::ConnState;
use crate::table::ConnTable;
use crate::time::{TICK_MS, age, is_over, tick, timeout_of};
use crate::walk::Slice;

/// How long after both ends have ended a connection it is reported if it still
/// has rules, in ticks: about a second. The worker that saw the end tells the
/// offload side at once; this is for when that message was lost.
const ENDED_TICKS: u32 = 16;

/// A connection whose timeout has passed, or which has ended and still has
/// rules in the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Whether its timeout has passed, or its backend leaves.
    pub is_over: bool,
    /// Whether its backend leaves: then packets may still come.
    pub is_leaving: bool,
    /// The state it is in, whose timeout that is.
    pub state: ConnState,
    /// How far its way into the NIC is: while rules may match its packets, the
    /// table doesn't see them.
    pub offload: OffloadState,
    /// Milliseconds since the last packet seen, in steps of 64.
    pub idle_ms: u64,
}

impl ConnTable {
    /// Walks on over at most `budget` records, at most once around, and
    /// reports those whose timeout has passed, and those that have ended but
    /// still have rules. Removes nothing: the keeper does, when no rule in the
    /// NIC stands in the way. Several callers share one walk. When less than an
    /// eighth of the records are unused, connections of whose end there is doubt
    /// are kept no longer than those that have ended, and embryonic ones are kept
    /// for half as long whenever the unused half of the records has halved.
    pub fn sweep(&self, now_ms: u64, budget: usize, report: &mut impl FnMut(ConnId, Expiry)) {
        self.sweep_leaving(now_ms, budget, &|_| false, report);
    }

    /// As [`Self::sweep`], and reports connections of a backend that `leaves` as if
    /// their timeout had passed, but for those that have been [revoked](Self::revoke).
    pub fn sweep_leaving(
        &self,
        now_ms: u64,
        budget: usize,
        leaves: &impl Fn(BackendId) -> bool,
        report: &mut impl FnMut(ConnId, Expiry),
    ) {
        let (now, timeouts) = (tick(now_ms), self.timeouts());
        let used = [self.v4.used(), self.v6.used()];
        for slice in self.swept.slices(used, budget) {
            if !slice.is_v6 && slice.start == 0 {
                self.shares.end_round();
            }
            let round = self.shares.round();
            if slice.is_v6 {
                check(&self.v6, slice, (now, &timeouts), leaves, round, report);
            } else {
                check(&self.v4, slice, (now, &timeouts), leaves, round, report);
            }
        }
        self.publish_free();
    }
}

fn check<const K: usize>(
    family: &FamilyTable<K>,
    Slice { start, count, .. }: Slice,
    (now, timeouts): (u32, &ServiceTimeouts),
    leaves: &impl Fn(BackendId) -> bool,
    mut round: Round<'_>,
    report: &mut impl FnMut(ConnId, Expiry),
) where
    Key<K>: Family,
{
    let pressure = family.pressure();
    for number in start..start.saturating_add(count) {
        let Some(record) = family.record(number) else { return };
        let life = record.life();
        let age = age(now, record.seen());
        if !life.is_live() {
            continue;
        }
        let (state, offload) = (life.state(), life.offload());
        let timeouts = timeouts.of(record.service());
        let is_late = is_over(age, timeout_of(timeouts, state, record.is_one_way(), pressure));
        let is_leaving = state.now() != ConnState::Revoked && leaves(record.backend());
        let is_over = is_late || is_leaving;
        if !is_over {
            round.add(record, state);
        }
        let state = state.now();
        if is_over || (age >= ENDED_TICKS && has_ended(state) && may_have_rules(offload)) {
            let idle_ms = u64::from(age) * TICK_MS;
            let expiry = Expiry { is_over, is_leaving, state, offload, idle_ms };
            report(ConnId::from_raw(number | <Key<K> as Family>::ID_BIT), expiry);
        }
    }
}

/// Whether both ends have ended a connection in `state`, or one has reset it.
const fn has_ended(state: ConnState) -> bool {
    matches!(state, ConnState::Closing | ConnState::Reset)
}

/// Whether rules of a connection in `offload` are there or asked for, and are
/// not being withdrawn.
const fn may_have_rules(offload: OffloadState) -> bool {
    matches!(offload, OffloadState::Wanted | OffloadState::Installed)
}
