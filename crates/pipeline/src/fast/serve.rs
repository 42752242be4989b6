//! Third pass: every packet is served, in order.
//!
//! Next: `connection`, `queue`, `passing` or `new_connection` for the fast path, the end of
//! the slow path for packets that it has parsed.
use arrayvec::Drain;
use conntrack::{FastKey, Key};
use packet::PacketBuf;

use crate::Outbox;
use crate::context::Context;
use crate::fast::queue_rewrite::Rewrites;
use crate::fast::{Link, Tally};
use crate::pipeline::{BURST, Stages};
use crate::slow::SlowPackets;
use crate::verdict::{Verdict, Verdicts};

/// If one packet in so many is marked, it costs less to compare the keys of the
/// packets that the table has found once more than to predict wrongly which kind
/// comes next. Below that share, comparing costs more than it saves.
const MARKED_SHARE: usize = 4;

/// Whether one loop serves both kinds of a burst of `len` packets, of which so many
/// were found and so many are marked.
pub(crate) const fn is_mixed(len: usize, marked: usize, found: usize) -> bool {
    found > 0 && marked * MARKED_SHARE >= len
}

impl<B: PacketBuf> Stages<B> {
    /// Serves the burst. Packets of the same kind mostly come together, and each kind
    /// has a loop of its own, so that its values stay in registers.
    #[inline(never)]
    pub(crate) fn serve<const TAGGED: bool, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        link: Link<'_, TAGGED>,
        mixed: bool,
        mut packets: Drain<'_, B, BURST>,
        verdicts: &Verdicts,
        slow: &mut SlowPackets,
    ) {
        let mut tally = Tally::default();
        let mut slow = slow.drain(..);
        let mut verdicts = verdicts.get(..packets.len()).unwrap_or(verdicts);
        let (packets, tally) = (&mut packets, &mut tally);
        while let Some((first, rest)) = verdicts.split_first() {
            let done = match *first {
                Verdict::Marked(hit) | Verdict::Found(hit) if hit.conn.is_v6() => {
                    self.serve_known::<4, TAGGED, O>(cx, link, mixed, packets, verdicts, tally)
                }
                Verdict::Marked(_) | Verdict::Found(_) => {
                    self.serve_known::<1, TAGGED, O>(cx, link, mixed, packets, verdicts, tally)
                }
                Verdict::Queued => match *self.queues.rewrites(cx.from.queue) {
                    Rewrites::V4(ref rewrite) => {
                        let rewrite = *rewrite;
                        self.serve_queued(cx, link, &rewrite, packets, verdicts, tally)
                    }
                    Rewrites::V6(ref rewrite) => {
                        let rewrite = *rewrite;
                        self.serve_queued(cx, link, &rewrite, packets, verdicts, tally)
                    }
                    Rewrites::None => {
                        packets.next().into_iter().for_each(|buf| self.slow(cx, buf, None));
                        1
                    }
                },
                Verdict::Opens(_) => self.serve_opening(cx, link, packets, verdicts),
                Verdict::Shared(tag) => {
                    packets
                        .next()
                        .into_iter()
                        .for_each(|buf| self.serve_shared(cx, link, tag, buf, tally));
                    1
                }
                Verdict::Passes(place, family) => {
                    packets.next().into_iter().for_each(|buf| {
                        self.serve_passing(cx, link, (place, family), buf, tally);
                    });
                    1
                }
                Verdict::Handed(worker) => {
                    packets.next().into_iter().for_each(|buf| cx.hand_over(worker.into(), buf));
                    1
                }
                Verdict::Slow => {
                    if let (Some(buf), Some(known)) = (packets.next(), slow.next()) {
                        self.finish(cx, known, buf);
                    }
                    1
                }
                // A dropped packet has been counted, and no packet is unknown any
                // longer.
                Verdict::Dropped | Verdict::Unknown => {
                    drop(packets.next());
                    1
                }
            };
            verdicts = verdicts.get(done..).unwrap_or(rest);
        }
        tally.count(cx);
    }

    /// Serves packets of known connections of one family, as many as follow each
    /// other and are of one kind, or of two if they are `mixed`.
    #[inline(always)]
    fn serve_known<const K: usize, const TAGGED: bool, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        link: Link<'_, TAGGED>,
        mixed: bool,
        packets: &mut Drain<'_, B, BURST>,
        verdicts: &[Verdict],
        tally: &mut Tally,
    ) -> usize
    where
        Key<K>: FastKey<K>,
    {
        match verdicts.first() {
            _ if mixed => {
                self.serve_marked::<K, true, TAGGED, O>(cx, link, packets, verdicts, tally)
            }
            Some(Verdict::Found(_)) => {
                self.serve_found::<K, TAGGED, O>(cx, link, packets, verdicts, tally)
            }
            _ => self.serve_marked::<K, false, TAGGED, O>(cx, link, packets, verdicts, tally),
        }
    }
}
