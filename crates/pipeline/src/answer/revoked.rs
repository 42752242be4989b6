//! Connections of a removed backend whose service resets them: each packet of either
//! side becomes a RST to the other side, and its sender gets a RST, too. That takes
//! no memory: a segment says which sequence numbers both sides expect (RFC 9293
//! section 3.10.7).
use conntrack::Action;
use packet::PacketBuf;
use state::Counter;
use wire::{Headers, reset};

use crate::Outbox;
use crate::context::{Context, Packet, account};
use crate::slow::act::{self, Acting};

/// Ends the connection of `packet`, which `action` would have sent on, for
/// both sides.
#[cold]
pub(crate) fn reset_both<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    acting: &mut Acting<B>,
    mut packet: Packet<B>,
    action: &Action,
) {
    let (delivery, to) = (&action.delivery, (action.hop, Some(account(action))));
    cx.count(Counter::Revoked);
    answer(cx, &packet);
    let Some(length) = reset::replace_in_place(packet.buf.bytes_mut(), &packet.headers) else {
        // A RST goes to the other side unchanged.
        return act::forward(cx, acting, packet, delivery, to);
    };
    // Cutting can't fail.
    let _ = packet.buf.resize(length);
    match Headers::parse(packet.buf.bytes()) {
        Ok(headers) => act::forward(cx, acting, Packet { headers, ..packet }, delivery, to),
        Err(malformed) => cx.count(malformed.into()),
    }
}

/// Sends a RST to the sender of `packet`, unless `packet` is a RST itself or there is
/// no buffer.
fn answer<B: PacketBuf, O: Outbox<B>>(cx: &mut Context<'_, O>, packet: &Packet<B>) {
    let frame = packet.buf.bytes();
    let Some(mut answer) = cx.out.fresh(frame.len()) else { return };
    answer.bytes_mut().copy_from_slice(frame);
    if let Some(length) = reset::answer_in_place(answer.bytes_mut(), &packet.headers) {
        let _ = answer.resize(length);
        cx.count(Counter::OriginatedPackets);
        cx.out.send(cx.from.port, answer);
    }
}
