//! How a whole run fits into a given time.
use std::time::Duration;

use crate::evaluation::contest::cards;
use crate::evaluation::figure::Figure;
use crate::evaluation::part::Part;
use crate::evaluation::{churn, install, latency, new_connections};
use crate::systems::system::System;
use crate::testbed::run::WARM_UP_MS;

/// Repetitions beyond which nothing is gained: the paper's.
const MOST: u32 = 30;
/// Milliseconds that a point takes beside its measuring: two threads start and
/// are registered, rings are emptied.
const OVERHEAD_MS: u64 = 12;
/// Nanoseconds that a connection of one encoding costs to be opened, steered and
/// put into the sequence, and into the paper's hash table.
const OPENING_NS: u64 = 2_500;
/// Milliseconds that a scenario costs beside that.
const BUILDING_MS: u64 = 15;

/// What a part of the run would like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Which part.
    pub part: Part,
    /// Measured points of one repetition.
    pub points: u64,
    /// Milliseconds of one measured point.
    pub point_ms: u64,
    /// Milliseconds of one repetition.
    pub repetition_ms: u64,
    /// Milliseconds that it takes whatever the repetitions.
    pub fixed_ms: u64,
    /// Its repetitions in proportion to the other parts'.
    pub weight: u32,
}

/// What a part of the run gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The wish.
    pub wish: Wish,
    /// How often each point is measured, if time suffices.
    pub repetitions: u32,
}

impl Grant {
    /// The time that it should take.
    #[must_use]
    pub const fn time(&self) -> Duration {
        let Wish { fixed_ms, repetition_ms, .. } = self.wish;
        Duration::from_millis(fixed_ms + repetition_ms * self.repetitions as u64)
    }
}

/// What the parts of a whole run wish for.
#[must_use]
pub fn wishes(quick: bool, systems: &[System]) -> Vec<Wish> {
    Part::ALL.map(|part| wish(part, quick, systems)).to_vec()
}

fn wish(part: Part, quick: bool, systems: &[System]) -> Wish {
    let of = |points: u64, point_ms: u64, fixed_ms: u64, weight: u32| Wish {
        part,
        points,
        point_ms,
        repetition_ms: points * (point_ms + WARM_UP_MS + OVERHEAD_MS),
        fixed_ms,
        weight,
    };
    match part {
        Part::Figure(figure) => {
            let systems = &figure.systems(systems);
            let settings = figure.settings(quick);
            let mut scenarios: Vec<_> = settings.iter().map(|setting| setting.scenario()).collect();
            scenarios.dedup();
            let fixed = scenarios.iter().map(|scenario| opening_ms(scenario.0, systems)).sum();
            let rates = figure.rates(quick).len() as u64;
            let points = settings.len() as u64 * systems.len() as u64 * (1 + rates);
            // An open loop has so many points that it gets fewer repetitions.
            let (long, short, weight) = if rates > 0 { (60, 30, 2) } else { (100, 40, 5) };
            let weight = if figure == Figure::Fig4 { 2 * weight } else { weight };
            of(points, if quick { short } else { long }, fixed, weight)
        }
        Part::Latency => {
            let systems = &latency::systems(systems);
            let points = systems.len() as u64 * (1 + latency::SHARES.len() as u64);
            of(points, if quick { 60 } else { 200 }, opening_ms(1000, systems), 3)
        }
        Part::New => {
            let tables = new_connections::tables(quick);
            let slow = (tables.len() * new_connections::FILLS.len()) as u64;
            let installs = (install::SYSTEMS.len() * install::RATES.len()) as u64;
            let open: u64 = tables.iter().map(|&n| u64::from(n)).sum();
            let fixed = open * OPENING_NS / 2_000_000 + BUILDING_MS;
            of(slow + installs, if quick { 60 } else { 120 }, fixed, 4)
        }
        Part::Churn => {
            let each = churn::SYSTEMS.iter().filter(|system| systems.contains(system)).count();
            let steps = churn::arrivals(quick).len() + churn::searched(quick);
            let points = (each * steps) as u64;
            let wish = of(points, if quick { 150 } else { 300 }, 0, 2);
            // Each has a scenario of its own, and a longer warm-up.
            let more = points * (churn::WARM_MS + BUILDING_MS);
            Wish { repetition_ms: wish.repetition_ms + more, ..wish }
        }
    }
}

