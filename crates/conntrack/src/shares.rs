//! How much of the table each service and each source may take, so that none
//! starves the others.
//!
//! A connection is embryonic until its server has answered and the client has
//! gone on: until then anybody can open it, from invented addresses. A service's
//! embryonic connections, and those of clients of one /24 or /64, may take so many
//! records as a percentage of the *free* ones (dynamic thresholds, as switches
//! divide their buffers: Choudhury and Hahne, IEEE/ACM Transactions on Networking
//! 6(2), 1998). With 100 % a service that is flooded takes half of an empty table,
//! two take a third each, and there is always room for another one. Established
//! connections are never refused for that; [`Limit::Share`] bounds a service's
//! connections of all states.
//!
//! What there is of each kind is counted by the keeper's walk over the records
//! ([`ConnTable::sweep`]), and workers add what they insert. Nothing is subtracted,
//! so that no path of a packet has to: a count is too high by what was inserted in
//! one or two rounds of the walk, some 130 ms in a table of 262,144, and never too
//! low. Before the first walk nothing is refused.
use std::sync::PoisonError;

use flow::ServiceId;

use crate::key::{Family, Key};
use crate::record::Record;
use crate::state::TcpState;
use crate::sync::{AtomicU32, Mutex, MutexGuard, Ordering};
use crate::table::ConnTable;

/// Services with counts of their own; ids that agree modulo this share theirs.
const SERVICES: usize = if cfg!(loom) { 1 } else { 1 << 10 };
/// The same for prefixes, by their hash.
const SOURCES: usize = if cfg!(loom) { 1 } else { 1 << 12 };
/// So many embryonic connections a service or source may have in any table.
const FEW: u32 = 16;

/// Why the table takes a new connection only if another one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The service has too many embryonic connections.
    Service,
    /// The client's /24 or /64 has too many embryonic connections.
    Source,
    /// The service has as many connections as it may have.
    Share,
}

/// How many records embryonic connections may take, in percent of the free ones;
/// 0: as many as there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmbryonicLimits {
    /// Those of one service.
    pub service_percent: u32,
    /// Those of clients of one /24 or /64.
    pub source_percent: u32,
}

/// Embryonic connections of a service or source: what the last round has found,
/// and what was inserted since it began.
#[derive(Debug)]
struct Count {
    found: AtomicU32,
    fresh: AtomicU32,
}

impl Count {
    fn new() -> Self {
        Self { found: AtomicU32::new(0), fresh: AtomicU32::new(0) }
    }

    #[inline]
    fn get(&self) -> u32 {
        self.found.load(Ordering::Relaxed).saturating_add(self.fresh.load(Ordering::Relaxed))
    }

    /// A round is over and has found `tally`; how many were inserted meanwhile.
    fn found(&self, tally: u32) -> u32 {
        let fresh = match self.fresh.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.fresh.swap(0, Ordering::Relaxed),
        };
        self.found.store(tally.saturating_add(fresh), Ordering::Relaxed);
        fresh
    }
}

#[derive(Debug)]
struct OfService {
    embryonic: Count,
    /// Of all states, found by the last round; inserted ones are in `embryonic`.
    all: AtomicU32,
    /// How many it may have.
    most: AtomicU32,
}

/// Of one family: how many embryonic connections a service and a source may have.
#[derive(Debug)]
struct Allowed([AtomicU32; 2]);

/// What the present round of the walk has found so far.
#[derive(Debug)]
struct Tally {
    services: Box<[[u32; 2]]>,
    sources: Box<[u32]>,
}

/// The present round of the walk.
pub(crate) struct Round<'a> {
    shares: &'a Shares,
    tally: MutexGuard<'a, Tally>,
}

impl Round<'_> {
    /// Counts the connection of `record`, which is in `state`.
    pub(crate) fn add<const K: usize>(&mut self, record: &Record<K>, state: TcpState) {
        let Tally { services, sources } = &mut *self.tally;
        let [all, embryonic] = &mut services[usize::from(record.service().0) % SERVICES];
        *all += 1;
        if state.is_embryonic() {
            *embryonic += 1;
            sources[self.shares.source(prefix::<K>(record.first_word()))] += 1;
        }
    }
}

/// The counts of all services and sources, and their limits.
#[derive(Debug)]
pub(crate) struct Shares {
    services: Box<[OfService]>,
    sources: Box<[Count]>,
    /// By family, IPv4 first.
    allowed: [Allowed; 2],
    percents: [AtomicU32; 2],
    tally: Mutex<Tally>,
    seed: u64,
}

