//! One client's connection: the handshake, then requests one after the other.
use std::net::SocketAddr;
use std::sync::Arc;

use flow::ServiceId;
use splice::{Additions, Inquiry, Refusal, Request, forwarded_header};

use crate::common::Common;
use crate::endpoint::{Endpoint, Stage};
use crate::event::Event;
use crate::exchange::{Client, Exchange, Step};
use crate::secured::Secured;
use crate::stack::Stack;
use crate::upstream::Upstream;
use crate::world::{Route, Terms, World};

/// Backends that are tried for one request, at most.
const TRIES: usize = 3;

/// What a connection is at.
enum State {
    /// TCP's and TLS' handshakes.
    Handshake,
    /// The header of the next request.
    Header,
    /// A request, of which this is the header as the client sent it.
    Exchange(Box<Exchange>, Vec<u8>),
    /// The service's own answer, behind which the connection ends.
    Answer(Vec<u8>),
    /// The end.
    Closing,
}

/// A client's connection.
pub(crate) struct Connection {
    pub(crate) ends: [SocketAddr; 2],
    service: ServiceId,
    /// What the pool of handshakes knows it by.
    pub(crate) id: u64,
    terms: Arc<Terms>,
    secured: Secured<Stack>,
    pub(crate) upstream: Option<Upstream>,
    state: State,
    /// Backends that did not take the present request.
    tried: Vec<SocketAddr>,
    /// When the present state began.
    since_ms: u64,
    /// When something last moved.
    moved_ms: u64,
}

impl<E: Endpoint> Client for Secured<E> {
    fn plain(&self) -> &[u8] {
        Self::plain(self)
    }
    fn consume(&mut self, n: usize) {
        Self::consume(self, n);
    }
    fn has_ended(&self) -> bool {
        Self::has_ended(self)
    }
    fn room(&self) -> usize {
        Self::room(self)
    }
    fn write(&mut self, bytes: &[u8]) -> Option<()> {
        Self::write(self, bytes)
    }
}

impl Connection {
    /// The connection of a client whose SYN comes next; `None`: its service can't have it.
    pub(crate) fn new(
        ends: [SocketAddr; 2],
        service: ServiceId,
        id: u64,
        terms: Arc<Terms>,
        common: &mut Common,
        now_ms: u64,
    ) -> Option<Self> {
        let settings = common.settings;
        let tcp = Stack::listen(ends[1], settings.client, settings.mtu, common.number())?;
        let secured = Secured::new(tcp, &terms.tls)?;
        Some(Self {
            ends,
            service,
            id,
            terms,
            secured,
            upstream: None,
            state: State::Handshake,
            tried: Vec::new(),
            since_ms: now_ms,
            moved_ms: now_ms,
        })
    }

    /// The client's end.
    pub(crate) fn client(&mut self) -> &mut Stack {
        &mut self.secured.tcp
    }

    /// Whether the client has not yet acknowledged the SYN-ACK.
    pub(crate) fn is_half_open(&self) -> bool {
        self.secured.tcp.stage() == Stage::Opening
    }

    /// Whether nothing is left of it.
    pub(crate) fn is_gone(&self) -> bool {
        self.secured.tcp.stage() == Stage::Closed
    }

    /// Takes a handshake back from the pool.
    pub(crate) fn finished(
        &mut self,
        finished: tls::Finished,
        now_ms: u64,
        world: &mut impl World,
    ) {
        let Some(event) = self.secured.finished(finished) else { return };
        world.count(event);
        let next = if self.secured.is_open() { State::Header } else { State::Closing };
        self.enter(next, now_ms);
    }

    /// Does all that can be done now.
    pub(crate) fn run(&mut self, common: &mut Common, now_ms: u64, world: &mut impl World) {
        loop {
            self.secured.tcp.poll(now_ms);
            if let Some(upstream) = &mut self.upstream {
                upstream.tcp.poll(now_ms);
            }
            if !self.turn(common, now_ms, world) {
                break;
            }
            self.moved_ms = now_ms;
        }
        self.time(common, now_ms, world);
        if self.is_gone() {
            self.retire(common, now_ms, world);
        }
        while let Some(packet) = self.secured.tcp.outgoing() {
            world.send(packet, self.ends[0].ip());
        }
        if let Some(upstream) = &mut self.upstream {
            while let Some(packet) = upstream.tcp.outgoing() {
                world.send(packet, upstream.backend.ip());
            }
        }
    }

