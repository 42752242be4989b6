//! The connection table of both families.
use std::sync::{Arc, PoisonError, RwLock};

use flow::Direction;
use service::{Binding, ServiceTimeouts};
use wire::{FlowKey, TcpFlags};

use crate::changes::DECISIVE;
use crate::config::{MOST, TableConfig, TableError, buckets};
use crate::family::{FamilyStats, FamilyTable};
use crate::id::{ConnId, Hit};
use crate::key::{AnyKey, Family, Halves, Key};
use crate::life::Life;
use crate::memory::OutOfMemory;
use crate::memory::vector::Width;
use crate::offload::OffloadState;
use crate::readers::{Reader, ReaderError, Readers};
use crate::record::Record;
use crate::segment::Segment;
use crate::shares::Shares;
use crate::state::{ConnState, Event};
use crate::time::{TICK_MS, age, tick, timeout_of};
use crate::view::{Action, ConnView};
use crate::walk::Walk;

/// The connections of all workers, by all of them at once.
///
/// A thread that keeps a [`Hit`] or a [`ConnId`] longer than a call must have
/// a [`Reader`]; without one it may find another connection behind them. That
/// is never worse than a wrong answer: all methods are memory-safe with any id.
#[derive(Debug)]
pub struct ConnTable {
    pub(crate) v4: FamilyTable<1>,
    pub(crate) v6: FamilyTable<4>,
    /// Replaced as a whole; no worker reads them for a packet.
    timeouts: RwLock<Arc<ServiceTimeouts>>,
    /// How far the walks over records and buckets are.
    pub(crate) swept: Walk,
    pub(crate) tidied: Walk,
    readers: Arc<Readers>,
    /// How much of the table each service and source has.
    pub(crate) shares: Shares,
    /// How bursts compare buckets.
    pub(crate) width: Width,
}

/// Counts of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// IPv4.
    pub v4: FamilyStats,
    /// IPv6.
    pub v6: FamilyStats,
}

/// Calls a generic expression on the family of an id.
macro_rules! on_record {
    ($table:expr, $conn:expr, |$record:ident| $body:expr) => {
        if $conn.is_v6() {
            $table.v6.record($conn.record()).and_then(|$record| $body)
        } else {
            $table.v4.record($conn.record()).and_then(|$record| $body)
        }
    };
}

impl ConnTable {
    /// An empty table of the configured size.
    ///
    /// # Errors
    /// The size is out of range, or the memory can't be had.
    pub fn new(config: &TableConfig) -> Result<Self, TableError> {
        Ok(Self {
            v4: family(config.connections, &config.seed)?,
            v6: family(config.connections_v6, &config.seed)?,
            timeouts: RwLock::new(Arc::new(config.timeouts.into())),
            swept: Walk::new(),
            tidied: Walk::new(),
            readers: Arc::new(Readers::new()),
            shares: Shares::new(&config.seed),
            width: Width::detect(),
        })
    }

    /// Registers the calling worker. Each worker thread needs one reader as
    /// long as it uses the table.
    ///
    /// # Errors
    /// [`crate::MAX_READERS`] are registered.
    pub fn register(&self) -> Result<Reader, ReaderError> {
        self.readers.register()
    }

    /// Takes a connection out of the table; what it was. Of several callers
    /// one gets it. The id stays reserved until [`Self::reclaim`] finds that
    /// every reader has quiesced.
    pub fn remove(&self, conn: ConnId) -> Option<Binding> {
        if conn.is_v6() {
            self.v6.remove(conn.record()).map(|content| content.binding())
        } else {
            self.v4.remove(conn.record()).map(|content| content.binding())
        }
    }

    /// As [`Self::remove`], but only a connection in [`OffloadState::None`]: one
    /// that has rules in the NIC, or waits for them, stays, even if another
    /// thread has asked for them during this call.
    pub fn remove_from_software(&self, conn: ConnId) -> Option<Binding> {
        let may = |life: Life| life.offload() == OffloadState::None;
        if conn.is_v6() {
            self.v6.remove_if(conn.record(), may).map(|content| content.binding())
        } else {
            self.v4.remove_if(conn.record(), may).map(|content| content.binding())
        }
    }

