//! Neighbours: the next hops and their Ethernet addresses.
//!
//! A table of fixed size without locks. Workers read it for every packet and
//! write to it when they learn an address; the [`Resolver`](keeper::Resolver)
//! ages it. Whoever writes a slot does so with one compare-and-swap of the word
//! that holds address, state and generation, so that a reader sees all of a
//! change or nothing.

mod slot;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use flow::{HopId, InterfaceId};
use wire::Mac;

use self::slot::{
    FREE, INCOMPLETE, INDEX_BITS, REACHABLE, STALE, STATIC, Slot, WRITING, generation,
    generation_of, hop_id, index, key_of, mac_of, number_of, pack, state_of,
};

/// How sure the table is of an Ethernet address (after RFC 4861 section 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Asked for, not answered.
    Incomplete,
    /// Confirmed not long ago.
    Reachable,
    /// Confirmed once; still used, and asked for again when it is.
    Stale,
    /// Configured; never asked for, never changed by what is heard.
    Static,
}

/// One next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its name; not given to another next hop for a long time after it is forgotten.
    pub hop: HopId,
    /// The interface it is on.
    pub interface: InterfaceId,
    /// Its IP address.
    pub addr: IpAddr,
    /// Its Ethernet address; `None` while incomplete.
    pub mac: Option<Mac>,
    /// How sure that is.
    pub state: NeighbourState,
    /// When it was last confirmed, in milliseconds.
    pub confirmed_ms: u64,
    /// When a packet last wanted to go there, in milliseconds.
    pub used_ms: u64,
}

/// Slots that an address can be in.
const WINDOW: usize = 16;

/// Reading takes no lock; see the module's text.
#[derive(Debug)]
pub struct NeighbourTable {
    slots: Box<[Slot]>,
    seed: u64,
    changes: AtomicU64,
}

impl NeighbourTable {
    /// A table for `size` next hops (rounded up to a power of two, at most
    /// about a million). `seed` keeps others from choosing addresses that
    /// collide.
    #[must_use]
    pub fn new(size: usize, seed: u64) -> Self {
        let size = size.next_power_of_two().clamp(WINDOW, 1 << INDEX_BITS);
        let slots = (0..size).map(|_| Slot::default()).collect();
        Self { slots, seed, changes: AtomicU64::new(0) }
    }

    /// The number of `hop`'s slot: two hops share one only if they are never in
    /// the table at the same time.
    #[inline]
    #[must_use]
    pub const fn slot_of(hop: HopId) -> usize {
        index(hop)
    }

    /// Number of slots.
    #[must_use]
    pub fn size(&self) -> usize {
        self.slots.len()
    }

