//! The agent: packets and time in, packets out.
mod answering;
mod fronting;
mod hellos;
mod lending;
mod logging;
mod making;
mod opening;
mod passing;
mod pressure;
mod switching;
mod timing;
mod unread;

pub use passing::Passing;

use flow::ServiceId;
use packet::PacketBuf;
use std::net::SocketAddr;
use wire::{FlowKey, Headers};

use crate::agent::pressure::Orders;
use crate::blocks::{BLOCK, Blocks, SMALL};
use crate::clocks::Clocks;
use crate::connection::{Conn, State};
use crate::cookie::{Cookies, Kept};
use crate::known_clocks::KnownClocks;
use crate::learnt::{Learnt, SCALE};
use crate::options::Offer;
use crate::record::ABORTED;
use crate::records::Records;
use crate::refusal::Refusal;
use crate::segment::{ACK, RST, Received, SYN, is_plain};
use crate::settings::{Settings, Usage};
use crate::table::Table;
use crate::world::{Event, Fate, Speaks, World};

/// How long a client may take from the cookie to its first byte and be told nothing.
const COOKIE_MS: u64 = 128_000;

/// Connections that are lent to a card at once.
const MOST_LENT: usize = 4096;

/// What all connections have in common.
pub(crate) struct Common {
    pub(crate) settings: Settings,
    pub(crate) blocks: Blocks,
    pub(crate) records: Records,
    pub(crate) cookies: Cookies,
    pub(crate) answers: Vec<String>,
    pub(crate) learnt: Learnt,
    clocks: KnownClocks,
    pub(crate) requests: u64,
    pub(crate) half_open: usize,
    /// Until then a client may have a cookie.
    cookies_until_ms: u64,
}

/// The agent of one worker, which gets all packets of its connections.
pub struct Agent {
    table: Table,
    common: Common,
    orders: Orders,
    /// Where the walk over the connections goes on.
    walk: usize,
    walked_ms: u64,
    /// Connections that are lent to a card, or have been, and which of them had its turn last.
    lent: Vec<u32>,
    watched: usize,
}

impl Agent {
    /// An agent without connections.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let common = Common {
            settings,
            blocks: Blocks::new(settings.headers, settings.connections),
            records: Records::new(settings.records),
            cookies: Cookies::new(settings.secret),
            answers: Refusal::ALL.iter().map(|refusal| refusal.answer()).collect(),
            learnt: Learnt::default(),
            clocks: KnownClocks::new(settings.secret[0]),
            requests: 0,
            half_open: 0,
            cookies_until_ms: 0,
        };
        Self {
            table: Table::new(settings.connections, settings.secret[1]),
            common,
            orders: Orders::new(&settings),
            walk: 0,
            walked_ms: 0,
            lent: Vec::with_capacity(MOST_LENT.min(settings.connections)),
            watched: 0,
        }
    }

    /// What the agent holds now.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let connections = self.table.len();
        let [headers, short_headers] = self.common.blocks.used();
        Usage {
            connections,
            half_open: self.common.half_open,
            idle: self.orders.idle(),
            headers,
            short_headers,
            bytes: connections * Table::BYTES + headers * BLOCK + short_headers * SMALL,
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
        Some((ends, conn.to_server(sequence, false)))
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
                // It is only still there for a card.
                State::Gone => Fate::Taken,
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
                let fate = common.backend_data(conn, packet, headers, &got, now_ms, world);
                common.log_passed(conn, &got, now_ms, world);
                fate
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
        self.watch_lent(now_ms, world);
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

    /// Does something to a connection that may need memory, and what follows for the tables.
    fn with<B: PacketBuf, W: World<B>>(
        &mut self,
        at: usize,
        now_ms: u64,
        world: &mut W,
        act: impl FnOnce(&mut Common, &mut Conn, &mut W) -> Fate,
    ) -> Fate {
        self.make_room(now_ms, world);
        self.act(at, now_ms, world, act)
    }

    /// Does something to a connection, and what follows for the tables.
    fn act<B: PacketBuf, W: World<B>>(
        &mut self,
        at: usize,
        now_ms: u64,
        world: &mut W,
        act: impl FnOnce(&mut Common, &mut Conn, &mut W) -> Fate,
    ) -> Fate {
        self.table.close(at, now_ms);
        let Some(conn) = self.table.get(at) else { return Fate::Unknown };
        let ends = |conn: &Conn| conn.backend.map(|backend| [backend, conn.client()]);
        let (old, was_half, load) = (ends(conn), conn.state == State::Half, conn.load());
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
        conn.log_end = self.common.records.next_end(conn.records);
        let (new, state) = (ends(conn), conn.state);
        let begins = old != new && matches!(state, State::Connecting(_));
        if was_half && state != State::Half {
            self.common.half_open -= 1;
        }
        if load != conn.load() {
            self.common.log_all(conn, ABORTED, now_ms, world);
            load.into_iter().for_each(|backend| world.left(backend));
            conn.load().into_iter().for_each(|backend| world.joined(backend));
        }
        if begins {
            self.common.connect(conn, world);
        }
        if state == State::Gone {
            conn.release(&mut self.common.blocks);
        }
        // The ends of a connection of which a card may still have a rule are not free.
        let ends = state == State::Gone && Common::release(conn, world);
        self.table.follow(at, old, new);
        if ends && let Some(mut conn) = self.table.remove(at) {
            conn.release(&mut self.common.blocks);
            self.orders.forget(at);
        } else if let Some(conn) = self.table.peek(at) {
            self.orders.follow(at, conn);
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
        let speaks = world.speaks(service);
        if got.has(SYN) {
            if got.has(ACK) {
                return None;
            }
            let conn = common.half(ends, service, speaks, got, frame, now_ms);
            if common.has_all_half_open() || self.table.len() >= common.settings.connections {
                common.answer_by_cookie(conn, now_ms, world);
                return None;
            }
            common.half_open += 1;
            return self.table.insert(conn);
        }
        // Of a server that speaks first the client has nothing but an ACK.
        if !got.has(ACK) || (got.data == got.end && speaks != Speaks::Any) {
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
        let mut conn = common.half(ends, service, speaks, got, frame, now_ms);
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
            (conn.clocks, conn.learnt) = (Clocks::new(stamps.value, stamps.echo), false);
        }
        conn.become_(State::Front, now_ms);
        self.make_place(now_ms, world);
        let at = self.table.insert(conn);
        world.count(if at.is_some() { Event::Opened } else { Event::NoRoom });
        at
    }
}

impl Common {
    /// Whether no more half-open connections are kept.
    const fn has_all_half_open(&self) -> bool {
        self.half_open >= self.settings.half_open
    }

    /// Answers the SYN that `conn` begins with by a cookie: nothing of it is kept.
    fn answer_by_cookie<B: PacketBuf>(
        &mut self,
        conn: Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        world.count(Event::Cookie);
        self.cookies_until_ms = now_ms + COOKIE_MS;
        // A cookie holds no options; the clock's low bits do, if there is one.
        let clocked = conn.granted.timestamps;
        let granted = Offer {
            mss: conn.granted.mss,
            ..if clocked { cookie_grant(&conn.offer, &conn.granted) } else { Offer::default() }
        };
        self.syn_ack(&Conn { granted, ..conn }, world);
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
