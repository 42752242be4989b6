//! Packets whose receive queue means a backend, or, where several backends share
//! the queue, whose mark does: the queue's action is carried out.
//!
//! Next: out, or the slow path.
use conntrack::{FastKey, Key, Segment};
use packet::PacketBuf;
use state::Counter;
use wire::{FastHeader, Transport};

use crate::Outbox;
use crate::context::Context;
use crate::fast::queue_rewrite::{Meaning, QueueRewrite, Rewrites};
use crate::fast::{Link, Outcome, Tally};
use crate::offload_requests::touch;
use crate::pipeline::Stages;
use crate::verdict::Verdict;

impl<B: PacketBuf> Stages<B> {
    /// Serves packets of a queue whose action is `rewrite`, as many as follow each
    /// other. Returns how many were served.
    #[inline(always)]
    pub(crate) fn serve_queued<const K: usize, const TAGGED: bool, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        link: Link<'_, TAGGED>,
        rewrite: &QueueRewrite<K>,
        packets: &mut impl Iterator<Item = B>,
        verdicts: &[Verdict],
        tally: &mut Tally,
    ) -> usize
    where
        Key<K>: FastKey<K>,
    {
        if !rewrite.is_tunnel() {
            self.serve_run::<K, TAGGED, false, O>(cx, link, rewrite, packets, verdicts, tally)
        } else {
            self.serve_run::<K, TAGGED, true, O>(cx, link, rewrite, packets, verdicts, tally)
        }
    }

    /// Serves packets of a queue whose packets go in a `TUNNEL`, or don't.
    #[inline(never)]
    fn serve_run<const K: usize, const TAGGED: bool, const TUNNEL: bool, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        link: Link<'_, TAGGED>,
        rewrite: &QueueRewrite<K>,
        packets: &mut impl Iterator<Item = B>,
        verdicts: &[Verdict],
        tally: &mut Tally,
    ) -> usize
    where
        Key<K>: FastKey<K>,
    {
        let (mut rest, mut left, sample) = (verdicts, 0, cx.snapshot.sample);
        while let [Verdict::Queued, behind @ ..] = rest {
            let Some(mut buf) = packets.next() else { break };
            rest = behind;
            let outcome = if TUNNEL {
                self.tunnel_queued(cx, link, rewrite, sample, &mut buf)
            } else {
                self.forward_queued(cx, link, rewrite, sample, &mut buf)
            };
            match outcome {
                Outcome::Forwarded(port) => cx.out.send(port, buf),
                Outcome::Left(chosen) => {
                    left += 1;
                    self.slow(cx, buf, chosen);
                }
            }
        }
        let done = verdicts.len() - rest.len();
        tally.queued += (done - left) as u64;
        done
    }

    /// Serves a packet of a queue that several backends share; its mark carries
    /// `tag`.
    #[inline(never)]
    pub(crate) fn serve_shared<const TAGGED: bool, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        link: Link<'_, TAGGED>,
        tag: u16,
        mut buf: B,
        tally: &mut Tally,
    ) {
        let Some(port) = cx.shared.port(cx.from.port) else { return };
        let Self { queues, next_hops, .. } = self;
        let sample = cx.snapshot.sample;
        let outcome = match queues.meaning(cx, next_hops, port, tag) {
            Meaning::Nothing | Meaning::SlowOnly => Outcome::Left(None),
            Meaning::Fast(_) => match *queues.rewrites(tag) {
                Rewrites::V4(rewrite) => self.forward_either(cx, link, &rewrite, sample, &mut buf),
                Rewrites::V6(rewrite) => self.forward_either(cx, link, &rewrite, sample, &mut buf),
                Rewrites::None => Outcome::Left(None),
            },
        };
        match outcome {
            Outcome::Forwarded(port) => {
                tally.queued += 1;
                cx.out.send(port, buf);
            }
            Outcome::Left(chosen) => self.slow(cx, buf, chosen),
        }
    }

    /// Forwards a packet as `rewrite` says, in a tunnel or not.
    fn forward_either<const K: usize, const TAGGED: bool, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        link: Link<'_, TAGGED>,
        rewrite: &QueueRewrite<K>,
        sample: u32,
        buf: &mut B,
    ) -> Outcome
    where
        Key<K>: FastKey<K>,
    {
        if !rewrite.is_tunnel() {
            self.forward_queued(cx, link, rewrite, sample, buf)
        } else {
            self.tunnel_queued(cx, link, rewrite, sample, buf)
        }
    }

    /// Forwards a packet as `rewrite` says; of one packet in `sample` the
    /// connection is looked up, to see what it does.
    #[inline(always)]
    fn forward_queued<const K: usize, const TAGGED: bool, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        link: Link<'_, TAGGED>,
        rewrite: &QueueRewrite<K>,
        sample: u32,
        buf: &mut B,
    ) -> Outcome
    where
        Key<K>: FastKey<K>,
    {
        let sampler = &mut self.sampler;
        link.forward(buf, Link::header, |header: &FastHeader<K>, len| {
            if !rewrite.carries(header) || !rewrite.hop().takes(len) {
                return None;
            }
            if sampler.takes(sample) {
                sampled(cx, *header);
            }
            Some((rewrite.rewrite(header), rewrite.hop(), rewrite.account()))
        })
    }

    /// As [`Self::forward_queued`], in the tunnel of `rewrite`.
    #[inline(never)]
    fn tunnel_queued<const K: usize, const TAGGED: bool, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        link: Link<'_, TAGGED>,
        rewrite: &QueueRewrite<K>,
        sample: u32,
        buf: &mut B,
    ) -> Outcome
    where
        Key<K>: FastKey<K>,
    {
        let read = link.header::<K>(buf.bytes()).filter(|(header, _)| rewrite.carries(header));
        let Some((header, tag)) = read else { return Outcome::Left(None) };
        let outcome = link.enter_tunnel(buf, (header, tag), rewrite.account(), rewrite.hop());
        if matches!(outcome, Outcome::Forwarded(_)) && self.sampler.takes(sample) {
            sampled(cx, header);
        }
        outcome
    }
}

/// Looks up the connection of a packet that was matched by queue, to see what the
/// connection does. The function takes the header by value, so that it stays in
/// registers where nothing is sampled.
#[cold]
#[inline(never)]
fn sampled<const K: usize, B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    header: FastHeader<K>,
) where
    Key<K>: FastKey<K>,
{
    cx.count(Counter::Sampled);
    if let Some(hit) = cx.shared.table().lookup(&Key::from(&header)) {
        let is_tcp = header.proto == Transport::Tcp;
        // Without SYN, FIN and RST the sequence numbers say nothing.
        let segment = Segment { flags: header.flags, ..Segment::default() };
        touch(cx, hit, is_tcp.then_some(segment));
    }
}
