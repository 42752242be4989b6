//! Where connections are found: by the client's packets and by the backend's.
use std::collections::HashMap;
use std::net::SocketAddr;

use flow::BackendId;
use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

use crate::connection::Conn;
use crate::ends::Ends;
use crate::passage::{Passage, Place, Side};

/// The connections of one family: where a packet belongs, and what a fast path needs of
/// each connection.
#[derive(Debug)]
pub(crate) struct Paths<const K: usize> {
    places: HashMap<Ends<K>, Place, SeedableRandomState>,
    /// As many as there are connections of both families, by their numbers.
    passages: Vec<Passage<K>>,
}

impl<const K: usize> Paths<K> {
    fn new(max: usize, seed: u64) -> Self {
        let hash = SeedableRandomState::with_seed(seed, SharedSeed::global_random());
        Self {
            // A map that is emptied and filled without end must never want to grow.
            places: HashMap::with_capacity_and_hasher(4 * max, hash),
            passages: Vec::with_capacity(max),
        }
    }

    #[inline]
    pub(crate) fn find(&self, ends: &Ends<K>) -> Option<Place> {
        self.places.get(ends).copied()
    }

    #[inline(always)]
    pub(crate) fn passage(&self, place: Place) -> Option<&Passage<K>> {
        self.passages.get(place.slot())
    }

    #[inline(always)]
    pub(crate) fn passage_mut(&mut self, place: Place) -> Option<&mut Passage<K>> {
        self.passages.get_mut(place.slot())
    }

    fn of(&self, ends: [SocketAddr; 2], side: Side) -> Option<usize> {
        let place = self.find(&Ends::of(ends)?)?;
        (place.side() == side).then_some(place.slot())
    }

    /// `false`: the ends are taken, or of the other family.
    fn add(&mut self, ends: [SocketAddr; 2], place: Place) -> bool {
        let Some(ends) = Ends::of(ends) else { return false };
        let own = *self.places.entry(ends).or_insert(place);
        own == place
    }

    fn remove(&mut self, ends: [SocketAddr; 2], place: Place) {
        if let Some(ends) = Ends::of(ends).filter(|ends| self.find(ends) == Some(place)) {
            self.places.remove(&ends);
        }
    }

    fn join(&mut self, slot: usize, [client, backend]: [Pair; 2], id: BackendId) {
        if let (Some(client), Some(backend)) = (Ends::of(client), Ends::of(backend))
            && let Some(passage) = self.passages.get_mut(slot)
        {
            passage.join([&client, &backend], id);
        }
    }
}

/// A client and a VIP, or a backend and a client.
type Pair = [SocketAddr; 2];

/// A bounded number of connections. Its memory is reserved once.
#[derive(Debug)]
pub(crate) struct Table {
    slots: Vec<Option<Conn>>,
    free: Vec<usize>,
    pub(crate) v4: Paths<1>,
    pub(crate) v6: Paths<4>,
    max: usize,
}

impl Table {
    /// What a connection takes: its record, its passages, and its places in the maps, which
    /// have room for twice as many.
    pub(crate) const BYTES: usize = size_of::<Option<Conn>>()
        + size_of::<Passage<1>>()
        + size_of::<Passage<4>>()
        + 4 * (size_of::<(Ends<1>, Place)>() + size_of::<(Ends<4>, Place)>() + 2);

