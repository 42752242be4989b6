//! What the status says of stateless services.
use std::collections::BTreeMap;

use flow::{BackendId, StatelessKey};
use offload::{Held, StatelessStats};
use service::{ModeSpec, Service};

use status::{EntryStatus, ShareStatus, StatelessStatus};

/// How the clients of `service` are divided, and what the NICs have done;
/// `None` if it keeps connections.
pub(crate) fn of(service: &Service, rules: &StatelessStats) -> Option<StatelessStatus> {
    if !service.is_stateless() {
        return None;
    }
    let mut status = StatelessStatus::default();
    for (port, state) in rules.ports(service.id()) {
        match state {
            Ok(()) => status.in_hardware.push(port.0.into()),
            Err(reason) => {
                status.reasons.insert(port.0.into(), reason.clone());
            }
        }
    }
    let Some(classes) = service.classes() else { return Some(status) };
    let address = |id: BackendId| {
        let found = service.backends().iter().find(|backend| backend.id == id);
        found.map_or_else(String::new, |backend| backend.address.to_string())
    };
    status.by_hash =
        matches!(service.mode(), ModeSpec::Stateless(by) if *by != StatelessKey::Source);
    (status.bits, status.deviation) = (classes.bits(), classes.deviation());
    let sent: BTreeMap<BackendId, _> =
        classes.shares().map(|share| (share.backend, rules.sent_to(share.backend))).collect();
    let all = sent.values().map(|counters| counters.packets).sum::<u64>().max(1) as f64;
    status.shares = classes
        .shares()
        .map(|share| {
            let counters = sent.get(&share.backend).copied().unwrap_or_default();
            ShareStatus {
                address: address(share.backend),
                wanted: share.wanted,
                assigned: share.assigned,
                drained: share.drained,
                packets: counters.packets,
                bytes: counters.bytes,
                seen: counters.packets as f64 / all,
            }
        })
        .collect();
    let held: Vec<Held> =
        rules.held.iter().filter(|held| held.service == service.id()).copied().collect();
    let entry = |entry: service::Entry| {
        let own: Vec<&Held> = held.iter().filter(|held| held.entry == entry).collect();
        EntryStatus {
            value: entry.value,
            mask: entry.mask(),
            backend: address(entry.backend),
            ports: own.len(),
            packets: own.iter().map(|held| held.counters.packets).sum(),
            bytes: own.iter().map(|held| held.counters.bytes).sum(),
        }
    };
    status.entries = classes.entries().map(entry).collect();
    Some(status)
}
