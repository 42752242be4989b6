//! A client, the agent and two backends, of which one may refuse.
use std::net::{IpAddr, SocketAddr};

use flow::{Account, BackendId, ServiceId};
use packet::{HeapPacket, PacketBuf};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use smoltcp::socket::tcp::State;
use splice::{
    Agent, Answer, Changes, Choice, Constant, Event, Hello, Inquiry, Loan, NamedValue, Peer,
    Record, Refusal, Rejection, Request, Response, Settings, Speaks, Terms, World, Worth,
};
use wire::Headers;

use crate::card::Card;
use crate::greeting;
use crate::host::{CLIENT_CLOCK, Host, SERVER_CLOCK};
use crate::link::{Faults, Link};
use crate::shortcut::{Shortcut, of, pass};
use crate::talk::{Talk, check_requests};
use crate::told::{self, Expected};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const VIP: [u8; 4] = [10, 0, 0, 100];
const BACKENDS: [[u8; 4]; 2] = [[10, 0, 1, 1], [10, 0, 1, 2]];
const PORT: u16 = 8080;
/// The service whose clients begin with TLS, and that of which nothing is read; that of
/// requests is another.
const TLS: ServiceId = ServiceId(1);
const ANY: ServiceId = ServiceId(2);
const CLIENT_PORT: u16 = 40_000;

/// In this time every talk is over.
const LONGEST_MS: u64 = 5_000_000;

pub(crate) struct Options {
    /// No half-open connection is kept.
    pub(crate) cookies_alone: bool,
    /// The first backend refuses connections.
    pub(crate) refusing: bool,
    /// The server's segments.
    pub(crate) mss: usize,
    /// Where numbers begin.
    pub(crate) isn: u32,
    /// Whether the client and the two servers have timestamps.
    pub(crate) stamps: [bool; 3],
    /// The buffers of the client and of the servers.
    pub(crate) buffers: [usize; 2],
    /// Requests of a connection go to different servers.
    pub(crate) switching: bool,
    /// Headers of responses are changed.
    pub(crate) changing: bool,
    /// Segments of the steady state are kept from the machine.
    pub(crate) fast: bool,
    /// Connections to servers begin with a header of the PROXY protocol.
    pub(crate) proxied: bool,
    /// Nothing is read of what the client says.
    pub(crate) unread: bool,
    /// A card sends on what it can.
    pub(crate) card: Option<Carrying>,
}

/// What a card is lent, and who sees it.
#[derive(Clone, Copy)]
pub(crate) struct Carrying {
    /// Bytes of a response that must be still to come.
    pub(crate) least: u64,
    /// The agent gets the packets as well, and must give the same ones.
    pub(crate) beside: bool,
}

/// What the agent sends, and the backends that it may choose.
#[derive(Default)]
struct Surroundings {
    sent: Vec<HeapPacket>,
    events: Vec<Event>,
    /// Whether requests go to the servers in turn.
    switching: bool,
    /// What is changed of responses, if anything.
    changes: Option<[Vec<NamedValue>; 2]>,
    removed: [String; 1],
    /// Final responses that were told.
    told: usize,
    /// Open connections of each server.
    open: [u32; 2],
    /// What was logged.
    records: Vec<Record>,
    /// Whether connections to servers begin with a header of the PROXY protocol.
    proxied: bool,
    card: Option<Card>,
}

/// A server whose id is its place.
fn peer(at: SocketAddr) -> Peer {
    let place = BACKENDS.iter().position(|own| at.ip() == IpAddr::from(*own)).unwrap();
    Peer { at, id: BackendId(place as u16) }
}

impl World<HeapPacket> for Surroundings {
    fn fresh(&mut self, len: usize) -> Option<HeapPacket> {
        Some(HeapPacket::new(&vec![0; len]))
    }

