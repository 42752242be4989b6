//! What libndpi takes for each packet, by application and place in the flow.
use measure::laslb::{ApplicationTimes, ServiceTimes};
use middlebox::Inspect;
use traffic::{Application, Rng};

use crate::frames::Conversation;
use crate::inspector::Inspector;

/// Places in a flow that are told apart; one more for all that follow.
const PLACES: usize = 12;
/// Packets of each flow.
const PACKETS: usize = 40;
/// Flows that are open at a time, so that caches are as cold as in a busy server.
const OPEN: usize = 8192;
/// Quantiles of each place.
const QUANTILES: usize = 64;

/// Records `flows` flows of each application. `progress` is told how many of all flows
/// are done. `None`: libndpi has no memory.
pub fn record(
    flows: u32,
    machine: String,
    progress: &mut dyn FnMut(u32, u32),
) -> Option<ServiceTimes> {
    let mut rng = Rng::new(1);
    let all = flows * Application::ALL.len() as u32;
    // The first round warms code and libndpi's own tables up and is not counted.
    let mut samples = vec![vec![Vec::new(); PLACES + 1]; Application::ALL.len()];
    for counted in [false, true] {
        let mut inspector = Inspector::new()?;
        let rounds = if counted { flows } else { flows.div_ceil(10) };
        let mut number = 0;
        let mut open: Vec<(usize, usize, Conversation)> = Vec::new();
        let mut waiting: Vec<usize> = (0..Application::ALL.len())
            .flat_map(|application| std::iter::repeat_n(application, rounds as usize))
            .collect();
        shuffle(&mut waiting, &mut rng);
        while !waiting.is_empty() || !open.is_empty() {
            while open.len() < OPEN {
                let Some(at) = waiting.pop() else { break };
                let Some(&application) = Application::ALL.get(at) else { break };
                open.push((at, 0, Conversation::new(application, number, &mut rng)));
                number += 1;
            }
            let picked = rng.below(open.len() as u64) as usize;
            let Some((application, place, conversation)) = open.get_mut(picked) else { break };
            let mut frame = conversation.next_frame();
            let start = dpdk::eal::cycles();
            inspector.inspect(&mut frame);
            drop(frame);
            let cycles = dpdk::eal::cycles().saturating_sub(start);
            let slots = samples.get_mut(*application);
            if let (true, Some(slot)) =
                (counted, slots.and_then(|s| s.get_mut((*place).min(PLACES))))
            {
                slot.push(nanoseconds(cycles));
            }
            *place += 1;
            if *place >= PACKETS {
                open.swap_remove(picked);
                if counted {
                    progress(number.saturating_sub(open.len() as u32), all);
                }
            }
        }
    }
    let applications = Application::ALL.iter().zip(samples).map(|(application, places)| {
        let packets = places.into_iter().map(quantiles).collect();
        ApplicationTimes { application: application.name().to_owned(), packets }
    });
    Some(ServiceTimes { machine, applications: applications.collect() })
}

fn nanoseconds(cycles: u64) -> u32 {
    u32::try_from(dpdk::eal::nanoseconds(cycles)).unwrap_or(u32::MAX)
}

/// The middles of equal shares of the samples. The interruptions of a busy machine are in
/// the highest share, whose middle is 0.8 % from the end.
fn quantiles(mut samples: Vec<u32>) -> Vec<u32> {
    samples.sort_unstable();
    let at = |share: usize| samples.get((2 * share + 1) * samples.len() / (2 * QUANTILES)).copied();
    (0..QUANTILES).filter_map(at).collect()
}

fn shuffle(items: &mut [usize], rng: &mut Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_middles_of_equal_shares() {
        let found = quantiles((0..6400).rev().collect());
        assert_eq!(found.len(), QUANTILES);
        assert_eq!((found[0], found[63]), (50, 6350));
    }
}
