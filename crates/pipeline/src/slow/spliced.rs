//! Services of requests: their packets go to the L7 agent, which answers clients, reads
//! their requests, and joins their connections with those to backends.
//!
//! Next: out, or a drop.
use std::net::{IpAddr, SocketAddr};

use conntrack::Key;
use flow::{Account, AdmissionPolicy, BackendId, Direction, PortId, ServiceId, Transport};
use packet::PacketBuf;
use service::{Backend, Directed, GroupId, HeaderChanges, HelloView, Reads, Routed, Service};
use splice::{
    Agent, Answer, Changes, Choice, Constant, Ends, Event, Fate, Hello, Inquiry, Loan, Passing,
    Peer, Record, Refusal, Rejection, Request, Response, Speaks, Terms, Usage, World,
};
use state::{Counter, Loans, Snapshot};
use wire::{FlowKey, Headers, TcpFlags, decrement_ttl, ethernet, vlan};

use crate::Outbox;
use crate::context::{Context, Packet};
use crate::pipeline::{Settings, Stages};
use crate::sample::Sample;
use crate::scheduling::Scheduling;
use crate::slow::act::hop_to;
use crate::slow::asked::Asked;
use crate::slow::lent;
use crate::slow::spliced_counters::of_event;
use crate::slow::stateless::is_misplaced;
use crate::slow::waiting::{Then, Waiting};
use crate::source::is_client;
use crate::verdict::{Family, Verdict};

/// Requests of one worker whose responses are still to come and that are logged then.
const RECORDS: usize = 2048;

/// One worker's agent.
pub(crate) struct Spliced {
    /// Made with the first service of requests. It stays when that service leaves the
    /// configuration, since connections may last.
    agent: Option<Box<Agent>>,
    seed: u64,
    sample: Sample,
    /// This worker's number, and how many there are.
    share: (usize, usize),
}

/// Which side of a spliced connection has sent a packet.
#[derive(Clone, Copy)]
pub(crate) enum Sender {
    Client(ServiceId),
    Backend,
}

impl Spliced {
    /// For the worker with the number and among so many as `share` says.
    pub(crate) fn new(
        (snapshot, loans): (&Snapshot, &Loans),
        settings: Settings,
        share: (usize, usize),
    ) -> Self {
        let Settings { seed, log_sample, .. } = settings;
        let sample = Sample::new(log_sample);
        let mut spliced = Self { agent: None, seed, sample, share };
        spliced.follow(snapshot, loans);
        spliced
    }

    /// The verdict on a packet that may be of the agent's.
    #[inline(always)]
    pub(crate) fn verdict<const K: usize, O>(
        &self,
        cx: &Context<'_, O>,
        key: &Key<K>,
    ) -> Option<Verdict>
    where
        Agent: Passing<K>,
        FlowKey: for<'a> From<&'a Key<K>>,
    {
        let Key { addresses, ports, proto } = *key;
        let agent = self.agent.as_deref().filter(|_| proto == Transport::Tcp)?;
        match agent.find(&Ends { addresses, ports }) {
            Some(place) => {
                let family = if K == 1 { Family::V4 } else { Family::V6 };
                Some(Verdict::Passes(place, family))
            }
            None if self.share.1 == 1 => None,
            None => Some(Verdict::Handed(self.owner(cx, &FlowKey::from(key))? as u16)),
        }
    }

    /// The other worker that has the connection of a packet with `key`, if it is one of an
    /// agent's. Both directions of a connection have the client in common.
    pub(crate) fn owner<O>(&self, cx: &Context<'_, O>, key: &FlowKey) -> Option<usize> {
        let (own, workers) = self.share;
        if workers == 1 || cx.handed || self.agent.is_none() || key.proto() != Transport::Tcp {
            return None;
        }
        let client = match cx.snapshot.services.lookup(key) {
            Some(service) if service.is_spliced() => key.src(),
            Some(_) => return None,
            None => key.dst(),
        };
        Some(worker_of(client, workers)).filter(|worker| *worker != own)
    }

    /// The agent, if there is one.
    pub(crate) fn agent(&self) -> Option<&Agent> {
        self.agent.as_deref()
    }

