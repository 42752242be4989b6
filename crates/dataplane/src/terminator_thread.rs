//! The thread that terminates TLS: packets of its services come from the workers, and
//! those that it makes leave by the first worker. Handshakes are done by the pool's
//! threads, which have the private keys at hand.
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dpdk::{Mbuf, Mempool};
use flow::{Account, BackendId, HopId, ServiceId, Transport};
use packet::PacketBuf;
use pipeline::{Asked, Sample};
use service::{Backend, Directed, HeaderChanges, HelloView, Routed, Service, WorkerScheduleState};
use splice::{Changes, Inquiry, Peer, Record, Refusal, Rejection, Request, Response};
use state::{BackendCounts, Counter, Counters, Shared, Snapshot};
use terminate::{Event, Route, Segment, Settings, Terminator, Terms, TooLong, Wish, World};
use tls::{ClientRefusal, Finished, Pool, Refused, Started};
use wire::quoted::{Quoted, TooBig};
use wire::{FlowKey, Headers, TcpFlags, ethernet, vlan};

use crate::access_log::ForLog;
use crate::clock::Clock;
use crate::idle::{Bell, Rest};
use crate::rings::drain;
use crate::tls_terms::TlsTerms;
use crate::worker::Injected;

/// Packets of one worker that may wait for the terminator.
pub(crate) const TO_TERMINATOR: usize = 4096;
/// Packets of the terminator's that may wait for the worker that sends them.
pub(crate) const FROM_TERMINATOR: usize = 4096;
/// Next hops that may be asked for at once.
pub(crate) const HOPS: usize = 256;
/// Packets taken from one worker in one turn.
const PER_TURN: usize = 64;
/// Turns in which nothing happens before the thread rests.
const PATIENCE: u32 = 200;
/// How long it rests: workers make no system call to wake it.
const REST: Duration = Duration::from_micros(100);
/// The same while there is no connection, and while no packet comes either: the first
/// connection after that waits as long at most.
const LONG_REST: Duration = Duration::from_millis(1);
const LONGEST_REST: Duration = Duration::from_millis(5);
/// The same while no service terminates TLS.
const WITHOUT_SERVICE: Duration = Duration::from_millis(50);
/// How seldom the log is told of backends that are not believed.
const WARN_MS: u64 = 1_000;
/// Bytes around an IP packet that a buffer must have room for.
const ETHERNET: usize = 14;

/// A packet for the terminator; a service's name, if it is a client's to that.
pub(crate) type ForTerminator = (Option<ServiceId>, Mbuf);

/// Everything the thread owns.
pub(crate) struct TerminatorThread {
    terminator: Terminator,
    given: Vec<rtrb::Consumer<ForTerminator>>,
    surroundings: Surroundings,
}

/// The ways out of the thread.
pub(crate) struct Ways {
    /// To the worker that sends.
    pub(crate) send: rtrb::Producer<Injected>,
    /// To the keeper, which resolves next hops.
    pub(crate) resolve: rtrb::Producer<HopId>,
    pub(crate) pool: Mempool,
    /// Wakes the worker that sends.
    pub(crate) bell: Option<Arc<Bell>>,
}

/// What surrounds the terminator.
struct Surroundings {
    shared: Arc<Shared>,
    snapshot: Arc<Snapshot>,
    terms: Arc<TlsTerms>,
    handshakes: Option<Pool>,
    schedule: WorkerScheduleState,
    ways: Ways,
    /// Packets that found no room on the way to the worker.
    waiting: VecDeque<Injected>,
    counters: Arc<Counters>,
    counts: Arc<BackendCounts>,
    /// Where records of requests are left, and which requests have one.
    log: Option<ForLog>,
    sample: Sample,
    now_ms: u64,
    /// When the log may be told of a backend again.
    warns_ms: u64,
}

