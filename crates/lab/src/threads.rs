//! Threads of a load.

use std::thread::ScopedJoinHandle;

/// What the thread returned; its panic goes on here.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