    /// Revokes a TCP connection that is in [`OffloadState::None`]: its packets leave
    /// the fast path, and each of them is an [`Event::Revoked`]. It is kept like one
    /// after a RST. `false`: it has ended, has rules, or is no TCP connection.
    pub fn revoke(&self, conn: ConnId, now_ms: u64) -> bool {
        let (number, now) = (conn.record(), tick(now_ms));
        let revoked = if conn.is_v6() {
            self.v6
                .record(number)
                .and_then(|record| record.revoke().and_then(|()| record.rearm(now)))
        } else {
            self.v4
                .record(number)
                .and_then(|record| record.revoke().and_then(|()| record.rearm(now)))
        };
        revoked.is_some()
    }

    /// Makes the records of removed connections usable again as far as all
    /// readers have quiesced since; how many. For the keeper, every few
    /// milliseconds: takes locks, but none that a worker's lookups or
    /// insertions wait for.
    pub fn reclaim(&self) -> usize {
        self.v4.reclaim(&self.readers) + self.v6.reclaim(&self.readers)
    }

    /// What is done to packets of a hit; `None` if the id is not one of this
    /// table's, or was never used. A connection that was removed just now
    /// still has its action, until its id is reused.
    #[inline]
    #[must_use]
    pub fn action(&self, hit: Hit) -> Option<Action> {
        if hit.conn.is_v6() {
            action(self.v6.record(hit.conn.record())?, hit.direction)
        } else {
            action(self.v4.record(hit.conn.record())?, hit.direction)
        }
    }

    /// Brings a connection's record closer, for packets that a mark has
    /// already assigned.
    #[inline]
    pub fn prefetch(&self, conn: ConnId) {
        if conn.is_v6() {
            self.v6.prefetch_record(conn.record());
        } else {
            self.v4.prefetch_record(conn.record());
        }
    }

    /// Whether packets of `hit` carry `key`, and the connection is in the
    /// table: for packets that a mark has assigned. Compares and hashes nothing.
    #[inline]
    #[must_use]
    pub fn carries(&self, hit: Hit, key: &FlowKey) -> bool {
        let reference = hit.reference();
        let same = match AnyKey::from(key) {
            AnyKey::V4(key) => !hit.conn.is_v6() && self.v4.is(reference, &key),
            AnyKey::V6(key) => hit.conn.is_v6() && self.v6.is(reference, &key),
        };
        same && self.is_live(hit.conn)
    }

    /// Counts a packet: last-seen time and state. `segment` is what a TCP header
    /// says, `None` if the packet shows none. Writes only what changes.
    #[inline]
    pub fn touch(&self, hit: Hit, segment: Option<Segment>, now_ms: u64) -> Event {
        let (number, now) = (hit.conn.record(), tick(now_ms));
        let event = if hit.conn.is_v6() {
            self.v6.count(number, hit.direction, segment, now)
        } else {
            self.v4.count(number, hit.direction, segment, now)
        };
        event.unwrap_or(Event::None)
    }

    /// [`Self::action`] and [`Self::touch`] in one look at the record: what is
    /// done to a packet of `hit`, and what it did to its connection.
    #[inline]
    #[must_use]
    pub fn serve(
        &self,
        hit: Hit,
        segment: Option<Segment>,
        now_ms: u64,
    ) -> Option<(Action, Event)> {
        if hit.conn.is_v6() {
            serve(&self.v6, hit, segment, tick(now_ms))
        } else {
            serve(&self.v4, hit, segment, tick(now_ms))
        }
    }

    /// Whether a packet of `hit` with these control bits can't change the state of
    /// its connection.
    #[inline]
    #[must_use]
    pub fn is_unmoved_by(&self, hit: Hit, flags: TcpFlags) -> bool {
        !flags.any(DECISIVE)
            && self.life(hit.conn).is_some_and(|life| life.is_settled(hit.direction))
    }

