//! One request on its way: to a backend, to another if the first does not take it, and its
//! response back to the client.
use std::net::SocketAddr;

use flow::ServiceId;
use splice::{
    ABORTED, Additions, Inquiry, NamedValue, ProxyHeader, Record, Refusal, Request, Response,
    forwarded_header, without_port,
};

use crate::common::Common;
use crate::endpoint::{Endpoint, Stage};
use crate::event::Event;
use crate::exchange::{Client, Exchange, Step};
use crate::head::Dress;
use crate::identity::Identified;
use crate::settings::Settings;
use crate::upstream::{Upstream, Upstreams};
use crate::world::{Route, Terms, World};

/// Backends that are tried for one request, or one connection, at most.
pub(crate) const TRIES: usize = 3;
/// What backends are spoken to in.
const PROTOCOL: &str = "http/1.1";

/// Whose requests they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    pub(crate) service: ServiceId,
    /// The client and the VIP.
    pub(crate) ends: [SocketAddr; 2],
    /// The version of TLS that the client speaks, by its usual name.
    pub(crate) tls: &'static str,
}

/// What surrounds a connection while it does something.
pub(crate) struct Scene<'a, W> {
    pub(crate) common: &'a mut Common,
    pub(crate) world: &'a mut W,
    pub(crate) who: Who,
    pub(crate) terms: &'a Terms,
    /// The fields that say who the client is.
    pub(crate) identity: &'a [NamedValue],
    pub(crate) now_ms: u64,
}

/// How an errand goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing can be done before something else happens.
    Wait,
    /// Something was done.
    Moved,
    /// The client has the backend's response.
    Done {
        /// Whether the client may send another request behind this one.
        keeps: bool,
    },
    /// The client has an answer of the service's own.
    Answered,
    /// The client has part of a response, and gets no more.
    Broken,
}

/// What an errand is at.
enum Goal {
    Exchange(Box<Exchange>),
    /// The service's own answer.
    Answer(Vec<u8>),
}

/// A request on its way.
pub(crate) struct Errand {
    /// The header as the client sent it.
    raw: Vec<u8>,
    goal: Goal,
    upstream: Option<Upstream>,
    /// Backends that did not take it.
    tried: Vec<SocketAddr>,
    /// When something last moved.
    moved_ms: u64,
    /// When the backend was sent it.
    sent_ms: Option<u64>,
    log: Log,
}

/// What the access log gets of a request.
enum Log {
    /// Nothing.
    No,
    /// A record, which begins when the header has been read.
    Wanted,
    Begun(Box<Record>),
}

impl Errand {
    /// Sends the request with the header `raw` on its way.
    pub(crate) fn new<W: World>(
        raw: Vec<u8>,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) -> Self {
        let mut errand = Self::from(raw, scene);
        errand.begin(Refusal::NoBackend, upstreams, scene);
        errand
    }

    /// Answers a request that goes nowhere.
    pub(crate) fn refusal<W: World>(refusal: Refusal, scene: &mut Scene<'_, W>) -> Self {
        let mut errand = Self::from(Vec::new(), scene);
        errand.refuse(refusal, scene);
        errand
    }

    fn from<W: World>(raw: Vec<u8>, scene: &mut Scene<'_, W>) -> Self {
        let log = if scene.world.logs(scene.who.service) { Log::Wanted } else { Log::No };
        let (goal, tried) = (Goal::Answer(Vec::new()), Vec::new());
        Self { raw, goal, upstream: None, tried, moved_ms: scene.now_ms, sent_ms: None, log }
    }

    /// Finds a backend, or an answer; `none` if there is no backend.
    fn begin<W: World>(
        &mut self,
        none: Refusal,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) {
        match self.send(upstreams, scene) {
            Ok(goal) => self.goal = goal,
            Err(Refusal::NoBackend) => self.refuse(none, scene),
            Err(refusal) => self.refuse(refusal, scene),
        }
        self.moved_ms = scene.now_ms;
    }

    fn send<W: World>(
        &mut self,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) -> Result<Goal, Refusal> {
        let request = Request::parse(&self.raw)?.ok_or(Refusal::RequestLine)?;
        let Who { service, ends, tls } = scene.who;
        if let Log::Wanted = self.log {
            let mut record = Record::new((ends[0], service), Some(&request), scene.now_ms);
            record.route = scene.world.route_of(service, &request);
            self.log = Log::Begun(Box::new(record));
        }
        let inquiry = Inquiry { service, ends, tried: &self.tried, kept: upstreams.latest() };
        let (backend, sticks) = match scene.world.route(&inquiry, &request)? {
            Route::Backend { backend, sticks } => (backend, sticks),
            Route::Answer(answer, status) => {
                scene.world.count(Event::Answered(status));
                drop(request);
                self.answer_alone((status, ""), answer.len(), scene);
                return Ok(Goal::Answer(answer));
            }
        };
        let id = scene.common.number();
        let added = Additions { client: ends[0], scheme: "https", id };
        let changes = scene.world.request_changes(service);
        let own = Identified::new(&request, scene.identity, &changes);
        let changes = own.as_ref().map_or(changes, |own| own.changes(changes.add));
        let head = forwarded_header(&request, &added, &changes).ok_or(Refusal::TooLong)?;
        let exchange = Exchange::new(&request, head, sticks);
        let upstream = match upstreams.take(backend.at) {
            Some(upstream) => Some(upstream),
            None => {
                let authority = without_port(request.host).as_bytes();
                let header = ProxyHeader { authority, tls, ..ProxyHeader::new(ends, id) };
                let told = scene.world.has_proxy_header(service);
                upstreams.connect(backend, Some(PROTOCOL), told.then_some(&header), scene)
            }
        };
        if upstream.is_none() {
            scene.world.count(Event::NoRoom);
            return Err(Refusal::NoBackend);
        }
        if let Log::Begun(record) = &mut self.log {
            (record.backend, record.id) = (Some(backend), id);
        }
        (self.upstream, self.sent_ms) = (upstream, None);
        scene.world.count(Event::Request);
        Ok(Goal::Exchange(Box::new(exchange)))
    }