impl TerminatorThread {
    /// The thread of the services whose `terms` these are, which gets what workers have
    /// `given`. `handshakes` is `None` if there was no such service at the start.
    pub(crate) fn new(
        shared: Arc<Shared>,
        terms: Arc<TlsTerms>,
        given: Vec<rtrb::Consumer<ForTerminator>>,
        ways: Ways,
        (handshakes, secret): (Option<Pool>, [u64; 2]),
        (log, sample): (Option<ForLog>, Sample),
    ) -> Self {
        let (snapshot, counts) = (shared.snapshot(), shared.totals().register());
        let mtu = snapshot.interfaces.iter().map(|(_, own)| own.mtu).min().unwrap_or(1500);
        let settings = Settings { mtu: mtu.into(), secret, ..Settings::default() };
        // A number that no worker has, so that it begins its rounds elsewhere.
        let schedule = WorkerScheduleState::new(given.len(), &snapshot.services);
        let surroundings = Surroundings {
            shared,
            snapshot,
            terms,
            handshakes,
            schedule,
            ways,
            waiting: VecDeque::new(),
            counters: Arc::default(),
            counts,
            log,
            sample,
            now_ms: 0,
            warns_ms: 0,
        };
        Self { terminator: Terminator::new(settings), given, surroundings }
    }

