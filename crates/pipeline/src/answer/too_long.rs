//! Tunnels that are narrower than the path to them: a router between here and the
//! backend reports that an outer packet was too long, and the client learns which
//! length fits (RFC 2003 section 4.1, RFC 2473 section 8.1). No state is kept: outer
//! packets are never fragmented, so every packet that is too long causes another
//! report.
use std::net::IpAddr;

use packet::PacketBuf;
use service::ModeSpec;
use state::Counter;
use wire::icmp::{ErrorKind, error_about};
use wire::numbers::ethertype;
use wire::quoted::TooBig;
use wire::{Headers, Net, vlan};

use crate::Outbox;
use crate::context::{Context, Packet};
use crate::next_hop_cache::ETHERNET;
use crate::slow::act::{Errors, forbids_fragments, hop_to};

/// A report for a client, written to the scratch memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    client: IpAddr,
    length: usize,
}

/// The report to the client if `packet` reports that one of our outer packets was too
/// long; `None`: it reports something else, or the client can't help it.
#[cold]
pub(crate) fn report<B: PacketBuf, O>(
    cx: &Context<'_, O>,
    errors: &mut Errors,
    packet: &Packet<B>,
) -> Option<Report> {
    let frame = packet.buf.bytes();
    let TooBig { mtu, packet: quote, headers: outer } = TooBig::parse(frame, &packet.headers)?;
    let (source, backend) = (outer.src_addr(quote)?, outer.dst_addr(quote)?);
    let tunnel = cx.snapshot.tunnels.between(source, backend)?;
    let inner = tunnel.carried(quote, &outer)?;
    let headers = Headers::quoted(inner).ok()?;
    let key = headers.flow(inner)?;
    let ours = cx.snapshot.services.lookup(&key).map(|service| service.mode());
    let (v4, to) = (headers.net == Net::Ipv4, packet.headers.dst_addr(frame));
    if !matches!(ours, Some(ModeSpec::Tunnel(_)))
        || to != Some(source)
        || (v4 && !forbids_fragments(inner, &headers))
    {
        return None;
    }
    // The length that every host must be able to send (RFC 791, RFC 8200 section 5).
    let least = if v4 { 68 } else { 1280 };
    let mtu = mtu.checked_sub(tunnel.overhead())?.max(least);
    let client = key.src().ip();
    let (interface, _) = cx.snapshot.routes.next(client)?;
    let own = cx.snapshot.interfaces.get(interface)?.source_for(client);
    let from = own.unwrap_or(key.dst().ip());
    let length = error_about(&mut errors.scratch, inner, ErrorKind::TooBig { mtu }, from)?;
    Some(Report { client, length })
}

/// Sends the report in the buffer of the one that it was made from.
#[cold]
pub(crate) fn send<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    errors: &mut Errors,
    mut packet: Packet<B>,
    Report { client, length }: Report,
) -> Result<(), Counter> {
    if !errors.limit.take(cx.now_ms) {
        cx.count(Counter::IcmpLimited);
        return Err(Counter::TooBig);
    }
    let hop = hop_to(cx, client)?;
    let found = cx.shared.neighbours().resolve(hop, cx.now_ms);
    let (interface, mac) = found.ok_or(Counter::NeighbourTableFull)?;
    let interface = cx.snapshot.interfaces.get(interface).ok_or(Counter::NoRoute)?;
    let Some(mac) = mac else {
        cx.count(Counter::ResolveAsked);
        cx.out.resolve(hop);
        return Err(Counter::NeighbourUnresolved);
    };
    let end = ETHERNET + length;
    if !vlan::set(&mut packet.buf, &mut packet.headers, None) || !packet.buf.resize(end) {
        return Err(Counter::NoRoom);
    }
    let kind = if client.is_ipv4() { ethertype::IPV4 } else { ethertype::IPV6 };
    let datagram = errors.scratch.get(..length).ok_or(Counter::NoRoom)?;
    let (front, rest) =
        packet.buf.bytes_mut().split_at_mut_checked(ETHERNET).ok_or(Counter::NoRoom)?;
    front.get_mut(12..).ok_or(Counter::NoRoom)?.copy_from_slice(&kind.to_be_bytes());
    rest.copy_from_slice(datagram);
    packet.headers.end = end as u16;
    cx.send(packet, interface, mac, None);
    Ok(())
}
