//! Memory that somebody else writes meanwhile, as atomics: a BPF array that was made with
//! `BPF_F_MMAPABLE`, or a file of another process that can't become shorter.
//!
//! A BPF program, or another process, and this process read and write the same memory,
//! without a system call. This is the one place that turns the mapping's address into
//! references.
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::SealFlags;

/// A shared, writable mapping from the first byte on, of whole words of 8 bytes.
///
/// The views of different widths are the same memory. One thread at a time may use views
/// of different widths: mixed accesses of several are no atomics to each other.
#[derive(Debug)]
pub struct Mapped {
    mapping: MmapRaw,
    words: usize,
}

/// A file that is not mapped.
#[derive(Debug)]
pub enum SealedError {
    /// Its owner may cut it, and every access behind the cut would end this process.
    NotSealed,
    /// It is shorter than was said, or nothing was to be mapped.
    Short,
    /// What the kernel says.
    Io(io::Error),
}

impl std::fmt::Display for SealedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSealed => f.write_str("the memory is not sealed against becoming shorter"),
            Self::Short => f.write_str("the memory is shorter than was said"),
            Self::Io(error) => write!(f, "the memory can't be mapped: {error}"),
        }
    }
}

impl std::error::Error for SealedError {}

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

    /// Maps the first `bytes` bytes, without those of an incomplete word at the end, of a
    /// file that another process has made. It must be sealed against becoming shorter
    /// (`F_SEAL_SHRINK`, memfd_create(2)): access to a page that is cut off would end this
    /// process.
    ///
    /// # Errors
    /// [`SealedError`] says why the file is not mapped.
    pub fn sealed(file: impl AsFd, bytes: u64) -> Result<Self, SealedError> {
        let file = file.as_fd();
        let failed = |error: rustix::io::Errno| SealedError::Io(error.into());
        let seals = rustix::fs::fcntl_get_seals(file).map_err(|_| SealedError::NotSealed)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(SealedError::NotSealed);
        }
        let size = rustix::fs::fstat(file).map_err(failed)?.st_size;
        let words = usize::try_from(bytes / 8).map_err(|_| SealedError::Short)?;
        if words == 0 || u64::try_from(size).map_or(true, |size| size < bytes) {
            return Err(SealedError::Short);
        }
        Self::new(file, words).map_err(SealedError::Io)
    }

    /// The memory as words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        let first = self.mapping.as_mut_ptr().cast::<AtomicU64>();
        // All accesses of this process go through atomics, and those of BPF programs and
        // other processes are aligned loads and stores from outside of it.
        // SAFETY: the mapping starts at a page, so it is aligned for words; it is `words`
        // words long, can't be truncated, as it is a BPF array's or sealed, and lives as
        // long as `self`, to which the slice is bound.
        unsafe { std::slice::from_raw_parts(first, self.words) }
    }

    /// The memory by two bytes.
    #[must_use]
    pub fn halves(&self) -> &[AtomicU16] {
        let first = self.mapping.as_mut_ptr().cast::<AtomicU16>();
        // SAFETY: as in `words`, which are four times as long.
        unsafe { std::slice::from_raw_parts(first, self.words * 4) }
    }

    /// The memory by bytes.
    #[must_use]
    pub fn bytes(&self) -> &[AtomicU8] {
        let first = self.mapping.as_mut_ptr().cast::<AtomicU8>();
        // SAFETY: as in `words`, which are eight times as long.
        unsafe { std::slice::from_raw_parts(first, self.words * 8) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::atomic::Ordering;

    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    use super::*;

    fn memory(bytes: u64, seals: SealFlags) -> OwnedFd {
        let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, bytes).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    }

    #[test]
    fn the_views_are_the_same_memory() {
        let mapped = Mapped::sealed(memory(4096, SealFlags::SHRINK), 4096).unwrap();
        mapped.words()[1].store(u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8]), Ordering::Relaxed);
        assert_eq!(mapped.bytes()[10].load(Ordering::Relaxed), 3);
        let half = mapped.halves()[6].load(Ordering::Relaxed);
        assert_eq!(half.to_ne_bytes(), [5, 6]);
        assert_eq!((mapped.bytes().len(), mapped.halves().len()), (4096, 2048));
    }

    #[test]
    fn memory_that_may_be_cut_or_is_short_is_not_mapped() {
        let open = Mapped::sealed(memory(4096, SealFlags::GROW), 4096);
        assert!(matches!(open, Err(SealedError::NotSealed)), "{open:?}");
        for bytes in [0, 7, 4097, u64::MAX] {
            let short = Mapped::sealed(memory(4096, SealFlags::SHRINK), bytes);
            assert!(matches!(short, Err(SealedError::Short)), "{bytes}: {short:?}");
        }
        let (pipe, _) = std::io::pipe().unwrap();
        assert!(matches!(Mapped::sealed(pipe, 4096), Err(SealedError::NotSealed)));
    }
}
