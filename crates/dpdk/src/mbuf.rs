//! A packet buffer of DPDK.
use std::fmt;
use std::ptr::NonNull;

use dpdk_sys as sys;
use packet::PacketBuf;

use crate::mempool::Mempool;

/// An owned mbuf; goes back to its pool when dropped.
///
/// [`PacketBuf`] sees the first segment only. [`RxQueue`](crate::RxQueue)
/// hands out one-segment mbufs only.
#[repr(transparent)]
pub struct Mbuf(NonNull<sys::rte_mbuf>);

// SAFETY: an mbuf is plain memory with one owner; pools take mbufs back from
// any thread.
unsafe impl Send for Mbuf {}
// SAFETY: through a shared reference it is only read.
unsafe impl Sync for Mbuf {}

impl Mbuf {
    /// Takes over `mbuf`; `None` if it is null.
    ///
    /// # Safety
    /// It is null, or a live mbuf with initialised memory, a reference count
    /// of 1 and no other owner.
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(mbuf: *mut sys::rte_mbuf) -> Option<Self> {
        NonNull::new(mbuf).map(Self)
    }

    /// The mbuf, for a call that has it only as long as it lasts.
    pub(crate) fn as_raw(&mut self) -> *mut sys::rte_mbuf {
        self.0.as_ptr()
    }

    /// Gives up ownership. To be taken over again with [`Mbuf::from_raw`].
    #[inline]
    #[must_use]
    pub fn into_raw(self) -> *mut sys::rte_mbuf {
        let mbuf = self.0.as_ptr();
        std::mem::forget(self);
        mbuf
    }

    /// An mbuf of `pool` with a copy of `frame`; `None` if the pool is empty or
    /// its mbufs are too small.
    #[must_use]
    pub fn copy_from(pool: &Mempool, frame: &[u8]) -> Option<Self> {
        let mut mbuf = pool.alloc()?;
        if !mbuf.resize(frame.len()) {
            return None;
        }
        mbuf.bytes_mut().copy_from_slice(frame);
        Some(mbuf)
    }

    /// Bytes of all segments.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.pkt_len() as usize
    }

    /// Whether there is no byte.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Free bytes in front of the frame.
    #[inline]
    #[must_use]
    pub fn headroom(&self) -> usize {
        usize::from(self.data_off())
    }

    /// Free bytes behind the frame's first segment.
    #[inline]
    #[must_use]
    pub fn tailroom(&self) -> usize {
        usize::from(self.buf_len())
            .saturating_sub(usize::from(self.data_off()) + usize::from(self.data_len()))
    }

    /// Whether the frame is one segment.
    #[inline]
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.nb_segs() == 1
    }

    /// Moves all segments into the first. Returns `false` and changes nothing if it
    /// has no room for them.
    #[must_use]
    pub fn linearize(&mut self) -> bool {
        // SAFETY: the mbuf and its segments are owned; segments that were
        // copied go back to their pools.
        self.is_contiguous() || unsafe { sys::hnlb_mbuf_linearize(self.0.as_ptr()) } == 0
    }

    /// Sets or removes the mark, as most NICs do when a rule with a MARK action
    /// matched: in `hash.fdir.hi`.
    #[inline]
    pub fn set_mark(&mut self, mark: Option<u32>) {
        match mark {
            Some(mark) => {
                self.set_fdir_hi(mark);
                self.set_ol_flags(self.ol_flags() | FDIR_FLAG | FDIR_ID_FLAG);
            }
            None => self.set_ol_flags(self.ol_flags() & !(FDIR_FLAG | FDIR_ID_FLAG)),
        }
    }

    /// Sets the mark as ixgbe's receive path does: the soft id of Flow Director
    /// in `hash.fdir.id`, where the RSS hash would be, and no flag but
    /// `RTE_MBUF_F_RX_FDIR`.
    #[inline]
    pub fn set_soft_id(&mut self, id: u16) {
        self.set_fdir_id(id);
        self.set_ol_flags((self.ol_flags() | FDIR_FLAG) & !(FDIR_ID_FLAG | RSS_FLAG));
    }

    /// The NIC's RSS hash, if it computed one.
    #[inline]
    #[must_use]
    pub fn rss_hash(&self) -> Option<u32> {
        (self.ol_flags() & RSS_FLAG != 0).then(|| self.rss())
    }

    /// Sets or removes the RSS hash. It shares its place with the soft id of
    /// [`Self::set_soft_id`], not with the mark of [`Self::set_mark`].
    #[inline]
    pub fn set_rss_hash(&mut self, hash: Option<u32>) {
        match hash {
            Some(hash) => {
                self.set_rss(hash);
                self.set_ol_flags(self.ol_flags() | RSS_FLAG);
            }
            None => self.set_ol_flags(self.ol_flags() & !RSS_FLAG),
        }
    }

    /// Asks for the frame's first cache line in order to write it: it comes from
    /// another core's cache in one step instead of two.
    #[inline]
    pub fn prefetch_write(&self) {
        prefetch_write(self.data());
    }

    /// Asks for the mbuf's own first cache line, which has length and mark, in order
    /// to write it.
    #[inline]
    pub fn prefetch_write_header(&self) {
        prefetch_write(self.0.as_ptr().cast());
    }

    #[inline]
    fn data(&self) -> *mut u8 {
        // SAFETY: an offset within the segment's buffer, as DPDK and the
        // setters below keep it.
        unsafe { self.buf_addr().cast::<u8>().add(usize::from(self.data_off())) }
    }
}

/// The length of a cache line in bytes.
const CACHE_LINE: usize = 64;

