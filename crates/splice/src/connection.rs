//! What the agent knows of one connection.
use std::net::SocketAddr;

use arrayvec::ArrayVec;
use flow::{Account, BackendId, Direction, ServiceId};

use crate::blocks::{Block, Blocks, FIRST_FLIGHT};
use crate::clocks::Clocks;
use crate::edits::{Edits, before};
use crate::framing::Chunked;
use crate::hardware::Loan;
use crate::options::{Change, MapEdge, Offer, STAMPS_LEN, Stamps};
use crate::records::Queue;
use crate::response::Responses;
use crate::segment::{ECN, Received};
use crate::world::{Peer, Speaks, Terms};

/// Backends that a request is offered to, at most.
pub(crate) const TRIES: usize = 3;

/// Bytes of a response's header that is replaced, at most: what is added to it must find
/// room, too.
pub(crate) const RESPONSE_HEADER: usize = 12 * 1024;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The client's SYN is answered.
    Half,
    /// The client has sent bytes, but no whole header.
    Front,
    /// A backend has been sent so many SYNs.
    Connecting(u8),
    /// Both connections exist.
    Open,
    /// The agent answers, and has sent the answer so often.
    Answering(u8),
    /// The client has the agent's answer.
    Answered,
    /// One side has reset it, or both have ended.
    Closing,
    /// The agent has reset both sides, and does so again if one goes on.
    Reset,
    /// Nothing of it is needed any more.
    Gone,
}

/// How the client's next bytes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// As a header.
    Header,
    /// As a chunked body.
    Chunked(Chunked),
    /// Not at all before the backend has agreed to another protocol.
    Upgrade,
    /// As bytes of another protocol.
    All,
    /// Not at all.
    Nothing,
}

/// What of the backend's stream does not pass as it came.
#[derive(Debug, Default)]
pub(crate) struct Down {
    /// Headers that were replaced, in the backend's numbers.
    pub(crate) edits: Edits,
    /// A header that is not whole yet, and ends where the responses have been read to.
    pub(crate) block: Option<Block>,
    /// Up to here the agent has acknowledged the backend's bytes before the client has. When
    /// it has repeated them itself.
    pub(crate) owned: Option<u32>,
    pub(crate) repeated_ms: u64,
    /// The number behind the urgent data of the backend's last segment, if it had any.
    pub(crate) urgent: Option<u32>,
}

/// How far the end of urgent data is from a segment's first byte, both in the numbers of the
/// segment's receiver; 0: it is not behind that byte, or beyond what a segment can say.
pub(crate) fn urgent(first: u32, end: u32) -> u16 {
    if before(first, end) { end.wrapping_sub(first).try_into().unwrap_or(0) } else { 0 }
}

/// One connection of a client's, and the one to its backend.
#[derive(Debug)]
pub(crate) struct Conn {
    /// The client and the VIP.
    pub(crate) ends: [SocketAddr; 2],
    pub(crate) service: ServiceId,
    pub(crate) speaks: Speaks,
    pub(crate) state: State,
    /// When its state began, and when it had the last packet.
    pub(crate) since_ms: u64,
    pub(crate) seen_ms: u64,
    /// The initial numbers of the client and of the agent.
    pub(crate) isn: u32,
    pub(crate) cookie: u32,
    /// What the client offers, and what the agent has granted of it.
    pub(crate) offer: Offer,
    pub(crate) granted: Offer,
    /// The window in the client's first packet, and in its last.
    pub(crate) first_window: u16,
    pub(crate) window: u16,
    /// The window field that the client has got of its backend last.
    pub(crate) server_window: Option<u16>,
    /// The client's highest acknowledgement.
    pub(crate) acked: u32,
    /// The client's first byte that has not been read, in its numbers. What is before it
    /// and not in `block` may pass.
    pub(crate) next: u32,
    /// Up to here the backend has acknowledged the client's bytes.
    pub(crate) received: u32,
    /// Up to here the agent has acknowledged the client's bytes before a backend has, so
    /// the client does not repeat them. When it has repeated them itself.
    pub(crate) owned: Option<u32>,
    pub(crate) repeated_ms: u64,
    /// Bytes of the body behind `next` that need no reading either.
    pub(crate) body: u64,
    pub(crate) reading: Reading,
    /// A header that is not whole yet and ends at `next`, or the answer.
    pub(crate) block: Option<Block>,
    pub(crate) edits: Edits,
    pub(crate) backend: Option<SocketAddr>,
    /// Whose counts the packets of the last backend are.
    pub(crate) id: BackendId,
    pub(crate) tried: ArrayVec<SocketAddr, TRIES>,
    /// Whether all requests of the connection go to the backend; otherwise each is routed
    /// by itself, and responses are read.
    pub(crate) keeps: bool,
    /// Whether headers of responses are replaced.
    pub(crate) rewrites: bool,
    /// Whether the response to the next request says by a cookie where it comes from.
    pub(crate) sticks: bool,
    /// Whether where responses end has got lost. No matter, as long as all requests go to
    /// one backend: with a request that is sent when all is quiet, it is known again.
    pub(crate) blind: bool,
    /// Whether that has ever been so with this backend: where responses begin is a guess.
    pub(crate) guesses: bool,
    /// Whether the backend has not been sent a request yet.
    pub(crate) fresh: bool,
    /// Whether the request in `block` is not for this backend: it waits until all before
    /// it are answered. The backend that it goes to then, if that is known.
    pub(crate) held: bool,
    pub(crate) instead: Option<Peer>,
    pub(crate) instead_terms: Terms,
    /// The backend's responses, and the first of its bytes that has not been read.
    pub(crate) responses: Responses,
    pub(crate) response_next: u32,
    pub(crate) down: Down,
    /// The backend's initial number, and what it has granted.
    pub(crate) server_isn: u32,
    pub(crate) server: Offer,
    /// The clocks of the client and of the backend.
    pub(crate) clocks: Clocks,
    /// Whether the agent's SYN-ACK had a clock that was learnt.
    pub(crate) learnt: bool,
    /// What the client's last segment says of congestion (ECE and CWR).
    pub(crate) congestion: u8,
    /// The number behind the urgent data of the client's last segment, if it had any.
    pub(crate) urgent: Option<u32>,
    /// Its requests that are logged and have no whole response, and where the response ends
    /// that the first of them waits for.
    pub(crate) records: Queue,
    pub(crate) log_end: Option<u32>,
    /// The number under which it is lent to a card, which may send on what the backend sends:
    /// the client's next request waits until it is back. Whether it is wanted back.
    pub(crate) loan: Option<Loan>,
    pub(crate) recalled: bool,
    /// Whether a card may have sent on what the agent has not seen.
    pub(crate) unseen: bool,
    /// Whether the client and the backend have sent a FIN.
    pub(crate) ended: [bool; 2],
}

