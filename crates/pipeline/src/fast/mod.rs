//! The fast path: packets with a [`FastHeader`] that are rewritten, or stay as they
//! are but for the hop, get the outer header of a tunnel where the mode has one, and
//! are sent.
//!
//! ```text
//! classify ─┬─ the mark names a connection, or the queue a backend ─┬► serve ─► out
//!           └─ look up ─┬─ the table has the connection ────────────┤
//!                       ├─ the L7 agent has it ─► passing ───────────┤
//!                       ├─ the packet may open one ─► new_connection┘
//!                       └─ anything else ─► slow
//! ```
//!
//! Three passes over the burst, each of which leaves its cache misses to the
//! next: [`classify`] reads what the NIC reported for each packet and fetches
//! what that names; [`look_up`] looks up the packets of which the NIC reported
//! nothing; [`serve`] compares, rewrites and sends. No pass writes anything to
//! memory that the next one reads in wider words: the processor would wait until
//! all the narrow stores are done.
//!
//! The fast path leaves every other packet untouched to the slow path, which gives
//! the same bytes for the packets that the fast path serves.
use flow::{Account, BackendId, InterfaceId, PortId};
use l3::Interfaces;
use packet::PacketBuf;
use state::{Counter, Snapshot, Tunnels, Ways};
use wire::fast_header::{is_for, tag_len};
use wire::{FastHeader, FastRewrite, Mac, vlan};

use crate::context::Context;
use crate::next_hop_cache::{ETHERNET, NextHop};

mod choice;
pub(crate) mod classify;
pub(crate) mod connection;
pub(crate) mod fresh;
pub(crate) mod look_up;
pub(crate) mod new_connection;
pub(crate) mod passing;
pub(crate) mod queue;
pub(crate) mod queue_rewrite;
pub(crate) mod serve;

/// What the fast path did with a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// The packet is ready to be sent on this port.
    Forwarded(PortId),
    /// The packet is left untouched to the slow path; if it opens a connection, this
    /// backend has been chosen for it.
    Left(Option<BackendId>),
}

/// Which frames are taken: those for the Ethernet address of the interface on which
/// they came. Where no interface of the configuration is `TAGGED`, that is one
/// address for the whole port, and no frame is tested for a tag.
#[derive(Clone, Copy)]
pub(crate) struct Link<'a, const TAGGED: bool> {
    interfaces: &'a Interfaces,
    tunnels: &'a Tunnels,
    ways: Ways<'a>,
    port: PortId,
    /// The port's untagged interface; used where nothing is `TAGGED`.
    interface: InterfaceId,
    /// The address of the port's untagged interface; used where nothing is `TAGGED`.
    station: Mac,
}

impl<'a, const TAGGED: bool> Link<'a, TAGGED> {
    /// The link at `port`; `station` is the address of `interface`, its untagged one.
    /// What is forwarded is noted in `ways`.
    pub(crate) const fn new(
        snapshot: &'a Snapshot,
        ways: Ways<'a>,
        port: PortId,
        interface: InterfaceId,
        station: Mac,
    ) -> Self {
        let Snapshot { interfaces, tunnels, .. } = snapshot;
        Self { interfaces, tunnels, ways, port, interface, station }
    }

    /// The interface on which a frame for this station came.
    #[inline(always)]
    pub(crate) fn arrived(&self, frame: &[u8]) -> Option<InterfaceId> {
        if !TAGGED {
            return Some(self.interface);
        }
        self.interfaces.at(self.port, vlan_of(frame)?).map(|(id, _)| id)
    }

    /// The length of the frame's tag; `None`: the frame is not for this station.
    #[inline(always)]
    pub(crate) fn tag_of_own(&self, frame: &[u8]) -> Option<usize> {
        if !TAGGED {
            return is_for(frame, self.station).then_some(0);
        }
        let (_, interface) = self.interfaces.at(self.port, vlan_of(frame)?)?;
        is_for(frame, interface.mac).then(|| tag_len(frame))
    }

    /// The header of a frame for this station and the length of its tag.
    #[inline(always)]
    pub(crate) fn header<const K: usize>(&self, frame: &[u8]) -> Option<(FastHeader<K>, usize)> {
        let tag = self.tag_of_own(frame)?;
        Some((FastHeader::of(frame, tag)?, tag))
    }

