//! How many classes each backend gets: within a bound of what the weights say,
//! and as few blocks as possible.
use crate::classes::Block;

/// A backend that can take classes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) place: u16,
    pub(crate) weight: f64,
}

/// What a division must keep to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// See [`crate::Precision::deviation`].
    pub(crate) deviation: f64,
    /// Blocks at most.
    pub(crate) entries: usize,
    /// Low bits at most.
    pub(crate) bits: u8,
    /// Classes that each gets at least.
    pub(crate) each: u32,
}

/// A backend and the classes it gets.
pub(crate) type Part = (u16, u32);

/// Widths tried beyond the first that keeps the bound: more classes can need
/// fewer blocks.
const MORE: u8 = 2;

/// Divides the classes of `lost` among `members`; the number of low bits that
/// a class has, and each one's part. The bound on the deviation is doubled
/// until there is a division; `None`: not even then.
pub(crate) fn divide(
    members: &[Member],
    lost: &[Block],
    wanted: &Wanted,
) -> Option<(u8, Vec<Part>)> {
    let least = lost.iter().map(|block| block.bits).max()?;
    let mut deviation = wanted.deviation.max(1e-3);
    loop {
        let fits = |bits: u8| {
            let bound = Bound { deviation, whole: bits == wanted.bits, each: wanted.each };
            let (blocks, parts) = fit(members, lost, bits, &bound)?;
            Some((blocks, bits, parts))
        };
        if let Some(first) = (least..=wanted.bits).find_map(fits) {
            let next = first.1 + 1;
            let more = (next..next + MORE).filter(|bits| *bits <= wanted.bits).filter_map(fits);
            let best = std::iter::once(first).chain(more).min_by_key(|(blocks, ..)| *blocks);
            if let Some((blocks, bits, parts)) = best {
                if blocks as usize <= wanted.entries {
                    return Some((bits, parts));
                }
            }
        }
        if deviation > f64::from(1 << 16) {
            return None;
        }
        deviation *= 2.0;
    }
}

/// How far parts may be from what the weights say.
struct Bound {
    deviation: f64,
    /// A part may also be rounded to whole classes.
    whole: bool,
    each: u32,
}

/// The numbers of classes of `bits` bits within the bound that need the fewest
/// blocks, and how many those are. Exact, by dynamic programming over the
/// backends and what has been given out beyond each one's least number.
fn fit(members: &[Member], lost: &[Block], bits: u8, bound: &Bound) -> Option<(u32, Vec<Part>)> {
    let all: u32 = lost.iter().map(|block| 1 << (bits - block.bits)).sum();
    let sum: f64 = members.iter().map(|member| member.weight).sum();
    let Bound { deviation, whole, each } = *bound;
    let ranges = members.iter().map(|member| {
        let ideal = f64::from(all) * member.weight / sum;
        let mut least = (ideal * (1.0 - deviation)).ceil() as u32;
        let mut most = (ideal * (1.0 + deviation)).floor().min(f64::from(all)) as u32;
        if whole {
            least = least.min(ideal.floor() as u32);
            most = most.max(ideal.ceil() as u32);
        }
        least = least.max(each);
        (least <= most).then_some((least, most))
    });
    let ranges: Vec<(u32, u32)> = ranges.collect::<Option<_>>()?;
    let spare = all.checked_sub(ranges.iter().map(|(least, _)| least).sum())? as usize;
    if ranges.iter().map(|(least, most)| (most - least) as usize).sum::<usize>() < spare {
        return None;
    }
    // Blocks of the backends so far, by what they have been given to spare; and
    // how much of that was the last one's.
    let mut best = vec![u32::MAX; spare + 1];
    *best.first_mut()? = 0;
    let mut choices: Vec<Vec<u32>> = Vec::with_capacity(ranges.len());
    for (least, most) in &ranges {
        let mut next = vec![(u32::MAX, 0); spare + 1];
        for (given, blocks) in best.iter().enumerate().filter(|(_, blocks)| **blocks < u32::MAX) {
            for extra in 0..=(most - least).min((spare - given) as u32) {
                let cost = blocks + (least + extra).count_ones();
                if let Some(place) = next.get_mut(given + extra as usize) {
                    *place = (*place).min((cost, extra));
                }
            }
        }
        best = next.iter().map(|(cost, _)| *cost).collect();
        choices.push(next.iter().map(|(_, extra)| *extra).collect());
    }
    let blocks = *best.last().filter(|blocks| **blocks < u32::MAX)?;
    let mut left = spare;
    let mut parts = Vec::with_capacity(members.len());
    for ((member, (least, _)), choice) in members.iter().zip(&ranges).zip(&choices).rev() {
        let extra = *choice.get(left)?;
        left = left.checked_sub(extra as usize)?;
        parts.push((member.place, least + extra));
    }
    Some((blocks, parts))
}
