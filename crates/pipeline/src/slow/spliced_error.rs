//! ICMP errors about segments that the L7 agent has sent: they go to the host that has sent
//! the segment, which knows it under other ends and another number. A path that takes no
//! longer packets, and a host that is not there, become known to the host that can do
//! something about it.
//!
//! Next: out, or a drop.
use std::net::SocketAddr;

use packet::PacketBuf;
use state::Counter;
use wire::quoted::{Quoted, Translation, rewrite_quoted};
use wire::{Fragment, Headers, Transport, decrement_ttl};

use crate::Outbox;
use crate::context::{Context, Packet};
use crate::pipeline::Stages;
use crate::slow::act::trim;
use crate::slow::surroundings::address;
use crate::source::is_host;

/// A quoted segment, and how its sender knows it.
struct About {
    quoted: Quoted,
    /// From the segment's sender, as that knows them.
    ends: [SocketAddr; 2],
    sequence: u32,
}

impl<B: PacketBuf> Stages<B> {
    /// Whether an ICMP packet speaks of a segment of an agent's.
    pub(crate) fn is_about_spliced<O>(&self, cx: &Context<'_, O>, packet: &Packet<B>) -> bool {
        let frame = packet.buf.bytes();
        let Some(quoted) = Quoted::parse(frame, &packet.headers) else { return false };
        let (answers, about) = (quoted.flow.reversed(), self.about(frame, &packet.headers));
        about.is_some() || self.spliced.owner(cx, &answers).is_some()
    }

    fn about(&self, frame: &[u8], headers: &Headers) -> Option<About> {
        let agent = self.spliced.agent()?;
        let quoted = Quoted::parse(frame, headers)?;
        let flow = quoted.flow;
        if flow.proto() != Transport::Tcp {
            return None;
        }
        let at = usize::from(quoted.headers.l4) + 4;
        let number =
            frame.get(at..usize::from(quoted.headers.end)).and_then(|rest| rest.first_chunk());
        let number = u32::from_be_bytes(number.copied().unwrap_or_default());
        let (ends, sequence) = agent.sent_as([flow.dst(), flow.src()], number)?;
        Some(About { quoted, ends, sequence })
    }

    /// Translates such an error, or hands it over to the worker that has the connection.
    #[cold]
    pub(crate) fn spliced_error<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        packet: Packet<B>,
    ) {
        let frame = packet.buf.bytes();
        let Some(about) = self.about(frame, &packet.headers) else {
            let quoted = Quoted::parse(frame, &packet.headers);
            let owner = quoted.and_then(|quoted| self.spliced.owner(cx, &quoted.flow.reversed()));
            return match owner {
                Some(worker) => cx.hand_over(worker, packet.buf),
                None => cx.count(Counter::IcmpUnrelated),
            };
        };
        match translate(cx, packet, &about) {
            Ok(()) => cx.count(Counter::IcmpTranslated),
            Err(counter) => cx.count(counter),
        }
    }
}

fn translate<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    mut packet: Packet<B>,
    about: &About,
) -> Result<(), Counter> {
    packet.check().map_err(Counter::from)?;
    let (frame, headers) = (packet.buf.bytes(), &packet.headers);
    if !headers.src_addr(frame).is_some_and(|source| is_host(cx, source)) {
        return Err(Counter::BadSource);
    }
    if headers.fragment != Fragment::Whole || !headers.transport_checksum_is_right(frame) {
        return Err(Counter::BadIcmp);
    }
    let flow = about.quoted.flow;
    if headers.dst_addr(frame) != Some(flow.src().ip()) {
        return Err(Counter::IcmpUnrelated);
    }
    if headers.ttl <= 1 {
        return Err(Counter::TtlExpired);
    }
    trim(&mut packet);
    let [sender, receiver] = about.ends;
    let changed = |old: SocketAddr, new: SocketAddr| (old != new).then_some(new);
    let source = changed(flow.dst(), receiver).map(|end| end.ip());
    let to = Translation {
        quoted_src: changed(flow.src(), sender),
        quoted_dst: changed(flow.dst(), receiver),
        quoted_sequence: Some(about.sequence),
        src: source,
        dst: changed(flow.src(), sender).map(|end| end.ip()),
    };
    let frame = packet.buf.bytes_mut();
    if !rewrite_quoted(frame, &packet.headers, &about.quoted, &to)
        || !decrement_ttl(frame, &packet.headers)
    {
        return Err(Counter::NotRewritable);
    }
    let port = address(cx, &mut packet, sender.ip())?;
    cx.count(Counter::ForwardedPackets);
    cx.out.send(port, packet.buf);
    Ok(())
}
