//! Comparing a whole bucket at once, by the processor's vector instructions.

use crate::bucket::{Bucket, Sought};

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

/// Which slots are empty: bit `4 n` for slot `n`. Exact under the bucket's lock.
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[inline]
pub(crate) fn empty(bucket: &Bucket) -> u32 {
    let signs: u32;
    // SAFETY: as above, with one bucket.
    unsafe {
        std::arch::asm!(
            "movdqa {a}, [{p}]",
            "movdqa {b}, [{p} + 32]",
            "packssdw {a}, [{p} + 16]",
            "packssdw {b}, [{p} + 48]",
            "packsswb {a}, {b}",
            "pmovmskb {m:e}, {a}",
            p = in(reg) bucket,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            m = lateout(reg) signs,
            options(readonly, nostack, preserves_flags),
        );
    }
    // Signs of the slots' quarters; that of the last one says "occupied".
    !signs >> 3 & 0x1111
}

/// As above, slot by slot.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
#[inline]
pub(crate) fn empty(bucket: &Bucket) -> u32 {
    use crate::sync::Ordering;
    bucket
        .slots
        .iter()
        .rev()
        .fold(0, |mask, slot| mask << 4 | (!slot.rest.load(Ordering::Relaxed) >> 63) as u32)
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
        let seems = slot.rest.load(Ordering::Relaxed) as u32 == sought.rest as u32
            && slot.addresses.load(Ordering::Relaxed) == sought.addresses;
        mask << 4 | u32::from(seems)
    })
}
