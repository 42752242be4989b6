//! What the L7 agent asks for while it has a packet: backends, headers that change, and ways
//! out.
use std::net::{IpAddr, SocketAddr};

use flow::{Account, BackendId, Direction, PortId, ServiceId, Transport};
use packet::PacketBuf;
use service::{Backend, Directed, GroupId, HeaderChanges, Reads, Routed, Service};
use splice::{
    Answer, Changes, Choice, Constant, Event, Hello, Inquiry, Loan, Peer, Record, Refusal,
    Rejection, Request, Response, Speaks, Terms, World,
};
use state::Counter;
use wire::{FlowKey, Headers, TcpFlags, decrement_ttl, ethernet, vlan};

use crate::Outbox;
use crate::context::{Context, Packet};
use crate::sample::Sample;
use crate::scheduling::Scheduling;
use crate::slow::act::hop_to;
use crate::slow::asked::{Asked, Greeting};
use crate::slow::lent;
use crate::slow::spliced_counters::of_event;
use crate::slow::waiting::{Then, Waiting};

/// What surrounds the agent while it has a packet.
pub(crate) struct Surroundings<'a, 'b, B, O> {
    pub(super) cx: &'a mut Context<'b, O>,
    pub(super) scheduling: &'a mut Scheduling,
    pub(super) waiting: &'a mut Waiting<B>,
    pub(super) sample: &'a mut Sample,
    /// Where the packet came in.
    pub(super) interface: flow::InterfaceId,
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
