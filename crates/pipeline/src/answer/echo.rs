//! Echo requests (RFC 1122 section 3.2.2.6, RFC 4443 section 4.2): answered in place,
//! or, if they come in pieces or their answers do not fit one packet, put together
//! and answered in pieces.
use packet::PacketBuf;
use state::{Counter, Snapshot};
use wire::numbers::protocol;
use wire::pieces::{Outer, Pieces};
use wire::{Fragment, Headers, Net, ethernet, icmp};

use crate::Outbox;
use crate::answer::reassembly::{Piece, Reassembly};
use crate::context::{Context, Packet};
use crate::slow::fragment::FragmentKey;
use crate::token_bucket::TokenBucket;

/// What a worker keeps for its answers to echo requests.
#[derive(Debug)]
pub(crate) struct Echoes {
    reassembly: Reassembly,
    /// Answers that may be sent, those in pieces counted once.
    limit: TokenBucket,
    /// The id of the next answer in pieces.
    id: u32,
}

impl Echoes {
    /// Pieces of one request come within the snapshot's time for fragments; the ids
    /// begin at `seed`.
    pub(crate) fn new(snapshot: &Snapshot, seed: u64) -> Self {
        Self {
            reassembly: Reassembly::new(snapshot.fragment_timeout_ms),
            limit: TokenBucket::new(snapshot.answers.echoes_per_second),
            id: (seed >> 32) as u32,
        }
    }

    /// Takes the times and rates of a new snapshot.
    pub(crate) fn follow(&mut self, snapshot: &Snapshot) {
        self.reassembly.timeout_ms = snapshot.fragment_timeout_ms;
        self.limit.set_rate(snapshot.answers.echoes_per_second);
    }

    /// Answers an ICMP packet that is an echo request to us, or a piece of an ICMP
    /// message to us.
    pub(crate) fn answer<B: PacketBuf, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        mut packet: Packet<B>,
    ) {
        let headers = packet.headers;
        let mtu = cx.arrived(&packet).map_or(0, |interface| interface.mtu);
        let has_extensions = headers.net == Net::Ipv6 && headers.l4 - headers.l3 > 40;
        if headers.fragment == Fragment::Whole
            && headers.end.saturating_sub(headers.l3) <= mtu
            && !has_extensions
        {
            if !self.limit.take(cx.now_ms) {
                return cx.count(Counter::EchoLimited);
            }
            if icmp::echo_reply_in_place(packet.buf.bytes_mut(), &headers, cx.now_ms) {
                return cx.reply(packet, Counter::EchoReplied);
            }
            return cx.count(Counter::BadIcmp);
        }
        match self.pieces(cx, &packet, mtu) {
            Ok(0) => cx.count(Counter::IcmpPieces),
            // One packet came, so the first packet of the reply answers it; the
            // others originate here.
            Ok(sent) => {
                cx.count(Counter::EchoReplied);
                cx.counters.add(Counter::OriginatedPackets, sent - 1);
            }
            Err(counter) => cx.count(counter),
        }
    }

    /// Adds a piece and sends the answer once the request is whole; returns how many
    /// packets the answer took.
    fn pieces<B: PacketBuf, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        packet: &Packet<B>,
        mtu: u16,
    ) -> Result<u64, Counter> {
        let (frame, headers) = (packet.buf.bytes(), &packet.headers);
        let (offset, more) = headers.place(frame).unwrap_or((0, false));
        let data = frame.get(headers.l4.into()..headers.end.into()).ok_or(Counter::Truncated)?;
        let key = FragmentKey::of_any(frame, headers).ok_or(Counter::Truncated)?;
        let piece = Piece { offset, more, data };
        let Some(message) = self.reassembly.add(key, piece, cx.now_ms) else { return Ok(0) };
        if !self.limit.take(cx.now_ms) {
            return Err(Counter::EchoLimited);
        }
        let ends = headers.src_addr(frame).zip(headers.dst_addr(frame));
        let (src, dst) = ends.ok_or(Counter::Truncated)?;
        if !icmp::answer_message(message, src, dst) {
            return Err(Counter::BadIcmp);
        }
        self.id = self.id.wrapping_add(1);
        let proto = if src.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 };
        let outer = Outer { src: dst, dst: src, proto, traffic_class: 0, id: self.id, mtu };
        let pieces = Pieces::new(outer, message).ok_or(Counter::BadIcmp)?;
        send(cx, frame, headers, pieces)
    }
}

/// Sends `pieces` back to where `frame` came from, and returns how many there were.
fn send<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    frame: &[u8],
    headers: &Headers,
    mut pieces: Pieces<'_>,
) -> Result<u64, Counter> {
    let (to, from) = ethernet::answer(frame).ok_or(Counter::BadIcmp)?;
    let l3 = usize::from(headers.l3);
    let front = frame.get(..l3).ok_or(Counter::Truncated)?;
    let mut sent = 0;
    while let Some(length) = pieces.next_len() {
        let mut answer = cx.out.fresh(l3 + length).ok_or(Counter::NoRoom)?;
        let (link, packet) = answer.bytes_mut().split_at_mut_checked(l3).ok_or(Counter::NoRoom)?;
        link.copy_from_slice(front);
        pieces.write(packet).ok_or(Counter::NoRoom)?;
        if !ethernet::set_macs(answer.bytes_mut(), to, from) {
            return Err(Counter::Truncated);
        }
        cx.out.send(cx.from.port, answer);
        sent += 1;
    }
    Ok(sent)
}
