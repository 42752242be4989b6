//! Services that terminate TLS: their packets go to the terminator, which is a thread of
//! its own, so that nothing of its work is done between a worker's other packets.
//!
//! Next: the terminator, or a drop.
use flow::{ServiceId, Transport};
use packet::PacketBuf;
use state::Counter;
use wire::quoted::{Quoted, TooBig};
use wire::{FlowKey, Fragment};

use crate::Outbox;
use crate::context::{Context, Packet};
use crate::slow::stateless::is_misplaced;
use crate::source::{is_client, is_host};

/// Who has sent a packet that is for the terminator.
#[derive(Clone, Copy)]
pub(crate) enum Sender {
    Client(ServiceId),
    Backend,
}

/// Who has sent a packet with `key` that no table knows; `None`: it isn't for the
/// terminator.
pub(crate) fn sender<O>(cx: &Context<'_, O>, key: &FlowKey) -> Option<Sender> {
    if key.proto() != Transport::Tcp {
        return None;
    }
    match cx.snapshot.services.lookup(key) {
        Some(service) => service.is_terminated().then(|| Sender::Client(service.id())),
        None => cx.shared.claims().has(key).then_some(Sender::Backend),
    }
}

/// Gives a packet to the terminator.
pub(crate) fn terminate<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    packet: Packet<B>,
    key: &FlowKey,
    sender: Sender,
) {
    if let Err(malformed) = packet.check() {
        return cx.count(malformed.into());
    }
    if packet.headers.fragment != Fragment::Whole {
        return cx.count(Counter::HttpsMalformed);
    }
    let source = key.src().ip();
    let service = match sender {
        Sender::Client(_) if !is_client(cx, source) => return cx.count(Counter::BadSource),
        Sender::Backend if is_misplaced(cx, source, packet.interface) => {
            return cx.count(Counter::WrongSide);
        }
        Sender::Client(service) => Some(service),
        Sender::Backend => None,
    };
    let taken = cx.out.to_terminator(service, packet.buf);
    cx.count(if taken { Counter::HttpsTaken } else { Counter::HttpsFull });
}

/// Who was to get the packet of the terminator's that an ICMP packet reports as too long;
/// `None`: it reports something else, or the packet was another's.
pub(crate) fn reported<B: PacketBuf, O>(cx: &Context<'_, O>, packet: &Packet<B>) -> Option<Sender> {
    let frame = packet.buf.bytes();
    TooBig::parse(frame, &packet.headers)?;
    sender(cx, &Quoted::parse(frame, &packet.headers)?.flow.reversed())
}

/// Gives such a report to the terminator.
#[cold]
pub(crate) fn report<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    packet: Packet<B>,
    sender: Sender,
) {
    if let Err(malformed) = packet.check() {
        return cx.count(malformed.into());
    }
    let (frame, headers) = (packet.buf.bytes(), &packet.headers);
    if !headers.src_addr(frame).is_some_and(|source| is_host(cx, source)) {
        return cx.count(Counter::BadSource);
    }
    if !headers.transport_checksum_is_right(frame) {
        return cx.count(Counter::BadIcmp);
    }
    let quoted = Quoted::parse(frame, headers).map(|quoted| quoted.flow.src().ip());
    if quoted.is_none() || headers.dst_addr(frame) != quoted {
        return cx.count(Counter::IcmpUnrelated);
    }
    let service = match sender {
        Sender::Client(service) => Some(service),
        Sender::Backend => None,
    };
    let taken = cx.out.to_terminator(service, packet.buf);
    cx.count(if taken { Counter::HttpsTaken } else { Counter::HttpsFull });
}
