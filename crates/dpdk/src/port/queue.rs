//! Handles of a port's queues: each exists once, so one thread polls it.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpdk_sys as sys;

use super::error::PortError;
use super::inner::Inner;
use crate::batch::{BURST, Batch};

/// A receive queue. Can move to another thread, but not be shared.
#[derive(Debug)]
pub struct RxQueue {
    port: Arc<Inner>,
    queue: u16,
    linearized: u64,
    dropped: u64,
}

/// A send queue. Can move to another thread, but not be shared.
#[derive(Debug)]
pub struct TxQueue {
    port: Arc<Inner>,
    queue: u16,
}

/// Takes the handle of `queue`, which must be one of `taken`.
fn take(
    port: &Inner,
    taken: &[AtomicBool],
    direction: &'static str,
    queue: u16,
) -> Result<(), PortError> {
    let device = port.device.clone();
    let wrong = |why| PortError::Queue { device, direction, queue, why };
    if !port.started.load(Ordering::Acquire) {
        return Err(wrong("the port is not started"));
    }
    match taken.get(usize::from(queue)) {
        None => Err(wrong("there is no such queue")),
        Some(taken) if taken.swap(true, Ordering::AcqRel) => Err(wrong("its handle is taken")),
        Some(_) => Ok(()),
    }
}

fn give_back(taken: &[AtomicBool], queue: u16) {
    if let Some(taken) = taken.get(usize::from(queue)) {
        taken.store(false, Ordering::Release);
    }
}

impl RxQueue {
    pub(super) fn take(port: &Arc<Inner>, queue: u16) -> Result<Self, PortError> {
        take(port, &port.rx_taken, "receive", queue)?;
        Ok(Self { port: Arc::clone(port), queue, linearized: 0, dropped: 0 })
    }

    /// The queue's number.
    #[must_use]
    pub fn queue(&self) -> u16 {
        self.queue
    }

    /// Appends what has arrived to `batch`, as far as it fits. Returns how many the driver
    /// gave.
    ///
    /// Some drivers hand out only multiples of 4 or 8, so have at least 8 free
    /// places. Frames of several segments are copied into one, and dropped
    /// where that has no room.
    #[inline]
    pub fn rx_burst<const N: usize>(&mut self, batch: &mut Batch<N>) -> usize {
        self.rx_at_most(batch, N)
    }

    /// As [`RxQueue::rx_burst`], and no more than `most`. Returns how many the driver gave:
    /// of frames of several segments `batch` may hold fewer.
    #[inline]
    pub fn rx_at_most<const N: usize>(&mut self, batch: &mut Batch<N>, most: usize) -> usize {
        let before = batch.len();
        let receive = |mbufs: *mut *mut sys::rte_mbuf, n: usize| {
            let n = u16::try_from(n.min(most)).unwrap_or(u16::MAX);
            // SAFETY: the port is started and can't stop while this handle
            // lives, which is the only one of the queue and borrowed
            // exclusively; there is room for `n` pointers.
            usize::from(unsafe { sys::hnlb_rx_burst(self.port.id, self.queue, mbufs, n) })
        };
        // SAFETY: the driver hands over what it received.
        let received = unsafe { batch.fill(receive) };
        if !batch.iter().skip(before).all(super::super::Mbuf::is_contiguous) {
            self.join_segments(batch);
        }
        received
    }

    #[cold]
    fn join_segments<const N: usize>(&mut self, batch: &mut Batch<N>) {
        batch.retain(|mbuf| {
            if mbuf.is_contiguous() {
                return true;
            }
            let joined = mbuf.linearize();
            let counter = if joined { &mut self.linearized } else { &mut self.dropped };
            *counter += 1;
            joined
        });
    }

    /// Whether the queue held no packet when its last poll brought none: drivers also
    /// return nothing when they find no mbuf for a packet. A driver that does not
    /// count its packets is believed if the pool has mbufs for a whole burst.
    #[cold]
    #[must_use]
    pub fn was_empty(&self) -> bool {
        // SAFETY: the port is started and can't stop while this handle lives, which is
        // the only one of the queue; the call reads the ring.
        let count = unsafe { sys::hnlb_rx_queue_count(self.port.id, self.queue) };
        if count >= 0 {
            return count == 0;
        }
        let mut spare = Batch::<BURST>::new();
        self.port.pool.alloc_burst(&mut spare, BURST) == BURST
    }

    /// Frames of several segments that were copied into one.
    #[must_use]
    pub fn linearized(&self) -> u64 {
        self.linearized
    }

    /// Frames of several segments that were dropped, as one mbuf is too small.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Drop for RxQueue {
    fn drop(&mut self) {
        give_back(&self.port.rx_taken, self.queue);
    }
}

impl TxQueue {
    pub(super) fn take(port: &Arc<Inner>, queue: u16) -> Result<Self, PortError> {
        take(port, &port.tx_taken, "send", queue)?;
        Ok(Self { port: Arc::clone(port), queue })
    }

    /// The queue's number.
    #[must_use]
    pub fn queue(&self) -> u16 {
        self.queue
    }

    /// Sends from the front of `batch`; what the device has no room for stays in it,
    /// in order. Returns how many were sent.
    #[inline]
    pub fn tx_burst<const N: usize>(&mut self, batch: &mut Batch<N>) -> usize {
        let send = |mbufs: *mut *mut sys::rte_mbuf, n: usize| {
            let n = u16::try_from(n).unwrap_or(u16::MAX);
            // SAFETY: the port is started and can't stop while this handle
            // lives, which is the only one of the queue and borrowed
            // exclusively; there are `n` owned mbufs.
            usize::from(unsafe { sys::hnlb_tx_burst(self.port.id, self.queue, mbufs, n) })
        };
        // SAFETY: the driver owns what it took, the first ones in order.
        unsafe { batch.give(send) }
    }
}

impl Drop for TxQueue {
    fn drop(&mut self) {
        give_back(&self.port.tx_taken, self.queue);
    }
}
