//! The latency of packets whose rules are in the table.
use flow::Encoding;
use offload::TrialRules;

use crate::card::{Card, Fate};
use crate::frame;
use crate::spread::Spread;

/// Packets before those that count.
const WARM_UP: u32 = 32;
/// Spreads the packets over all rules (Knuth's multiplicative hash).
const STRIDE: u32 = 2_654_435_761;

/// How long packets took, and how many were not treated as their rules say.
pub(super) fn measure(
    card: &mut dyn Card,
    rules: &TrialRules,
    in_table: u32,
    packets: u32,
) -> (Option<Spread>, u32) {
    let (mut times, mut disobeyed) = (Vec::new(), 0);
    for at in 0..WARM_UP + packets {
        let drawn = at.wrapping_mul(STRIDE);
        let number = if in_table == 0 { drawn >> 8 } else { drawn % in_table };
        let Some(frame) = packet(card, number) else { break };
        let Some(passed) = card.pass(&frame) else { break };
        if at >= WARM_UP {
            times.push(passed.ns);
            let matched = obeys(card, rules, number, &passed.fate);
            disobeyed += u32::from(in_table > 0 && !matched);
        }
    }
    (Spread::of(times), disobeyed)
}

/// A packet of rule `number`.
pub(super) fn packet(card: &dyn Card, number: u32) -> Option<Vec<u8>> {
    let facts = card.facts();
    frame::build(&TrialRules::flow(number)?, (facts.peer, facts.mac), None)
}

/// Whether a packet was treated as rule `number` says.
pub(super) fn obeys(card: &dyn Card, rules: &TrialRules, number: u32, fate: &Fate) -> bool {
    let last = card.facts().queues.saturating_sub(1);
    match (rules.encoding(), fate) {
        (Encoding::Mark, Fate::Received { queue, mark }) => *queue == last && *mark == Some(number),
        (Encoding::Queue, Fate::Received { queue, .. }) => *queue == last,
        (Encoding::Rewrite, Fate::Left(frame)) => {
            frame::flow_of(frame) == TrialRules::rewritten(number)
        }
        _ => false,
    }
}