    fn relay(&mut self, mut packet: HeapPacket, headers: &Headers, _: IpAddr, _: Account) {
        assert!(wire::decrement_ttl(packet.bytes_mut(), headers));
        self.sent.push(packet);
    }

    fn send(&mut self, packet: HeapPacket, _: IpAddr, _: Option<Account>) {
        self.sent.push(packet);
    }

    fn speaks(&self, service: ServiceId) -> Speaks {
        match service {
            TLS => Speaks::Tls,
            ANY => Speaks::Any,
            _ => Speaks::Http,
        }
    }

    fn has_proxy_header(&self, _: ServiceId) -> bool {
        self.proxied
    }

    fn assign(&mut self, inquiry: &Inquiry<'_>) -> Option<Peer> {
        let all = BACKENDS.map(|address| SocketAddr::from((address, PORT)));
        all.into_iter().find(|backend| !inquiry.tried.contains(backend)).map(peer)
    }

    fn direct(&mut self, inquiry: &Inquiry<'_>, hello: &Hello) -> Result<Peer, Rejection> {
        assert_eq!(hello.name.as_deref(), Some(greeting::NAME));
        let all = BACKENDS.map(|address| SocketAddr::from((address, PORT)));
        let mut untried = all.into_iter().filter(|backend| !inquiry.tried.contains(backend));
        untried.next().map(peer).ok_or(Rejection::NoBackend)
    }

    fn choose(
        &mut self,
        inquiry: &Inquiry<'_>,
        request: &Request<'_>,
        _: &mut Answer<'_>,
    ) -> Result<Choice, Refusal> {
        let mut all = BACKENDS.map(|address| SocketAddr::from((address, PORT)));
        // Of the paths /0, /1, ... the servers take turns.
        if self.switching && request.path.bytes().any(|digit| digit % 2 == 1 && digit != b'/') {
            all.reverse();
        }
        let kept = inquiry.kept.filter(|_| !self.switching);
        let mut untried = all.into_iter().filter(|backend| !inquiry.tried.contains(backend));
        let backend = kept.or_else(|| untried.next());
        let backend = backend.map(peer).ok_or(Refusal::NoBackend)?;
        let rewrites = self.changes.is_some();
        let terms = Terms { keeps: !self.switching, rewrites, sticks: rewrites };
        Ok(Choice::Backend { backend, terms })
    }

    fn response_changes(&self, _: ServiceId) -> Changes<'_> {
        let Some([set, add]) = &self.changes else { return Changes::default() };
        Changes { set, add, remove: &self.removed }
    }

    fn cookie(&self, _: ServiceId, _: SocketAddr) -> Option<&str> {
        Some("at=any; Path=/")
    }

    fn responded(&mut self, response: &Response) {
        assert_eq!(response.status, 200);
        assert!(self.open[usize::from(response.backend.0)] == 1, "a response of a stranger");
        self.told += 1;
    }

    fn joined(&mut self, backend: BackendId) {
        assert_eq!(self.open, [0, 0], "a client's connection has two backends");
        self.open[usize::from(backend.0)] += 1;
    }

    fn left(&mut self, backend: BackendId) {
        self.open[usize::from(backend.0)] -= 1;
    }

    fn logs(&mut self, _: ServiceId) -> bool {
        true
    }

    fn log(&mut self, record: &Record) {
        self.records.push(*record);
    }

    fn lend(&mut self, constant: &Constant) -> Option<Loan> {
        self.card.as_mut()?.lend(constant)
    }

    fn remind(&mut self, loan: Loan) -> bool {
        self.card.as_mut().unwrap().remind(loan)
    }

    fn take_back(&mut self, loan: Loan) -> bool {
        self.card.as_mut().unwrap().take_back(loan)
    }

    fn count(&mut self, event: Event) {
        if event != Event::Made {
            self.events.push(event);
        }
    }
}