    /// As [`Self::agent`], to give it a packet.
    pub(crate) fn agent_mut(&mut self) -> Option<&mut Agent> {
        self.agent.as_deref_mut()
    }

    /// Takes up a new configuration. The agent's memory is taken here, once, and not for
    /// packets.
    pub(crate) fn follow(&mut self, snapshot: &Snapshot, loans: &Loans) {
        let wanted = snapshot.services.services().iter().any(service::Service::is_spliced);
        if wanted && self.agent.is_none() {
            let secret = [self.seed, self.seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15];
            let records = if self.sample == Sample::new(0) { 0 } else { RECORDS };
            let settings = splice::Settings { secret, records, ..splice::Settings::default() };
            self.agent = Some(Box::new(Agent::new(settings)));
            if snapshot.admit != AdmissionPolicy::Off {
                loans.prepare();
            }
        }
    }
}

impl<B: PacketBuf> Stages<B> {
    /// Who has sent a packet with `key` that is for the agent; `None`: it isn't.
    #[inline]
    pub(crate) fn spliced<O>(&self, cx: &Context<'_, O>, key: &FlowKey) -> Option<Sender> {
        let agent = self.spliced.agent.as_ref()?;
        if key.proto() != Transport::Tcp {
            return None;
        }
        match cx.snapshot.services.lookup(key) {
            Some(service) => service.is_spliced().then(|| Sender::Client(service.id())),
            None => agent.expects(key).then_some(Sender::Backend),
        }
    }

    /// Gives a packet to the agent.
    pub(crate) fn splice<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        packet: Packet<B>,
        key: &FlowKey,
    ) {
        let Some(sender) = self.spliced(cx, key) else { return cx.count(Counter::HttpUnknown) };
        if let Err(malformed) = packet.check() {
            return cx.count(malformed.into());
        }
        if packet.headers.ttl <= 1 {
            return self.act(cx, packet, Err(Counter::TtlExpired));
        }
        let source = key.src().ip();
        match sender {
            Sender::Client(_) if !is_client(cx, source) => return cx.count(Counter::BadSource),
            Sender::Backend if is_misplaced(cx, source, packet.interface) => {
                return cx.count(Counter::WrongSide);
            }
            _ => {}
        }
        let Self { spliced, scheduling, acting, .. } = self;
        let Spliced { agent: Some(agent), sample, .. } = spliced else {
            return cx.count(Counter::HttpUnknown);
        };
        let waiting = &mut acting.waiting;
        let (Packet { buf, headers, interface }, now_ms) = (packet, cx.now_ms);
        let mut surroundings = Surroundings { cx, scheduling, waiting, sample, interface };
        let fate = match sender {
            Sender::Client(service) => {
                agent.from_client(buf, &headers, service, now_ms, &mut surroundings)
            }
            Sender::Backend => agent.from_backend(buf, &headers, now_ms, &mut surroundings),
        };
        match fate {
            // Counted where it left.
            Fate::Relayed => {}
            Fate::Taken => cx.count(Counter::HttpTaken),
            Fate::Unknown => cx.count(Counter::HttpUnknown),
            Fate::Malformed => cx.count(Counter::HttpMalformed),
        }
    }

    /// The agent, and what it needs where no packet has come in.
    pub(crate) fn surrounded<'a, 'b, O>(
        &'a mut self,
        cx: &'a mut Context<'b, O>,
    ) -> Option<(&'a mut Agent, Surroundings<'a, 'b, B, O>)> {
        let Self { spliced, scheduling, acting, .. } = self;
        let Spliced { agent: Some(agent), sample, .. } = spliced else { return None };
        let (waiting, interface) = (&mut acting.waiting, flow::InterfaceId(0));
        Some((agent, Surroundings { cx, scheduling, waiting, sample, interface }))
    }

    /// What the agent does without packets.
    pub(crate) fn tick_spliced<O: Outbox<B>>(&mut self, cx: &mut Context<'_, O>) {
        let Some((agent, mut surroundings)) = self.surrounded(cx) else { return };
        agent.tick(surroundings.cx.now_ms, &mut surroundings);
        let Usage { connections, half_open, idle, headers, short_headers, bytes } = agent.usage();
        for (level, value) in [
            (Counter::HttpOpen, connections),
            (Counter::HttpHalfOpen, half_open),
            (Counter::HttpIdle, idle),
            (Counter::HttpHeadersHeld, headers),
            (Counter::HttpShortHeadersHeld, short_headers),
            (Counter::HttpBytes, bytes),
        ] {
            cx.counters.set(level, value as u64);
        }
    }
}

