//! Lazy ageing: an endless walk over all records, a slice at a time.
use std::sync::PoisonError;

use crate::family::FamilyTable;
use crate::id::ConnId;
use crate::key::{Family, Key};
use crate::offload::OffloadState;
use crate::state::ConnState;
use crate::sync::Mutex;
use crate::table::ConnTable;
use crate::time::{TICK_MS, Timeouts, age, is_over, tick};

/// A connection whose timeout has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The state whose timeout has passed.
    pub state: ConnState,
    /// How far its way into the NIC is: while rules may match its packets, the
    /// table doesn't see them.
    pub offload: OffloadState,
    /// Milliseconds since the last packet seen, in steps of 64.
    pub idle_ms: u64,
}

/// Where the walk is: a position among the used records of both families, IPv4
/// first.
#[derive(Debug)]
pub(crate) struct Cursor(Mutex<(bool, u32)>);

impl Cursor {
    pub(crate) fn new() -> Self {
        Self(Mutex::new((false, 0)))
    }
}

impl ConnTable {
    /// Walks on over at most `budget` records, at most once around, and
    /// reports those whose timeout has passed. Removes nothing: the keeper
    /// does, when no rule in the NIC stands in the way. Several callers share
    /// one walk.
    pub fn sweep(&self, now_ms: u64, budget: usize, report: &mut impl FnMut(ConnId, Expiry)) {
        let now = tick(now_ms);
        let mut left = budget.min(self.v4.used() as usize + self.v6.used() as usize);
        while left > 0 {
            let (is_v6, start, count) = self.advance(left);
            if is_v6 {
                check(&self.v6, start, count, now, &self.timeouts, report);
            } else {
                check(&self.v4, start, count, now, &self.timeouts, report);
            }
            left -= (count as usize).min(left);
        }
    }

    /// Takes the next slice of one family, of at most `most` records.
    fn advance(&self, most: usize) -> (bool, u32, u32) {
        let mut place = self.cursor.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut is_v6, mut start) = *place;
        let mut end = if is_v6 { self.v6.used() } else { self.v4.used() };
        if start >= end {
            is_v6 = !is_v6;
            start = 0;
            end = if is_v6 { self.v6.used() } else { self.v4.used() };
        }
        let count = (end - start).min(u32::try_from(most).unwrap_or(u32::MAX));
        *place = (is_v6, start + count);
        (is_v6, start, count)
    }
}

fn check<const K: usize>(
    family: &FamilyTable<K>,
    start: u32,
    count: u32,
    now: u32,
    timeouts: &Timeouts,
    report: &mut impl FnMut(ConnId, Expiry),
) where
    Key<K>: Family,
{
    for number in start..start.saturating_add(count) {
        let Some(record) = family.record(number) else { return };
        let life = record.life();
        let age = age(now, record.seen());
        let state = life.state().now();
        if life.is_live() && is_over(age, timeouts.of(state)) {
            let idle_ms = u64::from(age) * TICK_MS;
            let expiry = Expiry { state, offload: life.offload(), idle_ms };
            report(ConnId::from_raw(number | <Key<K> as Family>::ID_BIT), expiry);
        }
    }
}
