//! ARP (RFC 826): answers for VIPs, pool addresses and interface addresses, and
//! learns neighbours.
use std::net::IpAddr;

use flow::InterfaceId;
use l3::{Interface, Learnt};
use packet::PacketBuf;
use state::{Counter, Snapshot};
use wire::Mac;
use wire::arp::{REQUEST, Repr, reply_in_place};

use crate::Outbox;
use crate::answer::conflict::claimed;
use crate::context::{Context, Packet};
use crate::slow::exceptions::Exceptions;

/// Answers or learns from an ARP packet. What is not answered is for the kernel, too.
pub(crate) fn arp<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    exceptions: &mut Exceptions,
    mut packet: Packet<B>,
) {
    let Some(interface) = cx.snapshot.interfaces.get(packet.interface) else {
        return cx.count(Counter::WrongVlan);
    };
    let Some(asked) = Repr::parse(packet.buf.bytes(), &packet.headers) else {
        return cx.count(Counter::BadArp);
    };
    let (sender, target) = (IpAddr::V4(asked.sender), IpAddr::V4(asked.target));
    if answers_for(cx.snapshot, interface, sender) {
        return claimed(cx, packet, interface, sender, asked.sender_mac);
    }
    let neighbours = cx.shared.neighbours();
    let for_us = answers_for(cx.snapshot, interface, target);
    if for_us && asked.operation == REQUEST && interface.is_on_link(sender) {
        // The sender is about to speak to us, so its address will be needed. Without
        // room in the table it is asked for later.
        let _ = neighbours.hear_of(packet.interface, sender, cx.now_ms);
    }
    // A probe (RFC 5227) has no sender to learn, and a sender on another network is
    // not believed.
    let known = interface.is_on_link(sender)
        && learn(cx, packet.interface, sender, asked.sender_mac) != Learnt::Unknown;
    if for_us && asked.operation == REQUEST {
        if reply_in_place(packet.buf.bytes_mut(), &packet.headers, interface.mac) {
            return cx.reply(packet, Counter::ArpReplied);
        }
        return cx.count(Counter::BadArp);
    }
    let counter = if known { Counter::ArpLearnt } else { Counter::ArpNotForUs };
    exceptions.give_or_count(cx, packet, counter);
}

/// Learns that `addr` on `interface` has `mac`, and counts a result that is out of
/// the ordinary.
pub(crate) fn learn<O>(
    cx: &Context<'_, O>,
    interface: InterfaceId,
    addr: IpAddr,
    mac: Mac,
) -> Learnt {
    let learnt = cx.shared.neighbours().learn(interface, addr, mac, cx.now_ms);
    match learnt {
        Learnt::Changed => cx.count(Counter::NeighbourChanged),
        Learnt::Refused => cx.count(Counter::NeighbourRefused),
        Learnt::Unknown | Learnt::Confirmed => {}
    }
    learnt
}

/// Whether the load balancer answers questions for `addr` on `interface`.
pub(crate) fn answers_for(snapshot: &Snapshot, interface: &Interface, addr: IpAddr) -> bool {
    snapshot.services.is_vip(addr)
        || snapshot.services.is_pool_address(addr)
        || interface.addresses.iter().any(|net| net.addr() == addr)
}
