//! A burst of mbufs.
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use dpdk_sys as sys;

use crate::mbuf::Mbuf;

/// The usual size of a [`Batch`].
pub const BURST: usize = 64;

/// Up to `N` mbufs in order, without allocating. Dereferences to a slice.
/// What is in it when it is dropped goes back to the pools.
pub struct Batch<const N: usize = BURST> {
    /// The first `len` are initialised and owned.
    slots: [MaybeUninit<Mbuf>; N],
    len: usize,
}

impl<const N: usize> Batch<N> {
    /// An empty batch.
    #[must_use]
    pub const fn new() -> Self {
        Self { slots: [const { MaybeUninit::uninit() }; N], len: 0 }
    }

    /// How many more fit.
    #[must_use]
    #[inline]
    pub fn room(&self) -> usize {
        N - self.len
    }

    /// Whether none fits.
    #[must_use]
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == N
    }

    /// Appends `mbuf`.
    ///
    /// # Errors
    /// Gives it back if the batch is full.
    #[inline]
    pub fn push(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        match self.slots.get_mut(self.len) {
            Some(slot) => {
                slot.write(mbuf);
                self.len += 1;
                Ok(())
            }
            None => Err(mbuf),
        }
    }

    /// Takes the last one.
    #[inline]
    pub fn pop(&mut self) -> Option<Mbuf> {
        self.len = self.len.checked_sub(1)?;
        let slot = self.slots.get(self.len)?;
        // SAFETY: it was the last initialised slot and no longer counts as such.
        Some(unsafe { slot.assume_init_read() })
    }

    /// Takes all, first one first. What is not taken when the iterator is
    /// dropped goes back to the pools.
    #[inline]
    pub fn drain(&mut self) -> Drain<'_, N> {
        let end = std::mem::take(&mut self.len);
        Drain { batch: self, next: 0, end }
    }

    /// Keeps those for which `keep` says so, in order; the others go back to
    /// the pools.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut Mbuf) -> bool) {
        let len = std::mem::take(&mut self.len);
        for at in 0..len {
            let Some(slot) = self.slots.get(at) else { break };
            // SAFETY: slots below the old length are initialised, each is read
            // once, and `self.len` never counts a slot that was read and not
            // written again (`self.len` <= `at`). If `keep` panics, the mbufs
            // behind `at` are lost, not freed twice.
            let mut mbuf = unsafe { slot.assume_init_read() };
            if keep(&mut mbuf) {
                if let Some(slot) = self.slots.get_mut(self.len) {
                    slot.write(mbuf);
                    self.len += 1;
                }
            }
        }
    }

    /// Returns all to their pools.
    pub fn clear(&mut self) {
        let len = std::mem::take(&mut self.len);
        if len == 0 {
            return;
        }
        let Ok(count) = u32::try_from(len) else { return };
        // SAFETY: the first `len` slots are initialised mbufs, which are
        // pointers (`repr(transparent)`), and no longer count as owned.
        unsafe { sys::rte_pktmbuf_free_bulk(self.slots.as_mut_ptr().cast(), count) };
    }

    /// Lets `source` write mbufs behind the last one: it gets the first free
    /// slot and how many there are, and says how many it wrote.
    ///
    /// # Safety
    /// `source` writes as many live mbufs as it says, and nobody else owns them.
    #[inline]
    pub(crate) unsafe fn fill(
        &mut self,
        source: impl FnOnce(*mut *mut sys::rte_mbuf, usize) -> usize,
    ) -> usize {
        let room = self.room();
        if room == 0 {
            return 0;
        }
        // SAFETY: `len` < N, so the pointer is in the array.
        let free = unsafe { self.slots.as_mut_ptr().add(self.len) };
        let written = source(free.cast(), room).min(room);
        self.len += written;
        written
    }

    /// Lets `sink` take mbufs from the front: it gets the first and how many
    /// there are, and says how many it took. The rest moves to the front.
    ///
    /// # Safety
    /// `sink` owns as many of the first mbufs as it says, and none of the others.
    #[inline]
    pub(crate) unsafe fn give(
        &mut self,
        sink: impl FnOnce(*mut *mut sys::rte_mbuf, usize) -> usize,
    ) -> usize {
        if self.len == 0 {
            return 0;
        }
        let slots = self.slots.as_mut_ptr();
        let taken = sink(slots.cast(), self.len).min(self.len);
        let left = self.len - taken;
        self.len = 0;
        // SAFETY: `left` initialised slots from `taken` on are within the array;
        // `copy` allows overlap. The slots before are owned by the sink now.
        unsafe { std::ptr::copy(slots.add(taken), slots, left) };
        self.len = left;
        taken
    }
}

impl<const N: usize> Default for Batch<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Deref for Batch<N> {
    type Target = [Mbuf];

    #[inline]
    fn deref(&self) -> &[Mbuf] {
        // SAFETY: the first `len` slots are initialised, and MaybeUninit<Mbuf>
        // has Mbuf's layout.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr().cast(), self.len) }
    }
}

impl<const N: usize> DerefMut for Batch<N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Mbuf] {
        // SAFETY: as in `deref`, and the reference is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.slots.as_mut_ptr().cast(), self.len) }
    }
}

impl<const N: usize> Drop for Batch<N> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<const N: usize> std::fmt::Debug for Batch<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, const N: usize> IntoIterator for &'a Batch<N> {
    type Item = &'a Mbuf;
    type IntoIter = std::slice::Iter<'a, Mbuf>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, const N: usize> IntoIterator for &'a mut Batch<N> {
    type Item = &'a mut Mbuf;
    type IntoIter = std::slice::IterMut<'a, Mbuf>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

/// Takes the mbufs out of a [`Batch`]; see [`Batch::drain`].
#[derive(Debug)]
pub struct Drain<'a, const N: usize> {
    /// Its length is 0 meanwhile: slots `next..end` belong to the drain.
    batch: &'a mut Batch<N>,
    next: usize,
    end: usize,
}

impl<const N: usize> Iterator for Drain<'_, N> {
    type Item = Mbuf;

    #[inline]
    fn next(&mut self) -> Option<Mbuf> {
        if self.next == self.end {
            return None;
        }
        let slot = self.batch.slots.get(self.next)?;
        self.next += 1;
        // SAFETY: an initialised slot of the drain, read once.
        Some(unsafe { slot.assume_init_read() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }
}

impl<const N: usize> ExactSizeIterator for Drain<'_, N> {}

impl<const N: usize> Drop for Drain<'_, N> {
    fn drop(&mut self) {
        for mbuf in self.by_ref() {
            drop(mbuf);
        }
    }
}
