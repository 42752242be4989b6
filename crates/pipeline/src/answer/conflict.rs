//! Defence of our addresses: if another station claims one, the load balancer
//! announces at once where the address is (RFC 5227 section 2.4 (b) for IPv4, RFC
//! 4861 section 7.2.6 for IPv6), at most every ten seconds.
use std::net::IpAddr;

use l3::Interface;
use packet::PacketBuf;
use state::Counter;
use wire::{Mac, arp, ndp};

use crate::Outbox;
use crate::context::{Context, Packet};

/// Turns `packet`, in which `station` claims our `addr`, into the announcement that
/// defends the address, or drops it.
#[cold]
pub(crate) fn claimed<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    mut packet: Packet<B>,
    interface: &Interface,
    addr: IpAddr,
    station: Mac,
) {
    let ours = cx.snapshot.interfaces.iter().any(|(_, own)| own.mac == station);
    if ours || !cx.shared.neighbours().defences().is_due(addr, station, cx.now_ms) {
        // Our own frame came back, or the address was defended not long ago.
        return cx.count(if ours { Counter::OwnFrame } else { Counter::AddressConflict });
    }
    let done = match addr {
        IpAddr::V4(addr) => {
            Context::<O>::replace(&mut packet, &arp::announcement(interface.mac, addr))
        }
        IpAddr::V6(addr) => {
            Context::<O>::replace(&mut packet, &ndp::announcement(interface.mac, addr, true))
        }
    };
    if !done {
        return cx.count(Counter::NoRoom);
    }
    cx.reply(packet, Counter::AddressDefended);
}