    /// When [`Connection::run`] is due again without a packet.
    pub(crate) fn due_ms(&mut self, common: &Common, now_ms: u64) -> u64 {
        let settings = &common.settings;
        let own = match &self.state {
            State::Handshake => self.since_ms + settings.handshake_ms,
            State::Header if self.secured.plain().is_empty() => {
                self.moved_ms + settings.keep_alive_ms
            }
            State::Header => self.since_ms + settings.header_ms,
            State::Exchange(..) => match &self.upstream {
                Some(upstream) if upstream.tcp.stage() == Stage::Opening => {
                    upstream.opened_ms + settings.connect_ms
                }
                _ => self.moved_ms + settings.idle_ms,
            },
            State::Answer(_) => self.moved_ms + settings.idle_ms,
            State::Closing => self.since_ms + settings.linger_ms,
        };
        let backend = self.upstream.as_mut().and_then(|own| own.tcp.due_ms(now_ms));
        let tcp = [self.secured.tcp.due_ms(now_ms), backend].into_iter().flatten();
        tcp.fold(own, u64::min)
    }

    fn enter(&mut self, state: State, now_ms: u64) {
        (self.state, self.since_ms, self.moved_ms) = (state, now_ms, now_ms);
    }

    /// One step of everything; whether something moved.
    fn turn(&mut self, common: &mut Common, now_ms: u64, world: &mut impl World) -> bool {
        let mut moved = self.handshake(world);
        let (pumped, event) = self.secured.pump();
        moved |= pumped;
        if let Some(event) = event {
            world.count(event);
            self.retire(common, now_ms, world);
            self.enter(State::Closing, now_ms);
        }
        match std::mem::replace(&mut self.state, State::Closing) {
            State::Handshake => self.state = State::Handshake,
            State::Header => {
                self.state = State::Header;
                moved |= self.header(common, now_ms, world);
            }
            State::Exchange(exchange, raw) => {
                moved |= self.exchange(exchange, raw, common, now_ms, world);
            }
            State::Answer(answer) => moved |= self.answer(answer, now_ms),
            State::Closing => {
                // The client may not have read the end yet, and still send a body.
                let length = self.secured.plain().len();
                self.secured.consume(length);
                moved |= length > 0;
            }
        }
        moved
    }

    fn handshake(&mut self, world: &mut impl World) -> bool {
        let of = (self.id, self.service.0.into(), self.ends[0].ip());
        let Some(started) = self.secured.handshake(of) else { return false };
        if world.start(started).is_err() {
            world.count(Event::HandshakeRefused);
            self.secured.tcp.abort();
        }
        true
    }

    /// Reads the header of the next request.
    fn header(&mut self, common: &mut Common, now_ms: u64, world: &mut impl World) -> bool {
        let plain = self.secured.plain();
        if plain.is_empty() {
            if self.secured.has_ended() {
                self.retire(common, now_ms, world);
                self.secured.close();
                self.enter(State::Closing, now_ms);
                return true;
            }
            self.since_ms = now_ms;
            return false;
        }
        let limit = common.settings.header_limit;
        let read = Request::parse(plain).map(|found| found.map(|request| request.length));
        let length = match read {
            Ok(Some(length)) if length <= limit => length,
            Ok(None) if plain.len() <= limit => {
                let ended = self.secured.has_ended();
                if ended {
                    self.retire(common, now_ms, world);
                    self.secured.tcp.abort();
                    self.enter(State::Closing, now_ms);
                }
                return ended;
            }
            Ok(_) => return self.refuse(Refusal::TooLong, common, now_ms, world),
            Err(refusal) => return self.refuse(refusal, common, now_ms, world),
        };
        let raw = plain.get(..length).unwrap_or_default().to_vec();
        self.secured.consume(raw.len());
        self.tried.clear();
        self.begin(raw, common, now_ms, world);
        true
    }

