//! Round robin: each backend in turn, whatever its weight.

/// The place after `cursor` in a ring of `eligible` places.
pub(crate) fn next(eligible: &[u16], cursor: &mut u32) -> Option<u16> {
    let length = u32::try_from(eligible.len()).ok()?;
    let at = cursor.checked_rem(length)?;
    *cursor = (at + 1) % length;
    eligible.get(at as usize).copied()
}
