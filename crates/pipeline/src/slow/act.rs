//! Last stage: it applies the mode's change, decrements the TTL, finds the next hop
//! and sends.
use std::net::IpAddr;

use flow::{Account, HopId, InterfaceId};
use l3::Interface;
use packet::PacketBuf;
use service::Delivery;
use state::Counter;
use wire::icmp::{ErrorKind, MAX_ERROR_LEN, error_into};
use wire::{Encap, Headers, Net, Rewrite, Side, decrement_ttl, vlan};

use crate::Outbox;
use crate::context::{Context, Packet};
use crate::slow::waiting::{Then, Waiting};
use crate::source::is_host;
use crate::token_bucket::TokenBucket;

/// The shortest Ethernet frame without its check sequence: up to here bytes
/// behind the IP datagram are padding and stay.
const MIN_FRAME: usize = 60;

/// What the act stage keeps between packets.
pub(crate) struct Acting<B> {
    pub(crate) errors: Errors,
    pub(crate) waiting: Waiting<B>,
}

/// What ICMP errors need.
pub(crate) struct Errors {
    pub(crate) limit: TokenBucket,
    pub(crate) scratch: [u8; MAX_ERROR_LEN],
}

/// Applies `delivery` to `packet` and sends it to `hop`; it counts for `account`. A packet that must not be
/// forwarded becomes the ICMP error that says why.
///
/// Every mode decrements the TTL, also `dsr`, which changes nothing else in the IP
/// packet: the load balancer forwards packets between links by their addresses, as a
/// router does (RFC 1812 section 5.3.1). The TTL also ends the loop of two load
/// balancers that have each other as backends.
#[inline]
pub(crate) fn forward<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    acting: &mut Acting<B>,
    mut packet: Packet<B>,
    delivery: &Delivery,
    (hop, account): (HopId, Option<Account>),
) {
    if packet.headers.ttl <= 1 {
        refuse(cx, &mut acting.errors, packet, ErrorKind::TimeExceeded, Counter::TtlExpired);
        return;
    }
    let (hop, (id, mac)) = match next_hop(cx, &packet, delivery, hop) {
        Ok(next) => next,
        Err(counter) => return cx.count(counter),
    };
    let Some(interface) = cx.snapshot.interfaces.get(id) else {
        return cx.count(Counter::NoRoute);
    };
    let tunnel = match tunnel(cx, delivery) {
        Ok(tunnel) => tunnel,
        Err(counter) => return cx.count(counter),
    };
    let mtu = inner_mtu(interface, tunnel);
    if packet.headers.end.saturating_sub(packet.headers.l3) > mtu {
        refuse(cx, &mut acting.errors, packet, ErrorKind::TooBig { mtu }, Counter::TooBig);
        return;
    }
    let Some(mac) = mac else {
        return acting.waiting.hold(cx, packet, hop, Then::Forward(*delivery, account));
    };
    // A NIC that forwards the frame by itself can't cut it either.
    if !matches!(delivery, Delivery::Direct(_)) {
        trim(&mut packet);
    }
    let frame = packet.buf.bytes_mut();
    let done = match delivery {
        Delivery::Rewrite(rewrite) => rewrite.apply(frame, &packet.headers),
        Delivery::Direct(_) | Delivery::Tunnel(_) | Delivery::Plain => true,
    };
    if !done {
        return cx.count(Counter::NotRewritable);
    }
    if !decrement_ttl(frame, &packet.headers) {
        return cx.count(Counter::TtlExpired);
    }
    let bytes = untagged_len(&packet);
    if !enter(tunnel, &mut packet) {
        return cx.count(Counter::NoRoom);
    }
    cx.send(packet, interface, mac, account.map(|account| (account, bytes)));
}

/// The length of a frame without its tag.
pub(crate) fn untagged_len<B: PacketBuf>(packet: &Packet<B>) -> usize {
    let tag = if packet.headers.vlan.is_some() { vlan::LEN } else { 0 };
    packet.buf.bytes().len() - tag
}

/// The tunnel that a packet goes through.
#[inline]
pub(crate) fn tunnel<'a, O>(
    cx: &Context<'a, O>,
    delivery: &Delivery,
) -> Result<Option<&'a Encap>, Counter> {
    let Delivery::Tunnel(backend) = delivery else { return Ok(None) };
    cx.snapshot.tunnels.get(*backend).map(Some).ok_or(Counter::NoRoute)
}

/// The longest packet that leaves over `interface`, in a tunnel or not. The sender of
/// a longer packet is told, which is the only means against outer packets that don't
/// fit. To lower the client's MSS would not help: it limits what the server sends,
/// which does not pass here; and the server's own MSS is never seen.
#[inline]
pub(crate) fn inner_mtu(interface: &Interface, tunnel: Option<&Encap>) -> u16 {
    interface.mtu.saturating_sub(tunnel.map_or(0, Encap::overhead))
}

/// Puts the packet into its tunnel, if it has one. `false`: no room.
#[inline]
pub(crate) fn enter<B: PacketBuf>(tunnel: Option<&Encap>, packet: &mut Packet<B>) -> bool {
    tunnel.is_none_or(|tunnel| tunnel.apply(&mut packet.buf, &mut packet.headers))
}

