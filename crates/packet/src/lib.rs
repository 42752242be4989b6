//! The packet buffer the stages work on, and one on the heap for tests and replay.
//!
//! Every stage above the driver is generic over [`PacketBuf`], so that it runs
//! on DPDK mbufs in production and on [`HeapPacket`] in tests and in
//! `hnlb replay`, with the same code and the same bytes.
#![forbid(unsafe_code)]

mod heap;

pub use heap::HeapPacket;

/// One received frame: a contiguous byte range with headroom in front of it
/// and what the NIC said about it.
pub trait PacketBuf {
    /// The frame, from the first byte of the Ethernet header.
    fn bytes(&self) -> &[u8];

    /// The frame, writable.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// The mark (Flow Director soft id) of the rule that the NIC matched, if
    /// it matched one that carries a mark.
    fn mark(&self) -> Option<u32>;

    /// Whether the NIC has found the IPv4 header checksum right; `false` if it has
    /// not looked, or has found it wrong.
    #[inline]
    fn has_verified_header(&self) -> bool {
        false
    }

    /// Asks for the frame's first cache line: for all packets of a burst before the
    /// first is looked at, so that the waits overlap.
    #[inline]
    fn prefetch(&self) {}

    /// Asks for the frame's second cache line, where an IPv6 packet has its TCP flags
    /// and checksum.
    #[inline]
    fn prefetch_further(&self) {}

    /// Grows the frame by `n` bytes in front. Returns `false` and changes nothing if
    /// there is no headroom. The new bytes have no defined value.
    #[must_use]
    fn prepend(&mut self, n: usize) -> bool;

    /// Cuts `n` bytes off the front. Returns `false` and changes nothing if the frame
    /// is shorter than that.
    #[must_use]
    fn cut_front(&mut self, n: usize) -> bool;

    /// Makes the frame `len` bytes long, by cutting or growing its end. Returns
    /// `false` and changes nothing if there is no tailroom. New bytes have no defined
    /// value.
    #[must_use]
    fn resize(&mut self, len: usize) -> bool;
}
