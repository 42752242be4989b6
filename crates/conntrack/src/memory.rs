//! Memory for tables: cache-line aligned, zeroed by the operating system page
//! by page when it is first touched. The one module with `unsafe` code.
#![allow(unsafe_code)]

use std::fmt;

use crate::bucket::{Bucket, Sought};
use crate::record::Record;

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
            // which `Zeroed` declares valid; nobody has a unique reference to
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

    /// Brings the value's first cache line closer.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        prefetch(self.as_ptr().wrapping_add(index));
    }
}

impl<T> fmt::Debug for Slab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab").field("len", &self.len()).finish()
    }
}

/// Which slots of two buckets seem to hold `sought`: bit `4 n` for slot `n`, the
/// second bucket's above the first's. Compares addresses and ports only, and if
/// another thread writes a slot meanwhile, its bit may be wrong.
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[inline]
pub(crate) fn matches(first: &Bucket, second: &Bucket, sought: Sought) -> u32 {
    let (low, high): (u32, u32);
    // SAFETY: reads the 64 bytes of each bucket, aligned by their type as
    // `pcmpeqd` wants it, and writes nothing. Of a word that another thread
    // writes it may read either value; no other memory is reached through what
    // it reads. SSE2 is part of every x86-64 processor.
    unsafe {
        std::arch::asm!(
            "movq {w}, {addresses}",
            "movq {a}, {rest}",
            "punpcklqdq {w}, {a}",
            "movdqa {a}, {w}",
            "movdqa {b}, {w}",
            "movdqa {c}, {w}",
            "movdqa {d}, {w}",
            "pcmpeqd {a}, [{p}]",
            "pcmpeqd {b}, [{p} + 16]",
            "pcmpeqd {c}, [{p} + 32]",
            "pcmpeqd {d}, [{p} + 48]",
            "packssdw {a}, {b}",
            "packssdw {c}, {d}",
            "packsswb {a}, {c}",
            "movdqa {b}, {w}",
            "movdqa {c}, {w}",
            "movdqa {d}, {w}",
            "pcmpeqd {b}, [{q}]",
            "pcmpeqd {c}, [{q} + 16]",
            "pcmpeqd {d}, [{q} + 32]",
            "pcmpeqd {w}, [{q} + 48]",
            "packssdw {b}, {c}",
            "packssdw {d}, {w}",
            "packsswb {b}, {d}",
            "pmovmskb {l:e}, {a}",
            "pmovmskb {h:e}, {b}",
            p = in(reg) first,
            q = in(reg) second,
            addresses = in(reg) sought.addresses,
            rest = in(reg) sought.rest,
            w = out(xmm_reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            l = lateout(reg) low,
            h = lateout(reg) high,
            options(readonly, nostack, preserves_flags),
        );
    }
    // Of each four bits, one per half word: both of the addresses, the ports.
    let halves = low | high << 16;
    halves & halves >> 1 & halves >> 2 & 0x1111_1111
}

/// The same of one bucket.
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[inline]
pub(crate) fn matches_in(bucket: &Bucket, sought: Sought) -> u32 {
    let halves: u32;
    // SAFETY: as above, with one bucket.
    unsafe {
        std::arch::asm!(
            "movq {w}, {addresses}",
            "movq {a}, {rest}",
            "punpcklqdq {w}, {a}",
            "movdqa {a}, {w}",
            "movdqa {b}, {w}",
            "movdqa {c}, {w}",
            "pcmpeqd {a}, [{p}]",
            "pcmpeqd {b}, [{p} + 16]",
            "pcmpeqd {c}, [{p} + 32]",
            "pcmpeqd {w}, [{p} + 48]",
            "packssdw {a}, {b}",
            "packssdw {c}, {w}",
            "packsswb {a}, {c}",
            "pmovmskb {m:e}, {a}",
            p = in(reg) bucket,
            addresses = in(reg) sought.addresses,
            rest = in(reg) sought.rest,
            w = out(xmm_reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            m = lateout(reg) halves,
            options(readonly, nostack, preserves_flags),
        );
    }
    halves & halves >> 1 & halves >> 2 & 0x1111
}

/// As above, slot by slot.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
#[inline]
pub(crate) fn matches(first: &Bucket, second: &Bucket, sought: Sought) -> u32 {
    matches_in(first, sought) | matches_in(second, sought) << (4 * crate::bucket::SLOTS)
}

/// As above, slot by slot.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
#[inline]
pub(crate) fn matches_in(bucket: &Bucket, sought: Sought) -> u32 {
    use crate::sync::Ordering;
    bucket.slots.iter().rev().fold(0, |mask, slot| {
        let addresses = slot.addresses.load(Ordering::Relaxed) == sought.addresses;
        let ports = slot.rest.load(Ordering::Relaxed) as u32 == sought.rest as u32;
        mask << 4 | u32::from(addresses && ports)
    })
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
