//! A client that is connected: its memory and both rings.
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use mapped::Mapped;

use crate::ring::{Descriptor, Ring};

/// A client's memory. It is unmapped when the last of all that use it lets go.
#[derive(Debug)]
pub(crate) struct Connection {
    regions: Vec<Mapped>,
    from_client: Ring,
    to_client: Ring,
    /// To wake the client.
    wake: OwnedFd,
    /// The client has given buffers for frames.
    open: AtomicBool,
    /// A ring has contents that can't be.
    broken: AtomicBool,
}

/// A frame in a client's memory, which may change while it is copied.
#[derive(Debug)]
pub struct Frame<'a> {
    region: &'a Mapped,
    offset: usize,
    len: usize,
}

impl Frame<'_> {
    /// Its bytes' number.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies as much of it as `to` has room for.
    pub fn copy_to(&self, to: &mut [u8]) {
        let len = self.len.min(to.len());
        let to = to.get_mut(..len).unwrap_or_default();
        // Bytes up to the first whole word, words, and the bytes that are left.
        let (edge, rest) = to.split_at_mut((self.offset.wrapping_neg() % 8).min(len));
        let words_at = self.offset + edge.len();
        let (whole, end) = rest.split_at_mut(rest.len() / 8 * 8);
        let end_at = words_at + whole.len();
        for (to, from) in edge.iter_mut().zip(self.region.bytes().iter().skip(self.offset)) {
            *to = from.load(Ordering::Relaxed);
        }
        let words = self.region.words().iter().skip(words_at / 8);
        for (to, from) in whole.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&from.load(Ordering::Relaxed).to_ne_bytes());
        }
        for (to, from) in end.iter_mut().zip(self.region.bytes().iter().skip(end_at)) {
            *to = from.load(Ordering::Relaxed);
        }
    }
}

/// Writes a frame into a buffer, which is long enough.
fn write(region: &Mapped, offset: usize, frame: &[u8]) {
    let (edge, rest) = frame.split_at((offset.wrapping_neg() % 8).min(frame.len()));
    let (whole, end) = rest.split_at(rest.len() / 8 * 8);
    let words_at = offset + edge.len();
    for (from, to) in edge.iter().zip(region.bytes().iter().skip(offset)) {
        to.store(*from, Ordering::Relaxed);
    }
    for (from, to) in whole.chunks_exact(8).zip(region.words().iter().skip(words_at / 8)) {
        let mut word = [0; 8];
        word.copy_from_slice(from);
        to.store(u64::from_ne_bytes(word), Ordering::Relaxed);
    }
    for (from, to) in end.iter().zip(region.bytes().iter().skip(words_at + whole.len())) {
        to.store(*from, Ordering::Relaxed);
    }
}

/// What a look at the ring from the client has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Frames that were taken.
    pub frames: usize,
    /// Frames that can't be read: their buffers aren't in the client's memory, or they are
    /// in several buffers.
    pub garbled: u64,
}

impl Connection {
    pub(crate) fn new(
        regions: Vec<Mapped>,
        from_client: Ring,
        to_client: Ring,
        wake: OwnedFd,
    ) -> Self {
        let [open, broken] = [false; 2].map(AtomicBool::new);
        let this = Self { regions, from_client, to_client, wake, open, broken };
        if let Some(region) = this.regions.get(this.from_client.region()) {
            this.from_client.mask_wake(region);
        }
        this
    }

    /// Whether the client has broken the rules of a ring.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Whether the client has given buffers for frames, now or before.
    pub(crate) fn is_open(&self) -> bool {
        if !self.open.load(Ordering::Relaxed) {
            let region = self.regions.get(self.to_client.region());
            let given = region.and_then(|region| self.to_client.given(region));
            self.open.store(given.is_some_and(|given| given > 0), Ordering::Relaxed);
        }
        self.open.load(Ordering::Relaxed)
    }

    fn breaks(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// The buffer of a descriptor, whole in the client's memory.
    fn buffer(&self, of: Descriptor) -> Option<Frame<'_>> {
        let region = self.regions.get(usize::from(of.region))?;
        let (offset, len) = (of.offset as usize, of.length as usize);
        (offset.checked_add(len)? <= region.bytes().len()).then_some(Frame { region, offset, len })
    }

    /// Offers up to `most` frames of the client to `take`, until it refuses one, which is
    /// the next the next time.
    pub(crate) fn receive(
        &self,
        most: usize,
        take: &mut dyn FnMut(&Frame<'_>) -> bool,
    ) -> Received {
        let mut received = Received::default();
        let ring = &self.from_client;
        let Some(region) = self.regions.get(ring.region()).filter(|_| !self.is_broken()) else {
            return received;
        };
        let Some(given) = ring.given(region) else {
            self.breaks();
            return received;
        };
        // Descriptors that are done, and whether the next goes on with a frame in several.
        let (mut done, mut inside) = (0, false);
        while done < given && received.frames < most {
            let Some(descriptor) = ring.descriptor(region, done) else { break };
            let whole = !inside && !descriptor.continues;
            match self.buffer(descriptor).filter(|frame| whole && !frame.is_empty()) {
                Some(frame) => {
                    if !take(&frame) {
                        break;
                    }
                    received.frames += 1;
                }
                None => received.garbled += u64::from(!inside),
            }
            inside = descriptor.continues;
            done += 1;
        }
        if done > 0 {
            ring.pass(region, done);
        }
        received
    }

    /// Gives the client a frame in its buffer that is `ahead` of the next; `false`: it has
    /// given none, or none that is long enough.
    pub(crate) fn put(&self, ahead: u16, frame: &[u8]) -> bool {
        let ring = &self.to_client;
        let Some(region) = self.regions.get(ring.region()).filter(|_| !self.is_broken()) else {
            return false;
        };
        let Some(given) = ring.given(region) else {
            self.breaks();
            return false;
        };
        if ahead >= given {
            return false;
        }
        let descriptor = ring.descriptor(region, ahead);
        let buffer = descriptor.and_then(|of| Some((of.region, self.buffer(of)?)));
        match buffer.filter(|(_, buffer)| buffer.len() >= frame.len()) {
            Some((number, buffer)) => {
                write(buffer.region, buffer.offset, frame);
                ring.fill(region, ahead, number, frame.len() as u32);
                true
            }
            None => {
                self.breaks();
                false
            }
        }
    }

    /// Lets the client have the `count` frames that were put.
    pub(crate) fn pass(&self, count: u16) {
        let Some(region) = self.regions.get(self.to_client.region()) else { return };
        self.to_client.pass(region, count);
        if self.to_client.wants_wake(region) {
            // A client that can't be woken has been woken already.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }
}
