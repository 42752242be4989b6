//! When the connection table refused which new connections.
use conntrack::Limit;
use flow::ServiceId;
use state::Counter;
use wire::FlowKey;

/// Number of remembered services and source networks; those that agree modulo this
/// number share a cell.
const CELLS: usize = 256;

/// Why the table refused a connection, which Maglev can serve without an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refused {
    /// No record is free.
    Full,
    /// A share of the table is used up.
    Limited(Limit),
}

impl Refused {
    /// The counter of such connections.
    pub(crate) const fn counter(self) -> Counter {
        match self {
            Self::Full => Counter::TableFullSeen,
            Self::Limited(Limit::Service) => Counter::EmbryonicService,
            Self::Limited(Limit::Source) => Counter::EmbryonicSource,
            Self::Limited(Limit::Share) => Counter::ShareUsed,
        }
    }
}

/// The last refusals that one worker has seen.
#[derive(Debug)]
pub(crate) struct Refusals {
    /// By family: each family has records of its own, so a refusal in one says
    /// nothing about the other.
    full_ms: [Option<u64>; 2],
    /// The last refusal because of a limit.
    limited_ms: Option<u64>,
    /// By service: the time of the last refusal plus one, or 0.
    services: Box<[u64; CELLS]>,
    /// By the client's network: the time of the last refusal plus one, or 0.
    sources: Box<[u64; CELLS]>,
}

impl Default for Refusals {
    fn default() -> Self {
        let none = Box::new([0; CELLS]);
        Self { full_ms: [None; 2], limited_ms: None, services: none.clone(), sources: none }
    }
}

impl Refusals {
    /// Whether no connection like that of `flow` to `service` was refused in the
    /// last `within_ms`.
    #[inline]
    pub(crate) fn is_calm(
        &self,
        (service, flow): (ServiceId, &FlowKey),
        now_ms: u64,
        within_ms: u64,
    ) -> bool {
        let is_past = |ms: Option<u64>| ms.is_none_or(|ms| now_ms.saturating_sub(ms) > within_ms);
        let [v4, v6] = self.full_ms;
        is_past(if matches!(flow, FlowKey::V6(_)) { v6 } else { v4 })
            && (is_past(self.limited_ms) || {
                let [service, source] = cells(service, flow);
                let ms = |cell: Option<&u64>| cell.and_then(|ms| ms.checked_sub(1));
                is_past(ms(self.services.get(service))) && is_past(ms(self.sources.get(source)))
            })
    }

    /// Notes that the connection of `flow` to `service` has been refused.
    pub(crate) fn note(
        &mut self,
        (service, flow): (ServiceId, &FlowKey),
        why: Refused,
        now_ms: u64,
    ) {
        let [service, source] = cells(service, flow);
        let cell = match why {
            Refused::Full => {
                let [v4, v6] = &mut self.full_ms;
                *(if matches!(flow, FlowKey::V6(_)) { v6 } else { v4 }) = Some(now_ms);
                return;
            }
            Refused::Limited(Limit::Source) => self.sources.get_mut(source),
            Refused::Limited(_) => self.services.get_mut(service),
        };
        self.limited_ms = Some(now_ms);
        if let Some(cell) = cell {
            *cell = now_ms + 1;
        }
    }
}

/// The cells of the service and of the client's /24 or /64.
fn cells(ServiceId(service): ServiceId, flow: &FlowKey) -> [usize; 2] {
    let network = match flow.src().ip() {
        std::net::IpAddr::V4(addr) => u64::from(addr.to_bits() >> 8),
        std::net::IpAddr::V6(addr) => (addr.to_bits() >> 64) as u64,
    };
    let hash = network.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    [usize::from(service) % CELLS, hash as usize % CELLS]
}
