//! The agent: packets and time in, packets out.
mod answering;
mod opening;
mod passing;
mod switching;

pub use passing::Passing;

use std::net::SocketAddr;

use flow::ServiceId;
use packet::PacketBuf;
use wire::{FlowKey, Headers};

use crate::blocks::{BLOCK, Blocks, FIRST_FLIGHT};
use crate::clocks::Clocks;
use crate::connection::{Conn, Reading, State};
use crate::cookie::{Cookies, Kept};
use crate::edits::Edits;
use crate::forwarding::{self, Additions};
use crate::learnt::{Learnt, SCALE};
use crate::options::{DEFAULT_MSS, Offer};
use crate::refusal::Refusal;
use crate::request::{Body, Request};
use crate::response::Responses;
use crate::segment::{self, ACK, ECE, ECN, FIN, Outline, RST, Received, SYN, is_plain};
use crate::table::Table;
use crate::world::{Event, Fate, World};

/// Sizes and times of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Connections at once.
    pub connections: usize,
    /// Those of them at once whose handshake is not complete; when they are so many,
    /// SYNs are answered by cookies.
    pub half_open: usize,
    /// Headers held at once, 16 KiB each: from the first byte to the backend's
    /// acknowledgement.
    pub headers: usize,
    /// Bytes of a header, at most.
    pub header_limit: usize,
    /// How long a client may take for a header.
    pub header_ms: u64,
    /// How long a connection may be silent.
    pub idle_ms: u64,
    /// The secret of cookies and request ids.
    pub secret: [u64; 2],
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: 16_384,
            half_open: 4_096,
            headers: 1_024,
            header_limit: 8_192,
            header_ms: 10_000,
            idle_ms: 900_000,
            secret: [0; 2],
        }
    }
}

/// What an agent holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Connections, also half-open ones.
    pub connections: usize,
    /// Connections whose handshake is not complete.
    pub half_open: usize,
    /// Headers held.
    pub headers: usize,
    /// Bytes of memory that these take.
    pub bytes: usize,
}

const HALF_MS: u64 = 10_000;
/// How long a client may take from the cookie to its first byte and be told nothing.
const COOKIE_MS: u64 = 128_000;
const LINGER_MS: u64 = 30_000;
const ANSWER_MS: u64 = 1_000;
const SYN_MS: u64 = 1_000;
/// How often an answer is sent.
const ANSWERS: u8 = 5;
/// How often a backend is sent a SYN.
const SYNS: u8 = 2;

/// What all connections have in common.
pub(crate) struct Common {
    pub(crate) settings: Settings,
    pub(crate) blocks: Blocks,
    cookies: Cookies,
    answers: Vec<String>,
    learnt: Learnt,
    requests: u64,
    half_open: usize,
    /// Until then a client may have a cookie.
    cookies_until_ms: u64,
}

/// The agent of one worker, which gets all packets of its connections.
pub struct Agent {
    table: Table,
    common: Common,
    /// Where the walk over the connections goes on.
    walk: usize,
    walked_ms: u64,
}

