//! Reassembly of ICMP messages to the load balancer that come in pieces (RFC 1122
//! section 3.3.2, RFC 8200 section 4.5): a fixed number of places, each for the
//! longest datagram. When all places are taken, the oldest datagram is given up.
use crate::slow::fragment::FragmentKey;

/// Datagrams put together at a time: half a megabyte.
const DATAGRAMS: usize = 8;
/// Bytes of the longest datagram, rounded up to whole blocks.
const LONGEST: usize = 1 << 16;
/// Fragments begin and, but for the last, end at multiples of 8 bytes.
const BLOCK: usize = 8;

/// The datagrams that one worker puts together.
#[derive(Debug)]
pub(crate) struct Reassembly {
    places: Box<[Place]>,
    pub(crate) timeout_ms: u64,
}

#[derive(Debug)]
struct Place {
    key: Option<FragmentKey>,
    since_ms: u64,
    bytes: Box<[u8]>,
    /// A bit for each block that has arrived.
    blocks: Box<[u64]>,
    present: usize,
    /// The datagram's length, once its last piece has arrived.
    length: Option<usize>,
}

/// One piece of a datagram: where it begins, whether more follow, and its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) offset: usize,
    pub(crate) more: bool,
    pub(crate) data: &'a [u8],
}

impl Reassembly {
    /// Gives up on datagrams after `timeout_ms`.
    pub(crate) fn new(timeout_ms: u64) -> Self {
        let place = || Place {
            key: None,
            since_ms: 0,
            bytes: vec![0; LONGEST].into_boxed_slice(),
            blocks: vec![0; LONGEST / BLOCK / 64].into_boxed_slice(),
            present: 0,
            length: None,
        };
        Self { places: (0..DATAGRAMS).map(|_| place()).collect(), timeout_ms }
    }

    /// Adds a piece of the datagram `key`; returns the whole datagram once it is
    /// complete. Pieces that contradict each other end the datagram (RFC 5722).
    pub(crate) fn add(
        &mut self,
        key: FragmentKey,
        piece: Piece<'_>,
        now_ms: u64,
    ) -> Option<&mut [u8]> {
        let timeout_ms = self.timeout_ms;
        let is_old = |place: &Place| now_ms.saturating_sub(place.since_ms) > timeout_ms;
        let known = |place: &Place| place.key == Some(key) && !is_old(place);
        // The place of the datagram, or else a free one, or else that of the oldest
        // datagram.
        let age = |place: &&mut Place| match place.key {
            _ if known(place) => 0,
            None => 1,
            Some(_) => 2 + place.since_ms,
        };
        let place = self.places.iter_mut().min_by_key(age)?;
        if !known(place) {
            place.begin(key, now_ms);
        }
        match place.add(piece) {
            Some(Some(length)) => {
                place.key = None;
                place.bytes.get_mut(..length)
            }
            Some(None) => None,
            None => {
                place.key = None;
                None
            }
        }
    }
}

impl Place {
    fn begin(&mut self, key: FragmentKey, now_ms: u64) {
        (self.key, self.since_ms) = (Some(key), now_ms);
        (self.present, self.length) = (0, None);
        self.blocks.fill(0);
    }

    /// The datagram's length once it is complete; `None`: the piece contradicts
    /// another.
    fn add(&mut self, Piece { offset, more, data }: Piece<'_>) -> Option<Option<usize>> {
        let end = offset + data.len();
        let blocks = offset / BLOCK..end.div_ceil(BLOCK);
        let highest = self.blocks.iter().rposition(|word| *word != 0);
        let highest = highest.and_then(|at| {
            let word = self.blocks.get(at)?;
            Some(at * 64 + 63 - word.leading_zeros() as usize)
        });
        if !more {
            let longer = highest.is_some_and(|highest| highest >= blocks.end);
            if longer || self.length.is_some_and(|length| length != end) {
                return None;
            }
            self.length = Some(end);
        } else if self.length.is_some_and(|length| end > length) {
            return None;
        }
        let target = self.bytes.get_mut(offset..end)?;
        let there = blocks.clone().filter(|block| has(&self.blocks, *block)).count();
        if there > 0 {
            // A repeated piece changes nothing.
            return (there == blocks.len() && target == data).then_some(None);
        }
        target.copy_from_slice(data);
        for block in blocks.clone() {
            *self.blocks.get_mut(block / 64)? |= 1 << (block % 64);
        }
        self.present += blocks.len();
        let is_complete = |length: &usize| length.div_ceil(BLOCK) == self.present;
        Some(self.length.filter(is_complete))
    }
}

