//! Refusals: what the load balancer tells a client whose packet no service or backend
//! takes.
use flow::Refuse;
use packet::PacketBuf;
use state::Counter;
use wire::icmp::ErrorKind;
use wire::numbers::protocol;
use wire::reset;

use crate::Outbox;
use crate::context::{Context, Packet};
use crate::slow::act::{self, Errors};
use crate::source::is_host;

/// Drops `packet` for `reason`, and answers its sender as its service is configured
/// to or, without a service, as closed ports are.
#[cold]
pub(crate) fn refuse<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    errors: &mut Errors,
    packet: Packet<B>,
    reason: Counter,
) {
    let Some((how, refused)) = policy(cx, &packet, reason) else { return cx.count(reason) };
    let (frame, headers) = (packet.buf.bytes(), &packet.headers);
    if how == Refuse::Drop || !headers.transport_checksum_is_right(frame) {
        return cx.count(reason);
    }
    let told = match (how, headers.proto) {
        (Refuse::Reset, protocol::TCP) => reset(cx, errors, packet, reason),
        _ => act::refuse(cx, errors, packet, ErrorKind::PortUnreachable, reason),
    };
    if told {
        cx.count(refused);
    }
}

/// How the load balancer refuses a packet that is dropped for `reason`, and the
/// counter of such refusals; `None`: it sends nothing, since the sender's next try
/// may find room.
fn policy<B: PacketBuf, O>(
    cx: &Context<'_, O>,
    packet: &Packet<B>,
    reason: Counter,
) -> Option<(Refuse, Counter)> {
    let refused = match reason {
        Counter::ClosedPort => Counter::ClosedPortRefused,
        Counter::NoBackend => Counter::NoBackendRefused,
        Counter::ReplyConflict => Counter::ReplyConflictRefused,
        Counter::PoolExhausted => Counter::PoolExhaustedRefused,
        _ => return None,
    };
    let key = packet.headers.flow(packet.buf.bytes())?;
    let service = cx.snapshot.services.lookup(&key);
    let how = service.map_or(cx.snapshot.answers.closed_ports, service::Service::refuse);
    Some((how, refused))
}

/// Answers a TCP segment with a RST; `false`: the segment is dropped, and counted as
/// `reason`.
fn reset<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    errors: &mut Errors,
    mut packet: Packet<B>,
    reason: Counter,
) -> bool {
    let source = packet.headers.src_addr(packet.buf.bytes());
    let is_believed = source.is_some_and(|source| is_host(cx, source));
    let length = is_believed
        .then(|| reset::answer_in_place(packet.buf.bytes_mut(), &packet.headers))
        .flatten();
    let Some(length) = length else {
        cx.count(reason);
        return false;
    };
    if !errors.limit.take(cx.now_ms) {
        cx.count(Counter::IcmpLimited);
        cx.count(reason);
        return false;
    }
    // Cutting can't fail.
    let _ = packet.buf.resize(length);
    cx.reply(packet, Counter::TcpReset);
    true
}
