//! What the status says of who gets an entry.
use std::collections::BTreeMap;

use offload::OffloadStats;

use status::AdmissionStatus;

/// The policy's counts and numbers.
pub(crate) fn admission(stats: &OffloadStats) -> AdmissionStatus {
    let counters = &stats.admission;
    let passed = counters.passed;
    let named = [
        ("admitted", counters.admitted),
        ("evicted", counters.evicted),
        ("refused_by_card", counters.refused_by_card),
        ("ended", counters.ended),
        ("samples", counters.samples),
        ("samples_matched", counters.samples_matched),
        ("passed_too_young", passed.too_young),
        ("passed_too_light", passed.too_light),
        ("passed_in_turn", passed.in_turn),
        ("passed_refused_by_card", passed.refused_by_card),
    ];
    AdmissionStatus {
        policy: stats.policy.to_string(),
        held: counters.held as u64,
        entries: counters.limit.map(|entries| entries as u64),
        tracked: counters.tracked as u64,
        threshold: counters.threshold,
        share_matched: counters.share_matched,
        budget: stats.ports.iter().filter_map(|port| port.budget).min(),
        budget_used: counters.admitted_last_second,
        creation_ns: stats.ports.iter().filter_map(|port| port.creation_ns).max(),
        counters: named
            .map(|(name, count)| (name.to_owned(), count))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
    }
}
