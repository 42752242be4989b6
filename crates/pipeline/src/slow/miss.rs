//! Packets whose connection is in no table. A new connection is given a backend
//! and put into the table (step 4a of the HNLB paper).
//!
//! Next: `act`, or a drop.
use std::net::IpAddr;

use conntrack::{ConnId, ConnState, Hit, InsertError};
use flow::{AdmissionPolicy, BackendId, Direction, HopId};
use packet::PacketBuf;
use service::{Binding, FirstAnswer, ModeSpec, Service};
use state::{Counter, Offload};
use wire::{FlowKey, Fragment, Headers, TcpFlags, Transport};

use crate::Outbox;
use crate::context::{Context, Decision, Packet};
use crate::offload_requests::{decision, measure, tell, want};
use crate::refusals::Refused;
use crate::scheduling::Scheduling;
use crate::slow::act::hop_to;
use crate::slow::matching::DECISIVE;
use crate::slow::stateless;
use crate::source::{is_client, is_host};

/// Tries at an insertion whose reply 5-tuple belongs to another connection.
const TRIES: usize = 8;

/// Bytes of a UDP header.
const UDP_HEADER: usize = 8;

/// Decides on a packet for which the match stage found no connection.
pub(crate) fn miss<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    scheduling: &mut Scheduling,
    key: &FlowKey,
    packet: &Packet<B>,
) -> Result<Decision, Counter> {
    let headers = &packet.headers;
    if let Some(service) = cx.snapshot.services.lookup(key).filter(|found| found.is_stateless()) {
        return without_state(cx, service, key, headers);
    }
    // An earlier packet of the burst, or another worker, may have inserted the
    // connection.
    if let Some(hit) = cx.shared.table().lookup(key) {
        cx.count(Counter::LookedUp);
        if headers.tcp_flags.any(DECISIVE) {
            packet.check()?;
        }
        if hit.direction == Direction::Reply
            && stateless::is_misplaced(cx, key.src().ip(), packet.interface)
        {
            return Err(Counter::WrongSide);
        }
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
        if stateless::is_stale(cx, key, headers) {
            return Err(Counter::StaleAnswer);
        }
        cx.count(Counter::StatelessReply);
        if is_of_open_connection(headers) {
            take_up(cx, key, headers, decision.hop);
        }
        return Ok(decision);
    };
    if !is_client(cx, key.src().ip()) {
        return Err(Counter::BadSource);
    }
    if headers.ttl <= 1 {
        // The packet goes no further, so it opens no connection.
        return Err(Counter::TtlExpired);
    }
    if cx.shared.awaited().has(key) && !headers.tcp_flags.opens() {
        return Err(Counter::TakeoverPending);
    }
    if headers.tcp_flags.any(TcpFlags::RST | TcpFlags::SYN) && !headers.tcp_flags.opens() {
        return opens_nothing(cx, service, key, headers);
    }
    if waits_for_answer(service, key, headers) {
        return by_maglev(cx, service, key, None);
    }
    let named = named(service, headers, packet.buf.bytes());
    if named.is_some() {
        cx.count(Counter::QuicNamed);
    }
    match install(cx, scheduling, service, key, (headers, named)) {
        Ok(hit) => decision(cx, hit, headers).ok_or(Counter::NotRewritable),
        Err(Refusal::ByTable(why)) => {
            scheduling.refused(service.id(), key, why, cx.now_ms);
            cx.count(why.counter());
            by_maglev(cx, service, key, named)
        }
        Err(Refusal::Drop(counter)) => Err(counter),
    }
}

/// Decides on a RST, or a SYN with ACK, of no known connection. A RST may belong to a
/// connection that a full table refused, or that is older than the load balancer: the
/// backend must learn that the connection has ended. A client never answers a SYN.
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
    by_maglev(cx, service, key, None)
}

/// The decision for the backend `named` by the packet, or else for the one that
/// hashing gives.
fn by_maglev<O>(
    cx: &Context<'_, O>,
    service: &Service,
    key: &FlowKey,
    named: Option<BackendId>,
) -> Result<Decision, Counter> {
    let decision = stateless::forward(cx, service, key, named)?;
    cx.count(Counter::Stateless);
    Ok(decision)
}

