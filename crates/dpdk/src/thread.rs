//! Ordinary threads as EAL threads.
use std::marker::PhantomData;

use crate::errno;
use crate::live::{Live, NotRunning};

/// A thread could not be registered or pinned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThreadError {
    /// EAL does not run.
    #[error(transparent)]
    NotRunning(#[from] NotRunning),
    /// It is one already.
    #[error("the thread is lcore {0} already")]
    Registered(u32),
    /// EAL refused.
    #[error("the thread can't be registered with EAL: {0}")]
    Register(String),
    /// The kernel refused.
    #[error("the thread can't be pinned to core {core}: {reason}; it may use cores {allowed:?}")]
    Pin {
        /// The core asked for.
        core: usize,
        /// Why not.
        reason: String,
        /// The cores the thread may use.
        allowed: Vec<u32>,
    },
}

/// The calling thread is registered with EAL while this lives: it has an lcore
/// id, and with it a cache in every mempool.
#[derive(Debug)]
#[must_use = "the thread is unregistered when this is dropped"]
pub struct ThreadGuard {
    lcore: u32,
    _live: Live,
    /// Unregistering is for the thread itself.
    _here: PhantomData<*const ()>,
}

impl ThreadGuard {
    /// The thread's lcore id; a name only, not a processor's number.
    #[must_use]
    pub fn lcore(&self) -> u32 {
        self.lcore
    }
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        // SAFETY: the guard is not Send, so this is the thread that registered.
        unsafe { dpdk_sys::rte_thread_unregister() };
    }
}

/// Registers the calling thread with EAL. Works without, but then every mbuf
/// taken or returned goes past the mempool's cache.
///
/// # Errors
/// EAL does not run, the thread is registered already (as is the one that
/// started EAL), or EAL has no lcore id left.
pub fn register_thread() -> Result<ThreadGuard, ThreadError> {
    let live = Live::new()?;
    // SAFETY: reads a thread-local number.
    let lcore = unsafe { dpdk_sys::hnlb_lcore_id() };
    if lcore != u32::MAX {
        return Err(ThreadError::Registered(lcore));
    }
    // SAFETY: EAL runs (`live`) and the thread is not registered.
    if unsafe { dpdk_sys::rte_thread_register() } < 0 {
        return Err(ThreadError::Register(errno::text(errno::last())));
    }
    // SAFETY: reads a thread-local number.
    let lcore = unsafe { dpdk_sys::hnlb_lcore_id() };
    Ok(ThreadGuard { lcore, _live: live, _here: PhantomData })
}

/// Pins the calling thread to processor `core`.
///
/// # Errors
/// EAL does not run or there is no such processor for this process.
pub fn pin_to_core(core: usize) -> Result<(), ThreadError> {
    let _live = Live::new()?;
    // SAFETY: concerns the calling thread's affinity only; the shim checks the
    // number's range.
    let code = unsafe { dpdk_sys::hnlb_pin_to_core(u32::try_from(core).unwrap_or(u32::MAX)) };
    if code == 0 {
        return Ok(());
    }
    Err(ThreadError::Pin { core, reason: errno::text(code), allowed: allowed_cores() })
}

/// The processors that the calling thread may use.
#[must_use]
pub fn allowed_cores() -> Vec<u32> {
    let mut cores = vec![0_u32; 1024];
    // SAFETY: `cores` is `cores.len()` writable numbers.
    let found = unsafe { dpdk_sys::hnlb_allowed_cores(cores.as_mut_ptr(), cores.len()) };
    cores.truncate(found);
    cores
}
