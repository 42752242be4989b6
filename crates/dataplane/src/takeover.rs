//! Connections that the kernel went on forwarding after a load balancer was killed.
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use flow::{BackendId, Direction};
use service::{Binding, ModeSpec, Service};
use state::{Shared, Snapshot};
use wire::{FlowKey, Mac};
use xdp::{Leftover, Way};

/// How long backends may take to answer, in milliseconds.
const PATIENCE_MS: u64 = 20_000;
/// How often connections that wait are looked at, in milliseconds.
const LOOK_MS: u64 = 50;

/// Puts the connections behind `leftovers` into the table, as far as their entries name a
/// backend by its address and the configuration still has it; how many these were.
pub(crate) fn take_over(shared: &Shared, leftovers: &[Leftover], now_ms: u64) -> usize {
    leftovers.iter().filter(|own| take_one(shared, own, now_ms).is_some()).count()
}

fn take_one(shared: &Shared, leftover: &Leftover, now_ms: u64) -> Option<()> {
    let flow = leftover.flow;
    let snapshot = shared.snapshot();
    let service = snapshot.services.lookup(&flow)?;
    match leftover.to {
        Way::Ends(local, server) => take_rewritten(shared, service, &flow, (local, server), now_ms),
        Way::Tunnel(to) => {
            let backend = service.backends().iter().find(|backend| backend.address == to)?;
            let tunnel = matches!(service.mode(), ModeSpec::Tunnel(_));
            let binding = service.bind(backend.id, &flow, None).filter(|_| tunnel)?;
            insert(shared, &binding, to, now_ms)
        }
        Way::Neighbour(_) => None,
    }
}

/// Only the direction from the client names all ends.
fn take_rewritten(
    shared: &Shared,
    service: &Service,
    flow: &FlowKey,
    (local, server): (SocketAddr, SocketAddr),
    now_ms: u64,
) -> Option<()> {
    let snapshot = shared.snapshot();
    let pairs = snapshot.services.by_backend(flow.proto(), server);
    let (_, backend) = *pairs.iter().find(|(of, _)| *of == service.id())?;
    let local = (local != flow.src()).then_some(local);
    let binding = service.bind(backend, flow, local)?;
    // A backend may have got another port since.
    if binding.server != server || binding.key(Direction::Forward) != Some(*flow) {
        return None;
    }
    insert(shared, &binding, server.ip(), now_ms)
}

/// Puts a connection into the table whose packets go by `next` to the server.
fn insert(shared: &Shared, binding: &Binding, next: IpAddr, now_ms: u64) -> Option<()> {
    let there = shared.hop_to(next, now_ms)?;
    let back = shared.hop_to(binding.client.ip(), now_ms)?;
    shared.table().insert_answered(binding, [there, back], now_ms).ok()?;
    shared.loads().opened(binding.backend);
    Some(())
}

/// Connections of mode `dsr`: their entries have the backend's Ethernet address, and which
/// backend has it shows once that has answered. Meanwhile the kernel forwards them.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    connections: Vec<(FlowKey, Mac)>,
    until_ms: u64,
    next_ms: u64,
}

impl Waiting {
    /// Has workers drop packets of the connections that wait.
    pub(crate) fn bar(&self, shared: &Shared) {
        shared.awaited().set(self.connections.iter().map(|(flow, _)| *flow));
    }

    /// Adds those of `leftovers` that wait; how many they are.
    pub(crate) fn add(&mut self, leftovers: &[Leftover], now_ms: u64) -> usize {
        let before = self.connections.len();
        self.connections.extend(leftovers.iter().filter_map(|own| match own.to {
            Way::Neighbour(mac) => Some((own.flow, mac)),
            Way::Ends(..) | Way::Tunnel(_) => None,
        }));
        self.until_ms = now_ms + PATIENCE_MS;
        self.connections.len() - before
    }

    /// Takes over the connections whose backends have answered.
    pub(crate) fn attend(&mut self, shared: &Shared, now_ms: u64) {
        if self.connections.is_empty() || now_ms < self.next_ms {
            return;
        }
        self.next_ms = now_ms + LOOK_MS;
        let snapshot = shared.snapshot();
        let known = backends(shared, &snapshot, now_ms);
        self.connections.retain(|(flow, mac)| {
            let of_service = |service: &Service| known.get(&(service.id().0, mac.0)).copied();
            let found = snapshot.services.lookup(flow).and_then(|service| {
                let (backend, address) = of_service(service)?;
                insert(shared, &service.bind(backend, flow, None)?, address, now_ms)
            });
            found.is_none()
        });
        if now_ms >= self.until_ms {
            let lost = self.connections.len();
            tracing::warn!(
                "{lost} connections of the hnlb that was killed have no backend any more"
            );
            self.connections.clear();
        }
        // One that has been taken over is found in the table before.
        if self.connections.is_empty() {
            shared.awaited().set([]);
        }
    }
}

/// The backends of services of mode `dsr`, by service and Ethernet address, as far as they
/// have answered.
fn backends(
    shared: &Shared,
    snapshot: &Snapshot,
    now_ms: u64,
) -> BTreeMap<(u16, [u8; 6]), (BackendId, IpAddr)> {
    let direct = snapshot.services.services().iter();
    let direct = direct.filter(|service| matches!(service.mode(), ModeSpec::Dsr));
    let all = direct.flat_map(|service| service.backends().iter().map(move |own| (service, own)));
    all.filter_map(|(service, backend)| {
        let hop = shared.hop_to(backend.address, now_ms)?;
        let Mac(mac) = shared.neighbours().get(hop)?.mac?;
        Some(((service.id().0, mac), (backend.id, backend.address)))
    })
    .collect()
}
