//! What a card must hold for one stateless service, made from the snapshot and
//! the next hops that are known.
use std::collections::BTreeMap;

use dpdk::flow::Rule;
use flow::{PortId, StatelessKey};
use service::{Entry, ModeSpec, Service};
use state::{Shared, Snapshot};

use crate::encode::stateless::{self as encode, Target};

/// The rules of one service on one port.
#[derive(Default)]
pub(crate) struct Plan {
    pub(super) group: u32,
    pub(super) gates: Vec<Rule>,
    pub(super) guards: Vec<Rule>,
    pub(super) entries: Vec<(Entry, Target)>,
    /// Of a service by a hash: a row for each class, by its value.
    pub(super) rows: Vec<(Entry, Target)>,
}

/// What the cards must hold for `service`, for packets that arrive at `port`;
/// or why they can't. `group` gives the service's group there, or says why it
/// has none.
pub(crate) fn plan(
    (shared, snapshot): (&Shared, &Snapshot),
    service: &Service,
    port: PortId,
    now_ms: u64,
    group: impl FnOnce() -> Result<u32, String>,
) -> Result<Plan, String> {
    let mut plan = Plan::default();
    let Some(classes) = service.classes() else { return Ok(plan) };
    if matches!(service.mode(), ModeSpec::Stateless(StatelessKey::Hash)) {
        return Err("it is balanced by the Toeplitz hash, which no rule can match".to_owned());
    }
    let mtu = shared.port(port).map_or(0, |port| port.mtu);
    let mut ways = BTreeMap::new();
    for backend in service.backends() {
        let hop = shared.hop_to(backend.address, now_ms);
        let Some(neighbour) = hop.and_then(|hop| shared.neighbours().get(hop)) else { continue };
        let Some(out) = snapshot.interfaces.get(neighbour.interface) else { continue };
        if out.mtu < mtu {
            let address = backend.address;
            return Err(format!(
                "packets of {mtu} bytes may arrive, and towards {address} only {} fit: software must see which",
                out.mtu
            ));
        }
        // Without an address software asks for it.
        let Some(to) = neighbour.mac else { continue };
        ways.insert(backend.id, (Target::new(to, out.mac, out.port), out.vlan));
    }
    let mut vlans = ways.values().map(|(_, vlan)| *vlan);
    let Some(vlan) = vlans.next() else { return Ok(plan) };
    if vlans.any(|other| other != vlan) {
        return Err("its backends are in different VLANs: tags are software's".to_owned());
    }
    let arriving = snapshot.interfaces.iter().map(|(_, interface)| interface);
    let arriving = arriving.filter(|interface| interface.port == port);
    let (same, other): (Vec<_>, Vec<_>) = arriving.partition(|interface| interface.vlan == vlan);
    if same.is_empty() && !other.is_empty() {
        return Err("clients and backends are in different VLANs: tags are software's".to_owned());
    }
    plan.entries =
        classes.entries().filter_map(|entry| Some((entry, ways.get(&entry.backend)?.0))).collect();
    if plan.entries.is_empty() || same.is_empty() {
        return Ok(Plan::default());
    }
    if matches!(service.mode(), ModeSpec::Stateless(StatelessKey::Crc32)) {
        let bits = classes.bits();
        let of = |(entry, target): (Entry, Target)| {
            let values = (entry.value..1 << bits).step_by(1 << entry.bits);
            values.map(move |value| (Entry { value, bits, ..entry }, target))
        };
        plan.rows = std::mem::take(&mut plan.entries).into_iter().flat_map(of).collect();
    }
    plan.group = group()?;
    plan.guards = encode::guards(snapshot, service, vlan, plan.group);
    let gate = |interface| encode::gate(service, interface, plan.group);
    plan.gates = same.into_iter().map(gate).collect();
    Ok(plan)
}
