//! The packets of a burst that may open connections, in order, and which of them are
//! the first of their connections.
//!
//! Next: `new_connection`.
use arrayvec::ArrayVec;
use conntrack::Key;
use wire::FastHeader;

use crate::pipeline::BURST;

/// Packets of one family that may open connections: place and header.
pub(crate) type FreshOf<const K: usize> = ArrayVec<(u8, FastHeader<K>), BURST>;

/// Packets of a burst that may open connections, in order within their family.
#[derive(Default)]
pub(crate) struct Fresh {
    pub(crate) v4: FreshOf<1>,
    pub(crate) v6: FreshOf<4>,
}

/// The fresh packets of one family, one after the other.
pub(super) struct Candidates<'a, const K: usize> {
    all: &'a FreshOf<K>,
    next: usize,
}

impl<'a, const K: usize> Candidates<'a, K> {
    pub(super) const fn new(all: &'a FreshOf<K>) -> Self {
        Self { all, next: 0 }
    }

    /// The fresh packet at `place` of the burst; `None`: the packet there is not
    /// fresh. `Some(None)`: the packet is the second of its connection, which is
    /// known by then.
    #[inline(always)]
    pub(super) fn at(
        &mut self,
        place: usize,
        seen: &mut Seen,
    ) -> Option<Option<&'a FastHeader<K>>> {
        let (at, header) = self.all.get(self.next).filter(|(at, _)| usize::from(*at) == place)?;
        let key = Key::from(header);
        let mut earlier = self.all.iter().take_while(|(other, _)| other < at);
        self.next += 1;
        let again = seen.maybe(&key) && earlier.any(|(_, other)| Key::from(other) == key);
        Some((!again).then_some(header))
    }
}

/// A set of 5-tuples that may report a 5-tuple that it does not have. A sender that
/// chooses 5-tuples with equal hashes makes the burst compare them one by one.
#[derive(Debug, Default)]
pub(super) struct Seen([u64; 16]);

impl Seen {
    /// Whether the 5-tuple may have been inserted before.
    #[inline]
    fn maybe<const K: usize>(&mut self, key: &Key<K>) -> bool {
        let ports = u64::from(key.ports).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = key.addresses.iter().fold(ports, |mixed, word| mixed.rotate_left(7) ^ word);
        let hash = mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 54;
        let Some(word) = self.0.get_mut(hash as usize / 64) else { return true };
        let bit = 1 << (hash % 64);
        let before = *word & bit != 0;
        *word |= bit;
        before
    }
}
