//! Big-endian fields at checked offsets.

/// The 16-bit field at `at`.
#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

/// The 32-bit field at `at`.
#[inline]
pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

/// The `N` bytes at `at`.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Writes `value` at `at`. `false`, and nothing happens, if it doesn't fit.
#[inline]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) -> bool {
    match bytes.get_mut(at..).and_then(|tail| tail.first_chunk_mut()) {
        Some(field) => {
            *field = value;
            true
        }
        None => false,
    }
}
