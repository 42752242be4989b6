//! A ring of descriptors in a region. The client moves the head of both rings, the server
//! the tail: of the ring towards the server the client fills buffers, of the other it
//! gives empty ones.
use std::sync::atomic::{AtomicU16, Ordering};

use mapped::Mapped;

/// The first word of a ring that a client has made.
const COOKIE: u32 = 0x03e3_1f20;
/// Bytes in front of the descriptors: the head's cache line and the tail's.
const HEADER: usize = 128;
/// Bytes of a descriptor.
const DESCRIPTOR: usize = 16;
/// Halves and words of the header.
const FLAGS: usize = 2;
const HEAD: usize = 3;
const TAIL: usize = 32;
/// The reader of the ring polls, and needs no wake-up.
const MASK_WAKE: u16 = 1;
/// The frame goes on in the next descriptor.
const NEXT: u16 = 1;

/// Where a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) region: usize,
    pub(crate) offset: usize,
    pub(crate) log2_size: u8,
}

/// The ring, and how far this side has come, for the one thread that uses it.
#[derive(Debug)]
pub(crate) struct Ring {
    place: Place,
    next: AtomicU16,
}

/// A descriptor as it was read once: the client may change it at any time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    pub(crate) continues: bool,
    pub(crate) region: u16,
    pub(crate) length: u32,
    pub(crate) offset: u32,
}

impl Ring {
    /// The ring at `place` of its region; `None` if it isn't there or is no ring.
    pub(crate) fn new(place: Place, region: &Mapped) -> Option<Self> {
        let end = place.offset.checked_add(HEADER + (DESCRIPTOR << place.log2_size))?;
        if place.offset % 8 != 0 || end > region.bytes().len() {
            return None;
        }
        let halves = region.halves().get(place.offset / 2..)?;
        let [low, high] = [0, 1].map(|at| halves.get(at).map(|half| half.load(Ordering::Acquire)));
        let [low, high] = [low?, high?].map(u16::to_ne_bytes);
        if u32::from_ne_bytes([low[0], low[1], high[0], high[1]]) != COOKIE {
            return None;
        }
        halves.get(TAIL)?.store(0, Ordering::Release);
        Some(Self { place, next: AtomicU16::new(0) })
    }

    pub(crate) const fn region(&self) -> usize {
        self.place.region
    }

    const fn size(&self) -> u16 {
        1 << self.place.log2_size
    }

    fn half<'a>(&self, region: &'a Mapped, at: usize) -> Option<&'a AtomicU16> {
        region.halves().get(self.place.offset / 2 + at)
    }

    /// The reader of this ring polls: the client need not wake it.
    pub(crate) fn mask_wake(&self, region: &Mapped) {
        if let Some(flags) = self.half(region, FLAGS) {
            flags.fetch_or(MASK_WAKE, Ordering::Release);
        }
    }

    /// Whether the reader wants to be woken.
    pub(crate) fn wants_wake(&self, region: &Mapped) -> bool {
        self.half(region, FLAGS).is_some_and(|flags| flags.load(Ordering::Acquire) & MASK_WAKE == 0)
    }

    /// The descriptors that the client has given and this side has not passed; `None`: more
    /// than there are.
    pub(crate) fn given(&self, region: &Mapped) -> Option<u16> {
        let head = self.half(region, HEAD)?.load(Ordering::Acquire);
        let given = head.wrapping_sub(self.next.load(Ordering::Relaxed));
        (given <= self.size()).then_some(given)
    }

    /// The descriptor that is `ahead` of the next.
    pub(crate) fn descriptor(&self, region: &Mapped, ahead: u16) -> Option<Descriptor> {
        let words = region.words().get(self.word(ahead)..)?;
        let [first, second] = [words.first()?, words.get(1)?];
        let [a, b, c, d, e, f, g, h] = first.load(Ordering::Relaxed).to_ne_bytes();
        let [i, j, k, l, ..] = second.load(Ordering::Relaxed).to_ne_bytes();
        Some(Descriptor {
            continues: u16::from_ne_bytes([a, b]) & NEXT != 0,
            region: u16::from_ne_bytes([c, d]),
            length: u32::from_ne_bytes([e, f, g, h]),
            offset: u32::from_ne_bytes([i, j, k, l]),
        })
    }

    /// Writes the length of the frame that is in the buffer of a descriptor.
    pub(crate) fn fill(&self, region: &Mapped, ahead: u16, buffer: u16, length: u32) {
        let ([c, d], [e, f, g, h]) = (buffer.to_ne_bytes(), length.to_ne_bytes());
        if let Some(word) = region.words().get(self.word(ahead)) {
            word.store(u64::from_ne_bytes([0, 0, c, d, e, f, g, h]), Ordering::Relaxed);
        }
    }

    /// Passes `count` descriptors: the client has them again.
    pub(crate) fn pass(&self, region: &Mapped, count: u16) {
        let next = self.next.load(Ordering::Relaxed).wrapping_add(count);
        self.next.store(next, Ordering::Relaxed);
        if let Some(tail) = self.half(region, TAIL) {
            tail.store(next, Ordering::Release);
        }
    }

    fn word(&self, ahead: u16) -> usize {
        let slot = self.next.load(Ordering::Relaxed).wrapping_add(ahead) & (self.size() - 1);
        (self.place.offset + HEADER + DESCRIPTOR * usize::from(slot)) / 8
    }
}