/// Whether a packet of an unknown TCP connection goes to Maglev's choice, and the
/// server's answer puts the connection into the table: anybody can send a packet that
/// is no SYN, and a server answers it only if it has the connection. In mode `nat`
/// the connection needs no entry meanwhile, since answers are forwarded without one,
/// too.
fn waits_for_answer(service: &Service, key: &FlowKey, headers: &Headers) -> bool {
    matches!(service.mode(), ModeSpec::Nat)
        && key.proto() == Transport::Tcp
        && !stateless::opens(Transport::Tcp, headers.tcp_flags)
}

/// Whether a server sends such a packet only in a connection that both ends have.
fn is_of_open_connection(headers: &Headers) -> bool {
    let flags = headers.tcp_flags;
    let others = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
    headers.proto == Transport::Tcp.number() && flags.any(TcpFlags::ACK) && !flags.any(others)
}

/// Inserts the connection in which a server has sent the packet with `key`: it is
/// older than the table, or the table refused it. `back` leads to the client.
fn take_up<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    key: &FlowKey,
    headers: &Headers,
    back: HopId,
) {
    let Some(binding) = stateless::binding(cx, key) else { return };
    let Ok(there) = hop_to(cx, binding.server.ip()) else { return };
    // Without room the connection goes on without an entry.
    if let Ok(conn) = cx.shared.table().insert_answered(&binding, [there, back], cx.now_ms) {
        cx.count(Counter::Installed);
        cx.count(Counter::TakenUp);
        cx.counts.opened(binding.backend);
        cx.shared.loads().opened(binding.backend);
        let hit = Hit { conn, direction: Direction::Reply };
        let _ = decision(cx, hit, headers);
    }
}

/// Decides on a packet of a stateless service as the NIC's entries do on packets that
/// reach them.
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
    let decision = stateless::forward(cx, service, key, None)?;
    cx.count(Counter::ByAddress);
    Ok(decision)
}

/// The backend that the packet's QUIC connection id names: the connection exists
/// already, and its client has a new address or port.
fn named(service: &Service, headers: &Headers, frame: &[u8]) -> Option<BackendId> {
    if !service.reads_connection_ids() || headers.fragment != Fragment::Whole {
        return None;
    }
    let payload = frame.get(usize::from(headers.l4) + UDP_HEADER..usize::from(headers.end))?;
    service.named_by_connection_id(payload)
}

/// Why the table gets no entry for a connection.
enum Refusal {
    ByTable(Refused),
    Drop(Counter),
}

impl From<Counter> for Refusal {
    fn from(counter: Counter) -> Self {
        Self::Drop(counter)
    }
}

/// Chooses a backend and puts the connection into the table. If another worker has
/// been faster, its connection is the one that counts.
fn install<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    scheduling: &mut Scheduling,
    service: &Service,
    key: &FlowKey,
    (headers, named): (&Headers, Option<BackendId>),
) -> Result<Hit, Refusal> {
    let back = hop_to(cx, key.src().ip())?;
    ask_for(cx, back);
    let chosen = named.or_else(|| scheduling.backend(cx, service, key, headers.tcp_flags));
    let first = chosen.ok_or(Counter::NoBackend)?;
    let mut backend = first;
    for _ in 0..TRIES {
        let server = server_of(cx, backend).ok_or(Counter::NoBackend)?;
        if matches!(service.mode(), ModeSpec::Nat) && server == key.src().ip() {
            // The backend would get its own packet, from its own address.
            return Err(Refusal::Drop(Counter::Hairpin));
        }
        let there = hop_to(cx, server)?;
        let candidates = scheduling.exhausted.worth(backend, cx.now_ms);
        match try_backend(cx, service, backend, key, ([there, back], candidates)) {
            Err(InsertError::ReplyConflict(other)) if make_way(cx, other) => continue,
            Err(InsertError::ReplyConflict(_)) => {
                if candidates > 1 && service.pool().is_some() {
                    scheduling.exhausted.note(backend, cx.now_ms);
                }
            }
            Ok((conn, backend)) => return Ok(installed(cx, service, conn, backend)),
            Err(InsertError::Exists(hit)) => return Ok(hit),
            Err(InsertError::Full) => return Err(Refusal::ByTable(Refused::Full)),
            Err(InsertError::Limited(limit)) => {
                return Err(Refusal::ByTable(Refused::Limited(limit)));
            }
            // Client and server are one address, so no useful connection can result.
            Err(InsertError::Loop | InsertError::MixedFamilies) => {
                return Err(Refusal::Drop(Counter::BadSource));
            }
        }
        backend = match after(service, backend).filter(|_| named.is_none()) {
            Some(next) if next != first => next,
            _ => break,
        };
    }
    let exhausted = service.pool().is_some();
    Err(Refusal::Drop(if exhausted { Counter::PoolExhausted } else { Counter::ReplyConflict }))
}