pub(crate) struct Network {
    client: Host,
    servers: [Host; 2],
    agent: Agent,
    around: Surroundings,
    links: [Link; 5],
    faults: Faults,
    rng: SmallRng,
    talk: Talk,
    /// All requests, and where each of them ends.
    stream: Vec<u8>,
    ends: Vec<usize>,
    /// Where each response ends.
    wanted_ends: Vec<usize>,
    wanted: Vec<u8>,
    now: u64,
    sent: usize,
    got: Vec<u8>,
    received: Vec<u8>,
    answered: usize,
    /// What each server has got of the header that tells of the client; `None`: all of it.
    told: [Option<Vec<u8>>; 2],
    unread: bool,
    /// The server that got the last request.
    answering: usize,
    answer: Vec<u8>,
    refused: bool,
    fast: bool,
    /// Packets that the entry of the steady state has translated too.
    steady: usize,
    carrying: Option<Carrying>,
}

impl Network {
    pub(crate) fn new(seed: u64, faults: Faults, options: Options, talk: Talk) -> Self {
        let isn = u64::from(options.isn);
        let [stamps, server_stamps @ ..] = options.stamps;
        let [buffer, server_buffer] = options.buffers;
        let clock = stamps.then_some(CLIENT_CLOCK);
        let client = Host::new(CLIENT, 1460, buffer, clock, seed ^ isn);
        let mut servers = [0, 1].map(|at| {
            let clock = server_stamps[at].then_some(SERVER_CLOCK);
            Host::new(BACKENDS[at], options.mss, server_buffer, clock, seed ^ isn << 8)
        });
        if !options.refusing {
            servers[0].socket().listen(PORT).unwrap();
        }
        servers[1].socket().listen(PORT).unwrap();
        let half_open = if options.cookies_alone { 0 } else { 10 };
        let settings = Settings {
            connections: 16,
            half_open,
            headers: 16,
            records: 8,
            secret: [seed, 3],
            // A sender doubles its timeout at each loss: a header may be long in coming.
            header_ms: 300_000,
            ..Settings::default()
        };
        let (mut wanted, mut stream) = (talk.banner.clone(), Vec::new());
        let (mut wanted_ends, mut ends) = (Vec::new(), Vec::new());
        for (which, request) in talk.requests().into_iter().enumerate() {
            wanted.extend(talk.wanted(which));
            wanted_ends.push(wanted.len());
            stream.extend(request);
            ends.push(stream.len());
        }
        Self {
            client,
            servers,
            agent: Agent::new(settings),
            around: Surroundings {
                switching: options.switching,
                changes: options.changing.then(|| {
                    let named = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
                    [named("X-Frame-Options", "DENY"), named("Vary", "Origin")]
                }),
                removed: ["server".to_owned()],
                proxied: options.proxied,
                card: options.card.map(|_| Card::new(SmallRng::seed_from_u64(seed ^ 0xca4d))),
                ..Surroundings::default()
            },
            answering: 0,
            told: [None, None],
            unread: options.unread,
            links: Default::default(),
            faults,
            rng: SmallRng::seed_from_u64(seed ^ 0x5eed),
            stream,
            ends,
            wanted_ends,
            talk,
            wanted,
            now: 0,
            sent: 0,
            got: Vec::new(),
            received: Vec::new(),
            answered: 0,
            answer: Vec::new(),
            refused: false,
            steady: 0,
            fast: options.fast,
            carrying: options.card,
        }
    }