/// Brings a cache line closer.
#[inline]
fn prefetch(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: prefetching has no effect but on the cache and never faults; the
    // instruction (SSE) is part of every x86-64 processor.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}

/// Brings a cache line closer in order to write it.
#[inline]
fn prefetch_write(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: prefetching has no effect but on the cache and never faults;
    // processors without the instruction take it for one that does nothing.
    unsafe {
        std::arch::asm!(
            "prefetchw byte ptr [{}]",
            in(reg) line,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    prefetch(line);
}

/// `RTE_MBUF_F_RX_FDIR`: a rule matched.
const FDIR_FLAG: u64 = sys::HNLB_FDIR_FLAG;
/// `RTE_MBUF_F_RX_FDIR_ID`: its mark is in `hash.fdir.hi`.
const FDIR_ID_FLAG: u64 = sys::HNLB_FDIR_ID_FLAG;
/// `RTE_MBUF_F_RX_RSS_HASH`.
const RSS_FLAG: u64 = sys::HNLB_RSS_FLAG;

/// Reads and writes a field of `rte_mbuf` at the offset that the shim took
/// from the C headers.
macro_rules! field {
    ($get:ident $(, $set:ident)?: $type:ty, $offset:ident) => {
        #[inline]
        fn $get(&self) -> $type {
            // SAFETY: the mbuf is live and owned, and C says that a field of
            // this type is at this offset, aligned.
            unsafe { self.0.as_ptr().byte_add(sys::$offset as usize).cast::<$type>().read() }
        }
        $(
            #[inline]
            fn $set(&mut self, value: $type) {
                // SAFETY: as for reading; the exclusive reference says that
                // nobody reads meanwhile.
                unsafe {
                    self.0.as_ptr().byte_add(sys::$offset as usize).cast::<$type>().write(value);
                }
            }
        )?
    };
}

impl Mbuf {
    field!(buf_addr: *mut std::ffi::c_void, HNLB_MBUF_BUF_ADDR);
    field!(data_off, set_data_off: u16, HNLB_MBUF_DATA_OFF);
    field!(nb_segs: u16, HNLB_MBUF_NB_SEGS);
    field!(ol_flags, set_ol_flags: u64, HNLB_MBUF_OL_FLAGS);
    field!(pkt_len, set_pkt_len: u32, HNLB_MBUF_PKT_LEN);
    field!(data_len, set_data_len: u16, HNLB_MBUF_DATA_LEN);
    field!(fdir_hi, set_fdir_hi: u32, HNLB_MBUF_FDIR_HI);
    field!(fdir_id, set_fdir_id: u16, HNLB_MBUF_FDIR_ID);
    field!(rss, set_rss: u32, HNLB_MBUF_RSS);
    field!(buf_len: u16, HNLB_MBUF_BUF_LEN);
}

impl PacketBuf for Mbuf {
    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: `data_len` bytes from `data` are within the buffer, whose
        // memory EAL has zeroed before its first use, and owned by this mbuf.
        unsafe { std::slice::from_raw_parts(self.data(), usize::from(self.data_len())) }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the reference is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data(), usize::from(self.data_len())) }
    }

    #[inline]
    fn prefetch(&self) {
        prefetch(self.data());
    }

    #[inline]
    fn prefetch_further(&self) {
        prefetch(self.data().wrapping_add(CACHE_LINE));
    }

    /// Drivers report the mark in two ways. i40e, ice, mlx5 and others set
    /// `RTE_MBUF_F_RX_FDIR_ID` and write it to `hash.fdir.hi` (32 bits). ixgbe
    /// sets `RTE_MBUF_F_RX_FDIR` alone and writes Flow Director's soft id to
    /// `hash.fdir.id` (16 bits), unless the mbuf has an RSS hash: both share a
    /// field. There a rule without MARK reports 0.
    #[inline]
    fn mark(&self) -> Option<u32> {
        let flags = self.ol_flags() & (FDIR_FLAG | FDIR_ID_FLAG | RSS_FLAG);
        if flags & FDIR_ID_FLAG != 0 {
            Some(self.fdir_hi())
        } else {
            (flags == FDIR_FLAG).then(|| u32::from(self.fdir_id()))
        }
    }

    #[inline]
    fn has_verified_header(&self) -> bool {
        self.ol_flags() & sys::HNLB_IP_CKSUM_MASK == sys::HNLB_IP_CKSUM_GOOD
    }

    #[inline]
    fn prepend(&mut self, n: usize) -> bool {
        let Ok(n) = u16::try_from(n) else { return false };
        let (Some(offset), Some(len)) =
            (self.data_off().checked_sub(n), self.data_len().checked_add(n))
        else {
            return false;
        };
        self.set_data_off(offset);
        self.set_data_len(len);
        self.set_pkt_len(self.pkt_len().wrapping_add(u32::from(n)));
        true
    }

    #[inline]
    fn cut_front(&mut self, n: usize) -> bool {
        let Some((n, len)) =
            u16::try_from(n).ok().and_then(|n| Some((n, self.data_len().checked_sub(n)?)))
        else {
            return false;
        };
        self.set_data_off(self.data_off() + n);
        self.set_data_len(len);
        self.set_pkt_len(self.pkt_len().wrapping_sub(u32::from(n)));
        true
    }

    #[inline]
    fn resize(&mut self, len: usize) -> bool {
        let most = self.tailroom() + usize::from(self.data_len());
        let Ok(short) = u16::try_from(len) else { return false };
        if len > most || !self.is_contiguous() {
            return false;
        }
        self.set_data_len(short);
        self.set_pkt_len(u32::from(short));
        true
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the one owner lets go; its pool lives as long as any mbuf.
        unsafe { sys::hnlb_mbuf_free(self.0.as_ptr()) };
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mbuf")
            .field("len", &self.len())
            .field("segments", &self.nb_segs())
            .field("mark", &self.mark())
            .finish()
    }
}
