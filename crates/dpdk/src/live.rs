//! Whether EAL runs, and what of it is still in use.
//!
//! Cleaning EAL up unmaps all its memory. It is therefore only done when no
//! wrapper is alive (each holds a [`Live`]) and every mbuf is back in its pool.
use std::sync::{Mutex, MutexGuard, PoisonError};

/// EAL was not initialised, or has been cleaned up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("DPDK's environment (EAL) is not running; call Eal::init first and keep its result")]
pub struct NotRunning;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Fresh,
    Running,
    Over,
}

struct State {
    stage: Stage,
    live: usize,
    /// Every pool ever made, as addresses: pools are freed only with EAL.
    pools: Vec<usize>,
}

static STATE: Mutex<State> = Mutex::new(State { stage: Stage::Fresh, live: 0, pools: Vec::new() });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held by everything that uses EAL's memory.
#[derive(Debug)]
pub(crate) struct Live(());

impl Live {
    pub(crate) fn new() -> Result<Self, NotRunning> {
        let mut state = state();
        if state.stage != Stage::Running {
            return Err(NotRunning);
        }
        state.live += 1;
        Ok(Self(()))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let mut state = state();
        state.live = state.live.saturating_sub(1);
    }
}

/// Runs `init` unless something was run before. EAL can be started once per
/// process, so a failure is final, too.
pub(crate) fn start<T, E>(init: impl FnOnce() -> Result<T, E>) -> Option<Result<T, E>> {
    let mut state = state();
    if state.stage != Stage::Fresh {
        return None;
    }
    let result = init();
    state.stage = if result.is_ok() { Stage::Running } else { Stage::Over };
    Some(result)
}

/// Remembers a pool, so that EAL is not cleaned up while it lacks mbufs.
pub(crate) fn add_pool(pool: *mut dpdk_sys::rte_mempool) {
    state().pools.push(pool as usize);
}

/// EAL can't be cleaned up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "DPDK can't be cleaned up: {objects} of its objects (pools, ports, queues, rings, threads) \
     and {mbufs} mbufs are still in use"
)]
pub struct StillInUse {
    /// Handles that were not dropped.
    pub objects: usize,
    /// Mbufs that are not in their pools.
    pub mbufs: u64,
}

/// Cleans EAL up if nothing uses it; else says what does, and EAL runs on.
pub(crate) fn end() -> Result<(), StillInUse> {
    let mut state = state();
    if state.stage != Stage::Running {
        return Ok(());
    }
    let mbufs: u64 = state
        .pools
        .iter()
        .map(|pool| {
            let pool = *pool as *const dpdk_sys::rte_mempool;
            // SAFETY: pools are never freed while EAL runs (see `Mempool`).
            u64::from(unsafe { dpdk_sys::rte_mempool_in_use_count(pool) })
        })
        .sum();
    let objects = state.live;
    if objects > 0 || mbufs > 0 {
        return Err(StillInUse { objects, mbufs });
    }
    state.stage = Stage::Over;
    state.pools.clear();
    // SAFETY: no wrapper and no mbuf exists, and the stage lets none come into
    // being: nothing can reach the memory that this unmaps. Threads that are
    // registered with EAL hold a `Live`, so none of them is in a pool's cache.
    unsafe { dpdk_sys::rte_eal_cleanup() };
    Ok(())
}