/// Removes the ended connection of another VIP that has the reply 5-tuple of a new
/// one, since its client, or a NAT in front, uses the port again. Returns whether it
/// is gone; a connection with rules in the NIC must lose them first.
#[cold]
fn make_way<B: PacketBuf, O: Outbox<B>>(cx: &mut Context<'_, O>, Hit { conn, .. }: Hit) -> bool {
    let table = cx.shared.table();
    if !matches!(table.state(conn), Some(ConnState::Closing | ConnState::Reset)) {
        return false;
    }
    let gone = table.remove_from_software(conn);
    match &gone {
        Some(gone) => {
            cx.shared.loads().closed(gone.backend);
            cx.count(Counter::TakenOver);
        }
        None => drop(tell(cx, conn, Offload::Closing)),
    }
    gone.is_some()
}

/// The answer will need this hop, whose address should be known by then.
fn ask_for<B: PacketBuf, O: Outbox<B>>(cx: &mut Context<'_, O>, hop: HopId) {
    if let Some((_, None)) = cx.shared.neighbours().resolve(hop, cx.now_ms) {
        cx.count(Counter::ResolveAsked);
        cx.out.resolve(hop);
    }
}

fn server_of<O>(cx: &Context<'_, O>, backend: BackendId) -> Option<IpAddr> {
    cx.snapshot.services.backend(backend).map(|own| own.address)
}

/// The next backend that accepts connections, in a circle.
fn after(service: &Service, backend: BackendId) -> Option<BackendId> {
    let all = service.backends();
    let place = all.iter().position(|b| b.id == backend)?;
    let (before, behind) = all.split_at_checked(place)?;
    let next = behind.iter().skip(1).chain(before).find(|b| b.weight > 0)?;
    Some(next.id)
}

/// Inserts the connection with this backend. In mode fullnat it gets the first free
/// local endpoint of at most `candidates`.
fn try_backend<O>(
    cx: &Context<'_, O>,
    service: &Service,
    backend: BackendId,
    key: &FlowKey,
    (hops, candidates): ([HopId; 2], usize),
) -> Result<(ConnId, BackendId), InsertError> {
    let insert = |local| -> Result<(ConnId, BackendId), InsertError> {
        let binding: Binding =
            service.bind(backend, key, local).ok_or(InsertError::MixedFamilies)?;
        cx.shared.table().insert(&binding, hops, cx.now_ms).map(|conn| (conn, backend))
    };
    let Some(pool) = service.pool() else { return insert(None) };
    let mut refused = InsertError::MixedFamilies;
    for local in pool.candidates(key, backend).take(candidates) {
        cx.count(Counter::PoolTried);
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
    cx.counts.opened(backend);
    cx.shared.loads().opened(backend);
    let first_answer = service.opening().first_answer;
    if first_answer != FirstAnswer::Unseen {
        measure(cx, conn, backend, first_answer);
    }
    if cx.snapshot.admit == AdmissionPolicy::FirstPacket {
        want(cx, conn);
    }
    Hit { conn, direction: Direction::Forward }
}
