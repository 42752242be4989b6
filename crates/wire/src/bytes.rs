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

/// The `M` bytes at `AT` of a header; checked when compiled.
#[inline]
pub(crate) fn field<const AT: usize, const M: usize, const N: usize>(header: &[u8; N]) -> [u8; M] {
    const { assert!(AT + M <= N, "the field lies outside the header") };
    let mut bytes = [0; M];
    bytes.copy_from_slice(&header[AT..AT + M]);
    bytes
}

/// Writes `M` bytes at `AT` of a header; checked when compiled.
#[inline]
pub(crate) fn set<const AT: usize, const M: usize, const N: usize>(
    header: &mut [u8; N],
    value: [u8; M],
) {
    const { assert!(AT + M <= N, "the field lies outside the header") };
    header[AT..AT + M].copy_from_slice(&value);
}
