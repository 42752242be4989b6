//! Where mbufs come from.
use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;

use dpdk_sys as sys;

use crate::batch::Batch;
use crate::live::{self, Live, NotRunning};
use crate::mbuf::Mbuf;
use crate::{errno, log};

/// Bytes in front of a frame in a fresh mbuf.
pub const HEADROOM: usize = sys::RTE_PKTMBUF_HEADROOM as usize;

/// A pool could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MempoolError {
    /// EAL does not run.
    #[error(transparent)]
    NotRunning(#[from] NotRunning),
    /// A number out of range.
    #[error("mempool '{name}': {what}")]
    Argument {
        /// The pool.
        name: String,
        /// What is wrong and what would be right.
        what: String,
    },
    /// DPDK refused.
    #[error("mempool '{name}' of {count} mbufs with {data_room} bytes each: {reason}")]
    Create {
        /// The pool.
        name: String,
        /// Mbufs asked for.
        count: u32,
        /// Bytes of a frame asked for.
        data_room: u16,
        /// Whether EAL had too little memory for it.
        lacks_memory: bool,
        /// DPDK's reason.
        reason: String,
    },
}

/// A handle on a pool of mbufs.
///
/// The pool itself stays until EAL is cleaned up, even when all handles are
/// gone: mbufs find their pool by a pointer and may come back at any time. So
/// make pools at start, not per connection or per reload.
#[derive(Clone, Debug)]
pub struct Mempool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    pool: NonNull<sys::rte_mempool>,
    name: String,
    _live: Live,
}

// SAFETY: a mempool may be used by any thread at once: its ring is multi-producer
// and multi-consumer and its caches belong to lcores; the rest is read only.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Mempool {
    /// A pool named `name` (unique, up to 25 bytes) of `count` mbufs for frames of up to
    /// `data_room` bytes, behind [`HEADROOM`] bytes; `cache` mbufs (0 to 512,
    /// at most two thirds of `count`) are kept per registered thread. Takes
    /// about `count` times `data_room` + 384 bytes of EAL's memory.
    ///
    /// # Errors
    /// A number out of range, a name in use, no memory.
    pub fn new(name: &str, count: u32, cache: u32, data_room: u16) -> Result<Self, MempoolError> {
        let live = Live::new()?;
        let wrong = |what: String| MempoolError::Argument { name: name.to_owned(), what };
        let text = CString::new(name).map_err(|_| wrong("the name has a NUL byte".to_owned()))?;
        let most = sys::RTE_MEMPOOL_CACHE_MAX_SIZE.min(count / 3 * 2);
        if cache > most {
            return Err(wrong(format!(
                "a cache of {cache} mbufs is too large; at most {most} for {count} mbufs"
            )));
        }
        let room = u16::try_from(HEADROOM)
            .ok()
            .and_then(|headroom| data_room.checked_add(headroom))
            .ok_or_else(|| wrong(format!("{data_room} bytes are too many; at most 65407")))?;
        let made = log::explained(|| {
            // SAFETY: `text` is a C string, EAL runs (`live`), -1 is any NUMA node.
            let pool =
                unsafe { sys::rte_pktmbuf_pool_create(text.as_ptr(), count, cache, 0, room, -1) };
            NonNull::new(pool).ok_or_else(errno::last)
        });
        let pool = made.map_err(|(code, log)| MempoolError::Create {
            name: name.to_owned(),
            count,
            data_room,
            lacks_memory: errno::is_no_memory(code),
            reason: log::with_log(errno::text(code), &log),
        })?;
        live::add_pool(pool.as_ptr());
        Ok(Self(Arc::new(Pool { pool, name: name.to_owned(), _live: live })))
    }

    /// The pool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// An empty mbuf, `None` if none is left.
    #[must_use]
    #[inline]
    pub fn alloc(&self) -> Option<Mbuf> {
        // SAFETY: the pool lives, as EAL does. What comes out is owned by nobody else.
        unsafe { Mbuf::from_raw(sys::hnlb_mbuf_alloc(self.as_ptr())) }
    }

    /// Appends `n` empty mbufs to `batch`: all, or none if the pool or the batch has
    /// fewer left. Returns how many.
    pub fn alloc_burst<const N: usize>(&self, batch: &mut Batch<N>, n: usize) -> usize {
        let Ok(count) = u32::try_from(n) else { return 0 };
        if n > batch.room() {
            return 0;
        }
        let take = |slots, _room| {
            // SAFETY: the batch has `n` free slots, as asked above.
            let failed = unsafe { sys::hnlb_mbuf_alloc_bulk(self.as_ptr(), slots, count) } != 0;
            if failed { 0 } else { n }
        };
        // SAFETY: unless it failed, DPDK wrote all `n`, owned by nobody else.
        unsafe { batch.fill(take) }
    }

    /// Mbufs that are somewhere else: in batches, rings and queues. Not exact
    /// while other threads take or return some.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        // SAFETY: the pool lives.
        unsafe { sys::rte_mempool_in_use_count(self.as_ptr()) }
    }

    /// Mbufs that are left, caches included. Not exact while other threads
    /// take or return some.
    #[must_use]
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives.
        unsafe { sys::rte_mempool_avail_count(self.as_ptr()) }
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::rte_mempool {
        self.0.pool.as_ptr()
    }
}