impl Shares {
    /// Without limits. `seed` keeps others from choosing prefixes that share a count.
    pub(crate) fn new(seed: &[u8; 32]) -> Self {
        let service = || OfService {
            embryonic: Count::new(),
            all: AtomicU32::new(0),
            most: AtomicU32::new(u32::MAX),
        };
        let any = || Allowed([(); 2].map(|()| AtomicU32::new(u32::MAX)));
        Self {
            services: (0..SERVICES).map(|_| service()).collect(),
            sources: (0..SOURCES).map(|_| Count::new()).collect(),
            allowed: [any(), any()],
            percents: [(); 2].map(|()| AtomicU32::new(0)),
            tally: Mutex::new(Tally {
                services: vec![[0; 2]; SERVICES].into(),
                sources: vec![0; SOURCES].into(),
            }),
            seed: seed.iter().fold(1, |seed, &byte| seed << 8 | u64::from(byte)) | 1,
        }
    }

    #[inline]
    fn source(&self, prefix: u64) -> usize {
        let mixed = (prefix ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 29).wrapping_mul(self.seed) >> 40) as usize % SOURCES
    }

    #[inline]
    fn service(&self, ServiceId(id): ServiceId) -> &OfService {
        &self.services[usize::from(id) % SERVICES]
    }

    /// Why `service` may not have another embryonic connection of a client with
    /// this key.
    #[inline]
    pub(crate) fn limit<const K: usize>(&self, service: ServiceId, key: &Key<K>) -> Option<Limit>
    where
        Key<K>: Family,
    {
        let Allowed([by_service, by_source]) = &self.allowed[usize::from(K > 1)];
        let own = self.service(service);
        let embryonic = own.embryonic.get();
        if embryonic >= by_service.load(Ordering::Relaxed) {
            return Some(Limit::Service);
        }
        let fresh = own.embryonic.fresh.load(Ordering::Relaxed);
        if own.all.load(Ordering::Relaxed).saturating_add(fresh) >= own.most.load(Ordering::Relaxed)
        {
            return Some(Limit::Share);
        }
        let source = self.sources[self.source(prefix::<K>(key.addresses[0]))].get();
        (source >= by_source.load(Ordering::Relaxed)).then_some(Limit::Source)
    }

    /// An embryonic connection has been inserted.
    #[inline]
    pub(crate) fn inserted<const K: usize>(&self, service: ServiceId, key: &Key<K>) {
        self.service(service).embryonic.fresh.fetch_add(1, Ordering::Relaxed);
        let source = self.source(prefix::<K>(key.addresses[0]));
        self.sources[source].fresh.fetch_add(1, Ordering::Relaxed);
    }

    /// For counting the connections of records in the present round.
    pub(crate) fn round(&self) -> Round<'_> {
        Round { shares: self, tally: self.tally.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// A round is over: what it has found counts from now on.
    pub(crate) fn end_round(&self) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        for (own, [all, embryonic]) in self.services.iter().zip(&mut tally.services) {
            let fresh = own.embryonic.found(std::mem::take(embryonic));
            own.all.store(std::mem::take(all).saturating_add(fresh), Ordering::Relaxed);
        }
        for (own, found) in self.sources.iter().zip(&mut tally.sources) {
            own.found(std::mem::take(found));
        }
    }

    /// So many records of a family are free.
    pub(crate) fn set_free(&self, is_v6: bool, free: u32) {
        let Allowed(allowed) = &self.allowed[usize::from(is_v6)];
        for (allowed, percent) in allowed.iter().zip(&self.percents) {
            let most = match percent.load(Ordering::Relaxed) {
                0 => u32::MAX,
                percent => (u64::from(free) * u64::from(percent) / 100) as u32,
            };
            allowed.store(most.max(FEW), Ordering::Relaxed);
        }
    }
}

/// The network of a client whose key begins with `word`: /24 or /64.
#[inline]
const fn prefix<const K: usize>(word: u64) -> u64 {
    if K == 1 { u64::from_be(word) >> 40 } else { word }
}

impl ConnTable {
    /// Embryonic connections are limited so from the next walk of
    /// [`Self::sweep`] on.
    pub fn set_embryonic_limits(&self, limits: EmbryonicLimits) {
        let wanted = [limits.service_percent, limits.source_percent];
        let own = self.shares.percents.iter().zip(wanted);
        own.for_each(|(own, percent)| own.store(percent, Ordering::Relaxed));
    }

    /// `service` may have `most` connections, as far as [`Self::sweep`] has counted
    /// them.
    pub fn set_share(&self, service: ServiceId, most: u32) {
        self.shares.service(service).most.store(most, Ordering::Relaxed);
    }

    /// About how many connections `service` has, and how many of them are
    /// embryonic; both may be too high by what was inserted a moment ago.
    #[must_use]
    pub fn connections_of(&self, service: ServiceId) -> [u32; 2] {
        let own = self.shares.service(service);
        let fresh = own.embryonic.fresh.load(Ordering::Relaxed);
        [own.all.load(Ordering::Relaxed).saturating_add(fresh), own.embryonic.get()]
    }

    /// Says how many records of each family are free, for the limits.
    pub(crate) fn publish_free(&self) {
        self.shares.set_free(false, self.v4.free_records());
        self.shares.set_free(true, self.v6.free_records());
    }
}
