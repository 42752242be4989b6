//! Connections that the kernel went on forwarding after a load balancer was killed.
use flow::Direction;
use state::Shared;
use xdp::Leftover;

/// Puts the connections behind `leftovers` into the table, as far as the configuration
/// still has their services and backends; how many these were. Those of mode `dsr` say
/// nothing of their backends: their packets go where Maglev says.
pub(crate) fn take_over(shared: &Shared, leftovers: &[Leftover], now_ms: u64) -> usize {
    leftovers.iter().filter(|own| take_one(shared, own, now_ms).is_some()).count()
}

/// Only the direction from the client names all ends.
fn take_one(shared: &Shared, leftover: &Leftover, now_ms: u64) -> Option<()> {
    let Leftover { flow, new: (local, server) } = *leftover;
    let snapshot = shared.snapshot();
    let service = snapshot.services.lookup(&flow)?;
    let pairs = snapshot.services.by_backend(flow.proto(), server);
    let (_, backend) = *pairs.iter().find(|(of, _)| *of == service.id())?;
    let local = (local != flow.src()).then_some(local);
    let binding = service.bind(backend, &flow, local)?;
    // A backend may have got another port since.
    if binding.server != server || binding.key(Direction::Forward) != Some(flow) {
        return None;
    }
    let there = shared.hop_to(binding.server.ip(), now_ms)?;
    let back = shared.hop_to(binding.client.ip(), now_ms)?;
    shared.table().insert_answered(&binding, [there, back], now_ms).ok()?;
    shared.loads().opened(backend);
    Some(())
}