    /// How many packets were translated by the entry of the steady state as well, how often
    /// the connection went on to another server, how many packets a card has sent on, and how
    /// often it was wanted back while it did.
    pub(crate) fn run(mut self) -> Result<[usize; 4], String> {
        self.client.connect((VIP, 80), CLIENT_PORT);
        let mut closed_at = None;
        while self.now < LONGEST_MS {
            self.now += if closed_at.is_some() { 100 } else { 1 };
            self.carry()?;
            self.speak();
            self.listen()?;
            self.refused |= self.around.events.contains(&Event::Unserved);
            let over = self.refused || self.got.len() == self.wanted.len();
            if over && closed_at.is_none() {
                self.client.socket().close();
                closed_at = Some(self.now);
            }
            // A client whose server has gone away sees a reset, and that is the worst.
            if closed_at.is_none() && !self.client.socket().is_active() {
                return Err(format!(
                    "reset after {} ms with {} of {} bytes; {:?}",
                    self.now,
                    self.got.len(),
                    self.wanted.len(),
                    self.around.events
                ));
            }
            if closed_at.is_some_and(|at| self.now > at + 400_000) {
                let usage = self.agent.usage();
                let state = self.client.socket().state();
                let over = matches!(state, State::Closed | State::TimeWait)
                    || (self.refused && state == State::LastAck);
                // smoltcp 0.12 may forget to repeat a FIN that got lost.
                let waits = |server: &mut Host| server.socket().state() == State::LastAck;
                let forgot = self.servers.iter_mut().any(waits);
                if usage.connections == 0 && self.around.open != [0, 0] {
                    return Err(format!("{:?} connections of nobody", self.around.open));
                }
                if usage.connections == 0 {
                    self.check_records()?;
                }
                return match (usage.connections, usage.headers, over || forgot) {
                    (0, 0, true) => Ok(self.counts()),
                    (1, 0, true) if forgot => Ok(self.counts()),
                    _ => Err(format!(
                        "left behind: {usage:?}, the client is in {state:?}, the servers in {:?}",
                        self.servers.each_mut().map(|server| server.socket().state())
                    )),
                };
            }
        }
        Err(format!(
            "stuck with {} of {} bytes sent, {} of {} got, {} received, windows {:?}, {:?}",
            self.sent,
            self.stream.len(),
            self.got.len(),
            self.wanted.len(),
            self.received.len(),
            [self.client.told, self.servers[0].told, self.servers[1].told],
            self.around.events
        ))
    }

    /// Every request is logged once, with what it and its response have.
    fn check_records(&self) -> Result<(), String> {
        let Surroundings { records, events, .. } = &self.around;
        let count = |is: fn(&Event) -> bool| events.iter().filter(|own| is(own)).count();
        let asked = count(|own| matches!(own, Event::Request | Event::Refused(_)));
        let lost = count(|own| *own == Event::Unlogged);
        if records.len() + lost != asked {
            return Err(format!("{} records and {lost} lost of {asked} requests", records.len()));
        }
        for record in records.iter().filter(|own| own.why.is_empty()) {
            let which: usize = record.path.trim_start_matches('/').parse().unwrap_or(usize::MAX);
            let lengths = self.talk.lengths(which).map(|length| length as u64);
            let whole = record.first_byte_ms.is_some_and(|ms| u64::from(ms) <= record.duration_ms);
            if record.bytes != lengths || record.status != 200 || !whole {
                return Err(format!("{record:?}, of {lengths:?} bytes"));
            }
        }
        Ok(())
    }

    fn counts(&self) -> [usize; 4] {
        let events = self.around.events.iter();
        let switches = events.filter(|event| **event == Event::Switched).count();
        let card = self.around.card.as_ref();
        let [carried, recalled] = card.map_or([0; 2], |card| [card.carried, card.recalled]);
        [self.steady, switches, carried, recalled]
    }

    fn service(&self) -> ServiceId {
        match (self.unread, self.talk.hello.is_empty()) {
            (true, _) => ANY,
            (false, true) => ServiceId(0),
            (false, false) => TLS,
        }
    }