/// The decision's next hop, or the one that has taken its place, its interface and
/// Ethernet address. Asks for an address that isn't known.
#[inline]
pub(crate) fn next_hop<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    packet: &Packet<B>,
    delivery: &Delivery,
    hop: HopId,
) -> Result<(HopId, (InterfaceId, Option<wire::Mac>)), Counter> {
    let neighbours = cx.shared.neighbours();
    let found = neighbours.resolve(hop, cx.now_ms);
    let (hop, found) = match found {
        Some(found) => (hop, found),
        None => rerouted(cx, packet, delivery)?,
    };
    if found.1.is_none() {
        cx.count(Counter::ResolveAsked);
        cx.out.resolve(hop);
    }
    Ok((hop, found))
}

/// The next hop of an old connection has been forgotten since, so the route is looked
/// up again.
#[cold]
fn rerouted<B: PacketBuf, O>(
    cx: &Context<'_, O>,
    packet: &Packet<B>,
    delivery: &Delivery,
) -> Result<(HopId, (InterfaceId, Option<wire::Mac>)), Counter> {
    cx.count(Counter::Rerouted);
    let destination = match delivery {
        Delivery::Rewrite(rewrite) => destination(rewrite, packet.buf.bytes(), &packet.headers),
        Delivery::Direct(backend) | Delivery::Tunnel(backend) => {
            cx.snapshot.services.backend(*backend).map(|backend| backend.address)
        }
        Delivery::Plain => packet.headers.dst_addr(packet.buf.bytes()),
    };
    let destination = destination.ok_or(Counter::NoRoute)?;
    let hop = hop_to(cx, destination)?;
    let found =
        cx.shared.neighbours().resolve(hop, cx.now_ms).ok_or(Counter::NeighbourTableFull)?;
    Ok((hop, found))
}

/// The next hop towards `addr`.
pub(crate) fn hop_to<O>(cx: &Context<'_, O>, addr: IpAddr) -> Result<HopId, Counter> {
    let (interface, next) = cx.snapshot.routes.next(addr).ok_or(Counter::NoRoute)?;
    let hop = cx.shared.neighbours().hop(interface, next, cx.now_ms);
    hop.ok_or(Counter::NeighbourTableFull)
}

/// Where the packet goes after `rewrite`.
fn destination(rewrite: &Rewrite, frame: &[u8], headers: &Headers) -> Option<IpAddr> {
    match rewrite {
        Rewrite::V4(plan) if plan.side != Side::Source => {
            plan.addresses.last_chunk::<4>().copied().map(IpAddr::from)
        }
        Rewrite::V6(plan) if plan.side != Side::Source => {
            plan.addresses.last_chunk::<16>().copied().map(IpAddr::from)
        }
        _ => headers.dst_addr(frame),
    }
}

/// Cuts bytes that lie behind the datagram and are more than padding, so that the
/// frame is as short as its IP packet says.
#[inline]
pub(crate) fn trim<B: PacketBuf>(packet: &mut Packet<B>) {
    let wanted = usize::from(packet.headers.end).max(MIN_FRAME);
    if packet.buf.bytes().len() > wanted {
        // Cutting can't fail.
        let _ = packet.buf.resize(wanted);
    }
}

/// Turns `packet` into the ICMP error `kind` about itself and sends it back. `false`:
/// no error may be sent, and the packet is counted, mostly as `dropped`.
#[cold]
pub(crate) fn refuse<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    errors: &mut Errors,
    mut packet: Packet<B>,
    kind: ErrorKind,
    dropped: Counter,
) -> bool {
    let told = match kind {
        ErrorKind::TimeExceeded => Counter::TimeExceeded,
        ErrorKind::TooBig { .. } => Counter::PacketTooBig,
        _ => Counter::PortUnreachable,
    };
    let length = write_error(cx, errors, &packet, kind);
    let Some(error) = length.and_then(|length| errors.scratch.get(..length)) else {
        cx.count(dropped);
        return false;
    };
    if !errors.limit.take(cx.now_ms) {
        cx.count(Counter::IcmpLimited);
        cx.count(dropped);
        return false;
    }
    if !packet.buf.resize(error.len()) {
        cx.count(Counter::NoRoom);
        return false;
    }
    packet.buf.bytes_mut().copy_from_slice(error);
    cx.reply(packet, told);
    true
}

/// Writes the error into the scratch memory and returns its length. `None` if no
/// error may be sent.
fn write_error<B: PacketBuf, O>(
    cx: &Context<'_, O>,
    errors: &mut Errors,
    packet: &Packet<B>,
    kind: ErrorKind,
) -> Option<usize> {
    let (frame, headers) = (packet.buf.bytes(), &packet.headers);
    let too_big = matches!(kind, ErrorKind::TooBig { .. });
    if too_big && headers.net == Net::Ipv4 && !forbids_fragments(frame, headers) {
        return None;
    }
    let sender = headers.src_addr(frame).filter(|sender| is_host(cx, *sender))?;
    let own = cx.arrived(packet).and_then(|interface| interface.source_for(sender));
    // The VIP reports its closed port. What happens on the way is reported by the
    // load balancer as a router, if it has an address of its own.
    let own = own.filter(|_| kind != ErrorKind::PortUnreachable);
    let from = own.or_else(|| headers.dst_addr(frame))?;
    error_into(&mut errors.scratch, frame, headers, kind, from)
}

/// IPv4's "don't fragment".
pub(crate) fn forbids_fragments(frame: &[u8], headers: &Headers) -> bool {
    frame.get(usize::from(headers.l3) + 6).is_some_and(|byte| byte & 0x40 != 0)
}