    /// Its counters.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.surroundings.counters)
    }

    /// Runs until `stop`.
    pub(crate) fn run(mut self, clock: Clock, stop: &AtomicBool) {
        let mut quiet = 0_u32;
        let mut rest = Rest::new(LONG_REST, LONGEST_REST);
        while !stop.load(Ordering::Relaxed) {
            if self.turn(clock.now_ms()) {
                quiet = 0;
                rest.after(true);
                continue;
            }
            quiet = quiet.saturating_add(1);
            if self.terminator.usage().connections == 0 {
                let between = rest.after(false);
                let pause = if self.surroundings.has_service() { between } else { WITHOUT_SERVICE };
                std::thread::sleep(pause);
            } else if quiet > PATIENCE {
                std::thread::sleep(REST);
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Whether there was anything to do.
    fn turn(&mut self, now_ms: u64) -> bool {
        let Self { terminator, given, surroundings } = self;
        surroundings.begin(now_ms);
        let mut found = 0;
        for (service, packet) in drain(given, PER_TURN) {
            found += 1;
            let frame = packet.bytes();
            match (segment(frame), service) {
                (Some(segment), Some(service)) => {
                    terminator.from_client(segment, service, now_ms, surroundings);
                }
                (Some(segment), None) => terminator.from_backend(segment, surroundings),
                (None, _) => match too_long(frame) {
                    Some(told) => terminator.too_long(told, now_ms, surroundings),
                    None => surroundings.counters.count(Counter::HttpsUnknown),
                },
            }
        }
        let made = surroundings.counters.get(Counter::OriginatedPackets);
        terminator.turn(now_ms, surroundings);
        surroundings.flush();
        found > 0 || surroundings.counters.get(Counter::OriginatedPackets) != made
    }
}

/// The TCP segment of a frame that a worker has checked.
fn segment(frame: &[u8]) -> Option<Segment> {
    let headers = Headers::parse(frame).ok()?;
    let key = headers.flow(frame)?;
    let flags = headers.tcp_flags;
    Some(Segment {
        ip: frame.get(headers.l3.into()..headers.end.into())?.to_vec(),
        from: key.src(),
        to: key.dst(),
        opens: flags.any(TcpFlags::SYN) && !flags.any(TcpFlags::ACK),
        resets: flags.any(TcpFlags::RST),
    })
}

/// What an ICMP packet that a worker has checked says of a segment.
fn too_long(frame: &[u8]) -> Option<TooLong> {
    let headers = Headers::parse(frame).ok()?;
    let mtu = TooBig::parse(frame, &headers)?.mtu;
    let Quoted { flow, headers } = Quoted::parse(frame, &headers)?;
    let at = usize::from(headers.l4) + 4;
    let number = frame.get(at..usize::from(headers.end))?.first_chunk()?;
    let sequence = u32::from_be_bytes(*number);
    Some(TooLong { peer: flow.dst(), own: flow.src(), sequence, mtu })
}

impl Surroundings {
    fn begin(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        let now = self.shared.snapshot();
        if !Arc::ptr_eq(&now, &self.snapshot) {
            self.schedule.follow(&now.services);
            self.snapshot = now;
        }
    }

    /// Whether a service terminates TLS.
    fn has_service(&self) -> bool {
        self.snapshot.services.services().iter().any(service::Service::is_terminated)
    }

    /// Sends what waits, as far as there is room.
    fn flush(&mut self) {
        if let Some(bell) = self.ways.bell.as_ref().filter(|_| !self.waiting.is_empty()) {
            bell.ring();
        }
        while let Some(packet) = self.waiting.pop_front() {
            if let Err(rtrb::PushError::Full(packet)) = self.ways.send.push(packet) {
                self.waiting.push_front(packet);
                return;
            }
        }
    }

    /// The frame of an IP packet on its way to `to`.
    fn frame(&mut self, packet: &[u8], to: IpAddr) -> Option<Injected> {
        let (interface, next) = self.snapshot.routes.next(to)?;
        let neighbours = self.shared.neighbours();
        let hop = neighbours.hop(interface, next, self.now_ms)?;
        let (id, mac) = neighbours.resolve(hop, self.now_ms)?;
        let interface = self.snapshot.interfaces.get(id)?;
        let Some(mac) = mac else {
            self.counters.count(Counter::ResolveAsked);
            // The keeper finds it in the neighbour table, too, only later.
            let _ = self.ways.resolve.push(hop);
            return None;
        };
        let mut buf = self.ways.pool.alloc()?;
        if !buf.resize(ETHERNET + packet.len()) {
            return None;
        }
        let kind: u16 = if to.is_ipv4() { 0x0800 } else { 0x86dd };
        let bytes = buf.bytes_mut();
        bytes.get_mut(12..ETHERNET)?.copy_from_slice(&kind.to_be_bytes());
        bytes.get_mut(ETHERNET..)?.copy_from_slice(packet);
        ethernet::set_macs(bytes, mac, interface.mac).then_some(())?;
        interface.vlan.is_none_or(|id| vlan::push(&mut buf, id)).then_some(())?;
        Some((interface.port, buf))
    }

    fn key(backend: SocketAddr, local: SocketAddr) -> Option<FlowKey> {
        FlowKey::new(Transport::Tcp, backend, local)
    }
}

impl World for Surroundings {
    fn send(&mut self, packet: Vec<u8>, to: IpAddr) {
        match self.frame(&packet, to) {
            // A packet that is lost here is repeated, as one that is lost on the wire.
            Some(frame) if self.waiting.len() < FROM_TERMINATOR => {
                self.counters.count(Counter::OriginatedPackets);
                self.waiting.push_back(frame);
                self.flush();
            }
            _ => self.counters.count(Counter::HttpsUnsent),
        }
    }

    fn terms(&mut self, service: ServiceId) -> Option<Arc<Terms>> {
        self.terms.of(self.snapshot.services.service(service)?.name())
    }

    fn route(&mut self, inquiry: &Inquiry<'_>, request: &Request<'_>) -> Result<Route, Refusal> {
        let Inquiry { service, ends: [client, vip], tried, kept } = *inquiry;
        let service = self.snapshot.services.service(service).ok_or(Refusal::NoBackend)?;
        let asked = Asked(request);
        let group = match service.route(&asked).ok_or(Refusal::NoBackend)? {
            Routed::Group(group) => group,
            Routed::Reply(reply) if reply.names_host() && request.host.is_empty() => {
                return Err(Refusal::NoHost);
            }
            Routed::Reply(reply) => {
                let answer = reply.pieces(&asked).collect::<String>().into_bytes();
                return Ok(Route::Answer(answer, reply.status()));
            }
        };
        if !service.has_group(group) {
            return Err(Refusal::NoRoute);
        }
        let at = |own: &Backend| SocketAddr::new(own.address, own.port.unwrap_or(vip.port()));
        let to = |own: &Backend, sticks| Route::Backend {
            backend: Peer { at: at(own), id: own.id },
            sticks,
        };
        let sticky = service.sticky_cookie();
        let value = sticky.and_then(|name| request.cookie(name));
        let named = value.and_then(|value| service.backend_of_cookie(group, value));
        if let Some(own) = named.filter(|own| !tried.contains(&at(own))) {
            return Ok(to(own, false));
        }
        let sticks = sticky.is_some();
        if let Some(backend) = kept
            && let Some(own) = service.stays(group, |own| at(own) == backend)
        {
            return Ok(to(own, sticks));
        }
        let flow = Self::key(client, vip).ok_or(Refusal::NoBackend)?;
        let is_tried = |own: &Backend| tried.contains(&at(own));
        let chosen = service.schedule_in(group, &flow, &mut self.schedule, &is_tried);
        chosen.map(|own| to(own, sticks)).ok_or(Refusal::NoBackend)
    }

    fn direct(&mut self, inquiry: &Inquiry<'_>, wish: &Wish<'_>) -> Result<Peer, Rejection> {
        let Inquiry { service, ends: [client, vip], tried, .. } = *inquiry;
        let service = self.snapshot.services.service(service).ok_or(Rejection::NoBackend)?;
        let group = match service.direct(&Wished(wish)).ok_or(Rejection::NoBackend)? {
            Directed::Group(group) => group,
            Directed::NoProtocol => return Err(Rejection::NoProtocol),
            Directed::NoRoute => return Err(Rejection::NoRoute),
        };
        let at = |own: &Backend| SocketAddr::new(own.address, own.port.unwrap_or(vip.port()));
        let flow = Self::key(client, vip).ok_or(Rejection::NoBackend)?;
        let is_tried = |own: &Backend| tried.contains(&at(own));
        let chosen = service.schedule_in(group, &flow, &mut self.schedule, &is_tried);
        chosen.map(|own| Peer { at: at(own), id: own.id }).ok_or(Rejection::NoBackend)
    }

    fn request_changes(&self, service: ServiceId) -> Changes<'_> {
        let service = self.snapshot.services.service(service);
        service.and_then(Service::request_changes).map(changes).unwrap_or_default()
    }

    fn response_changes(&self, service: ServiceId) -> Changes<'_> {
        let service = self.snapshot.services.service(service);
        service.and_then(Service::response_changes).map(changes).unwrap_or_default()
    }

    fn cookie(&self, service: ServiceId, backend: SocketAddr) -> Option<&str> {
        let service = self.snapshot.services.service(service)?;
        let port = |own: &Backend| own.port.or(service.port()).unwrap_or(0);
        service.cookie_of(|own| SocketAddr::new(own.address, port(own)) == backend)
    }

    fn has_proxy_header(&self, service: ServiceId) -> bool {
        let service = self.snapshot.services.service(service);
        service.is_some_and(Service::has_proxy_header)
    }

    fn claim(&mut self, backend: SocketAddr, local: SocketAddr) -> bool {
        Self::key(backend, local).is_some_and(|key| self.shared.claims().insert(&key))
    }

    fn release(&mut self, backend: SocketAddr, local: SocketAddr) {
        if let Some(key) = Self::key(backend, local) {
            self.shared.claims().remove(&key);
        }
    }

    fn start(&mut self, started: Started) -> Result<(), Refused> {
        let pool = self.handshakes.as_ref().ok_or(Refused::Service)?;
        pool.start(started).map_err(|(refused, _)| refused)
    }

    fn finished(&mut self) -> Option<Finished> {
        self.handshakes.as_ref()?.finished()
    }

    fn distrust(&mut self, backend: SocketAddr, why: &str) {
        self.counters.count(Counter::HttpsBackendUntrusted);
        if self.now_ms >= self.warns_ms {
            self.warns_ms = self.now_ms + WARN_MS;
            tracing::warn!(%backend, "TLS with a backend failed: {why}");
        }
    }

    fn joined(&mut self, backend: BackendId) {
        self.counts.opened(backend);
        self.shared.loads().opened(backend);
    }

    fn left(&mut self, backend: BackendId) {
        self.shared.loads().closed(backend);
    }

    fn carried(&mut self, account: Account, bytes: usize) {
        // The last packets of a backend that has left must not count for the next with its id.
        if self.snapshot.services.backend(account.backend).is_some() {
            self.counts.ways().carry(account, ETHERNET + bytes);
        }
    }

    fn responded(&mut self, response: &Response) {
        let Response { backend, status, waited_ms, .. } = *response;
        self.counts.responded(backend, status, waited_ms);
    }

    fn answered(&mut self, service: ServiceId, status: u16) {
        self.counts.answered_alone(service, status);
    }

    fn logs(&mut self, _: ServiceId) -> bool {
        self.sample.take()
    }

    fn route_of(&self, service: ServiceId, request: &Request<'_>) -> Option<u16> {
        self.snapshot.services.service(service)?.route_number(&Asked(request))
    }

    fn log(&mut self, record: &Record) {
        if self.log.as_mut().is_none_or(|ring| ring.push(*record).is_err()) {
            self.counters.count(Counter::AccessLogLost);
        }
    }

    fn count(&mut self, event: Event) {
        self.counters.count(match event {
            Event::Opened => Counter::HttpsConnections,
            Event::Established => Counter::HttpsEstablished,
            Event::Http2 => Counter::HttpsHttp2,
            Event::Flood => Counter::HttpsFlood,
            Event::HandshakeFailed => Counter::HttpsFailed,
            Event::ClientRefused(refusal) => of_client(refusal),
            Event::HandshakeRefused => Counter::HttpsRefused,
            Event::HandshakeSlow => Counter::HttpsSlow,
            Event::BadRecord => Counter::HttpsBadRecord,
            Event::Request => Counter::HttpsRequests,
            Event::Refused(_) => Counter::HttpsErrors,
            Event::Directed => Counter::HttpsDirected,
            Event::Rejected(_) => Counter::HttpsRejected,
            Event::Cut => Counter::HttpsCut,
            Event::Answered(_) => Counter::HttpsAnswered,
            Event::BackendFailed => Counter::HttpsBackendFailed,
            Event::NoRoom => Counter::HttpsNoRoom,
            Event::BadResponse => Counter::HttpsBadResponse,
            Event::Idle => Counter::HttpsIdle,
            Event::PathShort => Counter::HttpsPathShort,
            Event::Unknown => Counter::HttpsUnknown,
        });
    }
}

const fn of_client(refusal: ClientRefusal) -> Counter {
    match refusal {
        ClientRefusal::Missing => Counter::HttpsClientMissing,
        ClientRefusal::Expired => Counter::HttpsClientExpired,
        ClientRefusal::Untrusted => Counter::HttpsClientUntrusted,
        ClientRefusal::Revoked => Counter::HttpsClientRevoked,
        ClientRefusal::Unlisted => Counter::HttpsClientUnlisted,
        ClientRefusal::Invalid => Counter::HttpsClientInvalid,
    }
}

fn changes(HeaderChanges { set, add, remove }: &HeaderChanges) -> Changes<'_> {
    Changes { set, add, remove }
}

/// What a client has asked for in its handshake, as routes read it.
struct Wished<'a>(&'a Wish<'a>);

impl HelloView for Wished<'_> {
    fn name(&self) -> &str {
        self.0.name.unwrap_or_default()
    }

    fn offers(&self, protocol: &str) -> bool {
        self.0.protocol == Some(protocol)
    }
}
