//! Where the bytes of one side are in the numbers of the other: the pieces of a
//! stream that the agent replaces.
//!
//! A piece is a request header, with the bytes that came along with it. The sender's
//! bytes of a piece are acknowledged when its receiver has acknowledged all of the
//! bytes in their place, and until then the sender repeats them if they get lost, which
//! makes the agent repeat what stands for them. So the agent needs no timer of its own
//! for what it inserts (LB-NIC, section 3.1.3, keeps duplicates' counters instead).
use arrayvec::ArrayVec;

use crate::blocks::Block;

/// Pieces of a connection that are not acknowledged yet, at most.
pub(crate) const MOST: usize = 4;

/// One replaced piece.
#[derive(Debug)]
pub(crate) struct Edit {
    /// Its first byte, in the sender's numbers.
    pub(crate) at: u32,
    /// How many of the sender's bytes it replaces. 0: it stands in front of the byte at `at`,
    /// and since no sender repeats it, the agent does. Only the first piece is such a one.
    pub(crate) removed: u32,
    /// What stands in their place.
    pub(crate) block: Block,
}

impl Edit {
    pub(crate) const fn end(&self) -> u32 {
        self.at.wrapping_add(self.removed)
    }

    /// Whether it stands for none of the sender's bytes.
    pub(crate) const fn is_insertion(&self) -> bool {
        self.removed == 0
    }

    /// Whether the sender's bytes from `first` to `end` have some that it stands for, or
    /// follow on it.
    pub(crate) const fn concerns(&self, first: u32, end: u32) -> bool {
        let reaches = before(first, self.end()) || first == self.at;
        reaches && before(self.at, end)
    }

    fn growth(&self) -> u32 {
        (self.block.len() as u32).wrapping_sub(self.removed)
    }
}

/// The replaced pieces of one direction.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    /// What the pieces that are acknowledged have added, modulo 2^32.
    base: u32,
    open: ArrayVec<Edit, MOST>,
}

/// Whether `a` is before `b`, modulo 2^32 (RFC 9293 section 3.4).
pub(crate) const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Edits {
    pub(crate) fn is_full(&self) -> bool {
        self.open.is_full()
    }

    pub(crate) fn open(&self) -> &[Edit] {
        &self.open
    }

    /// Adds a piece behind all others.
    pub(crate) fn push(&mut self, edit: Edit) {
        debug_assert!(!self.open.is_full() && (edit.removed > 0 || self.open.is_empty()));
        let _ = self.open.try_push(edit);
    }

    /// The receiver's number for the sender's `sequence`, which is in no open piece or
    /// at the beginning of one. That of a byte behind an insertion is behind it.
    pub(crate) fn forward(&self, sequence: u32) -> u32 {
        let ended = self.open.iter().filter(|edit| !before(sequence, edit.end()));
        ended.fold(sequence.wrapping_add(self.base), |at, edit| at.wrapping_add(edit.growth()))
    }

    /// The sender's number for the receiver's `edge`. An edge inside of a replaced piece
    /// is moved to its end with `up`, otherwise to its beginning: nothing of it counts as
    /// received before all of it is.
    pub(crate) fn back(&self, edge: u32, up: bool) -> u32 {
        let mut growth = self.base;
        for edit in &self.open {
            let first = edit.at.wrapping_add(growth);
            let last = first.wrapping_add(edit.block.len() as u32);
            if !before(first, edge) {
                break;
            }
            if before(edge, last) {
                return if up { edit.end() } else { edit.at };
            }
            growth = growth.wrapping_add(edit.growth());
        }
        edge.wrapping_sub(growth)
    }

    /// Where an open piece begins, in the receiver's numbers.
    pub(crate) fn place(&self, number: usize) -> Option<u32> {
        let at = self.open.get(number)?.at.wrapping_add(self.base);
        let ahead = self.open.get(..number)?;
        Some(ahead.iter().fold(at, |at, edit| at.wrapping_add(edit.growth())))
    }

    /// Takes out a piece whose last byte is before `acknowledged`, in the receiver's numbers.
    pub(crate) fn settle(&mut self, acknowledged: u32) -> Option<Block> {
        let first = self.open.first()?;
        let end = self.place(0)?.wrapping_add(first.block.len() as u32);
        if before(acknowledged, end) {
            return None;
        }
        self.base = self.base.wrapping_add(first.growth());
        Some(self.open.remove(0).block)
    }

    /// Gives all blocks back.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Block> {
        self.open.drain(..).map(|edit| edit.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Blocks;
    use proptest::prelude::*;

    proptest! {
        /// The model spells both streams out, byte for byte.
        #[test]
        fn places_agree_with_the_streams_spelt_out(
            start: u32,
            pieces in prop::collection::vec((0_usize..50, 1_usize..60, 0_usize..90), 1..=MOST),
            settled in 0..=MOST,
            inserts: bool,
        ) {
            let mut pieces = pieces;
            if let Some((_, removed, inserted)) = pieces.first_mut().filter(|_| inserts) {
                (*removed, *inserted) = (0, *inserted + 1);
            }
            let (mut edits, mut blocks) = (Edits::default(), Blocks::new(MOST, 0));
            // Of each of the sender's bytes: the receiver's place, if it is there.
            let (mut places, mut received) = (Vec::new(), 0_u32);
            let mut inside = Vec::new();
            for (number, &(plain, removed, inserted)) in pieces.iter().enumerate() {
                for _ in 0..plain {
                    places.push(Some(received));
                    received += 1;
                }
                let at = start.wrapping_add(places.len() as u32);
                let mut block = blocks.get().unwrap();
                block.push(&vec![0; inserted]).unwrap();
                edits.push(Edit { at, removed: removed as u32, block });
                places.extend(std::iter::repeat_n(None, removed));
                for byte in 1..inserted as u32 {
                    let edge = received + byte;
                    inside.push((number, edge, at, at.wrapping_add(removed as u32)));
                }
                received += inserted as u32;
            }
            places.extend([Some(received), Some(received + 1)]);
            let mut bound = start;
            for _ in 0..settled.min(pieces.len()) {
                bound = edits.open()[0].end();
                let end = edits.forward(bound);
                prop_assert!(edits.settle(end.wrapping_sub(1)).is_none());
                prop_assert!(edits.settle(end).is_some());
            }
            for (place, expected) in places.iter().enumerate() {
                let at = start.wrapping_add(place as u32);
                let Some(expected) = expected.filter(|_| !before(at, bound)) else { continue };
                prop_assert_eq!(edits.forward(at), start.wrapping_add(expected));
            }
            for (_, edge, from, to) in inside.into_iter().filter(|own| own.0 >= settled) {
                let edge = start.wrapping_add(edge);
                prop_assert_eq!(edits.back(edge, false), from);
                prop_assert_eq!(edits.back(edge, true), to);
            }
        }
    }
}
