//! Requests of a connection that have no response yet.
use super::Asked;

/// Requests of a connection that wait for their responses, at most.
pub const MAX_WAITING: u32 = 32;

/// Requests without a response, the first in the lowest bit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    count: u32,
    heads: u32,
    upgrades: u32,
    sticks: u32,
    /// When they were sent: a ring, in which the first one's is at `first`.
    at_ms: [u32; MAX_WAITING as usize],
    first: u32,
}

impl Waiting {
    /// Notes a request. `false`: too many wait already.
    pub(super) fn push(&mut self, asked: Asked) -> bool {
        if self.is_full() {
            return false;
        }
        self.heads |= u32::from(asked.head) << self.count;
        self.upgrades |= u32::from(asked.upgrades) << self.count;
        self.sticks |= u32::from(asked.sticks) << self.count;
        let place = self.place(self.count);
        if let Some(at_ms) = self.at_ms.get_mut(place) {
            *at_ms = asked.at_ms;
        }
        self.count += 1;
        true
    }

    /// Forgets the first one.
    pub(super) fn pop(&mut self) {
        self.count = self.count.saturating_sub(1);
        self.first = (self.first + 1) % MAX_WAITING;
        for bits in [&mut self.heads, &mut self.upgrades, &mut self.sticks] {
            *bits >>= 1;
        }
    }

    /// How many there are.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// Whether there is no room for another.
    pub(super) const fn is_full(&self) -> bool {
        self.count >= MAX_WAITING
    }

    /// The place of a request's time, by its number from the first one.
    const fn place(&self, number: u32) -> usize {
        ((self.first + number) % MAX_WAITING) as usize
    }

    /// The first one.
    pub(super) fn first(&self) -> Asked {
        let [head, upgrades, sticks] =
            [self.heads, self.upgrades, self.sticks].map(|bits| bits & 1 == 1);
        let at_ms = self.at_ms.get(self.place(0)).copied().unwrap_or_default();
        Asked { head, upgrades, sticks, at_ms }
    }
}