/// The worker among so many that has the connections of a client's port.
fn worker_of(client: SocketAddr, workers: usize) -> usize {
    let address = match client.ip() {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64 ^ address.to_bits() as u64,
    };
    // The upper half of the product is the better one.
    let port = u64::from(client.port()).rotate_right(16);
    let mixed = (address ^ port).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((mixed * workers as u64) >> 32) as usize
}

/// What surrounds the agent while it has a packet.
pub(crate) struct Surroundings<'a, 'b, B, O> {
    cx: &'a mut Context<'b, O>,
    scheduling: &'a mut Scheduling,
    waiting: &'a mut Waiting<B>,
    sample: &'a mut Sample,
    /// Where the packet came in.
    interface: flow::InterfaceId,
}

impl<B: PacketBuf, O: Outbox<B>> World<B> for Surroundings<'_, '_, B, O> {
    fn fresh(&mut self, len: usize) -> Option<B> {
        self.cx.out.fresh(len)
    }

    fn relay(&mut self, packet: B, headers: &Headers, to: IpAddr, account: Account) {
        let account = Some(account);
        let mut packet = Packet { buf: packet, headers: *headers, interface: self.interface };
        if !decrement_ttl(packet.buf.bytes_mut(), headers) {
            return self.cx.count(Counter::TtlExpired);
        }
        match address(self.cx, &mut packet, to) {
            Ok(port) => {
                self.cx.count(Counter::ForwardedPackets);
                carry(self.cx, &packet, account);
                self.cx.out.send(port, packet.buf);
            }
            Err(Counter::NeighbourUnresolved) => {
                self.hold(packet, to, Counter::ForwardedPackets, account);
            }
            Err(counter) => self.cx.count(counter),
        }
    }

    fn send(&mut self, packet: B, to: IpAddr, account: Option<Account>) {
        let Ok(headers) = Headers::parse(packet.bytes()) else {
            return self.cx.count(Counter::HttpUnsent);
        };
        let mut packet = Packet { buf: packet, headers, interface: self.interface };
        match address(self.cx, &mut packet, to) {
            Ok(port) => {
                self.cx.count(Counter::OriginatedPackets);
                carry(self.cx, &packet, account);
                self.cx.out.send(port, packet.buf);
            }
            Err(Counter::NeighbourUnresolved) => {
                self.hold(packet, to, Counter::OriginatedPackets, account);
            }
            Err(_) => self.cx.count(Counter::HttpUnsent),
        }
    }

    fn speaks(&self, service: ServiceId) -> Speaks {
        match self.cx.snapshot.services.service(service).and_then(Service::reads) {
            Some(Reads::Hellos) => Speaks::Tls,
            Some(Reads::Nothing) => Speaks::Any,
            _ => Speaks::Http,
        }
    }

    fn has_proxy_header(&self, service: ServiceId) -> bool {
        let service = self.cx.snapshot.services.service(service);
        service.is_some_and(Service::has_proxy_header)
    }

    fn assign(&mut self, inquiry: &Inquiry<'_>) -> Option<Peer> {
        let service = self.cx.snapshot.services.service(inquiry.service)?;
        self.schedule(service, GroupId::NONE, inquiry)
    }

    fn direct(&mut self, inquiry: &Inquiry<'_>, hello: &Hello) -> Result<Peer, Rejection> {
        let service = self.cx.snapshot.services.service(inquiry.service);
        let service = service.ok_or(Rejection::NoBackend)?;
        match service.direct(&Greeting(hello)).ok_or(Rejection::NoBackend)? {
            Directed::Group(group) => {
                self.schedule(service, group, inquiry).ok_or(Rejection::NoBackend)
            }
            Directed::NoProtocol => Err(Rejection::NoProtocol),
            Directed::NoRoute => Err(Rejection::NoRoute),
        }
    }