    /// How often an address or a state has changed. Who sees a count sees all
    /// changes that it counts.
    #[inline]
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn window(&self, key: (u64, u64, u64)) -> impl Iterator<Item = (usize, &Slot)> {
        let mut hash = self.seed;
        for part in [key.0, key.1, key.2] {
            hash = (hash ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
        }
        let start = hash as usize;
        (0..WINDOW).filter_map(move |step| {
            let at = start.wrapping_add(step) & (self.slots.len() - 1);
            self.slots.get(at).map(|slot| (at, slot))
        })
    }

    /// The next hop `addr` on `interface`, if the table knows it.
    #[must_use]
    pub fn find(&self, interface: InterfaceId, addr: IpAddr) -> Option<HopId> {
        let key = key_of(interface, addr);
        self.window(key).find_map(|(at, slot)| slot.holds(key).map(|word| hop_id(at, word)))
    }

    /// The next hop `addr` on `interface`, entered as incomplete if it is new.
    /// `None`: there is no room.
    pub fn hop(&self, interface: InterfaceId, addr: IpAddr, now_ms: u64) -> Option<HopId> {
        if let Some(hop) = self.find(interface, addr) {
            return Some(hop);
        }
        let key = key_of(interface, addr);
        self.window(key).find_map(|(at, slot)| slot.claim(key, now_ms).map(|word| hop_id(at, word)))
    }

    /// Enters `addr` on `interface` with a fixed Ethernet address. `None`:
    /// there is no room.
    pub fn set_static(&self, interface: InterfaceId, addr: IpAddr, mac: Mac) -> Option<HopId> {
        let hop = self.hop(interface, addr, 0)?;
        self.change(hop, |_| Some((number_of(mac), STATIC)));
        Some(hop)
    }

    /// The Ethernet address of `addr` on `interface` is given no more: it is
    /// confirmed as soon as a packet goes there. Nothing happens to a neighbour
    /// that isn't static.
    pub fn unset_static(&self, interface: InterfaceId, addr: IpAddr) {
        if let Some(hop) = self.find(interface, addr) {
            self.change(hop, |word| {
                (state_of(word) == STATIC).then(|| (number_of(mac_of(word)), STALE))
            });
        }
    }

    /// Where packets for `hop` go now: the interface, and the Ethernet address
    /// once it is known. `None` if the hop has been forgotten. Notes that a
    /// packet wanted to go there.
    #[inline]
    #[must_use]
    pub fn resolve(&self, hop: HopId, now_ms: u64) -> Option<(InterfaceId, Option<Mac>)> {
        let slot = self.slot(hop)?;
        let (interface, word) = slot.read(generation(hop))?;
        // Seconds are enough, and spare the cache line.
        if slot.used_ms.load(Ordering::Relaxed).saturating_add(1000) <= now_ms {
            slot.used_ms.store(now_ms, Ordering::Relaxed);
        }
        Some((interface, (state_of(word) != INCOMPLETE).then(|| mac_of(word))))
    }

    /// The interface `hop` is on; `None` if the hop has been forgotten.
    #[inline]
    #[must_use]
    pub fn interface(&self, hop: HopId) -> Option<InterfaceId> {
        self.slot(hop)?.read(generation(hop)).map(|(interface, _)| interface)
    }

    /// All about `hop`; `None` if it has been forgotten.
    #[must_use]
    pub fn get(&self, hop: HopId) -> Option<Neighbour> {
        self.entry(index(hop)).filter(|neighbour| neighbour.hop == hop)
    }

    /// What is in slot `at`, from 0 to [`size`](Self::size).
    #[must_use]
    pub fn entry(&self, at: usize) -> Option<Neighbour> {
        self.slots.get(at)?.neighbour(at)
    }

    /// Everything in the table.
    pub fn iter(&self) -> impl Iterator<Item = Neighbour> {
        self.slots.iter().enumerate().filter_map(|(at, slot)| slot.neighbour(at))
    }

    /// Notes that `addr` on `interface` has `mac`: a known next hop becomes
    /// reachable there, static ones excepted. `false` if it isn't known.
    pub fn learn(&self, interface: InterfaceId, addr: IpAddr, mac: Mac, now_ms: u64) -> bool {
        let key = key_of(interface, addr);
        let mut known = false;
        for (at, slot) in self.window(key) {
            if let Some(word) = slot.holds(key) {
                known = true;
                let learnt = |state| (state != STATIC).then(|| (number_of(mac), REACHABLE));
                if self.change(hop_id(at, word), |word| learnt(state_of(word))) {
                    slot.confirmed_ms.store(now_ms, Ordering::Relaxed);
                }
            }
        }
        known
    }

    /// A reachable `hop` becomes stale.
    pub fn expire(&self, hop: HopId) {
        self.change(hop, |word| {
            (state_of(word) == REACHABLE).then(|| (number_of(mac_of(word)), STALE))
        });
    }

    /// A stale `hop` becomes incomplete: nobody answers there any more.
    pub fn give_up(&self, hop: HopId) {
        self.change(hop, |word| (state_of(word) == STALE).then_some((0, INCOMPLETE)));
    }

    /// Forgets a `hop` that is stale or incomplete.
    pub fn forget(&self, hop: HopId) {
        self.change(hop, |word| matches!(state_of(word), STALE | INCOMPLETE).then_some((0, FREE)));
    }

    /// Replaces address and state of `hop` as long as it is the same hop.
    fn change(&self, hop: HopId, to: impl Fn(u64) -> Option<(u64, u64)>) -> bool {
        let Some(slot) = self.slot(hop) else { return false };
        let update = |word| {
            if generation_of(word) != generation(hop) || state_of(word) <= WRITING {
                return None;
            }
            to(word).map(|(mac, state)| pack(mac, generation_of(word), state))
        };
        let done = slot.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
        // Confirmations of what is known anyway come often and change nothing.
        if done.is_ok_and(|before| update(before).is_some_and(|after| after != before)) {
            self.changes.fetch_add(1, Ordering::Release);
        }
        done.is_ok()
    }

    #[inline]
    fn slot(&self, hop: HopId) -> Option<&Slot> {
        self.slots.get(index(hop))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const IF: InterfaceId = InterfaceId(3);
    const MAC: Mac = Mac([2, 1, 2, 3, 4, 5]);

    fn ip(n: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(n))
    }

    #[test]
    fn a_hop_is_entered_learnt_expired_and_forgotten() {
        let table = NeighbourTable::new(64, 7);
        let six: IpAddr = "fe80::1".parse().unwrap();
        for addr in [ip(1), six] {
            assert!(!table.learn(IF, addr, MAC, 5), "only known hops are learnt");
            let hop = table.hop(IF, addr, 0).unwrap();
            assert_eq!(table.hop(IF, addr, 0), Some(hop));
            assert_eq!(table.resolve(hop, 0), Some((IF, None)));
            assert!(table.learn(IF, addr, MAC, 5));
            assert_eq!(table.resolve(hop, 10), Some((IF, Some(MAC))));
            table.expire(hop);
            let neighbour = table.get(hop).unwrap();
            assert_eq!((neighbour.state, neighbour.addr), (NeighbourState::Stale, addr));
            assert_eq!(table.resolve(hop, 10), Some((IF, Some(MAC))), "stale is still used");
            table.give_up(hop);
            assert_eq!(table.resolve(hop, 10), Some((IF, None)));
            table.forget(hop);
            assert_eq!(table.get(hop), None);
            let again = table.hop(IF, addr, 0).unwrap();
            assert_ne!(again, hop, "the name isn't given twice");
            assert!(table.learn(IF, addr, MAC, 5));
            assert_eq!(table.resolve(hop, 10), None, "the old name means nothing");
        }
    }

    #[test]
    fn static_entries_stay() {
        let table = NeighbourTable::new(64, 7);
        let hop = table.set_static(IF, ip(9), MAC).unwrap();
        assert!(table.learn(IF, ip(9), Mac::BROADCAST, 1));
        table.expire(hop);
        table.forget(hop);
        assert_eq!(table.resolve(hop, 1), Some((IF, Some(MAC))));
    }

    #[test]
    fn a_full_table_takes_no_more_and_keeps_what_it_has() {
        let table = NeighbourTable::new(16, 1);
        let hops: Vec<_> = (0..17).filter_map(|n| table.hop(IF, ip(n), 0)).collect();
        assert_eq!(hops.len(), 16);
        for (n, hop) in hops.iter().enumerate() {
            assert_eq!(table.get(*hop).unwrap().addr, ip(n as u32));
        }
    }

    /// Threads enter, learn and forget addresses in a crowded table; whoever
    /// resolves a hop that was found for an address gets that address's own
    /// Ethernet address or none.
    #[test]
    fn a_hop_never_leads_to_another_neighbour() {
        let table = NeighbourTable::new(16, 3);
        let mac = |n: u32| Mac([2, 0, (n >> 24) as u8, (n >> 16) as u8, (n >> 8) as u8, n as u8]);
        let work = |start: u32| {
            let mut resolved = 0;
            for step in 0..60_000u32 {
                let n = (start + step.wrapping_mul(7)) % 48;
                let Some(hop) = table.hop(IF, ip(n), 0) else { continue };
                table.learn(IF, ip(n), mac(n), 1);
                if let Some((interface, Some(found))) = table.resolve(hop, 1) {
                    assert_eq!((interface, found), (IF, mac(n)));
                    resolved += 1;
                }
                table.expire(hop);
                table.forget(hop);
            }
            resolved
        };
        std::thread::scope(|scope| {
            let threads = [0, 11, 23].map(|start| scope.spawn(move || work(start)));
            for thread in threads {
                assert!(thread.join().unwrap() > 0);
            }
        });
    }
}