    /// Milliseconds of silence after which the connection is reported by
    /// [`Self::sweep`]; `None` if there is no such connection.
    #[must_use]
    pub fn timeout_ms(&self, conn: ConnId) -> Option<u32> {
        let state = self.life(conn)?.state();
        let (one_way, service, pressure) = if conn.is_v6() {
            let record = self.v6.record(conn.record())?;
            (record.is_one_way(), record.service(), self.v6.pressure())
        } else {
            let record = self.v4.record(conn.record())?;
            (record.is_one_way(), record.service(), self.v4.pressure())
        };
        Some(timeout_of(self.timeouts().of(service), state, one_way, pressure))
    }

    /// The connection's state; `None` if there is no such connection.
    #[must_use]
    pub fn state(&self, conn: ConnId) -> Option<ConnState> {
        self.life(conn).map(|life| life.state().now())
    }

    /// Whether `conn` names a connection in the table.
    #[inline]
    #[must_use]
    pub fn is_live(&self, conn: ConnId) -> bool {
        self.life(conn).is_some()
    }

    /// How many connections have had this id, modulo 2^32; `None` if none has
    /// it now. Tells two connections with the same id apart.
    #[must_use]
    pub fn generation(&self, conn: ConnId) -> Option<u32> {
        self.life(conn).map(Life::generation)
    }

    /// What was decided for the connection; `None` if there is none.
    #[must_use]
    pub fn binding(&self, conn: ConnId) -> Option<Binding> {
        if conn.is_v6() {
            self.v6.record(conn.record())?.read().map(|(_, content)| content.binding())
        } else {
            self.v4.record(conn.record())?.read().map(|(_, content)| content.binding())
        }
    }

    /// Milliseconds since the connection's last packet, in steps of 64.
    #[must_use]
    pub fn idle_ms(&self, conn: ConnId, now_ms: u64) -> Option<u64> {
        on_record!(self, conn, |record| record.idle_ms(tick(now_ms)))
    }

    /// Gives the connection a new full timeout, as a packet would, but without
    /// a change of state; whether there is such a connection.
    pub fn rearm(&self, conn: ConnId, now_ms: u64) -> bool {
        on_record!(self, conn, |record| record.rearm(tick(now_ms))).is_some()
    }

    /// How far the connection's way into the NIC is.
    #[must_use]
    pub fn offloaded(&self, conn: ConnId) -> Option<OffloadState> {
        self.life(conn).map(Life::offload)
    }

    /// Changes the offload state from `from` to `to`; whether this call did
    /// it. Of several callers one succeeds, so that one party asks for rules.
    pub fn change_offload(&self, conn: ConnId, from: OffloadState, to: OffloadState) -> bool {
        on_record!(self, conn, |record| record.change_offload(from, to)).is_some()
    }

    /// Connections in the table, of both families.
    #[must_use]
    pub fn len(&self) -> usize {
        let stats = self.stats();
        stats.v4.len + stats.v6.len
    }

    /// Whether the table has no connections.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Connections that fit, of both families.
    #[must_use]
    pub fn capacity(&self) -> usize {
        let stats = self.stats();
        stats.v4.capacity + stats.v6.capacity
    }

