//! Neighbour discovery (RFC 4861): answers for VIPs, pool addresses and interface
//! addresses, and learns neighbours.
use std::net::{IpAddr, Ipv6Addr};

use l3::{Interface, Learnt, NeighbourState};
use packet::PacketBuf;
use state::Counter;
use wire::ndp::{self, Advertisement, Repr, Solicitation};

use crate::Outbox;
use crate::answer::arp::{self, answers_for};
use crate::answer::conflict::claimed;
use crate::context::{Context, Packet};
use crate::slow::exceptions::Exceptions;

/// Answers or learns from a neighbour solicitation or advertisement. What is not
/// answered is for the kernel, too.
pub(crate) fn ndp<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    exceptions: &mut Exceptions,
    packet: Packet<B>,
) {
    match Repr::parse(packet.buf.bytes(), &packet.headers) {
        Err(_) => cx.count(Counter::BadNdp),
        Ok(Repr::Solicitation(asked)) => solicited(cx, exceptions, packet, &asked),
        Ok(Repr::Advertisement(said)) => {
            let target = IpAddr::V6(said.target);
            let interface = cx.snapshot.interfaces.get(packet.interface);
            if let (Some(interface), Some(mac)) = (interface, said.target_link) {
                if answers_for(cx.snapshot, interface, target) {
                    return claimed(cx, packet, interface, target, mac);
                }
            }
            let counter = match learn(cx, &packet, &said) {
                Some(()) => Counter::NdpLearnt,
                None => Counter::NdpNotForUs,
            };
            exceptions.give_or_count(cx, packet, counter);
        }
    }
}

fn solicited<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    exceptions: &mut Exceptions,
    mut packet: Packet<B>,
    asked: &Solicitation,
) {
    let Some(interface) = cx.snapshot.interfaces.get(packet.interface) else {
        return cx.count(Counter::WrongVlan);
    };
    if !answers_for(cx.snapshot, interface, IpAddr::V6(asked.target)) {
        return exceptions.give_or_count(cx, packet, Counter::NdpNotForUs);
    }
    let source = IpAddr::V6(asked.source);
    if answers_for(cx.snapshot, interface, source) {
        return match asked.source_link {
            Some(mac) => claimed(cx, packet, interface, source, mac),
            None => cx.count(Counter::BadNdp),
        };
    }
    if let (Some(mac), true) = (asked.source_link, is_on_link(interface, asked.source)) {
        let _ = cx.shared.neighbours().hear_of(packet.interface, source, cx.now_ms);
        arp::learn(cx, packet.interface, source, mac);
    }
    // The router flag is set because backends have us as their gateway.
    let answer = ndp::advertise(asked, interface.mac, true);
    if !Context::<O>::replace(&mut packet, &answer) {
        return cx.count(Counter::NoRoom);
    }
    cx.reply(packet, Counter::NdpReplied);
}

/// RFC 4861 section 7.2.5, without the difference between reachable and stale that
/// unsolicited advertisements make. `None`: the advertisement says nothing new.
fn learn<B, O>(cx: &Context<'_, O>, packet: &Packet<B>, said: &Advertisement) -> Option<()> {
    let target = IpAddr::V6(said.target);
    let neighbours = cx.shared.neighbours();
    let known = neighbours.get(neighbours.find(packet.interface, target)?)?;
    let mac = match (said.target_link, known.mac) {
        (Some(new), Some(old)) if new != old && !said.replaces => return None,
        (Some(new), _) => new,
        (None, Some(old)) if said.solicited => old,
        (None, _) => return None,
    };
    let interface = cx.arrived(packet)?;
    if mac.is_group()
        || known.state == NeighbourState::Static
        || !is_on_link(interface, said.target)
    {
        return None;
    }
    (arp::learn(cx, packet.interface, target, mac) != Learnt::Unknown).then_some(())
}

fn is_on_link(interface: &Interface, addr: Ipv6Addr) -> bool {
    addr.is_unicast_link_local() || interface.is_on_link(IpAddr::V6(addr))
}