    /// A table for `max` connections. `seed` keys its hashes.
    pub(crate) fn new(max: usize, seed: u64) -> Self {
        Self {
            slots: Vec::with_capacity(max),
            free: Vec::with_capacity(max),
            v4: Paths::new(max, seed),
            v6: Paths::new(max, seed),
            max,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn of_client(&self, ends: &Pair) -> Option<usize> {
        self.v4.of(*ends, Side::Client).or_else(|| self.v6.of(*ends, Side::Client))
    }

    pub(crate) fn of_backend(&self, ends: &Pair) -> Option<usize> {
        self.v4.of(*ends, Side::Backend).or_else(|| self.v6.of(*ends, Side::Backend))
    }

    pub(crate) fn get(&mut self, at: usize) -> Option<&mut Conn> {
        self.slots.get_mut(at)?.as_mut()
    }

    pub(crate) fn peek(&self, at: usize) -> Option<&Conn> {
        self.slots.get(at)?.as_ref()
    }

    /// Adds a connection; `None` if there is no room, and the connection is given up.
    pub(crate) fn insert(&mut self, conn: Conn) -> Option<usize> {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.slots.len() >= self.max => return None,
            None => {
                self.slots.push(None);
                self.v4.passages.push(Passage::default());
                self.v6.passages.push(Passage::default());
                self.slots.len() - 1
            }
        };
        let (ends, place) = (conn.ends, Place::new(at, Side::Client));
        if !self.v4.add(ends, place) && !self.v6.add(ends, place) {
            self.free.push(at);
            return None;
        }
        *self.slots.get_mut(at)? = Some(conn);
        Some(at)
    }

    /// Whether others than the packets of a backend of `at` have these ends.
    pub(crate) fn is_taken(&self, ends: &Pair, at: usize) -> bool {
        let found = |place: Option<Place>| {
            place.is_some_and(|place| place != Place::new(at, Side::Backend))
        };
        found(Ends::of(*ends).and_then(|ends| self.v4.find(&ends)))
            || found(Ends::of(*ends).and_then(|ends| self.v6.find(&ends)))
    }

    /// The connection `at` is found by the packets of `new`, and no longer of `old`.
    pub(crate) fn follow(&mut self, at: usize, old: Option<Pair>, new: Option<Pair>) {
        if old == new {
            return;
        }
        let place = Place::new(at, Side::Backend);
        if let Some(old) = old {
            self.v4.remove(old, place);
            self.v6.remove(old, place);
        }
        let conn = self.slots.get(at).and_then(Option::as_ref);
        if let Some((conn, new)) = conn.zip(new) {
            let (client, id) = (conn.ends, conn.id);
            if self.v4.add(new, place) {
                self.v4.join(at, [client, new], id);
            } else if self.v6.add(new, place) {
                self.v6.join(at, [client, new], id);
            }
        }
    }

    /// The connection `at` is the machine's: it knows what has passed without it.
    #[inline]
    pub(crate) fn close(&mut self, at: usize, now_ms: u64) {
        let Self { slots, v4, v6, .. } = self;
        let Some(conn) = slots.get_mut(at).and_then(Option::as_mut) else { return };
        let known = match conn.client().is_ipv4() {
            true => v4.passages.get_mut(at).and_then(Passage::close),
            false => v6.passages.get_mut(at).and_then(Passage::close),
        };
        if let Some((steady, true)) = known {
            steady.give_back(conn);
            conn.seen_ms = now_ms;
        }
    }

    /// Lets packets of the connection `at` pass without the machine, if its state permits.
    #[inline]
    pub(crate) fn open(&mut self, at: usize) {
        let Self { slots, v4, v6, .. } = self;
        let Some(conn) = slots.get(at).and_then(Option::as_ref) else { return };
        let steady = crate::steady::Steady::of(conn);
        let (v4, v6) = (v4.passages.get_mut(at), v6.passages.get_mut(at));
        match conn.client().is_ipv4() {
            true => v4.into_iter().for_each(|passage| passage.set(steady)),
            false => v6.into_iter().for_each(|passage| passage.set(steady)),
        }
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<Conn> {
        let conn = self.slots.get_mut(at)?.take()?;
        let place = Place::new(at, Side::Client);
        self.v4.remove(conn.ends, place);
        self.v6.remove(conn.ends, place);
        let ends = conn.backend.map(|backend| [backend, conn.client()]);
        self.follow(at, ends, None);
        self.free.push(at);
        Some(conn)
    }
}
