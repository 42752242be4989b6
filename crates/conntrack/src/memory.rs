//! Memory for tables: cache-line aligned, zeroed by the operating system page
//! by page when it is first touched. With its `vector` the only module with `unsafe`
//! code.
#![allow(unsafe_code)]

pub(crate) mod vector;

use std::fmt;

use crate::bucket::Bucket;
use crate::record::Record;
use crate::segment::Began;

/// The memory could not be had.
#[derive(Debug)]
pub(crate) struct OutOfMemory {
    /// How many bytes were asked for.
    pub(crate) bytes: usize,
}

/// Types for which a value of zero bytes is valid and means "empty", and that
/// need no drop.
///
/// # Safety
/// All-zero bytes must be a valid value of the type, and it must not own
/// anything that a drop would release.
pub(crate) unsafe trait Zeroed: Sized {
    /// The same value, made the long way: loom's atomics are not plain memory.
    #[cfg(loom)]
    fn zeroed() -> Self;
}

// SAFETY: a bucket is an array of `AtomicU64`, for which zero bytes are valid
// and which has no drop.
unsafe impl Zeroed for Bucket {
    #[cfg(loom)]
    fn zeroed() -> Self {
        Self::empty()
    }
}

// SAFETY: a record consists of `AtomicU64` and `AtomicU32` only, for which
// zero bytes are valid and which have no drop.
unsafe impl<const K: usize> Zeroed for Record<K> {
    #[cfg(loom)]
    fn zeroed() -> Self {
        Self::empty()
    }
}

// SAFETY: the only field is an `AtomicU32`, for which zero bytes are valid and
// which has no drop.
unsafe impl Zeroed for Began {
    #[cfg(loom)]
    fn zeroed() -> Self {
        Self::unknown()
    }
}

#[cfg(not(loom))]
mod slab {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ops::Deref;
    use std::ptr::NonNull;

    use super::{OutOfMemory, Zeroed};

    /// The size of a huge page of x86-64, and of 64-bit Arm with pages of 4 KiB.
    const HUGE_PAGE: usize = 2 << 20;

    /// Asks for huge pages; without any the memory is as good, only slower.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn advise_huge(first: NonNull<u8>, bytes: usize) {
        use std::ffi::{c_int, c_void};
        unsafe extern "C" {
            /// madvise(2).
            fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
        }
        const MADV_HUGEPAGE: c_int = 14;
        // SAFETY: concerns whole pages from the array's first byte, a page's
        // start, to its last; the advice changes no contents.
        let _ = unsafe { madvise(first.as_ptr().cast(), bytes, MADV_HUGEPAGE) };
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn advise_huge(_first: NonNull<u8>, _bytes: usize) {}

    /// A fixed array that is shared by all threads.
    pub(crate) struct Slab<T> {
        first: NonNull<T>,
        len: usize,
        base: NonNull<u8>,
        layout: Option<Layout>,
    }

    // SAFETY: a slab owns its array as a `Box<[T]>` would, and gives out only
    // shared references to it.
    unsafe impl<T: Send> Send for Slab<T> {}
    // SAFETY: as above; `&Slab<T>` gives no more than `&[T]`.
    unsafe impl<T: Sync> Sync for Slab<T> {}

    impl<T: Zeroed> Slab<T> {
        /// `len` zeroed values. Nothing is touched: the allocation asks for no
        /// more alignment than `calloc` gives, so that large tables come as
        /// fresh pages from the system, and is aligned by hand. What is larger
        /// than a huge page begins at the start of one and asks for more.
        pub(crate) fn new(len: usize) -> Result<Self, OutOfMemory> {
            let empty = Self {
                first: NonNull::dangling(),
                len: 0,
                base: NonNull::dangling(),
                layout: None,
            };
            if len == 0 || size_of::<T>() == 0 {
                return Ok(empty);
            }
            let array = len.saturating_mul(size_of::<T>());
            let align = align_of::<T>().max(if array < HUGE_PAGE { 1 } else { HUGE_PAGE });
            let bytes = array.saturating_add(align);
            let layout = Layout::from_size_align(bytes, align_of::<u64>())
                .map_err(|_| OutOfMemory { bytes })?;
            // SAFETY: the layout's size is not zero: `len` and the type's size are not.
            let raw = unsafe { alloc_zeroed(layout) };
            let base = NonNull::new(raw).ok_or(OutOfMemory { bytes })?;
            let padding = raw.align_offset(align);
            if padding > align {
                // SAFETY: `base` was allocated above with this layout.
                unsafe { dealloc(raw, layout) };
                return Err(OutOfMemory { bytes });
            }
            // SAFETY: the allocation is one `align` larger than the array,
            // and the padding is at most that, so the result lies inside it.
            let first = unsafe { base.add(padding) };
            if align == HUGE_PAGE {
                advise_huge(first, array);
            }
            let first = first.cast::<T>();
            Ok(Self { first, len, base, layout: Some(layout) })
        }
    }

