//! ICMP and ICMPv6: echoes are answered, and errors translated to the connection that
//! they speak of; the rest is for the kernel.
use std::net::SocketAddr;

use packet::PacketBuf;
use service::Delivery;
use state::Counter;
use wire::quoted::{Quoted, Translation, rewrite_quoted};
use wire::{FlowKey, Fragment, Net, Rewrite, Side, decrement_ttl, icmp, icmpv6};

use crate::Outbox;
use crate::answer::echo::Echoes;
use crate::answer::too_long;
use crate::context::{Context, Decision, Packet};
use crate::slow::act::{Errors, enter, inner_mtu, next_hop, trim, tunnel, untagged_len};
use crate::slow::exceptions::{Exceptions, has_kernel};
use crate::slow::stateless;
use crate::source::is_host;

/// Answers, translates or drops an ICMP packet.
pub(crate) fn icmp<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    errors: &mut Errors,
    echoes: &mut Echoes,
    exceptions: &mut Exceptions,
    packet: Packet<B>,
) {
    let (frame, headers) = (packet.buf.bytes(), &packet.headers);
    let kind = frame.get(usize::from(headers.l4)).copied();
    let (Some(kind), Some(dst)) = (kind, headers.dst_addr(frame)) else {
        return cx.count(Counter::BadIcmp);
    };
    let (is_echo, is_error) = match headers.net {
        Net::Ipv4 => (kind == icmp::kind::ECHO_REQUEST, icmp::is_error(kind)),
        _ => (kind == icmpv6::kind::ECHO_REQUEST, icmpv6::is_error(kind)),
    };
    // Nothing follows from a source quench (RFC 6633 section 3), and redirects are
    // for hosts (RFC 1812 section 5.2.7.2).
    let is_idle = match headers.net {
        Net::Ipv4 => matches!(kind, icmp::kind::SOURCE_QUENCH | icmp::kind::REDIRECT),
        _ => kind == icmpv6::kind::REDIRECT,
    };
    if let Err(malformed) = packet.check() {
        return cx.count(malformed.into());
    }
    if !headers.src_addr(frame).is_some_and(|src| is_host(cx, src)) {
        return cx.count(Counter::BadSource);
    }
    if headers.fragment == Fragment::Whole && !headers.transport_checksum_is_right(frame) {
        return cx.count(Counter::BadIcmp);
    }
    let ours = cx.snapshot.is_ours(dst);
    if headers.fragment != Fragment::Whole && ours {
        // Only the first piece says what the message is, and it may come last: so the
        // kernel gets all pieces to an address that it has, and answers echoes itself.
        if let Some(packet) = exceptions.give(cx, packet, Counter::IcmpPieces) {
            echoes.answer(cx, packet);
        }
        return;
    }
    if is_idle {
        return cx.count(Counter::IcmpUnsupported);
    }
    if headers.fragment != Fragment::Whole || (ours && !is_echo && !is_error) {
        return exceptions.give_or_count(cx, packet, Counter::IcmpUnsupported);
    }
    if is_error {
        let done = match too_long::report(cx, errors, &packet) {
            Some(report) => too_long::send(cx, errors, packet, report),
            None if has_kernel(cx, &packet) && is_unrelated(cx, &packet) => {
                return exceptions.give_or_count(cx, packet, Counter::IcmpUnrelated);
            }
            None => error(cx, packet),
        };
        return match done {
            Ok(()) => cx.count(Counter::IcmpTranslated),
            Err(counter) => cx.count(counter),
        };
    }
    if !ours {
        return exceptions.give_or_count(cx, packet, Counter::NotForUs);
    }
    echoes.answer(cx, packet);
}

