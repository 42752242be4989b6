//! The Internet checksum, whole and incremental (RFC 1071, RFC 1624).

/// The ones' complement sum of `bytes` on top of `initial`, unfolded.
#[must_use]
pub fn sum(bytes: &[u8], initial: u32) -> u32 {
    let mut chunks = bytes.chunks_exact(2);
    let mut total = u64::from(initial);
    for pair in &mut chunks {
        total += u64::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    if let [last] = chunks.remainder() {
        total += u64::from(u16::from_be_bytes([*last, 0]));
    }
    while total > u64::from(u32::MAX) {
        total = (total >> 32) + (total & 0xffff_ffff);
    }
    total as u32
}

/// Folds a sum to 16 bits.
#[must_use]
#[inline]
pub const fn fold(mut sum: u32) -> u16 {
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

/// What must be added to the complement of a checksum when `old` becomes `new`
/// (RFC 1624, equation 3): the ones' complement of every old word plus every
/// new word. Both slices have the same even length.
#[must_use]
pub fn delta(old: &[u8], new: &[u8]) -> u16 {
    let mut total = 0u32;
    for pair in old.chunks_exact(2) {
        total += u32::from(!u16::from_be_bytes([pair[0], pair[1]]));
    }
    for pair in new.chunks_exact(2) {
        total += u32::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    fold(total)
}

/// The ones' complement sum of two deltas.
#[must_use]
pub const fn combine(a: u16, b: u16) -> u16 {
    fold(a as u32 + b as u32)
}

/// The checksum field `field` after a change of the covered bytes by `delta`.
#[must_use]
#[inline]
pub const fn update(field: u16, delta: u16) -> u16 {
    !fold((!field) as u32 + delta as u32)
}

/// As [`update`], for the checksum of UDP: zero means that there is none and
/// stays, and a result of zero is sent as 0xffff (RFC 768).
#[must_use]
#[inline]
pub const fn update_udp(field: u16, delta: u16) -> u16 {
    if field == 0 {
        return 0;
    }
    match update(field, delta) {
        0 => 0xffff,
        updated => updated,
    }
}