impl Conn {
    pub(crate) const fn client(&self) -> SocketAddr {
        let [client, _] = self.ends;
        client
    }

    pub(crate) const fn vip(&self) -> SocketAddr {
        let [_, vip] = self.ends;
        vip
    }

    pub(crate) const fn become_(&mut self, state: State, now_ms: u64) {
        (self.state, self.since_ms) = (state, now_ms);
    }

    /// For whom a packet of its backend's counts, or one to its backend.
    pub(crate) const fn account(&self, direction: Direction) -> Account {
        Account { backend: self.id, direction }
    }

    /// The backend that it is a connection of, as long as both are in use.
    pub(crate) fn load(&self) -> Option<BackendId> {
        let is_open = matches!(self.state, State::Connecting(_) | State::Open);
        (self.backend.is_some() && is_open).then_some(self.id)
    }

    /// Gets a backend, and its terms.
    pub(crate) const fn join(&mut self, backend: Peer, terms: Terms) {
        (self.backend, self.id) = (Some(backend.at), backend.id);
        let Terms { keeps, rewrites, sticks } = terms;
        (self.keeps, self.rewrites, self.sticks) = (keeps, rewrites, sticks);
        (self.blind, self.guesses) = (false, false);
    }

    /// What is added to the backend's numbers to get the agent's.
    pub(crate) const fn delta(&self) -> u32 {
        self.cookie.wrapping_sub(self.server_isn)
    }

    /// The end of what may pass: the first byte that the agent keeps for itself.
    pub(crate) fn limit(&self) -> u32 {
        let kept = self.block.as_ref().map_or(0, Block::len);
        self.next.wrapping_sub(kept as u32)
    }

    /// The window field of a segment that the agent makes for the client: that of the
    /// backend, or room for a first flight. The field of a SYN is not scaled.
    pub(crate) fn own_window(&self, is_syn: bool) -> u16 {
        match self.server_window {
            Some(window) => window,
            None if is_syn => FIRST_FLIGHT as u16,
            None => (FIRST_FLIGHT >> self.granted.scale.unwrap_or(0)) as u16,
        }
    }

    /// The agent's number for the backend's `sequence`.
    pub(crate) fn to_agent(&self, sequence: u32) -> u32 {
        self.down.edits.forward(sequence).wrapping_add(self.delta())
    }

    /// The backend's number for the agent's `edge`, as [`Edits::back`] moves it.
    pub(crate) fn to_server(&self, edge: u32, up: bool) -> u32 {
        self.down.edits.back(edge.wrapping_sub(self.delta()), up)
    }

    /// What the backend is told to have arrived when the client acknowledges `acked`: never
    /// less than the agent has told it.
    pub(crate) fn told_server(&self, acked: u32) -> u32 {
        let acked = self.to_server(acked, false);
        match self.down.owned {
            Some(owned) if before(acked, owned) => owned,
            _ => acked,
        }
    }