/// An error speaks of a packet that we have sent to where the error comes from, and
/// goes where the packets go that answer that one. In one-way modes that packet may
/// not have passed us; then the error is for the backend, which needs it unchanged.
fn error<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    mut packet: Packet<B>,
) -> Result<(), Counter> {
    if packet.headers.ttl <= 1 {
        return Err(Counter::TtlExpired);
    }
    let frame = packet.buf.bytes();
    let quoted = Quoted::parse(frame, &packet.headers).ok_or(Counter::BadIcmp)?;
    if packet.headers.dst_addr(frame) != Some(quoted.flow.src().ip()) {
        return Err(Counter::IcmpUnrelated);
    }
    let answers = quoted.flow.reversed();
    let decision = receiver(cx, &answers)?;
    let (_, (interface, mac)) = next_hop(cx, &packet, &decision.delivery, decision.hop)?;
    let interface = cx.snapshot.interfaces.get(interface).ok_or(Counter::NoRoute)?;
    let mac = mac.ok_or(Counter::NeighbourUnresolved)?;
    let tunnel = tunnel(cx, &decision.delivery)?;
    if packet.headers.end.saturating_sub(packet.headers.l3) > inner_mtu(interface, tunnel) {
        return Err(Counter::TooBig);
    }
    trim(&mut packet);
    let frame = packet.buf.bytes_mut();
    if let Delivery::Rewrite(rewrite) = &decision.delivery {
        let to = translation(&answers, rewrite).ok_or(Counter::NotRewritable)?;
        if !rewrite_quoted(frame, &packet.headers, &quoted, &to) {
            return Err(Counter::NotRewritable);
        }
    }
    if !decrement_ttl(frame, &packet.headers) {
        return Err(Counter::NotRewritable);
    }
    let bytes = untagged_len(&packet);
    if !enter(tunnel, &mut packet) {
        return Err(Counter::NoRoom);
    }
    cx.send(packet, interface, mac, decision.account.map(|account| (account, bytes)));
    Ok(())
}

/// Whether an error speaks of no connection of ours.
fn is_unrelated<B: PacketBuf, O>(cx: &Context<'_, O>, packet: &Packet<B>) -> bool {
    let quoted = Quoted::parse(packet.buf.bytes(), &packet.headers);
    quoted.is_none_or(|quoted| receiver(cx, &quoted.flow.reversed()).is_err())
}

/// The decision on packets with key `answers`.
fn receiver<O>(cx: &Context<'_, O>, answers: &FlowKey) -> Result<Decision, Counter> {
    let table = cx.shared.table();
    if let Some(action) = table.lookup(answers).and_then(|hit| table.action(hit)) {
        return Ok(action.into());
    }
    stateless::either(cx, answers).map_err(|_| Counter::IcmpUnrelated)
}

/// The error as its receiver must see it: the quoted packet as the receiver
/// sent it, and the error itself between the addresses that the receiver knows.
fn translation(answers: &FlowKey, rewrite: &Rewrite) -> Option<Translation> {
    let (old_src, old_dst) = (answers.src(), answers.dst());
    let (src, dst) = endpoints(answers, rewrite)?;
    Some(Translation {
        quoted_src: (dst != old_dst).then_some(dst),
        quoted_dst: (src != old_src).then_some(src),
        quoted_sequence: None,
        src: (src.ip() != old_src.ip()).then_some(src.ip()),
        dst: (dst.ip() != old_dst.ip()).then_some(dst.ip()),
    })
}

/// Source and destination of packets with `key` after `rewrite`.
fn endpoints(key: &FlowKey, rewrite: &Rewrite) -> Option<(SocketAddr, SocketAddr)> {
    let (side, port_side, [a, b, c, d], addresses) = match rewrite {
        Rewrite::V4(plan) => {
            let src: [u8; 4] = *plan.addresses.first_chunk()?;
            let dst: [u8; 4] = *plan.addresses.last_chunk()?;
            (plan.side, plan.port_side, plan.ports, (src.into(), dst.into()))
        }
        Rewrite::V6(plan) => {
            let src: [u8; 16] = *plan.addresses.first_chunk()?;
            let dst: [u8; 16] = *plan.addresses.last_chunk()?;
            (plan.side, plan.port_side, plan.ports, (src.into(), dst.into()))
        }
    };
    let (mut src, mut dst) = (key.src(), key.dst());
    if side != Side::Destination {
        src.set_ip(addresses.0);
    }
    if side != Side::Source {
        dst.set_ip(addresses.1);
    }
    if matches!(port_side, Some(Side::Source | Side::Both)) {
        src.set_port(u16::from_be_bytes([a, b]));
    }
    if matches!(port_side, Some(Side::Destination | Side::Both)) {
        dst.set_port(u16::from_be_bytes([c, d]));
    }
    Some((src, dst))
}