/// Milliseconds until `connections` are open for all `systems`.
fn opening_ms(connections: u32, systems: &[System]) -> u64 {
    let each = BUILDING_MS + u64::from(connections) * OPENING_NS / 1_000_000;
    each * cards(systems, 10).len() as u64
}

/// Repetitions in proportion to the wishes' weights, as many as fit into
/// `budget`; at least one each, even if that takes longer.
#[must_use]
pub fn grants(wishes: &[Wish], budget: Duration) -> Vec<Grant> {
    let at = |scale: u32| -> Vec<Grant> {
        let grant = |wish: &Wish| {
            let repetitions = (scale * wish.weight / TENTHS).clamp(1, MOST);
            Grant { wish: *wish, repetitions }
        };
        wishes.iter().map(grant).collect()
    };
    let fits = |grants: &[Grant]| grants.iter().map(Grant::time).sum::<Duration>() <= budget;
    // More never takes less: the last scale that fits is the best.
    let last = (0..=MOST * TENTHS).take_while(|&scale| fits(&at(scale))).last();
    at(last.unwrap_or(0))
}

/// As many `repetitions` of everything, however long it takes.
#[must_use]
pub fn fixed(wishes: &[Wish], repetitions: u32) -> Vec<Grant> {
    wishes.iter().map(|wish| Grant { wish: *wish, repetitions: repetitions.max(1) }).collect()
}

/// Repetitions of a wish of weight 1 are counted in tenths.
const TENTHS: u32 = 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wish(repetition_ms: u64, fixed_ms: u64, weight: u32) -> Wish {
        let part = Part::New;
        Wish { part, points: 1, point_ms: 1, repetition_ms, fixed_ms, weight }
    }

    #[test]
    fn a_whole_run_fits() {
        for (quick, seconds) in [(true, 110), (false, 840)] {
            let budget = Duration::from_secs(seconds);
            let grants = grants(&wishes(quick, &System::ALL), budget);
            let time: Duration = grants.iter().map(Grant::time).sum();
            assert!(time <= budget, "{time:?}");
            assert!(time >= budget * 8 / 10, "{time:?} is all that {seconds} s are used for");
            let least = grants.iter().map(|grant| grant.repetitions).min();
            assert!(least >= Some(if quick { 1 } else { 2 }), "{grants:?}");
        }
    }

    #[test]
    fn thirty_repetitions_are_thirty_of_everything() {
        let wishes = wishes(false, &System::ALL);
        let grants = fixed(&wishes, 30);
        assert!(grants.iter().all(|grant| grant.repetitions == 30) && grants.len() == wishes.len());
        let time: Duration = grants.iter().map(Grant::time).sum();
        let most = Duration::from_secs(4 * 3600);
        assert!(time < most, "{time:?} for what the paper has done");
    }

    proptest! {
        #[test]
        fn grants_fit_and_waste_little(
            wishes in prop::collection::vec((1..5000_u64, 0..2000_u64, 1..10_u32), 1..8),
            ms in 0..2_000_000_u64,
        ) {
            let wishes: Vec<Wish> = wishes.iter().map(|&(r, f, w)| wish(r, f, w)).collect();
            let budget = Duration::from_millis(ms);
            let found = grants(&wishes, budget);
            let time: Duration = found.iter().map(Grant::time).sum();
            let all_once = found.iter().all(|grant| grant.repetitions == 1);
            prop_assert!(time <= budget || all_once);
            // If there is time for one more of everything, all have their most.
            let one_more: u64 = wishes.iter().map(|w| w.repetition_ms * u64::from(w.weight)).sum();
            let full = found.iter().any(|grant| grant.repetitions == MOST);
            prop_assert!(full || time + Duration::from_millis(one_more) > budget || all_once);
            for (a, b) in found.iter().zip(found.iter().skip(1)) {
                let heavier = a.wish.weight >= b.wish.weight;
                prop_assert!(!heavier || a.repetitions >= b.repetitions);
            }
        }
    }
}
