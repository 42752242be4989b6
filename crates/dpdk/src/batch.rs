//! A burst of mbufs.
use std::ops::{Deref, DerefMut};

use arrayvec::{ArrayVec, Drain};
use dpdk_sys as sys;

use crate::mbuf::Mbuf;

/// The usual size of a [`Batch`].
pub const BURST: usize = 64;

/// Up to `N` mbufs in order, without allocating. Dereferences to a slice. Mbufs that
/// it holds when it is dropped go back to their pools.
pub struct Batch<const N: usize = BURST>(ArrayVec<Mbuf, N>);

impl<const N: usize> Batch<N> {
    /// An empty batch.
    #[must_use]
    pub const fn new() -> Self {
        Self(ArrayVec::new_const())
    }

    /// The mbufs themselves, for functions that take packets of any kind.
    #[inline]
    pub fn packets(&mut self) -> &mut ArrayVec<Mbuf, N> {
        &mut self.0
    }

    /// How many more fit.
    #[must_use]
    #[inline]
    pub fn room(&self) -> usize {
        self.0.remaining_capacity()
    }

    /// Whether none fits.
    #[must_use]
    #[inline]
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// Appends `mbuf`.
    ///
    /// # Errors
    /// Gives it back if the batch is full.
    #[inline]
    pub fn push(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        self.0.try_push(mbuf).map_err(arrayvec::CapacityError::element)
    }

    /// Takes the last one.
    #[inline]
    pub fn pop(&mut self) -> Option<Mbuf> {
        self.0.pop()
    }

    /// Takes all, first one first. Mbufs that are not taken when the iterator is
    /// dropped go back to their pools.
    #[inline]
    pub fn drain(&mut self) -> Drain<'_, Mbuf, N> {
        self.0.drain(..)
    }

    /// Keeps the mbufs for which `keep` says so, in order; the others go back to
    /// their pools.
    pub fn retain(&mut self, keep: impl FnMut(&mut Mbuf) -> bool) {
        self.0.retain(keep);
    }

    /// Returns all to their pools.
    pub fn clear(&mut self) {
        let Ok(count) = u32::try_from(self.0.len()) else { return };
        if count == 0 {
            return;
        }
        // SAFETY: none of the slots counts as owned any more.
        unsafe { self.0.set_len(0) };
        // SAFETY: the first `count` slots are initialised mbufs, which are
        // pointers (`repr(transparent)`), and nobody else's now.
        unsafe { sys::rte_pktmbuf_free_bulk(self.0.as_mut_ptr().cast(), count) };
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
        let (len, room) = (self.0.len(), self.room());
        if room == 0 {
            return 0;
        }
        // SAFETY: `len` < N, so the pointer is in the array.
        let free = unsafe { self.0.as_mut_ptr().add(len) };
        let written = source(free.cast(), room).min(room);
        // SAFETY: no more than N, and those behind `len` have just been written.
        unsafe { self.0.set_len(len + written) };
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
        let len = self.0.len();
        if len == 0 {
            return 0;
        }
        let slots = self.0.as_mut_ptr();
        let taken = sink(slots.cast(), len).min(len);
        let left = len - taken;
        // SAFETY: `left` initialised slots from `taken` on are within the array;
        // `copy` allows overlap. The slots before are owned by the sink now, and
        // what counts are the `left` in front.
        unsafe {
            std::ptr::copy(slots.add(taken), slots, left);
            self.0.set_len(left);
        }
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
        &self.0
    }
}

impl<const N: usize> DerefMut for Batch<N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Mbuf] {
        &mut self.0
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