    impl<T> Deref for Slab<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            // SAFETY: `first` is aligned and starts `len` values of zero bytes,
            // which `Zeroed` declares valid; no unique reference exists to
            // them while the slab is borrowed. With `len` 0 it is dangling and
            // aligned, as an empty slice may be.
            unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
        }
    }

    impl<T> Drop for Slab<T> {
        fn drop(&mut self) {
            if let Some(layout) = self.layout {
                // SAFETY: `base` was allocated in `new` with this layout, and
                // the values need no drop (`Zeroed`).
                unsafe { dealloc(self.base.as_ptr(), layout) };
            }
        }
    }
}

#[cfg(loom)]
mod slab {
    use std::ops::Deref;

    use super::{OutOfMemory, Zeroed};

    /// A fixed array that is shared by all threads.
    pub(crate) struct Slab<T>(Vec<T>);

    impl<T: Zeroed> Slab<T> {
        /// `len` zeroed values.
        pub(crate) fn new(len: usize) -> Result<Self, OutOfMemory> {
            Ok(Self((0..len).map(|_| T::zeroed()).collect()))
        }
    }

    impl<T> Deref for Slab<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.0
        }
    }
}

pub(crate) use slab::Slab;

impl<T> Slab<T> {
    /// Bytes taken, without the allocator's own.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[T]>(self)
    }

    /// Brings the value's first cache line closer, to be written: without asking
    /// again the other cores that have it.
    #[inline]
    pub(crate) fn prefetch_write(&self, index: usize) {
        prefetch_write(self.as_ptr().wrapping_add(index));
    }

    /// Brings the value's first cache line closer.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        prefetch(self.as_ptr().wrapping_add(index));
    }

    /// Brings all of the value's cache lines closer.
    #[inline(always)]
    pub(crate) fn prefetch_whole(&self, index: usize) {
        let value: *const u8 = self.as_ptr().wrapping_add(index).cast();
        for line in 0..size_of::<T>().div_ceil(64) {
            prefetch(value.wrapping_add(64 * line));
        }
    }
}

/// An array of at least one value, for hashes.
#[derive(Debug)]
pub(crate) struct HashArray<T> {
    values: Slab<T>,
    /// How many; not zero.
    count: u32,
}

impl<T: Zeroed> HashArray<T> {
    /// `count` zeroed values, at least one.
    pub(crate) fn new(count: u32) -> Result<Self, OutOfMemory> {
        let count = count.max(1);
        Ok(Self { values: Slab::new(count as usize)?, count })
    }
}

impl<T> HashArray<T> {
    /// The place that the fraction `wide` / 2^32 of the array leads to.
    #[inline]
    pub(crate) const fn place(&self, wide: u32) -> u32 {
        ((wide as u64 * self.count as u64) >> 32) as u32
    }

    /// The value at [`Self::place`].
    #[inline]
    pub(crate) fn at(&self, wide: u32) -> &T {
        // SAFETY: `wide` is less than 2^32, so the place is less than `count`,
        // which is not zero and the length of `values`.
        unsafe { self.values.get_unchecked(self.place(wide) as usize) }
    }

    /// Brings that value's cache line closer.
    #[inline]
    pub(crate) fn prefetch_at(&self, wide: u32) {
        self.values.prefetch(self.place(wide) as usize);
    }
}

impl<T> std::ops::Deref for HashArray<T> {
    type Target = Slab<T>;

    fn deref(&self) -> &Slab<T> {
        &self.values
    }
}

impl<T> fmt::Debug for Slab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab").field("len", &self.len()).finish()
    }
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[inline]
fn prefetch<T>(value: *const T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: prefetching has no effect but on the cache and never faults,
    // whatever the address; the instruction (SSE) is part of every x86-64
    // processor.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(value.cast()) };
}

#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
#[inline]
fn prefetch<T>(_value: *const T) {}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[inline]
fn prefetch_write<T>(value: *const T) {
    // SAFETY: has no effect but on the cache and never faults, whatever the
    // address; processors of this architecture that don't know it do nothing.
    unsafe {
        std::arch::asm!(
            "prefetchw [{value}]",
            value = in(reg) value,
            options(readonly, nostack, preserves_flags),
        );
    }
}

#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
#[inline]
fn prefetch_write<T>(_value: *const T) {}
