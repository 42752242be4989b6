//! Comparing a whole bucket at once, by the processor's vector instructions.
//!
//! All of it is by `asm`, which reads memory that other threads may write: it
//! gives hints, whose slots are then read by atomics, and what can't have changed
//! meanwhile.

use crate::bucket::{Bucket, Sought};

pub(crate) use self::wide::Wide;

/// Of each four bits, one per 32-bit word of a slot, the lowest: whether both of
/// the addresses and the ports are equal.
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[inline]
const fn slots(words: u32) -> u32 {
    words & words >> 1 & words >> 2 & 0x1111_1111
}

/// Compares the bucket at `$bucket` with the key in `$last`, which is also in
/// `{w}`; leaves a byte per word in `$a`. All are names of operands.
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
macro_rules! compare {
    ($a:literal, $b:literal, $c:literal, $last:literal, $bucket:literal) => {
        concat!(
            concat!("movdqa {", $a, "}, {w}\n"),
            concat!("movdqa {", $b, "}, {w}\n"),
            concat!("movdqa {", $c, "}, {w}\n"),
            concat!("pcmpeqd {", $a, "}, [{", $bucket, "}]\n"),
            concat!("pcmpeqd {", $b, "}, [{", $bucket, "} + 16]\n"),
            concat!("pcmpeqd {", $c, "}, [{", $bucket, "} + 32]\n"),
            concat!("pcmpeqd {", $last, "}, [{", $bucket, "} + 48]\n"),
            concat!("packssdw {", $a, "}, {", $b, "}\n"),
            concat!("packssdw {", $c, "}, {", $last, "}\n"),
            concat!("packsswb {", $a, "}, {", $c, "}\n"),
        )
    };
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
            "movdqa {d}, {w}",
            compare!("a", "b", "c", "d", "p"),
            compare!("b", "c", "d", "w", "q"),
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
    slots(low | high << 16)
}