fn has(blocks: &[u64], block: usize) -> bool {
    blocks.get(block / 64).is_some_and(|word| word >> (block % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::Headers;

    use super::*;

    /// A key for each `id`.
    fn key(id: u16) -> FragmentKey {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 28, (id >> 8) as u8, id as u8, 0, 9, 64, 1, 0, 0]);
        frame.extend([9, 9, 9, 9, 10, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        FragmentKey::of(&frame, &Headers::parse(&frame).unwrap()).unwrap()
    }

    /// `whole` in pieces of `size` bytes, a multiple of 8.
    fn cut(whole: &[u8], size: usize) -> Vec<Piece<'_>> {
        let piece = |(n, data): (usize, _)| {
            let offset = n * size;
            Piece { offset, more: offset + size < whole.len(), data }
        };
        whole.chunks(size).enumerate().map(piece).collect()
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_and_twice_make_the_datagram(
            length in 1..65_535_usize,
            size in 1..200_usize,
            order in any::<prop::sample::Index>(),
        ) {
            let whole: Vec<u8> = (0..length).map(|n| (n * 7 + n / 256) as u8).collect();
            let mut pieces = cut(&whole, size * 8);
            let turn = order.index(pieces.len());
            pieces.rotate_left(turn);
            let last = pieces.pop().unwrap();
            let mut reassembly = Reassembly::new(1000);
            for piece in pieces.iter().chain(&pieces) {
                prop_assert!(reassembly.add(key(1), *piece, 5).is_none());
            }
            let made = reassembly.add(key(1), last, 6).map(|found| found.to_vec());
            prop_assert_eq!(made, Some(whole.clone()));
            // Then the datagram begins anew.
            let alone = pieces.is_empty();
            prop_assert_eq!(reassembly.add(key(1), last, 6).is_some(), alone);
        }
    }

    #[test]
    fn pieces_that_contradict_each_other_make_nothing() {
        let whole = [7; 64];
        let contradictions = [
            // Another content, an overlap by a block, an end before the end.
            Piece { offset: 8, more: true, data: &[8; 8] },
            Piece { offset: 0, more: true, data: &[7; 16] },
            Piece { offset: 8, more: false, data: &[7; 3] },
            Piece { offset: 56, more: true, data: &[7; 16] },
        ];
        for (n, bad) in (0..).zip(contradictions) {
            let mut reassembly = Reassembly::new(1000);
            let pieces = cut(&whole, 8);
            assert!(reassembly.add(key(n), pieces[1], 0).is_none());
            assert!(reassembly.add(key(n), pieces[7], 0).is_none());
            assert!(reassembly.add(key(n), bad, 0).is_none());
            for piece in [0, 2, 3, 4, 5, 6].map(|n| pieces[n]) {
                assert!(reassembly.add(key(n), piece, 0).is_none(), "{n}");
            }
        }
    }

    #[test]
    fn the_oldest_datagram_gives_way_and_an_old_one_is_forgotten() {
        let whole = [7; 16];
        let [first, second] = cut(&whole, 8)[..] else { panic!() };
        let mut reassembly = Reassembly::new(1000);
        for id in 0..=DATAGRAMS as u16 {
            assert!(reassembly.add(key(id), first, u64::from(id)).is_none());
        }
        assert!(reassembly.add(key(1), second, 20).is_some());
        assert!(reassembly.add(key(0), second, 20).is_none());
        assert!(reassembly.add(key(2), second, 1003).is_none(), "too late");
        assert!(reassembly.add(key(3), second, 1003).is_some());
    }
}
