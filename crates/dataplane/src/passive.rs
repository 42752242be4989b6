//! Passive signals of a running load balancer: which backends they count for, and what has
//! been counted.
use std::collections::BTreeMap;
use std::time::Duration;

use control::{BackendKey, Plan};
use flow::AdmissionPolicy;
use health::{PassiveSettings, Seen, TargetKey, Watched};
use service::{ModeSpec, ServiceSpec};
use state::{Carried, Shared};
use wire::Transport;

/// Connections in a row that take a backend down if the configuration has no number.
const IN_A_ROW: u32 = 5;

/// The backends of `plan` whose passive signals count.
pub(crate) fn watched(plan: &Plan) -> Vec<Watched> {
    let checked = plan.services.iter().filter_map(|own| Some((own, plan.checks.get(&own.name)?)));
    let watched =
        checked.filter_map(|(service, health)| Some((service, settings(service, health)?)));
    watched.flat_map(|(service, settings)| of_service(service, settings)).collect()
}

fn of_service(service: &ServiceSpec, settings: PassiveSettings) -> impl Iterator<Item = Watched> {
    service.backends.iter().map(move |backend| {
        let BackendKey { address, port } = BackendKey::of(service, backend);
        Watched { key: TargetKey { service: service.name.clone(), address, port }, settings }
    })
}

fn settings(service: &ServiceSpec, health: &config::Health) -> Option<PassiveSettings> {
    let implied = || (health.check == flow::Check::Passive).then(config::Passive::default);
    let passive = health.passive.clone().or_else(implied)?;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    // Elsewhere first answers are not seen, or are HNLB's own.
    let are_seen = matches!(service.mode, ModeSpec::Nat | ModeSpec::FullNat { .. })
        && service.routes.is_none();
    let is_tcp = service.proto == Transport::Tcp;
    let threshold = |given: Option<u32>, usual: bool| {
        if are_seen { given.unwrap_or(if usual { IN_A_ROW } else { 0 }) } else { 0 }
    };
    Some(PassiveSettings {
        // A client may ask for any port of such a service, also for one that nobody serves.
        resets: threshold(passive.resets, is_tcp && service.port.is_some()),
        timeouts: threshold(passive.timeouts, is_tcp),
        timeout_ms: millis(passive.timeout),
        next_hop: passive.next_hop,
        hold_ms: millis(passive.hold),
        most: passive.most,
        slow_start_ms: millis(health.slow_start),
    })
}

/// What has been counted for every backend of the configuration in force.
pub(crate) fn seen(shared: &Shared, now_ms: u64) -> BTreeMap<TargetKey, Seen> {
    let snapshot = shared.snapshot();
    // Rules that are made for a first packet carry the answer past the workers.
    let answers_pass_by = snapshot.admit == AdmissionPolicy::FirstPacket;
    let mut all = BTreeMap::new();
    for service in snapshot.services.services() {
        for own in service.backends() {
            let carried = shared.totals().backend(own.id);
            let mut seen = of_carried(&carried);
            if answers_pass_by {
                seen.answered += carried.packets[1].saturating_sub(carried.resets[1]);
            }
            let hop = shared.hop_to(own.address, now_ms);
            let neighbour = hop.and_then(|hop| shared.neighbours().get(hop));
            seen.has_next_hop = neighbour.is_some_and(|own| own.mac.is_some());
            let service = service.name().to_owned();
            all.insert(TargetKey { service, address: own.address, port: own.port }, seen);
        }
    }
    all
}

fn of_carried(carried: &Carried) -> Seen {
    Seen {
        asked: carried.asked,
        answered: carried.answers.counts.iter().sum(),
        refused: carried.refused,
        has_next_hop: true,
    }
}
