//! Smooth weighted round robin: as often as the weight says, and spread over
//! the cycle rather than in a row.
//!
//! The method is that of nginx: the credit of each backend grows by its weight, the
//! richest is chosen and pays the sum of all weights. After a cycle of as many
//! choices as the sum of the weights, all credits are zero again and each
//! backend was chosen as often as its weight says.

use super::Members;

/// Chooses among the eligible places. `credits` are by id.
pub(super) fn next(members: Members<'_>, credits: &mut [i64]) -> Option<u16> {
    let mut total = 0;
    let mut best: Option<(u16, usize, i64)> = None;
    for place in members.eligible.iter().copied() {
        let own = members.backends.get(usize::from(place))?;
        let (id, weight) = (usize::from(own.id.0), i64::from(own.weight));
        let credit = credits.get_mut(id)?;
        *credit += weight;
        total += weight;
        if best.is_none_or(|(_, _, most)| *credit > most) {
            best = Some((place, id, *credit));
        }
    }
    let (place, id, _) = best?;
    *credits.get_mut(id)? -= total;
    Some(place)
}
