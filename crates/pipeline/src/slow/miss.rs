//! Packets whose connection is in no table. A new connection is given a backend
//! and put into the table (step 4a of the HNLB paper).
//!
//! Next: `act`, or a drop.
use std::net::IpAddr;

use conntrack::{ConnId, Hit, InsertError};
use flow::{AdmissionPolicy, BackendId, Direction, HopId};
use packet::PacketBuf;
use service::{Binding, Service};
use state::Counter;
use wire::{FlowKey, Headers, TcpFlags};

use crate::Outbox;
use crate::context::{Context, Decision, Packet};
use crate::offload_requests::{decision, measure, want};
use crate::scheduling::Scheduling;
use crate::slow::act::hop_to;
use crate::slow::stateless;
use crate::source::{is_client, is_host};

/// Backends tried when the reply 5-tuple is another connection's.
const TRIES: usize = 8;

/// What is done to a packet that the match stage didn't find.
pub(crate) fn miss<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    scheduling: &mut Scheduling,
    key: &FlowKey,
    packet: &Packet<B>,
) -> Result<Decision, Counter> {
    let headers = &packet.headers;
    if let Some(service) = cx.snapshot.services.lookup(key).filter(|found| found.is_stateless()) {
        packet.check()?;
        return without_state(cx, service, key, headers);
    }
    // A packet before this one in the burst, or another worker, may have
    // brought the connection in.
    if let Some(hit) = cx.shared.table.lookup(key) {
        if hit.direction == Direction::Reply
            && stateless::is_misplaced(cx, key.src().ip(), packet.interface)
        {
            return Err(Counter::WrongSide);
        }
        cx.count(Counter::LookedUp);
        return decision(cx, hit, headers).ok_or(Counter::NotRewritable);
    }
    packet.check()?;
    cx.count(Counter::Missed);
    let snapshot = cx.snapshot;
    let Some(service) = snapshot.services.lookup(key) else {
        if snapshot.services.is_vip(key.dst().ip()) {
            let is_host = is_host(cx, key.src().ip());
            return Err(if is_host { Counter::ClosedPort } else { Counter::BadSource });
        }
        if stateless::opens(key.proto(), headers.tcp_flags) {
            return Err(Counter::NotForUs);
        }
        let decision = stateless::reply(cx, key)?;
        if stateless::is_misplaced(cx, stateless::sender(cx, key), packet.interface) {
            return Err(Counter::WrongSide);
        }
        cx.count(Counter::StatelessReply);
        return Ok(decision);
    };
    if !is_client(cx, key.src().ip()) {
        return Err(Counter::BadSource);
    }
    if headers.ttl <= 1 {
        // It goes no further, so it opens nothing.
        return Err(Counter::TtlExpired);
    }
    if headers.tcp_flags.any(TcpFlags::RST | TcpFlags::SYN) && !headers.tcp_flags.opens() {
        return opens_nothing(cx, service, key, headers);
    }
    match install(cx, scheduling, service, key, headers) {
        Ok(hit) => decision(cx, hit, headers).ok_or(Counter::NotRewritable),
        Err(Refusal::Full) => {
            scheduling.table_is_full(key, cx.now_ms);
            cx.count(Counter::TableFullSeen);
            let decision = stateless::forward(cx, service, key)?;
            cx.count(Counter::Stateless);
            Ok(decision)
        }
        Err(Refusal::Drop(counter)) => Err(counter),
    }
}

/// What is done to a RST, or a SYN with ACK, of no known connection. The connection
/// of a RST may be one that a full table had no room for, or that was there before
/// the load balancer: its backend must know that it has ended. A client never
/// answers a SYN.
#[cold]
fn opens_nothing<O>(
    cx: &Context<'_, O>,
    service: &Service,
    key: &FlowKey,
    headers: &Headers,
) -> Result<Decision, Counter> {
    if headers.tcp_flags.any(TcpFlags::SYN) || service.pool().is_some() {
        return Err(Counter::UnknownConnection);
    }
    let decision = stateless::forward(cx, service, key)?;
    cx.count(Counter::Stateless);
    Ok(decision)
}

/// What is done to a packet of a stateless service: what the entries in the NIC
/// do to those that get so far.
fn without_state<O>(
    cx: &Context<'_, O>,
    service: &Service,
    key: &FlowKey,
    headers: &Headers,
) -> Result<Decision, Counter> {
    if !is_client(cx, key.src().ip()) {
        return Err(Counter::BadSource);
    }
    if headers.ttl <= 1 {
        return Err(Counter::TtlExpired);
    }
    let decision = stateless::forward(cx, service, key)?;
    cx.count(Counter::ByAddress);
    Ok(decision)
}

