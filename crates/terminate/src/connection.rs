//! One client's connection: the handshake, then requests in the protocol agreed upon.
use std::net::SocketAddr;
use std::sync::Arc;

use flow::ServiceId;
use splice::NamedValue;

use crate::common::{Common, send_to};
use crate::endpoint::{Endpoint, Stage};
use crate::errand::{Scene, Who};
use crate::event::Event;
use crate::exchange::Client;
use crate::http1::Http1;
use crate::http2::Http2;
use crate::identity;
use crate::pipe::Pipe;
use crate::secured::Secured;
use crate::settings::Settings;
use crate::stack::Stack;
use crate::upstream::{Upstream, Upstreams};
use crate::world::{Carries, Terms, World};

/// What a connection is at.
enum State {
    /// TCP's and TLS' handshakes.
    Handshake,
    /// Requests one after the other.
    Http1(Http1),
    /// Requests beside each other.
    Http2(Box<Http2>),
    /// Bytes that are not read.
    Pipe(Box<Pipe>),
    /// The end.
    Closing,
}

/// How the requests of a connection go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing can be done before something else happens.
    Wait,
    /// Something was done.
    Moved,
    /// The connection ends behind what was written.
    Close,
    /// The connection can't go on.
    Abort,
}

/// A client's connection.
pub(crate) struct Connection {
    pub(crate) ends: [SocketAddr; 2],
    service: ServiceId,
    /// What the pool of handshakes knows it by.
    pub(crate) id: u64,
    terms: Arc<Terms>,
    secured: Secured<Stack>,
    upstreams: Upstreams,
    /// The fields that say who the client is.
    identity: Arc<[NamedValue]>,
    state: State,
    /// When the present state began; of the end when the client last took something.
    since_ms: u64,
    /// What the client has not yet acknowledged at the end.
    left: usize,
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
        let sizes = [settings.client, settings.client_most];
        let buffers = common.sockets.share(sizes, settings.memory);
        let (mtu, seed) = (common.paths.mtu(ends[0].ip(), settings.mtu, now_ms), common.number());
        let tcp = Stack::listen_with(&common.sockets, ends[1], buffers, mtu, seed)?;
        let secured = Secured::new(tcp, &terms.tls)?;
        Some(Self {
            ends,
            service,
            id,
            terms,
            secured,
            upstreams: Upstreams::new(1),
            identity: Arc::default(),
            state: State::Handshake,
            since_ms: now_ms,
            left: 0,
        })
    }

    /// The client's end.
    pub(crate) fn client(&mut self) -> &mut Stack {
        &mut self.secured.tcp
    }

    /// The connection to `backend` from our end `local`.
    pub(crate) fn upstream(&mut self, [backend, local]: [SocketAddr; 2]) -> Option<&mut Upstream> {
        let busy: Box<dyn Iterator<Item = &mut Upstream>> = match &mut self.state {
            State::Http1(http) => Box::new(http.upstream().into_iter()),
            State::Http2(http) => Box::new(http.upstreams()),
            State::Pipe(pipe) => Box::new(pipe.upstream().into_iter()),
            State::Handshake | State::Closing => Box::new(std::iter::empty()),
        };
        let mut all = busy.chain(self.upstreams.iter_mut());
        all.find(|own| own.backend == backend && own.local == local)
    }

    /// A router says that the segment `sequence` between `ends` was longer than the path takes.
    pub(crate) fn shorten(&mut self, ends: [SocketAddr; 2], longest: usize, sequence: u32) -> bool {
        if ends == self.ends {
            return self.secured.tcp.shorten(longest, sequence);
        }
        self.upstream(ends).is_some_and(|own| own.link.shorten(longest, sequence))
    }

    /// Whether the client has not yet acknowledged the SYN-ACK.
    pub(crate) fn is_half_open(&self) -> bool {
        self.secured.tcp.stage() == Stage::Opening
    }

    /// Whether nothing is left of it.
    pub(crate) fn is_gone(&self) -> bool {
        let tcp = &self.secured.tcp;
        match &self.state {
            State::Pipe(pipe) if !tcp.is_reset() && pipe.lacks() => false,
            _ => tcp.stage() == Stage::Closed,
        }
    }

    /// Takes a handshake back from the pool.
    pub(crate) fn finished(
        &mut self,
        finished: tls::Finished,
        settings: &Settings,
        now_ms: u64,
        world: &mut impl World,
    ) {
        let Some(event) = self.secured.finished(finished) else { return };
        world.count(event);
        if let Some(own) = &self.secured.certificate {
            self.identity = identity::fields(own, self.terms.whole_certificate).into();
        }
        let next = match (self.secured.is_open(), self.secured.alpn.as_deref()) {
            (false, _) => State::Closing,
            (true, _) if self.terms.carries == Carries::Bytes => {
                State::Pipe(Box::new(Pipe::new(now_ms)))
            }
            (true, Some("h2")) => {
                world.count(Event::Http2);
                self.upstreams = Upstreams::new(settings.streams_served);
                State::Http2(Box::new(Http2::new(settings, now_ms)))
            }
            (true, _) => State::Http1(Http1::new(now_ms)),
        };
        self.enter(next, now_ms);
    }

    /// Does all that can be done now.
    pub(crate) fn run(&mut self, common: &mut Common, now_ms: u64, world: &mut impl World) {
        let who = self.who();
        let terms = Arc::clone(&self.terms);
        let identity = Arc::clone(&self.identity);
        let mut scene = Scene { common, world, who, terms: &terms, identity: &identity, now_ms };
        loop {
            self.poll(now_ms);
            // What the time has brought may be gone on with.
            if !self.turn(&mut scene) && !self.time(&mut scene) {
                break;
            }
        }
        self.poll(now_ms);
        if self.is_gone() {
            self.retire(&mut scene);
        }
        self.hand_out(scene.world);
    }

    const fn who(&self) -> Who {
        Who { service: self.service, ends: self.ends, tls: self.secured.version() }
    }

    /// Lets all ends of TCP do what is due.
    fn poll(&mut self, now_ms: u64) {
        self.secured.tcp.poll(now_ms);
        match &mut self.state {
            State::Http1(http) => http.upstream().into_iter().for_each(|own| own.link.poll(now_ms)),
            State::Http2(http) => http.upstreams().for_each(|own| own.link.poll(now_ms)),
            State::Pipe(pipe) => pipe.upstream().into_iter().for_each(|own| own.link.poll(now_ms)),
            State::Handshake | State::Closing => {}
        }
        self.upstreams.iter_mut().for_each(|own| own.link.poll(now_ms));
    }

    /// Sends what the ends of TCP have made.
    fn hand_out(&mut self, world: &mut impl World) {
        while let Some(packet) = self.secured.tcp.outgoing() {
            world.send(packet, self.ends[0].ip());
        }
        let mut send = |own: &mut Upstream| {
            while let Some(packet) = own.link.outgoing() {
                send_to(world, packet, (own.backend.ip(), own.id));
            }
        };
        match &mut self.state {
            State::Http1(http) => http.upstream().into_iter().for_each(&mut send),
            State::Http2(http) => http.upstreams().for_each(&mut send),
            State::Pipe(pipe) => pipe.upstream().into_iter().for_each(&mut send),
            State::Handshake | State::Closing => {}
        }
        self.upstreams.iter_mut().for_each(send);
    }

    /// When [`Connection::run`] is due again without a packet.
    pub(crate) fn due_ms(&mut self, common: &Common, now_ms: u64) -> u64 {
        let settings = &common.settings;
        let patience_ms = self.patience_ms(settings);
        let own = match &mut self.state {
            State::Handshake => self.since_ms + settings.handshake_ms,
            State::Http1(http) => http.due_ms(&self.secured, settings, now_ms),
            State::Http2(http) => http.due_ms(settings, now_ms),
            State::Pipe(pipe) => pipe.due_ms(settings, now_ms),
            State::Closing => self.since_ms + patience_ms,
        };
        let idle = self.upstreams.iter_mut().filter_map(|own| own.link.due_ms(now_ms)).min();
        let tcp = [self.secured.tcp.due_ms(now_ms), idle].into_iter().flatten();
        tcp.fold(own, u64::min)
    }

    /// How long the client may do nothing at the end: to take more of what is left for it, or
    /// to end its direction.
    const fn patience_ms(&self, settings: &Settings) -> u64 {
        if self.left > 0 { settings.idle_ms } else { settings.linger_ms }
    }

    fn enter(&mut self, state: State, now_ms: u64) {
        (self.state, self.since_ms) = (state, now_ms);
    }

    /// One step of everything; whether something moved.
    fn turn<W: World>(&mut self, scene: &mut Scene<'_, W>) -> bool {
        let mut moved = self.handshake(scene.world);
        let (pumped, event) = self.secured.pump();
        moved |= pumped;
        if let Some(event) = event {
            scene.world.count(event);
            self.end(scene);
        }
        self.upstreams.sweep(scene);
        let turn = match &mut self.state {
            State::Handshake => Turn::Wait,
            State::Http1(http) => http.turn(&mut self.secured, &mut self.upstreams, scene),
            State::Http2(http) => http.turn(&mut self.secured, &mut self.upstreams, scene),
            State::Pipe(pipe) => pipe.turn(&mut self.secured, &mut self.upstreams, scene),
            State::Closing => {
                let left = self.secured.unacknowledged();
                if left != self.left {
                    (self.left, self.since_ms) = (left, scene.now_ms);
                }
                // The client may not have read the end yet, and still send a body.
                let length = self.secured.plain().len();
                self.secured.consume(length);
                if length > 0 { Turn::Moved } else { Turn::Wait }
            }
        };
        moved | self.follow(turn, scene)
    }

    /// Goes on as the requests say; whether something moved.
    fn follow<W: World>(&mut self, turn: Turn, scene: &mut Scene<'_, W>) -> bool {
        match turn {
            Turn::Wait => return false,
            Turn::Moved => {}
            Turn::Close => {
                self.secured.close();
                self.end(scene);
            }
            Turn::Abort => {
                self.secured.tcp.abort();
                self.end(scene);
            }
        }
        true
    }

    /// No more requests are served.
    fn end<W: World>(&mut self, scene: &mut Scene<'_, W>) {
        self.retire(scene);
        self.enter(State::Closing, scene.now_ms);
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

    /// What the time brings; whether something moved.
    fn time<W: World>(&mut self, scene: &mut Scene<'_, W>) -> bool {
        let settings = scene.common.settings;
        let since = scene.now_ms.saturating_sub(self.since_ms);
        let patience_ms = self.patience_ms(&settings);
        let turn = match &mut self.state {
            State::Handshake if since >= settings.handshake_ms => {
                scene.world.count(Event::HandshakeSlow);
                Turn::Abort
            }
            State::Closing if since >= patience_ms => {
                self.secured.tcp.abort();
                Turn::Wait
            }
            State::Http1(http) => http.time(&self.secured, &mut self.upstreams, scene),
            State::Http2(http) => http.time(&mut self.upstreams, scene),
            State::Pipe(pipe) => pipe.time(&mut self.secured, scene),
            State::Handshake | State::Closing => Turn::Wait,
        };
        self.follow(turn, scene)
    }

    /// Gives up all connections to backends.
    fn retire<W: World>(&mut self, scene: &mut Scene<'_, W>) {
        match &mut self.state {
            State::Http1(http) => http.retire(scene),
            State::Http2(http) => http.retire(scene),
            State::Pipe(pipe) => pipe.retire(scene),
            State::Handshake | State::Closing => {}
        }
        self.upstreams.retire(scene);
    }

    /// Resets the client's connection and gives up the backends'.
    pub(crate) fn drop_out(&mut self, common: &mut Common, now_ms: u64, world: &mut impl World) {
        let who = self.who();
        let terms = Arc::clone(&self.terms);
        let identity = Arc::clone(&self.identity);
        let mut scene = Scene { common, world, who, terms: &terms, identity: &identity, now_ms };
        self.retire(&mut scene);
        self.secured.tcp.abort();
        self.secured.tcp.poll(now_ms);
        self.hand_out(scene.world);
    }
}
