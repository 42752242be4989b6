//! Weighted least connections: the backend with the fewest connections for
//! its weight.

use super::Members;
use crate::BackendLoads;

/// The eligible place with the fewest connections for its weight. Among equals
/// the first from `cursor` on, which then moves behind the chosen one, so that
/// equals take turns.
pub(super) fn next(
    Members { backends, eligible, .. }: Members<'_>,
    loads: &BackendLoads,
    cursor: &mut u32,
) -> Option<u16> {
    let start = (*cursor as usize).checked_rem(eligible.len())?;
    let (before, after) = eligible.split_at_checked(start)?;
    let mut best: Option<(usize, u16, u64, u64)> = None;
    for (turn, place) in after.iter().chain(before).copied().enumerate() {
        let own = backends.get(usize::from(place))?;
        let (active, weight) = (u64::from(loads.connections(own.id)), u64::from(own.weight));
        // active / weight < least / heaviest, without the divisions
        if best.is_none_or(|(_, _, least, its)| active * its < least * weight) {
            best = Some((turn, place, active, weight));
        }
    }
    let (turn, place, ..) = best?;
    *cursor = u32::try_from((start + turn + 1) % eligible.len()).unwrap_or(0);
    Some(place)
}