    /// The end of what of the backend's bytes may pass.
    pub(crate) fn response_limit(&self) -> u32 {
        let kept = self.down.block.as_ref().map_or(0, Block::len);
        self.response_next.wrapping_sub(kept as u32)
    }

    /// The window field of a client's segment that acknowledges `acked`, as the backend
    /// understands it: both know how far the backend may send at all.
    pub(crate) fn window_to_backend(&self, window: u16, acked: u32) -> u16 {
        let Down { edits, block, owned, .. } = &self.down;
        if edits.open().is_empty() && block.is_none() && owned.is_none() {
            return self.plain_window_to_backend(window);
        }
        let shift = self.granted.scale.and(self.offer.scale).unwrap_or(0);
        let edge = self.to_server(acked.wrapping_add(u32::from(window) << shift), false);
        let told = self.told_server(acked);
        let usable = if before(told, edge) { edge.wrapping_sub(told) } else { 0 };
        // The agent takes the rest of a header itself.
        let header =
            block.as_ref().map_or(0, |block| RESPONSE_HEADER.saturating_sub(block.len()) as u32);
        let usable = usable.max(header);
        let scaled = usable >> self.server.scale.and(self.offer.scale).unwrap_or(0);
        let least = u32::from(usable > 0);
        u16::try_from(scaled.max(least)).unwrap_or(u16::MAX)
    }

    fn plain_window_to_backend(&self, window: u16) -> u16 {
        match (self.granted.scale, self.server.scale, self.offer.scale) {
            (Some(_), None, Some(shift)) => {
                u16::try_from(u32::from(window) << shift).unwrap_or(u16::MAX)
            }
            _ => window,
        }
    }

    /// A backend's window field as the client understands it: both know how far the client
    /// may send at all. The backend acknowledges `acknowledged`, which is `told` to the
    /// client as its own number.
    pub(crate) fn window_to_client(&self, window: u16, acknowledged: u32, told: u32) -> u16 {
        let announced = u32::from(window) << self.server.scale.unwrap_or(0);
        let edge = self.edits.back(acknowledged.wrapping_add(announced), false);
        let usable = if before(told, edge) { edge.wrapping_sub(told) } else { 0 };
        let scaled = usable >> self.granted.scale.unwrap_or(0);
        // A window that is open stays open, however little of it is left by the scale.
        let least = u32::from(usable > 0);
        u16::try_from(scaled.max(least)).unwrap_or(u16::MAX)
    }

    /// Notes the clock and the congestion of a client's segment.
    pub(crate) fn see_client(&mut self, got: &Received, frame: &[u8]) {
        self.congestion = got.outline.flags & ECN;
        self.urgent = got.urgent_end();
        if self.granted.timestamps
            && let Some(stamps) = got.stamps(frame)
        {
            self.clocks.see_client(stamps);
        }
    }

    /// The options of a segment that the agent makes for the client.
    pub(crate) fn options_to_client(&self) -> ArrayVec<u8, STAMPS_LEN> {
        let stamps = self.granted.timestamps.then(|| self.clocks.for_client().emit());
        stamps.into_iter().flatten().collect()
    }

    /// The options of a segment that the agent makes for the backend.
    pub(crate) fn options_to_backend(&self) -> ArrayVec<u8, STAMPS_LEN> {
        let stamps = self.server.timestamps.then(|| self.clocks.for_server().emit());
        stamps.into_iter().flatten().collect()
    }

    /// What becomes of the options of a client's segment, which has `stamps`.
    pub(crate) fn change_to_backend<'a>(
        &self,
        stamps: Option<Stamps>,
        map: MapEdge<'a>,
    ) -> Change<'a> {
        let stamps = stamps.filter(|_| self.server.timestamps);
        Change {
            sack: self.server.sack.then_some(map),
            stamps: stamps.map(|stamps| self.clocks.to_server(stamps.echo)),
        }
    }

    /// What becomes of the options of the backend's segments.
    pub(crate) fn change_to_client<'a>(&self, map: MapEdge<'a>) -> Change<'a> {
        Change {
            sack: self.granted.sack.then_some(map),
            stamps: self.granted.timestamps.then(|| self.clocks.to_client()),
        }
    }

    /// The flags of a segment, with those of congestion if both sides know them.
    pub(crate) const fn flags(&self, flags: u8) -> u8 {
        if self.server.ecn { flags } else { flags & !ECN }
    }

    /// Gives back what it holds.
    pub(crate) fn release(&mut self, blocks: &mut Blocks) {
        self.block.take().into_iter().for_each(|block| blocks.put(block));
        self.edits.drain().for_each(|block| blocks.put(block));
        self.down.block.take().into_iter().for_each(|block| blocks.put(block));
        self.down.edits.drain().for_each(|block| blocks.put(block));
    }
}
