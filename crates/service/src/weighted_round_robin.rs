//! Smooth weighted round robin: as often as the weight says, and spread over
//! the cycle rather than in a row.
//!
//! The method is that of nginx: everyone's credit grows by its weight, the
//! richest is chosen and pays the sum of all weights. After a cycle of as many
//! choices as the sum of the weights, all credits are zero again and each
//! backend was chosen as often as its weight says.

/// Chooses among the places in `eligible`. `weights` and `credits` are by
/// place.
pub(crate) fn next(
    eligible: &[u16],
    weights: impl Fn(u16) -> u16,
    credits: &mut [i64],
) -> Option<u16> {
    let mut total = 0;
    let mut best: Option<(u16, i64)> = None;
    for place in eligible.iter().copied() {
        let weight = i64::from(weights(place));
        let credit = credits.get_mut(usize::from(place))?;
        *credit += weight;
        total += weight;
        if best.is_none_or(|(_, most)| *credit > most) {
            best = Some((place, *credit));
        }
    }
    let (place, _) = best?;
    *credits.get_mut(usize::from(place))? -= total;
    Some(place)
}
