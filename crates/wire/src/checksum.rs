//! The Internet checksum, whole and incremental (RFC 1071, RFC 1624).
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
pub const fn fold(sum: u32) -> u16 {
    // The lower halves carry into the upper ones: the end-around carry.
    (sum.wrapping_add(sum.rotate_right(16)) >> 16) as u16
}

/// The checksum of `bytes` on top of the unfolded sum `initial`. The checksum
/// field itself is zero in `bytes`.
#[must_use]
pub fn of(bytes: &[u8], initial: u32) -> u16 {
    !fold(sum(bytes, initial))
}

/// The sum of the pseudo-header of TCP and UDP over IPv4 (RFC 9293 section
/// 3.1); `len` is the transport header's and the data's length.
#[must_use]
pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, proto: u8, len: u16) -> u32 {
    sum(&src.octets(), sum(&dst.octets(), u32::from(proto) + u32::from(len)))
}

/// The sum of the pseudo-header over IPv6 (RFC 8200 section 8.1); `len` is the
/// transport header's and the data's length.
#[must_use]
pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, proto: u8, len: u32) -> u32 {
    sum(&src.octets(), sum(&dst.octets(), sum(&len.to_be_bytes(), u32::from(proto))))
}

/// The sum of the pseudo-header of either family; `None` if the addresses are
/// of different families.
#[must_use]
pub fn pseudo(src: IpAddr, dst: IpAddr, proto: u8, len: u16) -> Option<u32> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some(pseudo_v4(src, dst, proto, len)),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(pseudo_v6(src, dst, proto, u32::from(len))),
        _ => None,
    }
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
