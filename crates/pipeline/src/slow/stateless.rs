//! Decisions on packets of connections that no table has: Maglev over the backends on
//! the way there, the one service that fits on the way back.
use std::net::IpAddr;

use flow::{Account, BackendId, Direction, InterfaceId};
use service::{Binding, Delivery, Service};
use state::Counter;
use wire::{FlowKey, Headers, TcpFlags, Transport};

use crate::context::{Context, Decision};
use crate::slow::act::hop_to;
use crate::source::is_client;

/// The decision on a packet to a VIP: the backend `named` by the packet, or else the
/// one that hashing gives.
pub(crate) fn forward<O>(
    cx: &Context<'_, O>,
    service: &Service,
    key: &FlowKey,
    named: Option<BackendId>,
) -> Result<Decision, Counter> {
    let services = &cx.snapshot.services;
    let backend = named.or_else(|| services.hashed(service, key)).ok_or(Counter::NoBackend)?;
    if !services.claims(service, backend, key) {
        return Err(Counter::BackendShared);
    }
    // A service of mode fullnat needs state.
    let binding = service.bind(backend, key, None).ok_or(Counter::TableFull)?;
    let delivery = binding.delivery(Direction::Forward).ok_or(Counter::NotRewritable)?;
    let address = services.backend(backend).ok_or(Counter::NoBackend)?.address;
    let account = Some(Account { backend, direction: Direction::Forward });
    Ok(Decision { delivery, hop: hop_to(cx, address)?, account })
}

/// Whether a packet that claims to be from the server at `address` came in on another
/// interface than the one that leads there. A client's forged packet would otherwise
/// leave as from the VIP.
pub(crate) fn is_misplaced<O>(
    cx: &Context<'_, O>,
    address: IpAddr,
    interface: InterfaceId,
) -> bool {
    let leads = cx.snapshot.routes.next(address);
    leads.is_none_or(|(there, _)| there != interface)
}

/// The address of the server that has sent the answer with `key`. A backend that
/// answers as the VIP can't be told from the others, so one backend of its service
/// stands for all: the one that Maglev gives.
pub(crate) fn sender<O>(cx: &Context<'_, O>, key: &FlowKey) -> IpAddr {
    let services = &cx.snapshot.services;
    let towards = key.reversed();
    let backend = services.lookup(&towards).and_then(|service| service.hashed(&towards));
    let backend = backend.and_then(|backend| services.backend(backend));
    backend.map_or(key.src().ip(), |backend| backend.address)
}

/// The decision on a packet from a backend: back through the VIP of the service that
/// claims it. `key` is the packet's.
pub(crate) fn reply<O>(cx: &Context<'_, O>, key: &FlowKey) -> Result<Decision, Counter> {
    let (proto, server, client) = (key.proto(), key.src(), key.dst());
    let one_way = |service: &Service| service.forwarding().is_one_way();
    let is_own = cx.snapshot.services.lookup(&key.reversed()).is_some_and(one_way);
    if !is_own && cx.snapshot.services.by_backend(proto, server).is_empty() {
        return Err(Counter::NotForUs);
    }
    if !is_client(cx, client.ip()) {
        // In mode fullnat the client is not known without state. A packet to an
        // address that no client has, for instance one of our own, would come back.
        return Err(Counter::BackendUnclaimed);
    }
    if is_own {
        // The packet is the backend's own answer, which need not have passed here.
        return Ok(Decision {
            delivery: Delivery::Plain,
            hop: hop_to(cx, client.ip())?,
            account: None,
        });
    }
    let binding = binding(cx, key).ok_or(Counter::BackendUnclaimed)?;
    let delivery = binding.delivery(Direction::Reply).ok_or(Counter::NotRewritable)?;
    let account = Some(Account { backend: binding.backend, direction: Direction::Reply });
    Ok(Decision { delivery, hop: hop_to(cx, client.ip())?, account })
}

/// Whether the answer with `key` is one to a SYN that its client has sent again since,
/// and that went to another backend. The client would believe the numbers in it, and
/// the other backend gets what the client sends.
pub(crate) fn is_stale<O>(cx: &Context<'_, O>, key: &FlowKey, headers: &Headers) -> bool {
    if !headers.tcp_flags.any(TcpFlags::SYN | TcpFlags::RST) {
        return false;
    }
    let table = cx.shared.table();
    let known = binding(cx, key).and_then(|binding| {
        let hit = table.lookup(&binding.key(Direction::Forward)?)?;
        Some(table.action(hit)?.backend != binding.backend)
    });
    known.unwrap_or(false)
}

/// The binding of the connection in which a backend has sent the packet with `key`:
/// that of the service that claims it.
pub(crate) fn binding<O>(cx: &Context<'_, O>, key: &FlowKey) -> Option<Binding> {
    let (service, backend) = cx.snapshot.services.claimant(key)?;
    service.bind(backend, &service.answered_flow(key)?, None)
}

/// The decision on a packet with `key`, in either direction, if no table has its
/// connection: for ICMP errors about such packets.
pub(crate) fn either<O>(cx: &Context<'_, O>, key: &FlowKey) -> Result<Decision, Counter> {
    match cx.snapshot.services.lookup(key) {
        // What the numbers in it mean, only the L7 agent knows.
        Some(service) if service.is_routed() => Err(Counter::IcmpUnrelated),
        Some(service) => forward(cx, service, key, None),
        None => reply(cx, key),
    }
}

/// Whether a packet can't be an answer: a backend opens a connection.
pub(crate) const fn opens(proto: Transport, flags: TcpFlags) -> bool {
    matches!(proto, Transport::Tcp) && flags.any(TcpFlags::SYN) && !flags.any(TcpFlags::ACK)
}
