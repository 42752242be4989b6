//! The memory of a BPF array that was made with `BPF_F_MMAPABLE`, as atomic words.
//!
//! A BPF program and this process read and write the same words, without a system
//! call. This is the one place that turns the mapping's address into references.
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// A shared, writable mapping of a BPF array from its first word on.
#[derive(Debug)]
pub struct Mapped {
    mapping: MmapRaw,
    words: usize,
}

impl Mapped {
    /// Maps the first `words` words of 8 bytes of the array behind `map`. The mapping
    /// stays valid when `map` is closed.
    ///
    /// # Errors
    /// What `mmap` says: EPERM or ENOTSUPP if the array is not mmap-able, EINVAL if it
    /// is shorter than `words`.
    pub fn new(map: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
        let mapping = MmapOptions::new().len(words * 8).map_raw(map.as_raw_fd())?;
        Ok(Self { mapping, words })
    }

    /// The words of the array.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        let first = self.mapping.as_mut_ptr().cast::<AtomicU64>();
        // All accesses of this process go through atomics, and those of BPF programs are
        // aligned loads and stores of the kernel's side, as from another process.
        // SAFETY: the mapping starts at a page, so it is aligned for words; it is `words`
        // words long, can't be truncated as it is a BPF array's, and lives as long as
        // `self`, to which the slice is bound.
        unsafe { std::slice::from_raw_parts(first, self.words) }
    }
}
