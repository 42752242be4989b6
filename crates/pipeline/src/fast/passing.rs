//! A packet of an L7 agent's connection that needs no look into its data: numbers,
//! addresses and ports change, as [`Passage`] says.
//!
//! Next: out, or the slow path, which gives the packet to the agent.
use flow::PortId;
use packet::PacketBuf;
use splice::{Agent, Exit, Passage, Passing, Place, Side};
use state::Counter;

use crate::Outbox;
use crate::context::Context;
use crate::fast::{Link, Tally};
use crate::next_hop_cache::NextHopCache;
use crate::pipeline::Stages;
use crate::slow::act::hop_to;
use crate::verdict::Family;

/// Where the packet goes: out on a port, or away, since there was no room for its tag.
type Sent = Result<PortId, Counter>;

impl<B: PacketBuf> Stages<B> {
    /// Serves a packet of this connection and family.
    #[inline(never)]
    pub(crate) fn serve_passing<const TAGGED: bool, O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        link: Link<'_, TAGGED>,
        (place, family): (Place, Family),
        mut buf: B,
        tally: &mut Tally,
    ) {
        // Each arm is compiled for its side.
        let buf_mut = &mut buf;
        let sent = match (family, place.side()) {
            (Family::V4, Side::Client) => {
                self.pass_on::<1, TAGGED, O>(cx, link, place, Side::Client, buf_mut)
            }
            (Family::V4, Side::Backend) => {
                self.pass_on::<1, TAGGED, O>(cx, link, place, Side::Backend, buf_mut)
            }
            (Family::V6, Side::Client) => {
                self.pass_on::<4, TAGGED, O>(cx, link, place, Side::Client, buf_mut)
            }
            (Family::V6, Side::Backend) => {
                self.pass_on::<4, TAGGED, O>(cx, link, place, Side::Backend, buf_mut)
            }
        };
        match sent {
            Some(Ok(port)) => {
                tally.spliced += 1;
                cx.out.send(port, buf);
            }
            Some(Err(counter)) => cx.count(counter),
            None => self.slow(cx, buf, None),
        }
    }

    /// Translates a packet. `None`: it is untouched, and the slow path's.
    #[inline(always)]
    fn pass_on<const K: usize, const TAGGED: bool, O>(
        &mut self,
        cx: &Context<'_, O>,
        link: Link<'_, TAGGED>,
        place: Place,
        side: Side,
        buf: &mut B,
    ) -> Option<Sent>
    where
        Agent: Passing<K>,
    {
        let Self { spliced, next_hops, .. } = self;
        let passage: &mut Passage<K> = spliced.agent_mut()?.passage_mut(place)?;
        let frame = buf.bytes_mut();
        let (header, tag) = link.header::<K>(frame)?;
        if !passage.is_of(side, &header) {
            return None;
        }
        let exit = exit(cx, next_hops, passage, side)?;
        if exit.from.is_some() && exit.from != link.arrived(frame) {
            return None;
        }
        let hop = next_hops.get(cx, exit.hop)?;
        if !hop.takes(frame.len() - tag) {
            return None;
        }
        let rewrite = passage.translate(side, &header, frame, tag).ok()?;
        rewrite.apply(frame, tag, header.proto);
        // From here on the packet is no longer as it came.
        link.ways.carry(passage.account(side), frame.len() - tag);
        if TAGGED && hop.retag(buf, tag).is_none() {
            return Some(Err(Counter::NoRoom));
        }
        hop.write(buf.bytes_mut());
        Some(Ok(hop.port))
    }
}

/// The way out of packets of `side`, found again once in every era of the next hops.
#[inline(always)]
fn exit<const K: usize, O>(
    cx: &Context<'_, O>,
    next_hops: &NextHopCache,
    passage: &mut Passage<K>,
    side: Side,
) -> Option<Exit> {
    let era = next_hops.era();
    if passage.exit(side).era != era {
        *passage.exit(side) = look_for_exit(cx, era, passage, side)?;
    }
    Some(*passage.exit(side))
}

#[cold]
#[inline(never)]
fn look_for_exit<const K: usize, O>(
    cx: &Context<'_, O>,
    era: u64,
    passage: &Passage<K>,
    side: Side,
) -> Option<Exit> {
    let [_, to] = passage.leaves_as(side);
    let hop = hop_to(cx, to).ok()?;
    // A client's forged packet would otherwise leave as from the VIP.
    let from = match side {
        Side::Client => None,
        Side::Backend => {
            let [_, backend] = passage.leaves_as(Side::Client);
            Some(cx.snapshot.routes.next(backend)?.0)
        }
    };
    Some(Exit { era, hop, from })
}
