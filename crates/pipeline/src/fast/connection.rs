//! Packets of connections that a mark names or that the table has found.
//!
//! Next: out, or the slow path.
use conntrack::{FastKey, Key};
use flow::Account;
use packet::PacketBuf;
use wire::FastHeader;

use crate::Outbox;
use crate::context::Context;
use crate::fast::{Link, Outcome, Tally};
use crate::pipeline::Stages;
use crate::verdict::Verdict;

impl<B: PacketBuf> Stages<B> {
    /// Serves packets whose marks name a connection of one family, as many as follow
    /// each other; if `MIXED`, also those among them that the table has found. The
    /// keys of all of them are compared. Returns how many were served.
    #[inline(never)]
    pub(crate) fn serve_marked<const K: usize, const MIXED: bool, const TAGGED: bool, O>(
        &mut self,
        cx: &mut Context<'_, O>,
        link: Link<'_, TAGGED>,
        packets: &mut impl Iterator<Item = B>,
        verdicts: &[Verdict],
        tally: &mut Tally,
    ) -> usize
    where
        Key<K>: FastKey<K>,
        O: Outbox<B>,
    {
        let mut rest = verdicts;
        while let [verdict, behind @ ..] = rest {
            let (Verdict::Marked(hit) | Verdict::Found(hit)) = *verdict else { break };
            let is_next = MIXED || matches!(verdict, Verdict::Marked(_));
            if !is_next || hit.conn.is_v6() != (K == 4) {
                break;
            }
            let Some(mut buf) = packets.next() else { break };
            rest = behind;
            let next_hops = &mut self.next_hops;
            let outcome = link.forward(&mut buf, Link::header, |header: &FastHeader<K>, len| {
                let served = cx.shared.table().serve_marked(hit, &Key::from(header), cx.now_ms)?;
                let hop = next_hops.get(cx, served.hop()).filter(|hop| hop.takes(len))?;
                let (backend, direction) = (served.backend(), hit.direction);
                Some((served.rewrite(), hop, Account { backend, direction }))
            });
            match outcome {
                Outcome::Forwarded(port) => {
                    // Tested earlier, this would become a branch that can't be
                    // predicted.
                    let by_mark = u64::from(matches!(verdict, Verdict::Marked(_)));
                    tally.marked += by_mark;
                    tally.looked_up += 1 - by_mark;
                    cx.out.send(port, buf);
                }
                Outcome::Left(_) => self.leave::<K, TAGGED, O>(cx, link, buf, *verdict, tally),
            }
        }
        verdicts.len() - rest.len()
    }

    /// Serves packets of one family that the connection table has found, as many as
    /// follow each other. Their frames have been verified, and of IPv4 the index
    /// holds the key whole, so it is not compared again. Returns how many were
    /// served.
    #[inline(never)]
    pub(crate) fn serve_found<const K: usize, const TAGGED: bool, O>(
        &mut self,
        cx: &mut Context<'_, O>,
        link: Link<'_, TAGGED>,
        packets: &mut impl Iterator<Item = B>,
        verdicts: &[Verdict],
        tally: &mut Tally,
    ) -> usize
    where
        Key<K>: FastKey<K>,
        O: Outbox<B>,
    {
        let (mut rest, mut left) = (verdicts, 0);
        while let [verdict, behind @ ..] = rest {
            let Verdict::Found(hit) = *verdict else { break };
            if hit.conn.is_v6() != (K == 4) {
                break;
            }
            let Some(mut buf) = packets.next() else { break };
            rest = behind;
            let next_hops = &mut self.next_hops;
            let outcome = link.forward(&mut buf, Link::again, |header: &FastHeader<K>, len| {
                let served = cx.shared.table().serve_found(hit, &Key::from(header), cx.now_ms)?;
                let hop = next_hops.get(cx, served.hop()).filter(|hop| hop.takes(len))?;
                let (backend, direction) = (served.backend(), hit.direction);
                Some((served.rewrite(), hop, Account { backend, direction }))
            });
            match outcome {
                Outcome::Forwarded(port) => cx.out.send(port, buf),
                Outcome::Left(_) => {
                    left += 1;
                    self.leave::<K, TAGGED, O>(cx, link, buf, *verdict, tally);
                }
            }
        }
        let done = verdicts.len() - rest.len();
        tally.looked_up += (done - left) as u64;
        done
    }

    /// Serves a packet that its loop has left untouched: in a tunnel if its
    /// connection has one, else by the slow path. This function is apart from the
    /// loops, and cold, so that the compiler keeps their registers for packets
    /// without a tunnel.
    #[cold]
    #[inline(never)]
    fn leave<const K: usize, const TAGGED: bool, O>(
        &mut self,
        cx: &mut Context<'_, O>,
        link: Link<'_, TAGGED>,
        mut buf: B,
        verdict: Verdict,
        tally: &mut Tally,
    ) where
        Key<K>: FastKey<K>,
        O: Outbox<B>,
    {
        let (Verdict::Marked(hit) | Verdict::Found(hit)) = verdict else {
            return self.slow(cx, buf, None);
        };
        let next_hops = &mut self.next_hops;
        let served = link.header::<K>(buf.bytes()).and_then(|(header, tag)| {
            let served = cx.shared.table().serve_tunnel(hit, &Key::from(&header), cx.now_ms);
            let (backend, hop) = served?;
            let account = Account { backend, direction: hit.direction };
            Some(link.enter_tunnel(&mut buf, (header, tag), account, next_hops.get(cx, hop)?))
        });
        match served.unwrap_or(Outcome::Left(None)) {
            Outcome::Forwarded(port) => {
                let by_mark = u64::from(matches!(verdict, Verdict::Marked(_)));
                tally.marked += by_mark;
                tally.looked_up += 1 - by_mark;
                cx.out.send(port, buf);
            }
            Outcome::Left(chosen) => self.slow(cx, buf, chosen),
        }
    }
}
