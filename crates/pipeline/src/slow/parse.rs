//! What a frame is, and whether it is for this station.
//!
//! Next: `matching` for TCP and UDP, `fragment` for later fragments, `answer` for
//! ARP, neighbour discovery and ICMP, or a drop.
use flow::InterfaceId;
use l3::Interface;
use state::Counter;
use wire::numbers::protocol;
use wire::{FlowKey, Fragment, Headers, Mac, Net, ethernet, icmpv6};

use crate::context::Context;
use crate::slow::fragment::FragmentKey;

/// Which stage a packet goes to.
pub(crate) enum Kind {
    /// TCP or UDP with ports: to the match stage.
    Flow(FlowKey),
    /// A fragment without ports: waits for or follows the first.
    Later(FragmentKey),
    Arp,
    Ndp,
    Icmp,
    /// IP that no stage serves, for this reason: the kernel may.
    Unserved(Counter),
}

/// Parses a whole TCP or UDP packet for our station, which nearly all packets are;
/// `None`: see [`parse`]. Inlined for certain, for the reason of [`Headers::common`].
#[inline(always)]
pub(crate) fn parse_common<O>(
    cx: &Context<'_, O>,
    frame: &[u8],
) -> Option<(Headers, InterfaceId, FlowKey)> {
    let headers = Headers::common(frame)?;
    let key = headers.flow(frame)?;
    let (dst, _) = ethernet::macs(frame)?;
    let (interface, own) = cx.snapshot.interfaces.at(cx.from.port, headers.vlan)?;
    (dst == own.mac).then_some((headers, interface, key))
}

/// Parses a frame. The error is the counter of its drop.
pub(crate) fn parse<O>(
    cx: &Context<'_, O>,
    frame: &[u8],
) -> Result<(Headers, InterfaceId, Kind), Counter> {
    let headers = Headers::parse(frame)?;
    let (dst, _) = ethernet::macs(frame).ok_or(Counter::Truncated)?;
    let (interface, own) =
        cx.snapshot.interfaces.at(cx.from.port, headers.vlan).ok_or(Counter::WrongVlan)?;
    let kind = match headers.flow(frame) {
        Some(key) => Ok(Kind::Flow(key)),
        None => other(frame, &headers),
    };
    match kind.and_then(|kind| check_station(dst, own.mac, &kind).map(|()| kind)) {
        Ok(kind) => Ok((headers, interface, kind)),
        Err(counter) if is_unserved(&headers, counter) && serves(own, dst) => {
            Ok((headers, interface, Kind::Unserved(counter)))
        }
        Err(counter) => Err(counter),
    }
}

/// Whether a packet that is dropped for `counter` is IP that the kernel may serve.
const fn is_unserved(headers: &Headers, counter: Counter) -> bool {
    matches!(headers.net, Net::Ipv4 | Net::Ipv6)
        && matches!(counter, Counter::GroupMac | Counter::ProtocolNotBalanced)
}

/// Whether the kernel serves frames to `dst` in the place of `own`.
fn serves(own: &Interface, dst: Mac) -> bool {
    own.kernel.is_some() && (dst == own.mac || dst.is_group())
}

/// Parses frames without ports.
fn other(frame: &[u8], headers: &Headers) -> Result<Kind, Counter> {
    match (headers.net, headers.proto) {
        (Net::Other(_), _) => return Err(Counter::UnknownEtherType),
        (Net::Arp, _) => return Ok(Kind::Arp),
        (Net::Ipv6, protocol::ICMPV6) if is_ndp(frame, headers) => return Ok(Kind::Ndp),
        (Net::Ipv4, protocol::ICMP) | (Net::Ipv6, protocol::ICMPV6) => return Ok(Kind::Icmp),
        _ => {}
    }
    match headers.fragment {
        // A later IPv6 fragment need not state what the datagram carries.
        Fragment::Later(_) if headers.net == Net::Ipv6 || is_balanced(headers.proto) => {
            FragmentKey::of(frame, headers).map(Kind::Later).ok_or(Counter::Truncated)
        }
        _ => Err(Counter::ProtocolNotBalanced),
    }
}

const fn is_balanced(proto: u8) -> bool {
    matches!(proto, protocol::TCP | protocol::UDP)
}

fn is_ndp(frame: &[u8], headers: &Headers) -> bool {
    use icmpv6::kind::{NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION};
    let message = frame.get(usize::from(headers.l4)).copied();
    headers.fragment == Fragment::Whole
        && matches!(message, Some(NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT))
}

/// A port may be promiscuous, and switches flood: only frames to our station count.
/// Group addresses are for ARP and neighbour discovery.
#[inline]
fn check_station(dst: Mac, own: Mac, kind: &Kind) -> Result<(), Counter> {
    if dst == own {
        return Ok(());
    }
    match kind {
        Kind::Arp | Kind::Ndp if dst.is_group() => Ok(()),
        _ if dst.is_group() => Err(Counter::GroupMac),
        _ => Err(Counter::WrongMac),
    }
}