    /// Packets go one step.
    fn carry(&mut self) -> Result<(), String> {
        let service = self.service();
        let Self { client, servers, agent, around, links, faults, rng, now, steady, .. } = self;
        let (fast, carrying) = (self.fast, self.carrying);
        if let Some(card) = &mut around.card {
            card.now = *now;
        }
        let [up, down, there @ .., back] = links;
        client.poll(*now);
        servers.iter_mut().for_each(|server| server.poll(*now));
        while let Some(packet) = client.send() {
            up.send(packet, *now, faults, rng);
        }
        for server in servers.iter_mut() {
            while let Some(packet) = server.send() {
                back.send(packet, *now, faults, rng);
            }
        }
        while let Some(packet) = up.arrived(*now) {
            let (frame, headers) = framed(&packet);
            lend(agent, &frame, carrying, *now, around);
            if let Some(packet) = fast.then(|| pass(agent, &frame)).flatten() {
                around.sent.push(packet);
                *steady += 1;
                continue;
            }
            let shortcut = Shortcut::new(agent, &frame);
            let before = around.sent.len();
            let fate = agent.from_client(frame, &headers, service, *now, around);
            let sent = around.sent.get(before..).unwrap();
            *steady += usize::from(shortcut.check(agent, fate, sent)?);
        }
        while let Some(packet) = back.arrived(*now) {
            let (frame, headers) = framed(&packet);
            let carried = around.card.as_mut().and_then(|card| card.send_on(&frame));
            if let (Some(carried), Some(Carrying { beside, .. })) = (carried, carrying) {
                let before = around.sent.len();
                if beside {
                    let fate = agent.from_backend(frame, &headers, *now, around);
                    let sent: Vec<_> = around.sent.drain(before..).collect();
                    if !matches!(&sent[..], [only] if only.bytes() == carried.bytes()) {
                        let sent: Vec<_> = sent.iter().map(HeapPacket::bytes).collect();
                        return Err(format!("{fate:?}: {sent:x?}, card {:x?}", carried.bytes()));
                    }
                }
                around.sent.push(carried);
                continue;
            }
            lend(agent, &frame, carrying, *now, around);
            if let Some(packet) = fast.then(|| pass(agent, &frame)).flatten() {
                around.sent.push(packet);
                *steady += 1;
                continue;
            }
            let shortcut = Shortcut::new(agent, &frame);
            let before = around.sent.len();
            let fate = agent.from_backend(frame, &headers, *now, around);
            let sent = around.sent.get(before..).unwrap();
            *steady += usize::from(shortcut.check(agent, fate, sent)?);
        }
        agent.tick(*now, around);
        for packet in around.sent.drain(..) {
            let headers = Headers::parse(packet.bytes()).unwrap();
            let to = headers.dst_addr(packet.bytes()).unwrap();
            let ip = packet.bytes()[14..].to_vec();
            if to == IpAddr::from(CLIENT) {
                down.send(ip, *now, faults, rng);
            } else {
                let at = usize::from(to == IpAddr::from(BACKENDS[1]));
                there[at].send(ip, *now, faults, rng);
            }
        }
        while let Some(packet) = down.arrived(*now) {
            client.take(packet).map_err(|why| format!("client: {why}"))?;
        }
        for (link, server) in there.iter_mut().zip(servers) {
            while let Some(packet) = link.arrived(*now) {
                server.take(packet).map_err(|why| format!("server: {why}"))?;
            }
        }
        Ok(())
    }

    /// Both sides send what they have to say.
    fn speak(&mut self) {
        let whole = self.wanted_ends.iter().filter(|end| **end <= self.got.len()).count();
        let ready = if self.talk.pipelined { self.ends.len() } else { whole + 1 };
        // Nothing is said before the server's banner is there.
        let ready = if self.got.len() < self.talk.banner.len() { 0 } else { ready };
        let end = self.ends.iter().take(ready).next_back().copied().unwrap_or(0);
        if self.client.socket().can_send() && self.sent < end {
            let rest = &self.stream[self.sent..end];
            self.sent += self.client.socket().send_slice(rest).unwrap();
        }
        for (at, server) in self.servers.iter_mut().enumerate() {
            if at == self.answering && !self.answer.is_empty() && server.socket().can_send() {
                let sent = server.socket().send_slice(&self.answer).unwrap();
                self.answer.drain(..sent);
            }
            if server.socket().state() == State::CloseWait {
                server.socket().close();
            }
            // The agent ends the connection to a server that others follow.
            if self.around.switching && server.socket().state() == State::Closed {
                server.socket().listen(PORT).unwrap();
            }
        }
    }

