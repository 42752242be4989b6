//! Queues of mbufs between threads.
use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;

use dpdk_sys as sys;

use crate::batch::Batch;
use crate::live::{Live, NotRunning};
use crate::mbuf::Mbuf;
use crate::{errno, log};

/// A ring could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// EAL does not run.
    #[error(transparent)]
    NotRunning(#[from] NotRunning),
    /// DPDK refused.
    #[error("ring '{name}' of {size} mbufs: {reason}")]
    Create {
        /// The ring.
        name: String,
        /// Mbufs asked for.
        size: u32,
        /// DPDK's reason.
        reason: String,
    },
}

/// The ring itself; freed with the last handle, and what is in it returns to
/// the pools.
#[derive(Debug)]
pub(crate) struct Raw {
    ring: NonNull<sys::rte_ring>,
    _live: Live,
}

// SAFETY: an rte_ring is shared memory with atomic indices; how many threads
// may be at which end is kept by the handles below.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

impl Raw {
    fn new(name: &str, size: u32, flags: u32) -> Result<Arc<Self>, RingError> {
        let live = Live::new()?;
        let fail = |reason| RingError::Create { name: name.to_owned(), size, reason };
        let text = CString::new(name).map_err(|_| fail("the name has a NUL byte".to_owned()))?;
        let made = log::explained(|| {
            // SAFETY: `text` is a C string, EAL runs (`live`), -1 is any NUMA node.
            let ring = unsafe {
                sys::rte_ring_create(text.as_ptr(), size, -1, flags | sys::RING_F_EXACT_SZ)
            };
            NonNull::new(ring).ok_or_else(errno::last)
        });
        match made {
            Ok(ring) => Ok(Arc::new(Self { ring, _live: live })),
            Err((code, log)) => Err(fail(log::with_log(errno::text(code), &log))),
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::rte_ring {
        self.ring.as_ptr()
    }

    /// # Safety
    /// The ring is multi-producer, or the caller is its only producer.
    #[inline]
    unsafe fn enqueue<const N: usize>(&self, batch: &mut Batch<N>) -> usize {
        let put = |mbufs: *mut *mut sys::rte_mbuf, n: usize| {
            let n = u32::try_from(n).unwrap_or(u32::MAX);
            // SAFETY: `n` pointers at `mbufs`; who may call is the caller's promise.
            unsafe { sys::hnlb_ring_enqueue(self.as_ptr(), mbufs.cast(), n) as usize }
        };
        // SAFETY: what the ring took it owns, in order from the first.
        unsafe { batch.give(put) }
    }

    /// # Safety
    /// The ring is multi-consumer, or the caller is its only consumer.
    #[inline]
    unsafe fn dequeue<const N: usize>(&self, batch: &mut Batch<N>) -> usize {
        let get = |mbufs: *mut *mut sys::rte_mbuf, n: usize| {
            let n = u32::try_from(n).unwrap_or(u32::MAX);
            // SAFETY: room for `n` pointers at `mbufs`; who may call is the
            // caller's promise.
            unsafe { sys::hnlb_ring_dequeue(self.as_ptr(), mbufs.cast(), n) as usize }
        };
        // SAFETY: only owned mbufs are ever put into a ring (by `enqueue`, or
        // by the driver of a net_ring port whose end was given away), and what
        // comes out is no longer in it.
        unsafe { batch.fill(get) }
    }

    fn len(&self) -> usize {
        // SAFETY: the ring lives.
        unsafe { sys::hnlb_ring_count(self.as_ptr()) as usize }
    }

    fn capacity(&self) -> usize {
        // SAFETY: the ring lives.
        unsafe { sys::hnlb_ring_capacity(self.as_ptr()) as usize }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let mut rest = Batch::<{ crate::BURST }>::new();
        // SAFETY: the last handle is gone, so this is the only consumer.
        while unsafe { self.dequeue(&mut rest) } > 0 {
            rest.clear();
        }
        // SAFETY: nobody holds the ring any more, and it is empty.
        unsafe { sys::rte_ring_free(self.as_ptr()) };
    }
}

/// A ring for any number of producers and consumers.
#[derive(Clone, Debug)]
pub struct Ring(Arc<Raw>);

impl Ring {
    /// A ring named `name` (unique, up to 28 bytes) for exactly `size` mbufs.
    ///
    /// # Errors
    /// The name is in use or too long, there is no memory.
    pub fn new(name: &str, size: u32) -> Result<Self, RingError> {
        Raw::new(name, size, 0).map(Self)
    }

    /// Moves as many as fit into the ring; the rest stays in `batch`, in order.
    /// Returns how many were moved.
    #[inline]
    pub fn enqueue_burst<const N: usize>(&self, batch: &mut Batch<N>) -> usize {
        // SAFETY: the ring is multi-producer.
        unsafe { self.0.enqueue(batch) }
    }

    /// Appends as many to `batch` as are there and fit. Returns how many.
    #[inline]
    pub fn dequeue_burst<const N: usize>(&self, batch: &mut Batch<N>) -> usize {
        // SAFETY: the ring is multi-consumer.
        unsafe { self.0.dequeue(batch) }
    }

    /// Mbufs in the ring; not exact while others use it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the ring is empty; not exact while others use it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Mbufs that fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

/// The sending end of a ring with one producer and one consumer.
#[derive(Debug)]
pub struct Producer(Arc<Raw>);

/// The receiving end of a ring with one producer and one consumer.
#[derive(Debug)]
pub struct Consumer(Arc<Raw>);

/// A ring named `name` (unique, up to 28 bytes) for exactly `size` mbufs with
/// one producer and one consumer, who may be on different threads.
///
/// # Errors
/// The name is in use or too long, there is no memory.
pub fn spsc(name: &str, size: u32) -> Result<(Producer, Consumer), RingError> {
    let raw = Raw::new(name, size, sys::RING_F_SP_ENQ | sys::RING_F_SC_DEQ)?;
    Ok((Producer(Arc::clone(&raw)), Consumer(raw)))
}

impl Producer {
    /// Moves as many as fit into the ring; the rest stays in `batch`, in order.
    /// Returns how many were moved.
    #[inline]
    pub fn enqueue_burst<const N: usize>(&mut self, batch: &mut Batch<N>) -> usize {
        // SAFETY: there is one Producer, and it is borrowed exclusively.
        unsafe { self.0.enqueue(batch) }
    }

    /// Puts one mbuf into the ring.
    ///
    /// # Errors
    /// Gives it back if the ring is full.
    pub fn enqueue(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        let mut one = Batch::<1>::new();
        one.push(mbuf)?;
        self.enqueue_burst(&mut one);
        one.pop().map_or(Ok(()), Err)
    }

    /// Mbufs in the ring; not exact while the consumer takes some.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the ring is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Mbufs that fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub(crate) fn raw(&self) -> &Arc<Raw> {
        &self.0
    }
}

impl Consumer {
    /// Appends as many to `batch` as are there and fit. Returns how many.
    #[inline]
    pub fn dequeue_burst<const N: usize>(&mut self, batch: &mut Batch<N>) -> usize {
        // SAFETY: there is one Consumer, and it is borrowed exclusively.
        unsafe { self.0.dequeue(batch) }
    }

    /// Takes one mbuf out of the ring.
    pub fn dequeue(&mut self) -> Option<Mbuf> {
        let mut one = Batch::<1>::new();
        self.dequeue_burst(&mut one);
        one.pop()
    }

    /// Mbufs in the ring; not exact while the producer adds some.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the ring is empty; not exact while the producer adds some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Mbufs that fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub(crate) fn raw(&self) -> &Arc<Raw> {
        &self.0
    }
}
