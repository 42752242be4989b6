//! HTTP/2 on the client's side (RFC 9113): requests beside each other. The crate h2 reads
//! and writes frames; here it gets bytes and time, and is asked for what it has made.
mod meter;
mod pipe;
mod stream;
mod translate;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::server::{Builder, Connection, Handshake, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use splice::Refusal;

use crate::connection::Turn;
use crate::endpoint::Endpoint;
use crate::errand::{Errand, Outcome, Scene};
use crate::event::Event;
use crate::secured::Secured;
use crate::settings::Settings;
use crate::upstream::{Upstream, Upstreams};
use crate::world::World;

use meter::{Meter, PREFACE};
use pipe::Pipe;
use stream::Stream;

/// Bytes of one stream's body that wait for its backend, at most.
const WINDOW: u32 = 64 * 1024;
/// The same of a whole connection.
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// Bytes of one stream's response that wait for the connection, at most.
const UNSENT: usize = 32 * 1024;
/// What a field counts beside its name and value (RFC 9113 section 6.5.2), as if a header
/// had so many fields.
const FIELDS: u32 = 32 * 64;
/// Streams that a client has reset before they were looked at, at most.
const RESET: usize = 20;
/// Streams that were reset since the client broke the rules, at most.
const BROKEN: usize = 100;

/// The library, which is driven by being asked.
enum Library {
    Begins(Box<Handshake<Pipe, Bytes>>),
    Runs(Box<Connection<Pipe, Bytes>>),
    /// It makes nothing more.
    Over,
}

/// A request that waits for its turn.
type Waiting = (Request<RecvStream>, SendResponse<Bytes>);

/// A request that is served.
struct Served {
    stream: Stream,
    errand: Errand,
}

/// The streams of one connection.
pub(crate) struct Http2 {
    pipe: Pipe,
    library: Library,
    meter: Meter,
    served: Vec<Served>,
    waiting: VecDeque<Waiting>,
    /// Bytes of the client's so far.
    begun: usize,
    /// Since when there has been no stream.
    quiet_ms: u64,
    /// Whether the client is told that the connection ends, and no longer heard.
    ending: bool,
}

impl Http2 {
    pub(crate) fn new(settings: &Settings, now_ms: u64) -> Self {
        let pipe = Pipe::default();
        let handshake = Builder::new()
            .max_concurrent_streams(settings.streams)
            .max_header_list_size(settings.header_limit as u32 + FIELDS)
            .initial_window_size(WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buffer_size(UNSENT)
            .max_pending_accept_reset_streams(RESET)
            .max_local_error_reset_streams(Some(BROKEN))
            .handshake(pipe.clone());
        Self {
            pipe,
            library: Library::Begins(Box::new(handshake)),
            meter: Meter::new(now_ms),
            served: Vec::new(),
            waiting: VecDeque::new(),
            begun: 0,
            quiet_ms: now_ms,
            ending: false,
        }
    }

    /// The connections to backends that requests have.
    pub(crate) fn upstreams(&mut self) -> impl Iterator<Item = &mut Upstream> {
        self.served.iter_mut().filter_map(|own| own.errand.upstream())
    }

    /// One step of everything.
    pub(crate) fn turn<E: Endpoint, W: World>(
        &mut self,
        client: &mut Secured<E>,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) -> Turn {
        let mut cx = Context::from_waker(Waker::noop());
        let mut moved = self.feed(client, scene);
        moved |= self.ask(&mut cx);
        moved |= self.serve(&mut cx, upstreams, scene);
        moved |= self.ask(&mut cx);
        moved |= self.drain(client);
        if matches!(self.library, Library::Over) && self.pipe.is_drained() {
            return Turn::Close;
        }
        if moved { Turn::Moved } else { Turn::Wait }
    }

    /// Hands the library what the client has sent.
    fn feed<E: Endpoint, W: World>(
        &mut self,
        client: &mut Secured<E>,
        scene: &mut Scene<'_, W>,
    ) -> bool {
        let plain = client.plain();
        let most = match &self.library {
            _ if self.ending => plain.len(),
            // The preface first, so that whatever follows can be answered.
            Library::Begins(_) => PREFACE.len().saturating_sub(self.begun),
            _ => self.pipe.room(),
        };
        let length = plain.len().min(most);
        self.begun += length;
        let bytes = plain.get(..length).unwrap_or_default();
        if !self.ending {
            if self.meter.read(bytes, scene.now_ms).is_err() {
                scene.world.count(Event::Flood);
                self.shut_down(Reason::ENHANCE_YOUR_CALM);
            } else {
                self.pipe.give(bytes);
            }
        }
        client.consume(length);
        if client.has_ended() && client.plain().is_empty() {
            self.pipe.end();
        }
        length > 0
    }

    /// Lets the library do what it can, and takes new requests.
    fn ask(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        loop {
            let next = match &mut self.library {
                Library::Over => return moved,
                Library::Begins(handshake) => match Pin::new(&mut **handshake).poll(cx) {
                    Poll::Pending => return moved,
                    Poll::Ready(Ok(connection)) => Library::Runs(Box::new(connection)),
                    Poll::Ready(Err(_)) => Library::Over,
                },
                Library::Runs(connection) => match connection.poll_accept(cx) {
                    Poll::Pending => return moved,
                    Poll::Ready(Some(Ok(waiting))) => {
                        self.waiting.push_back(waiting);
                        moved = true;
                        continue;
                    }
                    Poll::Ready(Some(Err(_)) | None) => Library::Over,
                },
            };
            (self.library, moved) = (next, true);
        }
    }

    /// Goes on with every request.
    fn serve<W: World>(
        &mut self,
        cx: &mut Context<'_>,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) -> bool {
        let had = self.served.len() + self.waiting.len();
        if had == 0 {
            return false;
        }
        let mut moved = self.begin(cx, upstreams, scene);
        let meter = &mut self.meter;
        self.served.retain_mut(|Served { stream, errand }| {
            moved |= stream.pull(cx);
            if stream.is_given_up(cx) {
                errand.retire(scene);
                moved = true;
                return false;
            }
            let outcome = errand.step(stream, upstreams, scene);
            if stream.has_written() {
                meter.answered();
            }
            moved |= outcome != Outcome::Wait;
            match outcome {
                Outcome::Wait | Outcome::Moved => return true,
                Outcome::Done { .. } | Outcome::Answered => stream.finish(),
                Outcome::Broken => stream.fail(),
            }
            false
        });
        self.quiet_ms = scene.now_ms;
        moved
    }

    /// Begins with requests that wait, as many as are served at once.
    fn begin<W: World>(
        &mut self,
        cx: &mut Context<'_>,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) -> bool {
        self.waiting.retain_mut(|(_, respond)| respond.poll_reset(cx).is_pending());
        let mut moved = false;
        while self.served.len() < scene.common.settings.streams_served {
            let Some((request, respond)) = self.waiting.pop_front() else { break };
            let (parts, body) = request.into_parts();
            let request = Request::from_parts(parts, ());
            let (raw, framing) = translate::request(&request, body.is_end_stream());
            upstreams.set_busy(self.served.len());
            let errand = if raw.len() > scene.common.settings.header_limit {
                Errand::refusal(Refusal::TooLong, scene)
            } else {
                Errand::new(raw, upstreams, scene)
            };
            let stream = Stream::new(body, respond, framing, request.method() == "HEAD");
            self.served.push(Served { stream, errand });
            moved = true;
        }
        moved
    }

    /// Hands the client what the library has made.
    fn drain<E: Endpoint>(&self, client: &mut Secured<E>) -> bool {
        let mut moved = false;
        loop {
            let room = client.room();
            let length = self.pipe.drain(room, |bytes| {
                // What can't be sealed is lost with the connection, which ends.
                let _ = client.write(bytes);
            });
            if length == 0 {
                return moved;
            }
            moved = true;
        }
    }

    /// Tells the client that the connection ends.
    fn shut_down(&mut self, reason: Reason) {
        self.ending = true;
        match &mut self.library {
            Library::Runs(connection) => connection.abrupt_shutdown(reason),
            _ => self.library = Library::Over,
        }
    }

    /// When the time brings something.
    pub(crate) fn due_ms(&mut self, settings: &Settings, now_ms: u64) -> u64 {
        let header = self.meter.header_since_ms().map(|since| since + settings.header_ms);
        let quiet = self.is_quiet().then_some(self.quiet_ms + settings.keep_alive_ms);
        let served = self.served.iter_mut().map(|own| own.errand.due_ms(settings, now_ms));
        let own = served.chain(header.into_iter().chain(quiet));
        own.min().unwrap_or(now_ms + settings.idle_ms)
    }

    fn is_quiet(&self) -> bool {
        self.served.is_empty() && self.waiting.is_empty()
    }

    /// What the time brings.
    pub(crate) fn time<W: World>(
        &mut self,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) -> Turn {
        let settings = scene.common.settings;
        let over = |since: u64, ms| scene.now_ms.saturating_sub(since) >= ms;
        if self.ending {
            // A client that does not read what it is told.
            return if over(self.quiet_ms, settings.keep_alive_ms) {
                Turn::Abort
            } else {
                Turn::Wait
            };
        }
        if self.meter.header_since_ms().is_some_and(|since| over(since, settings.header_ms)) {
            scene.world.count(Event::Flood);
            self.shut_down(Reason::ENHANCE_YOUR_CALM);
            return Turn::Moved;
        }
        if self.is_quiet() && over(self.quiet_ms, settings.keep_alive_ms) {
            self.quiet_ms = scene.now_ms;
            self.shut_down(Reason::NO_ERROR);
            return Turn::Moved;
        }
        let mut moved = false;
        self.served.retain_mut(|Served { stream, errand }| {
            let outcome = errand.time(upstreams, scene);
            moved |= outcome != Outcome::Wait;
            if outcome == Outcome::Broken {
                stream.fail();
            }
            outcome != Outcome::Broken
        });
        if moved { Turn::Moved } else { Turn::Wait }
    }

    /// Gives up the connections to backends that requests have.
    pub(crate) fn retire<W: World>(&mut self, scene: &mut Scene<'_, W>) {
        for own in &mut self.served {
            own.errand.retire(scene);
        }
    }
}