    fn choose(
        &mut self,
        inquiry: &Inquiry<'_>,
        request: &Request<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<Choice, Refusal> {
        let Inquiry { service, ends: [_, vip], tried, kept, .. } = *inquiry;
        let service = self.cx.snapshot.services.service(service).ok_or(Refusal::NoBackend)?;
        let asked = Asked(request);
        let group = match service.route(&asked).ok_or(Refusal::NoBackend)? {
            Routed::Group(group) => group,
            Routed::Reply(reply) if reply.names_host() && request.host.is_empty() => {
                return Err(Refusal::NoHost);
            }
            Routed::Reply(reply) => {
                let written = reply.pieces(&asked).try_for_each(|one| answer.push(one.as_bytes()));
                let status = written.map(|()| reply.status());
                return status.map(Choice::Answer).ok_or(Refusal::Target);
            }
        };
        if !service.has_group(group) {
            return Err(Refusal::NoRoute);
        }
        let at = |own: &Backend| listens(own, vip);
        let to = |backend: Peer, sticks: bool| {
            let (keeps, rewrites) = (service.is_uniform(), service.rewrites_responses());
            Choice::Backend { backend, terms: Terms { keeps, rewrites, sticks } }
        };
        let sticky = service.sticky_cookie();
        let value = sticky.and_then(|name| request.cookie(name));
        let named = value.and_then(|value| service.backend_of_cookie(group, value));
        if let Some(own) = named.filter(|own| !tried.contains(&at(own))) {
            return Ok(to(peer(own, vip), false));
        }
        if let Some(backend) = kept
            && let Some(own) = service.stays(group, |own| at(own) == backend)
        {
            return Ok(to(peer(own, vip), sticky.is_some()));
        }
        let backend = self.schedule(service, group, inquiry).ok_or(Refusal::NoBackend)?;
        Ok(to(backend, sticky.is_some()))
    }

    fn request_changes(&self, service: ServiceId) -> Changes<'_> {
        let service = self.cx.snapshot.services.service(service);
        service.and_then(Service::request_changes).map(changes).unwrap_or_default()
    }

    fn response_changes(&self, service: ServiceId) -> Changes<'_> {
        let service = self.cx.snapshot.services.service(service);
        service.and_then(Service::response_changes).map(changes).unwrap_or_default()
    }

    fn cookie(&self, service: ServiceId, backend: SocketAddr) -> Option<&str> {
        let service = self.cx.snapshot.services.service(service)?;
        let port = |own: &Backend| own.port.or(service.port()).unwrap_or(0);
        service.cookie_of(|own| SocketAddr::new(own.address, port(own)) == backend)
    }

    fn joined(&mut self, backend: BackendId) {
        self.cx.counts.opened(backend);
        self.cx.shared.loads().opened(backend);
    }

    fn left(&mut self, backend: BackendId) {
        self.cx.shared.loads().closed(backend);
    }

    fn responded(&mut self, response: &Response) {
        let Response { backend, status, waited_ms, .. } = *response;
        self.cx.counts.responded(backend, status, waited_ms);
    }

    fn answered(&mut self, service: ServiceId, status: u16) {
        self.cx.counts.answered_alone(service, status);
    }

    fn logs(&mut self, _: ServiceId) -> bool {
        self.sample.take()
    }

    fn route_of(&self, service: ServiceId, request: &Request<'_>) -> Option<u16> {
        self.cx.snapshot.services.service(service)?.route_number(&Asked(request))
    }

    fn log(&mut self, record: &Record) {
        if !self.cx.out.log(record) {
            self.cx.count(Counter::AccessLogLost);
        }
    }

    fn lend(&mut self, constant: &Constant) -> Option<Loan> {
        lent::lend(self.cx, constant)
    }

    fn remind(&mut self, loan: Loan) -> bool {
        lent::remind(self.cx, loan)
    }

    fn take_back(&mut self, loan: Loan) -> bool {
        lent::take_back(self.cx, loan)
    }

    fn count(&mut self, event: Event) {
        of_event(event).into_iter().flatten().for_each(|counter| self.cx.count(counter));
    }
}