/// The same of one bucket.
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[inline]
pub(crate) fn matches_in(bucket: &Bucket, sought: Sought) -> u32 {
    let words: u32;
    // SAFETY: as above, with one bucket.
    unsafe {
        std::arch::asm!(
            "movq {w}, {addresses}",
            "movq {a}, {rest}",
            "punpcklqdq {w}, {a}",
            compare!("a", "b", "c", "w", "p"),
            "pmovmskb {m:e}, {a}",
            p = in(reg) bucket,
            addresses = in(reg) sought.addresses,
            rest = in(reg) sought.rest,
            w = out(xmm_reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            m = lateout(reg) words,
            options(readonly, nostack, preserves_flags),
        );
    }
    slots(words)
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

/// Instructions that not every processor has. A value is the proof that this one
/// has them.
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
mod wide {
    use super::{Bucket, Sought, matches_in, slots};

    /// The widest there are.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Width {
        /// SSE2, which all have.
        Narrow(Narrow),
        Avx2(Avx2),
        Avx512(Avx512),
    }

    impl Width {
        /// What this processor and its operating system offer.
        pub(crate) fn detect() -> Self {
            if is_x86_feature_detected!("avx512f") {
                Self::Avx512(Avx512(()))
            } else if is_x86_feature_detected!("avx2") {
                Self::Avx2(Avx2(()))
            } else {
                Self::Narrow(Narrow)
            }
        }

        /// All that this processor has, for tests.
        #[cfg(test)]
        pub(crate) fn all() -> Vec<Self> {
            let mut all = vec![Self::Narrow(Narrow)];
            if is_x86_feature_detected!("avx2") {
                all.push(Self::Avx2(Avx2(())));
            }
            if is_x86_feature_detected!("avx512f") {
                all.push(Self::Avx512(Avx512(())));
            }
            all
        }
    }

    /// [`matches_in`] by one kind of instructions.
    pub(crate) trait Wide: Copy {
        /// Which slots seem to hold `sought`.
        fn matches(self, bucket: &Bucket, sought: &Sought) -> u32;

        /// To be called after the last of several.
        fn done(self) {}
    }

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Narrow;
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Avx2(());
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Avx512(());

    impl Wide for Narrow {
        #[inline(always)]
        fn matches(self, bucket: &Bucket, sought: &Sought) -> u32 {
            matches_in(bucket, *sought)
        }
    }

    impl Wide for Avx2 {
        #[inline(always)]
        fn matches(self, bucket: &Bucket, sought: &Sought) -> u32 {
            let (low, high): (u32, u32);
            // SAFETY: reads the 64 bytes of the bucket and the 16 of the key, and
            // writes nothing. Of a word that another thread writes it may read
            // either value; no other memory is reached through what it reads.
            // `self` exists, so the processor has AVX2.
            unsafe {
                std::arch::asm!(
                    "vbroadcasti128 {w:y}, [{k}]",
                    "vpcmpeqd {a:y}, {w:y}, [{p}]",
                    "vpcmpeqd {w:y}, {w:y}, [{p} + 32]",
                    "vmovmskps {l:e}, {a:y}",
                    "vmovmskps {h:e}, {w:y}",
                    p = in(reg) bucket,
                    k = in(reg) sought,
                    w = out(xmm_reg) _,
                    a = out(xmm_reg) _,
                    l = lateout(reg) low,
                    h = lateout(reg) high,
                    options(readonly, nostack, preserves_flags),
                );
            }
            slots(low | high << 8)
        }

        #[inline(always)]
        fn done(self) {
            clear_upper();
        }
    }

    impl Wide for Avx512 {
        #[inline(always)]
        fn matches(self, bucket: &Bucket, sought: &Sought) -> u32 {
            let words: u32;
            // SAFETY: as for AVX2; `self` exists, so the processor has AVX-512F.
            unsafe {
                std::arch::asm!(
                    "vbroadcasti32x4 {w:z}, [{k}]",
                    "vpcmpeqd k1, {w:z}, [{p}]",
                    "kmovw {m:e}, k1",
                    p = in(reg) bucket,
                    k = in(reg) sought,
                    w = out(xmm_reg) _,
                    m = lateout(reg) words,
                    out("k1") _,
                    options(readonly, nostack, preserves_flags),
                );
            }
            slots(words)
        }

        #[inline(always)]
        fn done(self) {
            clear_upper();
        }
    }

    /// Some processors mix old and new instructions slowly as long as the upper
    /// halves of the registers are in use.
    #[inline(always)]
    fn clear_upper() {
        // SAFETY: changes the upper halves of the registers that are named as
        // changed; called where there is AVX.
        unsafe {
            std::arch::asm!(
                "vzeroupper",
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nomem, nostack, preserves_flags),
            );
        }
    }
}

/// Elsewhere there is one way.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
mod wide {
    use super::{Bucket, Sought, matches_in};

    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Width {
        Narrow(Narrow),
    }

    impl Width {
        pub(crate) fn detect() -> Self {
            Self::Narrow(Narrow)
        }

        #[cfg(test)]
        #[cfg_attr(loom, allow(dead_code))]
        pub(crate) fn all() -> Vec<Self> {
            vec![Self::detect()]
        }
    }

    /// [`matches_in`].
    pub(crate) trait Wide: Copy {
        fn matches(self, bucket: &Bucket, sought: &Sought) -> u32;

        fn done(self) {}
    }

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Narrow;

    impl Wide for Narrow {
        #[inline]
        fn matches(self, bucket: &Bucket, sought: &Sought) -> u32 {
            matches_in(bucket, *sought)
        }
    }
}

pub(crate) use self::wide::Width;

/// Calls a generic expression with what a [`Width`] stands for.
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
macro_rules! by_width {
    ($width:expr, |$by:ident| $body:expr) => {
        match $width {
            $crate::memory::vector::Width::Narrow($by) => $body,
            $crate::memory::vector::Width::Avx2($by) => $body,
            $crate::memory::vector::Width::Avx512($by) => $body,
        }
    };
}

/// As above.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
macro_rules! by_width {
    ($width:expr, |$by:ident| $body:expr) => {
        match $width {
            $crate::memory::vector::Width::Narrow($by) => $body,
        }
    };
}

pub(crate) use by_width;

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