    /// Sends a request on its way.
    fn begin(&mut self, raw: Vec<u8>, common: &mut Common, now_ms: u64, world: &mut impl World) {
        let Ok(Some(request)) = Request::parse(&raw) else {
            self.refuse(Refusal::RequestLine, common, now_ms, world);
            return;
        };
        let kept = self.upstream.as_mut().filter(|own| own.is_usable()).map(|own| own.backend);
        let inquiry = Inquiry { service: self.service, ends: self.ends, tried: &self.tried, kept };
        let backend = match world.route(&inquiry, &request) {
            Ok(Route::Backend(backend)) => backend,
            Ok(Route::Answer(answer, status)) => {
                world.count(Event::Answered(status));
                self.retire(common, now_ms, world);
                return self.enter(State::Answer(answer), now_ms);
            }
            Err(refusal) => {
                self.refuse(refusal, common, now_ms, world);
                return;
            }
        };
        let added = Additions { client: self.ends[0], scheme: "https", id: common.number() };
        let Some(head) = forwarded_header(&request, &added) else {
            self.refuse(Refusal::TooLong, common, now_ms, world);
            return;
        };
        if kept != Some(backend) {
            self.retire(common, now_ms, world);
            self.upstream = common.connect(self.ends[0], backend, now_ms, world);
            if self.upstream.is_none() {
                world.count(Event::NoRoom);
                self.refuse(Refusal::NoBackend, common, now_ms, world);
                return;
            }
        }
        let exchange = Box::new(Exchange::new(&request, head));
        drop(request);
        world.count(Event::Request);
        self.enter(State::Exchange(exchange, raw), now_ms);
    }

    /// Goes on with a request.
    fn exchange(
        &mut self,
        mut exchange: Box<Exchange>,
        raw: Vec<u8>,
        common: &mut Common,
        now_ms: u64,
        world: &mut impl World,
    ) -> bool {
        let Self { secured, upstream, terms, .. } = self;
        let step = match upstream {
            Some(upstream) => match upstream.tcp.stage() {
                Stage::Opening => Step::Wait,
                _ if !upstream.tcp.has_opened() => {
                    self.next_backend(raw, Refusal::BackendRefused, common, now_ms, world);
                    return true;
                }
                _ => exchange.step(secured, &mut upstream.tcp, terms.hsts.as_deref()),
            },
            None => Step::Failed,
        };
        match step {
            Step::Wait | Step::Moved => self.state = State::Exchange(exchange, raw),
            Step::Done { keeps, reusable } => {
                match &mut self.upstream {
                    Some(upstream) if reusable => upstream.is_used = true,
                    _ => self.retire(common, now_ms, world),
                }
                if keeps {
                    self.enter(State::Header, now_ms);
                } else {
                    self.secured.close();
                    self.enter(State::Closing, now_ms);
                }
            }
            Step::Failed => {
                let was_used = self.upstream.as_ref().is_some_and(|own| own.is_used);
                self.retire(common, now_ms, world);
                // The backend may have ended the connection while the request was on its
                // way; a request that changes nothing is repeated (RFC 9112 section 9.3.1).
                if was_used && exchange.is_repeatable() && is_safe(&raw) {
                    self.begin(raw, common, now_ms, world);
                } else {
                    world.count(Event::BadResponse);
                    self.refuse(Refusal::BackendRefused, common, now_ms, world);
                }
            }
            Step::Broken => {
                world.count(Event::BadResponse);
                self.retire(common, now_ms, world);
                self.secured.tcp.abort();
                self.enter(State::Closing, now_ms);
            }
            Step::Bad(refusal) => {
                self.refuse(refusal, common, now_ms, world);
            }
        }
        !matches!(step, Step::Wait)
    }