    /// The header of a frame that has been verified before.
    #[inline(always)]
    pub(crate) fn again<const K: usize>(&self, frame: &[u8]) -> Option<(FastHeader<K>, usize)> {
        let tag = if TAGGED { tag_len(frame) } else { 0 };
        Some((FastHeader::again(frame, tag)?, tag))
    }

    /// Forwards a packet: `read` gives its header, and `decide` says how, and for whom
    /// it counts, from the header and the frame's length without a tag. If either gives
    /// `None`, the packet stays untouched.
    ///
    /// This function, [`Self::enter_tunnel`] and `passing` are the only places where
    /// the fast path writes to a frame.
    #[inline(always)]
    pub(crate) fn forward<'h, B: PacketBuf, const K: usize>(
        &self,
        buf: &mut B,
        read: impl FnOnce(&Self, &[u8]) -> Option<(FastHeader<K>, usize)>,
        decide: impl FnOnce(&FastHeader<K>, usize) -> Option<(FastRewrite<K>, &'h NextHop, Account)>,
    ) -> Outcome {
        let frame = buf.bytes_mut();
        let Some((header, tag)) = read(self, frame) else { return Outcome::Left(None) };
        let len = frame.len() - tag;
        let Some((rewrite, hop, account)) = decide(&header, len) else {
            return Outcome::Left(None);
        };
        // Where nothing is tagged, the frame is not tested a second time: the test
        // would read the buffer's own fields again.
        let (frame, tag) = if TAGGED {
            let Some(tag) = hop.retag(buf, tag) else { return Outcome::Left(None) };
            self.ways.carry(account, len);
            (buf.bytes_mut(), tag)
        } else {
            (frame, 0)
        };
        hop.write(frame);
        rewrite.apply(frame, tag, header.proto);
        // The later, the fewer registers are in use; with tags it is the other way round.
        if !TAGGED {
            self.ways.carry(account, len);
        }
        Outcome::Forwarded(hop.port)
    }

    /// Forwards a packet with this header and length of tag in the tunnel of
    /// `account` over `hop`. The packet stays untouched if there is no room for the
    /// outer header or if it is too long then.
    #[inline(never)]
    pub(crate) fn enter_tunnel<B: PacketBuf, const K: usize>(
        &self,
        buf: &mut B,
        (header, tag): (FastHeader<K>, usize),
        account: Account,
        hop: &NextHop,
    ) -> Outcome {
        let len = buf.bytes().len() - tag;
        let Some(encap) = self.tunnels.get(account.backend) else { return Outcome::Left(None) };
        let grown = usize::from(encap.overhead());
        // The room must do for a new tag, too: once the outer header is there,
        // nothing may fail.
        let most = grown + vlan::LEN;
        let has_room = |buf: &mut B| !TAGGED || buf.prepend(most) && buf.cut_front(most);
        if !hop.takes(ETHERNET + header.length as usize + grown)
            || !has_room(buf)
            || !encap.apply_fast(buf, tag, &header)
        {
            return Outcome::Left(None);
        }
        let tag = if TAGGED { hop.retag(buf, tag) } else { Some(0) };
        let Some(tag) = tag else { return Outcome::Left(None) };
        let frame = buf.bytes_mut();
        hop.write(frame);
        header.unchanged().apply(frame, tag + grown, header.proto);
        self.ways.carry(account, len);
        Outcome::Forwarded(hop.port)
    }
}

/// The VLAN in the frame's tag; `None`: it is too short for one.
#[inline(always)]
fn vlan_of(frame: &[u8]) -> Option<Option<u16>> {
    let id = frame.get(14..)?.first_chunk()?;
    Some((tag_len(frame) > 0).then(|| u16::from_be_bytes(*id) & 0x0fff))
}

/// The packets of one burst that the fast path has forwarded, by what told it
/// where to; added to the counters once per burst.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) marked: u64,
    pub(crate) queued: u64,
    pub(crate) looked_up: u64,
    pub(crate) spliced: u64,
}

impl Tally {
    #[inline]
    pub(crate) fn count<O>(&self, cx: &Context<'_, O>) {
        let Self { marked, queued, looked_up, spliced } = *self;
        for (counter, by) in [
            (Counter::ForwardedPackets, marked + queued + looked_up + spliced),
            (Counter::MatchedByMark, marked),
            (Counter::MatchedByQueue, queued),
            (Counter::LookedUp, looked_up),
            (Counter::HttpSteady, spliced),
        ] {
            if by > 0 {
                cx.counters.add(counter, by);
            }
        }
    }
}