    fn listen(&mut self) -> Result<(), String> {
        let mut buffer = [0; 4096];
        if self.client.socket().can_recv() {
            let length = self.client.socket().recv_slice(&mut buffer).unwrap();
            self.got.extend(&buffer[..length]);
            let from = self.got.len() - length;
            // Every SYN to a backend may get lost: then the client is told so, behind the
            // responses that it has.
            let (silent, refusal) = match self.service() {
                TLS => {
                    let rejection = Rejection::BackendSilent;
                    (Event::Rejected(rejection), rejection.answer().to_vec())
                }
                _ => {
                    let refusal = Refusal::BackendSilent;
                    (Event::Refused(refusal), refusal.answer().into_bytes())
                }
            };
            let whole = self.wanted_ends.iter().copied().chain([0]);
            let told = |end: usize| self.got.get(end..).is_some_and(|got| got == refusal);
            if self.around.events.contains(&silent) && whole.into_iter().any(told) {
                self.refused = true;
                return Ok(());
            }
            if self.wanted.get(from..self.got.len()) != Some(&self.got[from..]) {
                let text = String::from_utf8_lossy(&self.got);
                let end = text.char_indices().nth(200).map_or(text.len(), |(at, _)| at);
                return Err(format!(
                    "a response was altered: {:?}; {:?}",
                    &text[..end],
                    self.around.events
                ));
            }
        }
        let before = self.received.len();
        let ends = [(CLIENT, CLIENT_PORT), (VIP, 80)].map(SocketAddr::from);
        let (authority, alpn) = match self.service() {
            TLS => (std::str::from_utf8(greeting::NAME).ok(), Some(greeting::PROTOCOL)),
            ANY => (None, None),
            _ => (Some("x"), None),
        };
        let expected = Expected { ends, authority, alpn };
        for (at, server) in self.servers.iter_mut().enumerate() {
            let state = server.socket().state();
            if self.around.proxied && matches!(state, State::Listen | State::SynReceived) {
                self.told[at] = Some(Vec::new());
            }
            if server.socket().can_recv() {
                self.answering = at;
                let length = server.socket().recv_slice(&mut buffer).unwrap();
                let mut new = buffer[..length].to_vec();
                if let Some(told) = &mut self.told[at] {
                    told.append(&mut new);
                    let Some(length) = told::read(told, &expected)? else { continue };
                    new = told.split_off(length);
                    self.told[at] = None;
                    self.answer.extend(&self.talk.banner);
                }
                self.received.extend(new);
            }
        }
        if self.received.len() == before {
            return Ok(());
        }
        for which in self.answered..check_requests(&self.talk, &self.received)? {
            self.answer.extend(self.talk.response(which));
            self.answered += 1;
        }
        Ok(())
    }
}

/// Takes a packet that comes as an occasion to lend its connection, as one of some.
fn lend(
    agent: &mut Agent,
    frame: &HeapPacket,
    carrying: Option<Carrying>,
    now: u64,
    around: &mut Surroundings,
) {
    let Some((Carrying { least, .. }, card)) = carrying.zip(around.card.as_mut()) else { return };
    if card.is_occasion()
        && let Some(place) = of(agent, frame.bytes())
    {
        agent.occasion(place, Worth(least), now, around);
    }
}

fn framed(packet: &[u8]) -> (HeapPacket, Headers) {
    let mut frame = vec![0; 14];
    frame[12] = 8;
    frame.extend(packet);
    let headers = Headers::parse(&frame).unwrap();
    (HeapPacket::new(&frame), headers)
}
