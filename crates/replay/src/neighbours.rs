//! Next hops in a replay: a capture rarely holds the ARP and NDP exchanges that
//! a running load balancer would have had, so every next hop has an address.
use std::net::IpAddr;

use flow::PortId;
use packet::HeapPacket;
use packet::PacketBuf;
use state::Shared;
use wire::{Headers, Mac, arp, ndp};

/// The address of a next hop that the capture doesn't show: locally
/// administered, the rest from the last four bytes of the IP address.
pub(crate) fn assumed_mac(addr: IpAddr) -> Mac {
    let [a, b, c, d] = match addr {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(v6) => {
            let octets = v6.octets();
            [octets[12], octets[13], octets[14], octets[15]]
        }
    };
    Mac([0x02, u8::from(addr.is_ipv6()), a, b, c, d])
}

/// Enters `addr`'s next hop with its assumed address.
pub(crate) fn assume(shared: &Shared, addr: IpAddr, now_ms: u64) {
    if let Some(neighbour) =
        shared.hop_to(addr, now_ms).and_then(|hop| shared.neighbours().get(hop))
    {
        if neighbour.mac.is_none() {
            let mac = assumed_mac(neighbour.addr);
            shared.neighbours().learn(neighbour.interface, neighbour.addr, mac, now_ms);
        }
    }
}

/// Enters the next hop towards the receiver of `frame` with its assumed address.
pub(crate) fn assume_receiver(shared: &Shared, frame: &[u8], now_ms: u64) {
    let headers = Headers::parse(frame).ok();
    if let Some(addr) = headers.and_then(|headers| headers.dst_addr(frame)) {
        assume(shared, addr, now_ms);
    }
}

/// Answers the question `frame` for a next hop: with its address if the table
/// has one, else with the assumed one.
pub(crate) fn answer(shared: &Shared, port: PortId, frame: &[u8], now_ms: u64) {
    let Ok(headers) = Headers::parse(frame) else { return };
    let asked = match arp::Repr::parse(frame, &headers) {
        Some(asked) => IpAddr::V4(asked.target),
        None => match ndp::Repr::parse(frame, &headers) {
            Ok(ndp::Repr::Solicitation(asked)) => IpAddr::V6(asked.target),
            Ok(_) | Err(_) => return,
        },
    };
    let snapshot = shared.snapshot();
    let Some((id, _)) = snapshot.interfaces.at(port, headers.vlan) else { return };
    let found = shared.neighbours().find(id, asked).and_then(|hop| shared.neighbours().get(hop));
    if let Some(neighbour) = found {
        let mac = neighbour.mac.unwrap_or_else(|| assumed_mac(asked));
        shared.neighbours().learn(id, asked, mac, now_ms);
    }
}

/// Learns the sender of `packet`, if it is on the link: its address stands in
/// the frame.
pub(crate) fn learn_sender(shared: &Shared, port: PortId, packet: &HeapPacket, now_ms: u64) {
    let frame = packet.bytes();
    let Ok(headers) = Headers::parse(frame) else { return };
    let Some(source) = headers.src_addr(frame) else { return };
    let snapshot = shared.snapshot();
    let Some((id, interface)) = snapshot.interfaces.at(port, headers.vlan) else { return };
    let mac = frame.get(6..12).and_then(|bytes| <[u8; 6]>::try_from(bytes).ok()).map(Mac);
    let Some(mac) = mac.filter(|mac| !mac.is_group()) else { return };
    if interface.is_on_link(source) {
        if shared.neighbours().hop(id, source, now_ms).is_some() {
            shared.neighbours().learn(id, source, mac, now_ms);
        }
    } else {
        // A sender behind a gateway is reached through it.
        assume(shared, source, now_ms);
    }
}
