//! The atomics in use: the machine's, or loom's model of them.

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence},
    },
    thread::yield_now,
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence},
    },
    thread::yield_now,
};