    fn refuse<W: World>(&mut self, refusal: Refusal, scene: &mut Scene<'_, W>) {
        scene.world.count(Event::Refused(refusal));
        self.give_up(scene);
        let answer = refusal.answer().into_bytes();
        self.answer_alone((refusal.status().0, refusal.name()), answer.len(), scene);
        self.goal = Goal::Answer(answer);
    }

    /// Notes that no backend answers, but the service with `length` bytes.
    fn answer_alone<W: World>(
        &mut self,
        (status, why): (u16, &'static str),
        length: usize,
        scene: &mut Scene<'_, W>,
    ) {
        let Who { service, ends, .. } = scene.who;
        scene.world.answered(service, status);
        let mut record = match std::mem::replace(&mut self.log, Log::No) {
            Log::No => return,
            Log::Wanted => Box::new(Record::new((ends[0], service), None, scene.now_ms)),
            Log::Begun(record) => record,
        };
        let body = if let Goal::Exchange(own) = &self.goal { own.bytes()[0] } else { 0 };
        record.bytes = [self.raw.len() as u64 + body, length as u64];
        (record.backend, record.first_byte_ms) = (None, None);
        (record.status, record.why) = (status, why);
        record.duration_ms = scene.now_ms.saturating_sub(record.at_ms);
        scene.world.log(&record);
    }

    /// Logs a request that a backend got, and of which the response is whole, but for `why`.
    fn log<W: World>(&mut self, why: &'static str, scene: &mut Scene<'_, W>) {
        let Log::Begun(mut record) = std::mem::replace(&mut self.log, Log::No) else { return };
        if let Goal::Exchange(exchange) = &self.goal {
            let [up, down] = exchange.bytes();
            record.bytes = [self.raw.len() as u64 + up, down];
        }
        record.why = why;
        record.duration_ms = scene.now_ms.saturating_sub(record.at_ms);
        scene.world.log(&record);
    }

    /// Tells of the response's header, if that has come now.
    fn note_response<W: World>(&mut self, scene: &mut Scene<'_, W>) {
        let (Goal::Exchange(exchange), Some(upstream)) = (&mut self.goal, &self.upstream) else {
            return;
        };
        let Some(status) = exchange.take_status() else { return };
        let sent_ms = self.sent_ms.unwrap_or(scene.now_ms);
        let waited_ms = scene.now_ms.saturating_sub(sent_ms).try_into().unwrap_or(u32::MAX);
        let (service, backend) = (scene.who.service, upstream.id);
        scene.world.responded(&Response { service, backend, status, waited_ms });
        if let Log::Begun(record) = &mut self.log {
            (record.status, record.first_byte_ms) = (status, Some(waited_ms));
        }
    }

    /// One step of everything.
    pub(crate) fn step<W: World>(
        &mut self,
        client: &mut impl Client,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) -> Outcome {
        let outcome = match &mut self.goal {
            Goal::Answer(answer) => answer_with(answer, client),
            Goal::Exchange(_) => self.exchange(client, upstreams, scene),
        };
        if outcome != Outcome::Wait {
            self.moved_ms = scene.now_ms;
        }
        outcome
    }

    fn exchange<W: World>(
        &mut self,
        client: &mut impl Client,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) -> Outcome {
        let Self { goal: Goal::Exchange(exchange), upstream, sent_ms, .. } = self else {
            return Outcome::Wait;
        };
        let step = match upstream {
            Some(upstream) => match upstream.link.stage() {
                Stage::Opening => Step::Wait,
                _ if !upstream.link.has_opened() => {
                    if let Some(why) = upstream.link.take_failure() {
                        scene.world.distrust(upstream.backend, &why);
                    }
                    self.next_backend(Refusal::BackendRefused, upstreams, scene);
                    return Outcome::Moved;
                }
                _ => {
                    let service = scene.who.service;
                    let dress = Dress {
                        hsts: scene.terms.hsts.as_deref(),
                        changes: scene.world.response_changes(service),
                        cookie: scene.world.cookie(service, upstream.backend),
                    };
                    sent_ms.get_or_insert(scene.now_ms);
                    exchange.step(client, &mut upstream.link, &dress)
                }
            },
            None => Step::Failed,
        };
        self.note_response(scene);
        match step {
            Step::Wait => Outcome::Wait,
            Step::Moved => Outcome::Moved,
            Step::Done { keeps, reusable } => {
                match self.upstream.take() {
                    Some(upstream) if reusable => upstreams.keep(upstream),
                    upstream => self.upstream = upstream,
                }
                self.give_up(scene);
                self.log("", scene);
                Outcome::Done { keeps }
            }
            Step::Failed => {
                self.failed(upstreams, scene);
                Outcome::Moved
            }
            Step::Broken => {
                scene.world.count(Event::BadResponse);
                self.retire(scene);
                Outcome::Broken
            }
            Step::Bad(refusal) => {
                self.refuse(refusal, scene);
                Outcome::Moved
            }
        }
    }

    /// The backend has ended before the client got anything.
    fn failed<W: World>(&mut self, upstreams: &mut Upstreams, scene: &mut Scene<'_, W>) {
        let was_used = self.upstream.as_ref().is_some_and(|own| own.is_used);
        let is_repeatable = match &self.goal {
            Goal::Exchange(exchange) => exchange.is_repeatable(),
            Goal::Answer(_) => false,
        };
        self.give_up(scene);
        // The backend may have ended the connection while the request was on its way; a
        // request that changes nothing is repeated (RFC 9112 section 9.3.1).
        if was_used && is_repeatable && is_safe(&self.raw) {
            self.begin(Refusal::NoBackend, upstreams, scene);
        } else {
            scene.world.count(Event::BadResponse);
            self.refuse(Refusal::BackendRefused, scene);
        }
    }

    /// Tries another backend.
    fn next_backend<W: World>(
        &mut self,
        why: Refusal,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) {
        scene.world.count(Event::BackendFailed);
        self.tried.extend(self.upstream.as_ref().map(|own| own.backend));
        self.give_up(scene);
        if self.tried.len() >= TRIES {
            return self.refuse(why, scene);
        }
        // With no other backend, what the last one did is the reason.
        self.begin(why, upstreams, scene);
    }

    /// When the time brings something.
    pub(crate) fn due_ms(&mut self, settings: &Settings, now_ms: u64) -> u64 {
        let Some(upstream) = &mut self.upstream else { return self.moved_ms + settings.idle_ms };
        let own = match upstream.link.stage() {
            Stage::Opening => upstream.opened_ms + settings.connect_ms,
            _ => self.moved_ms + settings.idle_ms,
        };
        upstream.link.due_ms(now_ms).map_or(own, |tcp| tcp.min(own))
    }

    /// What the time brings.
    pub(crate) fn time<W: World>(
        &mut self,
        upstreams: &mut Upstreams,
        scene: &mut Scene<'_, W>,
    ) -> Outcome {
        let settings = scene.common.settings;
        let over = |since: u64, ms| scene.now_ms.saturating_sub(since) >= ms;
        match &self.upstream {
            Some(own) if own.link.stage() == Stage::Opening => {
                if !over(own.opened_ms, settings.connect_ms) {
                    return Outcome::Wait;
                }
                self.next_backend(Refusal::BackendSilent, upstreams, scene);
                Outcome::Moved
            }
            _ if over(self.moved_ms, settings.idle_ms) => {
                scene.world.count(Event::Idle);
                self.retire(scene);
                Outcome::Broken
            }
            _ => Outcome::Wait,
        }
    }

    /// Its connection to a backend.
    pub(crate) fn upstream(&mut self) -> Option<&mut Upstream> {
        self.upstream.as_mut()
    }

    /// Gives up the request, wherever it is.
    pub(crate) fn retire<W: World>(&mut self, scene: &mut Scene<'_, W>) {
        self.give_up(scene);
        self.log(ABORTED, scene);
    }

    /// Gives up the connection to the backend.
    fn give_up<W: World>(&mut self, scene: &mut Scene<'_, W>) {
        if let Some(upstream) = self.upstream.take() {
            scene.common.disconnect(upstream, scene.now_ms, scene.world);
        }
    }
}

/// Writes as much of an answer as there is room for.
fn answer_with(answer: &mut Vec<u8>, client: &mut impl Client) -> Outcome {
    let length = client.room().min(answer.len());
    if length > 0 && client.write(answer.get(..length).unwrap_or_default()).is_none() {
        return Outcome::Broken;
    }
    answer.drain(..length);
    match (answer.is_empty(), length) {
        (true, _) => Outcome::Answered,
        (false, 0) => Outcome::Wait,
        (false, _) => Outcome::Moved,
    }
}

/// Whether a request changes nothing (RFC 9110 section 9.2.1).
fn is_safe(raw: &[u8]) -> bool {
    let raw = raw.trim_ascii_start();
    [&b"GET "[..], b"HEAD ", b"OPTIONS "].into_iter().any(|own| raw.starts_with(own))
}
