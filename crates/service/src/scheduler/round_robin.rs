//! Round robin: each backend in turn, whatever its weight.

use super::Members;

/// The place after `cursor` in the ring of eligible places.
pub(super) fn next(Members { eligible, .. }: Members<'_>, cursor: &mut u32) -> Option<u16> {
    let length = u32::try_from(eligible.len()).ok()?;
    let at = cursor.checked_rem(length)?;
    *cursor = (at + 1) % length;
    eligible.get(at as usize).copied()
}