    /// The timeouts in force.
    #[must_use]
    pub fn timeouts(&self) -> Arc<ServiceTimeouts> {
        Arc::clone(&self.timeouts.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Connections live so long without packets from this call on, those that are
    /// in the table too.
    pub fn set_timeouts(&self, timeouts: ServiceTimeouts) {
        *self.timeouts.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(timeouts);
    }

    /// Counts, as they are in passing.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        TableStats { v4: self.v4.stats(), v6: self.v6.stats() }
    }

    /// Keys that are not in the first bucket where they are looked for, of both
    /// families: each costs a burst's lookup a second cache line. Walks the whole
    /// index.
    #[must_use]
    pub fn spilled(&self) -> u64 {
        self.v4.index().spilled() + self.v6.index().spilled()
    }

    /// Shows every connection to `visit`. Connections that come or go
    /// meanwhile may or may not be shown; each one shown is whole.
    pub fn iter(&self, now_ms: u64, visit: &mut impl FnMut(ConnId, ConnView)) {
        self.iter_slice(now_ms, &mut IterPlace::default(), usize::MAX, visit);
    }

    /// The connection `conn`, as [`Self::iter`] would show it; `None` if there is none.
    #[must_use]
    pub fn view(&self, conn: ConnId, now_ms: u64) -> Option<ConnView> {
        let now = tick(now_ms);
        on_record!(self, conn, |record| view_of(record, now))
    }

    /// As [`Self::iter`], from `place` on and over at most `budget` records, so that
    /// a caller can do other work in between. `false` when there are no more.
    pub fn iter_slice(
        &self,
        now_ms: u64,
        place: &mut IterPlace,
        budget: usize,
        visit: &mut impl FnMut(ConnId, ConnView),
    ) -> bool {
        let now = tick(now_ms);
        let rest = show(&self.v4, &mut place.v4, budget, now, visit);
        show(&self.v6, &mut place.v6, rest, now, visit) == 0
    }

    #[inline]
    fn life(&self, conn: ConnId) -> Option<Life> {
        on_record!(self, conn, |record| Some(record.life()).filter(|life| life.is_live()))
    }
}

#[inline]
fn serve<const K: usize>(
    family: &FamilyTable<K>,
    hit: Hit,
    segment: Option<Segment>,
    now: u32,
) -> Option<(Action, Event)>
where
    Key<K>: Family + Halves,
{
    let (record, began) = family.record_and_began(hit.conn.record())?;
    let action = action(record, hit.direction)?;
    let event = record.count(hit.direction, segment, began, now);
    Some((action, event.unwrap_or(Event::None)))
}

fn family<const K: usize>(connections: usize, seed: &[u8; 32]) -> Result<FamilyTable<K>, TableError>
where
    Key<K>: Family,
{
    if connections > MOST {
        return Err(TableError::TooLarge { connections });
    }
    FamilyTable::new(connections, buckets(connections), seed)
        .map_err(|OutOfMemory { bytes }| TableError::Memory { bytes })
}

#[inline]
fn action<const K: usize>(record: &Record<K>, direction: Direction) -> Option<Action>
where
    Key<K>: Family + Halves,
{
    (record.life().generation() != 0).then(|| record.content().action(direction))
}

/// Where [`ConnTable::iter_slice`] goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct IterPlace {
    v4: u32,
    v6: u32,
}

/// The connection of `record`, if it has one.
fn view_of<const K: usize>(record: &Record<K>, now: u32) -> Option<ConnView>
where
    Key<K>: Family + Halves,
{
    let seen = record.seen();
    let (life, content) = record.read()?;
    Some(ConnView {
        binding: content.binding(),
        hops: content.hops,
        state: life.state().now(),
        offload: life.offload(),
        idle_ms: u64::from(age(now, seen)) * TICK_MS,
        generation: life.generation(),
    })
}

/// Shows at most `budget` records from `next` on; how much of the budget is left.
fn show<const K: usize>(
    family: &FamilyTable<K>,
    next: &mut u32,
    budget: usize,
    now: u32,
    visit: &mut impl FnMut(ConnId, ConnView),
) -> usize
where
    Key<K>: Family + Halves,
{
    let start = *next;
    let most = u32::try_from(budget).unwrap_or(u32::MAX);
    let end = start.saturating_add(most).min(family.used()).max(start);
    *next = end;
    for number in start..end {
        let Some(record) = family.record(number) else { break };
        if let Some(view) = view_of(record, now) {
            visit(ConnId::from_raw(number | <Key<K> as Family>::ID_BIT), view);
        }
    }
    budget - (end - start) as usize
}
