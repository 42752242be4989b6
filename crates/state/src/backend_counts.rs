//! What one thread has sent on for each backend.
use std::sync::atomic::{AtomicU64, Ordering};

use flow::{BackendId, Direction};

/// Ids that a backend can have.
const IDS: usize = 1 << 16;

/// For which backend a packet counts, and which way it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    /// The backend.
    pub backend: BackendId,
    /// To the backend, or from it.
    pub direction: Direction,
}

/// What was counted for a backend, or for several together. Pairs are by direction:
/// towards the backend first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Frames of connections that were sent on, ICMP errors about them included.
    pub packets: [u64; 2],
    /// Bytes of those from the Ethernet header on, without VLAN tag, and without the
    /// outer header of a tunnel.
    pub bytes: [u64; 2],
    /// Connections put into the table.
    pub opened: u64,
    /// RSTs among the packets: the client's, the backend's.
    pub resets: [u64; 2],
}

impl Carried {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.by_number(other, u64::wrapping_add)
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.by_number(earlier, u64::saturating_sub)
    }

    fn by_number(self, other: Self, op: impl Fn(u64, u64) -> u64) -> Self {
        let both = |[a, b]: [u64; 2], [c, d]: [u64; 2]| [op(a, c), op(b, d)];
        Self {
            packets: both(self.packets, other.packets),
            bytes: both(self.bytes, other.bytes),
            opened: op(self.opened, other.opened),
            resets: both(self.resets, other.resets),
        }
    }
}

/// One thread's counts, by backend's id: written by that thread, read by anybody. 3.5 MiB
/// of addresses, of which the system gives memory to the ids that are in use.
#[derive(Debug)]
pub struct BackendCounts {
    /// By id and direction: packets and bytes. Its size is a power of two that no id is
    /// beyond, so that the compiler needs no test of an index.
    ways: Box<[[AtomicU64; 2]; 2 * IDS]>,
    /// By id: connections, and RSTs by direction.
    events: Box<[[AtomicU64; 3]; IDS]>,
}

impl Default for BackendCounts {
    fn default() -> Self {
        Self { ways: bytemuck::zeroed_box(), events: bytemuck::zeroed_box() }
    }
}

impl BackendCounts {
    /// Where packets are counted.
    #[inline(always)]
    #[must_use]
    pub fn ways(&self) -> Ways<'_> {
        Ways(&self.ways)
    }

    /// Counts a connection put into the table.
    #[inline]
    pub fn opened(&self, backend: BackendId) {
        if let Some([opened, ..]) = self.events.get(usize::from(backend.0)) {
            add(opened, 1);
        }
    }

    /// Counts a RST that goes this way.
    pub fn reset(&self, Account { backend, direction }: Account) {
        if let Some([_, to, from]) = self.events.get(usize::from(backend.0)) {
            add(if direction == Direction::Forward { to } else { from }, 1);
        }
    }

    /// What was counted for `backend`.
    #[must_use]
    pub fn of(&self, backend: BackendId) -> Carried {
        let get = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let ways = Direction::BOTH
            .map(|direction| self.ways[Account { backend, direction }.place()].each_ref().map(get));
        let events = self.events.get(usize::from(backend.0));
        let [opened, to, from] = events.map_or([0; 3], |numbers| numbers.each_ref().map(get));
        let [[packets_to, bytes_to], [packets_from, bytes_from]] = ways;
        Carried {
            packets: [packets_to, packets_from],
            bytes: [bytes_to, bytes_from],
            opened,
            resets: [to, from],
        }
    }
}

/// The packets of all backends.
#[derive(Clone, Copy, Debug)]
pub struct Ways<'a>(&'a [[AtomicU64; 2]; 2 * IDS]);

impl Ways<'_> {
    /// Counts a packet of `bytes` bytes that was sent on.
    #[inline(always)]
    pub fn carry(self, account: Account, bytes: usize) {
        self.carry_many(account, 1, bytes as u64);
    }

    /// Counts `packets` packets of `bytes` bytes together that were sent on.
    #[inline(always)]
    pub fn carry_many(self, account: Account, packets: u64, bytes: u64) {
        let [all, size] = &self.0[account.place()];
        add(all, packets);
        add(size, bytes);
    }
}

impl Account {
    #[inline(always)]
    const fn place(self) -> usize {
        (self.backend.0 as usize) << 1 | (self.direction as usize & 1)
    }
}

/// Only one thread writes, so a load and a store do.
#[inline(always)]
fn add(value: &AtomicU64, by: u64) {
    value.store(value.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}