impl<B, O> Surroundings<'_, '_, B, O> {
    /// Holds a packet to `to`, whose next hop is asked for; it will count as `counter`, and
    /// for `account`.
    fn hold(&mut self, packet: Packet<B>, to: IpAddr, counter: Counter, account: Option<Account>) {
        match hop_to(self.cx, to) {
            Ok(hop) => self.waiting.hold(self.cx, packet, hop, Then::Send(to, counter, account)),
            Err(counter) => self.cx.count(counter),
        }
    }
}

impl<B, O> Surroundings<'_, '_, B, O> {
    /// A backend of the group for a new connection.
    fn schedule(
        &mut self,
        service: &Service,
        group: GroupId,
        inquiry: &Inquiry<'_>,
    ) -> Option<Peer> {
        let Inquiry { ends: [client, vip], tried, .. } = *inquiry;
        let flow = FlowKey::new(Transport::Tcp, client, vip)?;
        let state = &mut self.scheduling.state;
        let was_tried = |own: &Backend| tried.contains(&listens(own, vip));
        let chosen = service.schedule_in(group, &flow, state, &was_tried);
        chosen.map(|own| peer(own, vip))
    }
}

/// Where a backend is reached by clients of `vip`.
fn listens(own: &Backend, vip: SocketAddr) -> SocketAddr {
    SocketAddr::new(own.address, own.port.unwrap_or(vip.port()))
}

fn peer(own: &Backend, vip: SocketAddr) -> Peer {
    Peer { at: listens(own, vip), id: own.id }
}

/// Counts a packet for `account`. A backend that no open connection has may leave the
/// configuration, and the last packets to it must not count for the one that gets its id.
pub(crate) fn carry<B: PacketBuf, O>(
    cx: &Context<'_, O>,
    packet: &Packet<B>,
    account: Option<Account>,
) {
    let Some(account) = account else { return };
    let Some(own) = cx.snapshot.services.backend(account.backend) else { return };
    let (frame, headers) = (packet.buf.bytes(), &packet.headers);
    let is_to_backend = account.direction == Direction::Forward;
    if is_to_backend && headers.dst_addr(frame) != Some(own.address) {
        return;
    }
    let tag = if headers.vlan.is_some() { vlan::LEN } else { 0 };
    cx.counts.ways().carry(account, frame.len() - tag);
    if headers.tcp_flags.any(TcpFlags::RST) {
        cx.counts.reset(account);
    }
}

fn changes(HeaderChanges { set, add, remove }: &HeaderChanges) -> Changes<'_> {
    Changes { set, add, remove }
}

/// Writes the tag and the Ethernet addresses of the way to `to`; the port that the packet
/// leaves by.
pub(super) fn address<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    packet: &mut Packet<B>,
    to: IpAddr,
) -> Result<PortId, Counter> {
    let hop = hop_to(cx, to)?;
    let found = cx.shared.neighbours().resolve(hop, cx.now_ms);
    let (id, mac) = found.ok_or(Counter::NeighbourTableFull)?;
    let interface = cx.snapshot.interfaces.get(id).ok_or(Counter::NoRoute)?;
    if packet.headers.end.saturating_sub(packet.headers.l3) > interface.mtu {
        return Err(Counter::TooBig);
    }
    let Some(mac) = mac else {
        cx.count(Counter::ResolveAsked);
        cx.out.resolve(hop);
        return Err(Counter::NeighbourUnresolved);
    };
    if !vlan::set(&mut packet.buf, &mut packet.headers, interface.vlan) {
        return Err(Counter::NoRoom);
    }
    if !ethernet::set_macs(packet.buf.bytes_mut(), mac, interface.mac) {
        return Err(Counter::Truncated);
    }
    Ok(interface.port)
}

/// A ClientHello as routes read it.
struct Greeting<'a>(&'a Hello);

impl HelloView for Greeting<'_> {
    fn name(&self) -> &str {
        let name = self.0.name.as_deref().unwrap_or_default();
        std::str::from_utf8(name).unwrap_or_default()
    }

    fn offers(&self, protocol: &str) -> bool {
        self.0.protocols().any(|own| own == protocol.as_bytes())
    }
}