impl Agent {
    /// An agent without connections.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let common = Common {
            settings,
            blocks: Blocks::new(settings.headers),
            cookies: Cookies::new(settings.secret),
            answers: Refusal::ALL.iter().map(|refusal| refusal.answer()).collect(),
            learnt: Learnt::default(),
            requests: 0,
            half_open: 0,
            cookies_until_ms: 0,
        };
        Self {
            table: Table::new(settings.connections, settings.secret[1]),
            common,
            walk: 0,
            walked_ms: 0,
        }
    }

    /// What the agent holds now.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let headers = self.common.blocks.used();
        Usage {
            connections: self.table.len(),
            half_open: self.common.half_open,
            headers,
            bytes: self.table.len() * size_of::<Conn>() + headers * BLOCK,
        }
    }

    /// Whether a packet with this 5-tuple comes from a backend of the agent's.
    #[must_use]
    pub fn expects(&self, key: &FlowKey) -> bool {
        self.table.of_backend(&[key.src(), key.dst()]).is_some()
    }

    /// The ends and the sequence number of a segment as its sender knows it, which left
    /// the agent towards the first of `answers` with this number. An ICMP error speaks of
    /// it, so its sender must know it again.
    #[must_use]
    pub fn sent_as(
        &self,
        answers: [SocketAddr; 2],
        sequence: u32,
    ) -> Option<([SocketAddr; 2], u32)> {
        if let Some(at) = self.table.of_backend(&answers) {
            let conn = self.table.peek(at)?;
            return Some(([conn.client(), conn.vip()], conn.edits.back(sequence, false)));
        }
        let conn = self.table.peek(self.table.of_client(&answers)?)?;
        let ends = [conn.backend?, conn.client()];
        Some((ends, sequence.wrapping_sub(conn.delta())))
    }

    /// Takes a client's packet to `service`; [`Headers::check`] has let it pass.
    pub fn from_client<B: PacketBuf>(
        &mut self,
        packet: B,
        headers: &Headers,
        service: ServiceId,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> Fate {
        let Some(got) = received(&packet, headers) else { return Fate::Malformed };
        let ends = [got.outline.src, got.outline.dst];
        let at = match self.table.of_client(&ends) {
            Some(at) => at,
            None => match self.first(&got, packet.bytes(), service, now_ms, world) {
                Some(at) => at,
                None if got.has(SYN) => return Fate::Taken,
                None if got.has(ACK) && got.data == got.end => return Fate::Taken,
                None => return Fate::Unknown,
            },
        };
        self.with(at, now_ms, world, |common, conn, world| {
            if got.has(SYN) {
                common.syn(conn, &got, packet.bytes(), now_ms, world);
                return Fate::Taken;
            }
            match conn.state {
                State::Open | State::Closing => {
                    common.client_data(conn, packet, headers, &got, now_ms, world)
                }
                State::Reset => {
                    common.reset_again(&got, world);
                    Fate::Taken
                }
                _ => {
                    common.before_open(conn, &got, packet.bytes(), now_ms, world);
                    Fate::Taken
                }
            }
        })
    }

    /// Takes a backend's packet; [`Headers::check`] has let it pass.
    pub fn from_backend<B: PacketBuf>(
        &mut self,
        packet: B,
        headers: &Headers,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> Fate {
        let Some(got) = received(&packet, headers) else { return Fate::Malformed };
        let Some(at) = self.table.of_backend(&[got.outline.src, got.outline.dst]) else {
            return Fate::Unknown;
        };
        self.with(at, now_ms, world, |common, conn, world| match conn.state {
            State::Connecting(_) => {
                common.backend_answers(conn, &got, packet.bytes(), now_ms, world);
                Fate::Taken
            }
            State::Open | State::Closing => {
                common.backend_data(conn, packet, headers, &got, now_ms, world)
            }
            State::Reset => {
                common.reset_again(&got, world);
                Fate::Taken
            }
            _ => Fate::Unknown,
        })
    }

    /// What has to happen without packets. Called about once a millisecond.
    pub fn tick<B: PacketBuf>(&mut self, now_ms: u64, world: &mut impl World<B>) {
        // A walk over all connections takes about a quarter of a second.
        let passed = now_ms.saturating_sub(self.walked_ms).min(256) as usize;
        self.walked_ms = now_ms;
        let slots = self.table.slots();
        for _ in 0..(slots * passed).div_ceil(256) {
            self.walk = if self.walk + 1 < slots { self.walk + 1 } else { 0 };
            if self.table.get(self.walk).is_some() {
                self.with(self.walk, now_ms, world, |common, conn, world| {
                    common.timers(conn, now_ms, world);
                    Fate::Taken
                });
            }
        }
    }

    /// Does something to a connection, and what follows for the tables.
    fn with<B: PacketBuf, W: World<B>>(
        &mut self,
        at: usize,
        now_ms: u64,
        world: &mut W,
        act: impl FnOnce(&mut Common, &mut Conn, &mut W) -> Fate,
    ) -> Fate {
        self.table.close(at, now_ms);
        let Some(conn) = self.table.get(at) else { return Fate::Unknown };
        let ends = |conn: &Conn| conn.backend.map(|backend| [backend, conn.client()]);
        let (old, was_half) = (ends(conn), conn.state == State::Half);
        let fate = act(&mut self.common, conn, world);
        if let Some(conn) = self.table.get(at).filter(|conn| conn.held) {
            self.common.go_on(conn, now_ms, world);
        }
        // Two VIPs may have the same backends, and their clients the same ports.
        loop {
            let Some(conn) = self.table.get(at) else { return fate };
            let new = ends(conn);
            match new {
                Some(taken) if old != new && self.table.is_taken(&taken, at) => {
                    let Some(conn) = self.table.get(at) else { return fate };
                    self.common.next_backend(conn, Refusal::BackendRefused, now_ms, world);
                }
                _ => break,
            }
        }
        let Some(conn) = self.table.get(at) else { return fate };
        let (new, state) = (ends(conn), conn.state);
        let begins = old != new && matches!(state, State::Connecting(_));
        if was_half && state != State::Half {
            self.common.half_open -= 1;
        }
        if begins {
            self.common.connect(conn, world);
        }
        self.table.follow(at, old, new);
        if state == State::Gone
            && let Some(mut conn) = self.table.remove(at)
        {
            conn.release(&mut self.common.blocks);
        }
        self.table.open(at);
        fate
    }

    /// A packet of no known connection: the connection that it begins.
    fn first<B: PacketBuf>(
        &mut self,
        got: &Received,
        frame: &[u8],
        service: ServiceId,
        now_ms: u64,
        world: &mut impl World<B>,
    ) -> Option<usize> {
        let common = &mut self.common;
        let (ends, isn) = ([got.outline.src, got.outline.dst], got.outline.sequence);
        if got.has(RST) {
            return None;
        }
        if got.has(SYN) {
            if got.has(ACK) {
                return None;
            }
            let conn = common.half(ends, service, got, frame, now_ms);
            let full = common.half_open >= common.settings.half_open;
            if full || self.table.len() >= common.settings.connections {
                world.count(Event::Cookie);
                common.cookies_until_ms = now_ms + COOKIE_MS;
                // A cookie holds no options; the clock's low bits do, if there is one.
                let clocked = conn.granted.timestamps;
                let granted = Offer {
                    mss: conn.granted.mss,
                    ..if clocked {
                        cookie_grant(&conn.offer, &conn.granted)
                    } else {
                        Offer::default()
                    }
                };
                common.syn_ack(&Conn { granted, ..conn }, world);
                return None;
            }
            common.half_open += 1;
            return self.table.insert(conn);
        }
        if got.data == got.end || !got.has(ACK) {
            return None;
        }
        let cookie = got.outline.acknowledgement.wrapping_sub(1);
        let isn = isn.wrapping_sub(1);
        let Some(mss) = common.cookies.check(ends, isn, cookie, now_ms) else {
            // A client with a cookie is not known before its first byte, and what overtakes
            // that byte looks as if it belonged to no connection.
            if now_ms >= common.cookies_until_ms {
                common.reset_unknown(got, world);
            }
            return None;
        };
        let mut conn = common.half(ends, service, got, frame, now_ms);
        (conn.isn, conn.cookie) = (isn, cookie);
        (conn.next, conn.received) = (isn.wrapping_add(1), isn.wrapping_add(1));
        conn.acked = cookie.wrapping_add(1);
        conn.offer = Offer { mss: Some(mss), ..Offer::default() };
        let mss = conn.granted.mss;
        conn.granted = Offer { mss, ..Offer::default() };
        if let Some(stamps) = got.stamps(frame) {
            let Kept { scale, sack, ecn } = Kept::of(stamps.echo);
            let kept = Offer { scale, sack, ecn, timestamps: true, mss: None };
            conn.offer = Offer { mss: conn.offer.mss, ..kept };
            conn.granted = Offer { mss, ..cookie_grant(&kept, &kept) };
            conn.clocks = Clocks::new(stamps.value, stamps.echo);
        }
        conn.become_(State::Front, now_ms);
        let at = self.table.insert(conn);
        world.count(if at.is_some() { Event::Opened } else { Event::NoRoom });
        at
    }
}

/// What is granted to a client whose options come back in its echo: it must be the same
/// then, whatever was learnt in between.
fn cookie_grant(offer: &Offer, granted: &Offer) -> Offer {
    let scale = offer.scale.map(|_| SCALE);
    Offer { scale, mss: granted.mss, ..*granted }
}

fn received<B: PacketBuf>(packet: &B, headers: &Headers) -> Option<Received> {
    if !is_plain(headers) {
        return None;
    }
    Received::parse(packet.bytes(), headers)
}

impl Common {
    fn half(
        &self,
        ends: [SocketAddr; 2],
        service: ServiceId,
        got: &Received,
        frame: &[u8],
        now_ms: u64,
    ) -> Conn {
        let Outline { sequence: isn, window, .. } = got.outline;
        let offer = Offer {
            // A SYN asks for ECN by both flags (RFC 3168 section 6.1.1).
            ecn: got.outline.flags & ECN == ECN,
            ..Offer::parse(got.options(frame))
        };
        let is_v4 = ends.iter().all(SocketAddr::is_ipv4);
        let link = if is_v4 { 1460 } else { 1440 };
        let granted = self.learnt.grant(service, &offer, link, now_ms);
        let kept = Kept { scale: offer.scale, sack: granted.sack, ecn: granted.ecn };
        let told = self.cookies.clock(ends, kept, now_ms);
        let client = got.stamps(frame).map_or(0, |stamps| stamps.value);
        let mss = offer.mss.unwrap_or(DEFAULT_MSS);
        let cookie = self.cookies.make(ends, isn, mss, now_ms);
        let next = isn.wrapping_add(1);
        Conn {
            ends,
            service,
            state: State::Half,
            since_ms: now_ms,
            seen_ms: now_ms,
            isn,
            cookie,
            offer,
            granted,
            first_window: window,
            window,
            acked: cookie.wrapping_add(1),
            next,
            server_window: None,
            received: next,
            owned: None,
            repeated_ms: now_ms,
            body: 0,
            reading: Reading::Header,
            block: None,
            edits: Edits::default(),
            backend: None,
            tried: Default::default(),
            keeps: true,
            fresh: true,
            held: false,
            instead: None,
            responses: Responses::default(),
            response_next: 0,
            server_isn: 0,
            server: Offer::default(),
            clocks: Clocks::new(client, told),
            congestion: 0,
            ended: [false; 2],
        }
    }

    /// Makes and sends a packet.
    pub(crate) fn make<B: PacketBuf>(
        outline: &Outline,
        options: &[u8],
        data: &[u8],
        world: &mut impl World<B>,
    ) {
        let length = segment::frame_length(outline, options.len(), data.len());
        let made = world.fresh(length).and_then(|mut packet| {
            segment::emit(&mut packet, outline, options, data).map(|()| packet)
        });
        match made {
            Some(packet) => {
                world.count(Event::Made);
                world.send(packet, outline.dst.ip());
            }
            None => world.count(Event::NoRoom),
        }
    }

    fn to_client(conn: &Conn, sequence: u32, flags: u8) -> Outline {
        Outline {
            src: conn.vip(),
            dst: conn.client(),
            sequence,
            acknowledgement: conn.next,
            flags,
            window: conn.own_window(flags & SYN != 0),
        }
    }

    fn syn_ack<B: PacketBuf>(&self, conn: &Conn, world: &mut impl World<B>) {
        let ecn = if conn.granted.ecn { ECE } else { 0 };
        let outline = Self::to_client(conn, conn.cookie, SYN | ACK | ecn);
        Self::make(&outline, &conn.granted.emit(conn.clocks.for_client()), &[], world);
    }

    /// A RST for a segment of no connection (RFC 9293 section 3.10.7.1).
    fn reset_unknown<B: PacketBuf>(&self, got: &Received, world: &mut impl World<B>) {
        let Outline { src, dst, acknowledgement, .. } = got.outline;
        Self::make(&Outline::reset(dst, src, acknowledgement), &[], &[], world);
    }

    /// A segment on a connection that the agent has reset: its sender has not heard of it.
    fn reset_again<B: PacketBuf>(&self, got: &Received, world: &mut impl World<B>) {
        if got.has(ACK) && !got.has(RST) {
            self.reset_unknown(got, world);
        }
    }

    /// A SYN on a known connection.
    fn syn<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        got: &Received,
        frame: &[u8],
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        if got.has(ACK | RST | FIN) {
            return;
        }
        let isn = got.outline.sequence;
        match conn.state {
            State::Half if isn == conn.isn => self.syn_ack(conn, world),
            State::Half | State::Answered | State::Closing | State::Reset => {
                if conn.state != State::Half {
                    self.half_open += 1;
                }
                conn.release(&mut self.blocks);
                *conn = self.half(conn.ends, conn.service, got, frame, now_ms);
                self.syn_ack(conn, world);
            }
            // A client that has forgotten the connection answers by a RST (RFC 5961).
            _ => {
                let outline = Self::to_client(conn, conn.acked, ACK);
                Self::make(&outline, &conn.options_to_client(), &[], world);
            }
        }
    }

    /// A client's segment while there is no connection to a backend.
    fn before_open<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        got: &Received,
        frame: &[u8],
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let data = got.data(frame);
        let Outline { sequence, acknowledgement, window, .. } = got.outline;
        conn.see_client(got, frame);
        if got.has(RST) {
            // Only the exact number counts (RFC 5961 section 3.2).
            if sequence == conn.next || sequence == conn.limit() {
                self.reset_backend(conn, world);
                conn.become_(State::Gone, now_ms);
            }
            return;
        }
        let good = acknowledgement == conn.cookie.wrapping_add(1);
        conn.window = window;
        match conn.state {
            State::Half if good => {
                conn.become_(State::Front, now_ms);
                world.count(Event::Opened);
            }
            State::Half => return self.reset_unknown(got, world),
            State::Answering(_) | State::Answered => {
                return self.after_answer(conn, got, data, now_ms, world);
            }
            _ if !good => return,
            _ => {}
        }
        conn.seen_ms = now_ms;
        let skip = conn.next.wrapping_sub(sequence) as usize;
        let fresh = data.get(skip..).unwrap_or_default();
        let ends = got.has(FIN) && sequence.wrapping_add(data.len() as u32) == conn.next;
        if ends && conn.state == State::Front && fresh.is_empty() {
            // The client has nothing to ask.
            let outline = Self::to_client(conn, conn.cookie.wrapping_add(1), RST | ACK);
            Self::make(&outline, &[], &[], world);
            return conn.become_(State::Gone, now_ms);
        }
        if fresh.is_empty() {
            if conn.state == State::Front && !data.is_empty() && skip <= BLOCK {
                self.own(conn, now_ms, world);
            }
            return;
        }
        if !self.gather(conn, fresh, FIRST_FLIGHT) {
            return world.count(Event::NoRoom);
        }
        if conn.state == State::Front {
            if conn.block.as_ref().is_some_and(|block| block.len() == fresh.len()) {
                conn.since_ms = now_ms;
            }
            self.route(conn, Refusal::NoBackend, now_ms, world);
        }
    }

    /// Acknowledges the bytes of a header that is not whole. The client has repeated some
    /// of them, and may send nothing else before it hears of them: after a timeout a host
    /// sends one segment, which the agent has already. From now on it is the agent that
    /// repeats them to the backend.
    pub(crate) fn own<B: PacketBuf>(
        &self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        world.count(Event::Owned);
        (conn.owned, conn.repeated_ms) = (Some(conn.next), now_ms);
        let outline = Self::to_client(conn, conn.acked, ACK);
        Self::make(&outline, &conn.options_to_client(), &[], world);
    }

    /// Keeps bytes of a header. `false`: there is no block.
    pub(crate) fn gather(&mut self, conn: &mut Conn, bytes: &[u8], limit: usize) -> bool {
        if conn.block.is_none() {
            conn.block = self.blocks.get();
        }
        let Some(block) = &mut conn.block else { return false };
        conn.next = conn.next.wrapping_add(block.take(bytes, limit) as u32);
        true
    }

    /// Acknowledges a backend's SYN-ACK by itself.
    pub(crate) fn acknowledge<B: PacketBuf>(&self, conn: &Conn, world: &mut impl World<B>) {
        if let Some(outline) = conn.to_backend(conn.limit(), ACK) {
            Self::make(&outline, &conn.options_to_backend(), &[], world);
        }
    }

    /// What is due without a packet.
    fn timers<B: PacketBuf>(&mut self, conn: &mut Conn, now_ms: u64, world: &mut impl World<B>) {
        let age = now_ms.saturating_sub(conn.since_ms);
        let silent = now_ms.saturating_sub(conn.seen_ms.max(conn.since_ms));
        match conn.state {
            State::Half if age >= HALF_MS => conn.become_(State::Gone, now_ms),
            State::Front if age >= self.settings.header_ms => match &conn.block {
                Some(_) => self.answer(conn, Refusal::Slow, now_ms, world),
                None if age >= self.settings.idle_ms.min(60_000) => {
                    conn.become_(State::Gone, now_ms);
                }
                None => {}
            },
            State::Connecting(sent) if age >= SYN_MS * u64::from(sent) => {
                if sent < SYNS {
                    self.connect(conn, world);
                } else {
                    self.reset_backend(conn, world);
                    self.next_backend(conn, Refusal::BackendSilent, now_ms, world);
                }
            }
            State::Answering(sent) if age >= ANSWER_MS => {
                if sent < ANSWERS {
                    self.send_answer(conn, now_ms, world);
                } else {
                    conn.become_(State::Gone, now_ms);
                }
            }
            State::Answered | State::Closing | State::Reset if silent >= LINGER_MS => {
                conn.become_(State::Gone, now_ms);
            }
            State::Open if silent >= self.settings.idle_ms => conn.become_(State::Gone, now_ms),
            State::Open => self.repeat_owned(conn, now_ms, world),
            _ => {}
        }
    }

    /// The header of the first request in the block, as the backend gets it, with those
    /// bytes of its body that are there. Returns how many of the client's bytes that is.
    ///
    /// # Errors
    /// The header is not whole (`None`), or can't be passed on.
    pub(crate) fn translate(
        &mut self,
        conn: &mut Conn,
        raw: &[u8],
        out: &mut crate::blocks::Block,
    ) -> Result<usize, Option<Refusal>> {
        let mut request = Request::parse(raw).map_err(Some)?.ok_or(None)?;
        // The answer must be found, and nothing be read until it comes: otherwise the backend
        // is not asked to change the protocol (RFC 9110 section 7.8).
        let is_alone = matches!(request.body, Body::Length(0)) && raw.len() == request.length;
        request.upgrades &= (conn.fresh || !conn.keeps) && is_alone;
        conn.keeps &= !request.upgrades;
        self.requests += 1;
        let id = self.cookies.number(conn.ends, self.requests);
        let added = Additions { client: conn.client(), id };
        forwarding::write(out, &request, &added).ok_or(Some(Refusal::TooLong))?;
        let rest = raw.get(request.length..).unwrap_or_default();
        let taken = conn.enter(&request, rest).map_err(|_| Some(Refusal::Coding))?;
        let body = rest.get(..taken).unwrap_or_default();
        out.push(body).ok_or(Some(Refusal::TooLong))?;
        if !conn.keeps {
            conn.responses.ask(request.method == "HEAD", request.upgrades);
        }
        conn.fresh = false;
        Ok(request.length + taken)
    }
}