    /// Tries another backend.
    fn next_backend(
        &mut self,
        raw: Vec<u8>,
        why: Refusal,
        common: &mut Common,
        now_ms: u64,
        world: &mut impl World,
    ) {
        world.count(Event::BackendFailed);
        self.tried.extend(self.upstream.as_ref().map(|own| own.backend));
        self.retire(common, now_ms, world);
        if self.tried.len() >= TRIES {
            self.refuse(why, common, now_ms, world);
            return;
        }
        self.begin(raw, common, now_ms, world);
        // With no other backend, what the last one did is the reason.
        if let State::Answer(answer) = &mut self.state
            && answer.starts_with(b"HTTP/1.1 503")
        {
            *answer = why.answer().into_bytes();
        }
    }

    /// Answers with an error, behind which the connection ends.
    fn refuse(
        &mut self,
        refusal: Refusal,
        common: &mut Common,
        now_ms: u64,
        world: &mut impl World,
    ) -> bool {
        world.count(Event::Refused(refusal));
        self.retire(common, now_ms, world);
        self.enter(State::Answer(refusal.answer().into_bytes()), now_ms);
        true
    }

    /// Writes an answer.
    fn answer(&mut self, mut answer: Vec<u8>, now_ms: u64) -> bool {
        let length = self.secured.room().min(answer.len());
        if length > 0 && self.secured.write(answer.get(..length).unwrap_or_default()).is_none() {
            self.secured.tcp.abort();
        }
        answer.drain(..length);
        if answer.is_empty() {
            self.secured.close();
            self.enter(State::Closing, now_ms);
            return true;
        }
        self.state = State::Answer(answer);
        length > 0
    }

    /// What the time brings.
    fn time(&mut self, common: &mut Common, now_ms: u64, world: &mut impl World) {
        let settings = common.settings;
        let since = now_ms.saturating_sub(self.since_ms);
        let silent = now_ms.saturating_sub(self.moved_ms);
        match std::mem::replace(&mut self.state, State::Closing) {
            State::Handshake if since >= settings.handshake_ms => {
                world.count(Event::HandshakeSlow);
                self.secured.tcp.abort();
            }
            State::Header
                if self.secured.plain().is_empty() && silent >= settings.keep_alive_ms =>
            {
                self.secured.close();
                self.enter(State::Closing, now_ms);
            }
            State::Header if !self.secured.plain().is_empty() && since >= settings.header_ms => {
                self.refuse(Refusal::Slow, common, now_ms, world);
            }
            State::Exchange(_, raw) if self.is_backend_silent(settings.connect_ms, now_ms) => {
                self.next_backend(raw, Refusal::BackendSilent, common, now_ms, world);
            }
            State::Exchange(..) | State::Answer(_) if silent >= settings.idle_ms => {
                world.count(Event::Idle);
                self.secured.tcp.abort();
            }
            State::Closing if since >= settings.linger_ms => self.secured.tcp.abort(),
            state => {
                self.state = state;
                return;
            }
        }
        self.secured.pump();
        self.secured.tcp.poll(now_ms);
        if let Some(upstream) = &mut self.upstream {
            upstream.tcp.poll(now_ms);
        }
    }

    fn is_backend_silent(&self, connect_ms: u64, now_ms: u64) -> bool {
        self.upstream.as_ref().is_some_and(|own| {
            own.tcp.stage() == Stage::Opening && now_ms.saturating_sub(own.opened_ms) >= connect_ms
        })
    }

    /// Gives up the connection to the backend.
    pub(crate) fn retire(&mut self, common: &mut Common, now_ms: u64, world: &mut impl World) {
        if let Some(upstream) = self.upstream.take() {
            common.disconnect(upstream, now_ms, world);
        }
    }

    /// Resets the client's connection and gives up the backend's.
    pub(crate) fn drop_out(&mut self, common: &mut Common, now_ms: u64, world: &mut impl World) {
        self.retire(common, now_ms, world);
        self.secured.tcp.abort();
        self.secured.tcp.poll(now_ms);
        while let Some(packet) = self.secured.tcp.outgoing() {
            world.send(packet, self.ends[0].ip());
        }
    }
}

/// Whether a request changes nothing (RFC 9110 section 9.2.1).
fn is_safe(raw: &[u8]) -> bool {
    let raw = raw.trim_ascii_start();
    [&b"GET "[..], b"HEAD ", b"OPTIONS "].into_iter().any(|own| raw.starts_with(own))
}