/// Why a connection isn't put into the table.
enum Refusal {
    Full,
    Drop(Counter),
}

impl From<Counter> for Refusal {
    fn from(counter: Counter) -> Self {
        Self::Drop(counter)
    }
}

/// Chooses a backend and puts the connection into the table. If another worker
/// was faster, its connection counts.
fn install<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    scheduling: &mut Scheduling,
    service: &Service,
    key: &FlowKey,
    headers: &Headers,
) -> Result<Hit, Refusal> {
    let back = hop_to(cx, key.src().ip())?;
    ask_for(cx, back);
    let chosen = scheduling.backend(cx, service, key, headers.tcp_flags);
    let first = chosen.ok_or(Counter::NoBackend)?;
    let mut backend = first;
    for _ in 0..TRIES {
        let server = server_of(cx, backend).ok_or(Counter::NoBackend)?;
        if matches!(service.mode(), service::ModeSpec::Nat) && server == key.src().ip() {
            // It would get its own packet, from its own address.
            return Err(Refusal::Drop(Counter::Hairpin));
        }
        let there = hop_to(cx, server)?;
        match try_backend(cx, service, backend, key, [there, back]) {
            Err(InsertError::ReplyConflict(_)) => {}
            Ok((conn, backend)) => return Ok(installed(cx, service, conn, backend)),
            Err(InsertError::Exists(hit)) => return Ok(hit),
            Err(InsertError::Full) => return Err(Refusal::Full),
            // Client and server are one: nothing sensible can come of it.
            Err(InsertError::Loop | InsertError::MixedFamilies) => {
                return Err(Refusal::Drop(Counter::BadSource));
            }
        }
        backend = match after(service, backend) {
            Some(next) if next != first => next,
            _ => break,
        };
    }
    let exhausted = service.pool().is_some();
    Err(Refusal::Drop(if exhausted { Counter::PoolExhausted } else { Counter::ReplyConflict }))
}

/// The answer will need this hop: by then it should be known.
fn ask_for<B: PacketBuf, O: Outbox<B>>(cx: &mut Context<'_, O>, hop: HopId) {
    if let Some((_, None)) = cx.shared.neighbours.resolve(hop, cx.now_ms) {
        cx.count(Counter::ResolveAsked);
        cx.out.resolve(hop);
    }
}

fn server_of<O>(cx: &Context<'_, O>, backend: BackendId) -> Option<IpAddr> {
    cx.snapshot.services.backend(backend).map(|own| own.address)
}

/// The next backend that takes connections, in a circle.
fn after(service: &Service, backend: BackendId) -> Option<BackendId> {
    let all = service.backends();
    let place = all.iter().position(|b| b.id == backend)?;
    let (before, behind) = all.split_at_checked(place)?;
    let next = behind.iter().skip(1).chain(before).find(|b| b.weight > 0)?;
    Some(next.id)
}

/// Inserts the connection with this backend; in mode fullnat with the first
/// local endpoint that is free.
fn try_backend<O>(
    cx: &Context<'_, O>,
    service: &Service,
    backend: BackendId,
    key: &FlowKey,
    hops: [HopId; 2],
) -> Result<(ConnId, BackendId), InsertError> {
    let insert = |local| -> Result<(ConnId, BackendId), InsertError> {
        let binding: Binding =
            service.bind(backend, key, local).ok_or(InsertError::MixedFamilies)?;
        cx.shared.table.insert(&binding, hops, cx.now_ms).map(|conn| (conn, backend))
    };
    let Some(pool) = service.pool() else { return insert(None) };
    let mut refused = InsertError::MixedFamilies;
    for local in pool.candidates(key, backend) {
        match insert(Some(local)) {
            Err(error @ InsertError::ReplyConflict(_)) => refused = error,
            done => return done,
        }
    }
    Err(refused)
}

fn installed<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    service: &Service,
    conn: ConnId,
    backend: BackendId,
) -> Hit {
    cx.count(Counter::Installed);
    cx.shared.loads.opened(backend);
    if service.scheduler().measures_answers() {
        measure(cx, conn, backend);
    }
    if cx.snapshot.admit == AdmissionPolicy::FirstPacket {
        want(cx, conn);
    }
    Hit { conn, direction: Direction::Forward }
}
