//! The state of the rules of stateless services.
use std::collections::BTreeMap;

use dpdk::flow::Counters;
use flow::{BackendId, PortId, ServiceId};

use super::Held;
use super::pipe::sum_of;

/// A port, and why its card doesn't carry a service out, if it doesn't.
pub type PortState = (PortId, Result<(), String>);

/// The rules of stateless services at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatelessStats {
    /// Rules in all cards, those of a predecessor too as long as they are there.
    pub rules: usize,
    /// Rules of a predecessor that were found and destroyed.
    pub reconciled: usize,
    /// Every entry in every card.
    pub held: Vec<Held>,
    pub(super) ports: BTreeMap<ServiceId, Vec<PortState>>,
    /// What rules that are gone had counted.
    pub(super) past: BTreeMap<BackendId, Counters>,
}

impl StatelessStats {
    /// What the cards have sent to `backend` so far, as last read.
    #[must_use]
    pub fn sent_to(&self, backend: BackendId) -> Counters {
        let now = self.held.iter().filter(|held| held.entry.backend == backend);
        let past = self.past.get(&backend).copied().unwrap_or_default();
        now.fold(past, |sum, held| sum_of(sum, held.counters))
    }

    /// The ports whose cards carry `service` out, and why others don't, or not
    /// wholly.
    pub fn ports(&self, service: ServiceId) -> &[PortState] {
        self.ports.get(&service).map_or(&[], Vec::as_slice)
    }
}
