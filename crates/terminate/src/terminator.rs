//! All connections: packets and time in, packets out.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::SocketAddr;

use flow::{Account, Direction, ServiceId};

use crate::common::Common;
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::event::Event;
use crate::paths::Paths;
use crate::settings::Settings;
use crate::stack;
use crate::world::World;

/// A TCP segment in its IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The IP packet, without what is before and behind it.
    pub ip: Vec<u8>,
    /// Who has sent it.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// Whether it is a SYN without an acknowledgement.
    pub opens: bool,
    /// Whether it is a reset.
    pub resets: bool,
}

/// A router's word that a packet was too long for its next link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Who was to get the packet.
    pub peer: SocketAddr,
    /// Our end.
    pub own: SocketAddr,
    /// The packet's TCP sequence number.
    pub sequence: u32,
    /// The most bytes that the link takes; 0: the router does not say.
    pub mtu: u16,
}

/// What a terminator holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Clients' connections.
    pub connections: usize,
    /// Connections to backends.
    pub backends: usize,
}

/// The connections of all services that terminate TLS.
pub struct Terminator {
    common: Common,
    /// By what the pool of handshakes knows them by.
    connections: HashMap<u64, Box<Connection>>,
    clients: HashMap<[SocketAddr; 2], u64>,
    /// Those that packets have come for.
    awake: Vec<u64>,
    due: BinaryHeap<Reverse<(u64, u64)>>,
    /// When each is due, so that older entries of `due` are known.
    deadlines: HashMap<u64, u64>,
    /// Half-open connections in the order of their SYNs, and some that are so no more.
    half_open: VecDeque<u64>,
    ids: u64,
}

impl Terminator {
    /// A terminator without connections.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            common: Common::new(settings),
            connections: HashMap::new(),
            clients: HashMap::new(),
            awake: Vec::new(),
            due: BinaryHeap::new(),
            deadlines: HashMap::new(),
            half_open: VecDeque::new(),
            ids: 0,
        }
    }

    /// What it holds now.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage { connections: self.connections.len(), backends: self.common.backends.len() }
    }

    /// Takes a client's segment to `service`.
    pub fn from_client(
        &mut self,
        segment: Segment,
        service: ServiceId,
        now_ms: u64,
        world: &mut impl World,
    ) {
        let ends = [segment.from, segment.to];
        let id = match self.clients.get(&ends) {
            Some(id) => *id,
            None if segment.opens => {
                let Some(id) = self.open(ends, service, now_ms, world) else {
                    return world.count(Event::NoRoom);
                };
                id
            }
            None => return Self::refuse(segment, world),
        };
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.client().take(segment.ip);
            self.wake(id);
        }
    }

    /// Takes a backend's segment.
    pub fn from_backend(&mut self, segment: Segment, world: &mut impl World) {
        match self.common.backends.get(&[segment.from, segment.to]) {
            Some(id) => self.give(*id, segment, world),
            None => Self::refuse(segment, world),
        }
    }

    /// Takes a router's word that a packet of ours was too long, if the packet may have been.
    pub fn too_long(&mut self, told: TooLong, now_ms: u64, world: &mut impl World) {
        let TooLong { peer, own, sequence, mtu } = told;
        let ends = [peer, own];
        let longest = Paths::longest(peer.ip(), mtu);
        let id = self.clients.get(&ends).or_else(|| self.common.backends.get(&ends)).copied();
        let connection = id.and_then(|id| self.connections.get_mut(&id));
        if connection.is_some_and(|own| own.shorten(ends, longest, sequence)) {
            self.common.paths.note(peer.ip(), longest, now_ms);
            world.count(Event::PathShort);
        } else {
            world.count(Event::Unknown);
        }
    }

    /// Answers a segment of no connection, so that its sender learns of it.
    fn refuse(segment: Segment, world: &mut impl World) {
        world.count(Event::Unknown);
        let to = segment.from.ip();
        if !segment.resets
            && let Some(reset) = stack::refusal(segment.to, segment.ip)
        {
            world.send(reset, to);
        }
    }

    /// Gives a backend's segment to the connection that it is for.
    fn give(&mut self, id: u64, segment: Segment, world: &mut impl World) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(upstream) = connection.upstream([segment.from, segment.to]) else { return };
        let account = Account { backend: upstream.id, direction: Direction::Reply };
        world.carried(account, segment.ip.len());
        upstream.link.take(segment.ip);
        self.wake(id);
    }

    fn wake(&mut self, id: u64) {
        if self.awake.last() != Some(&id) {
            self.awake.push(id);
        }
    }

    /// Makes a connection for a client's SYN.
    fn open(
        &mut self,
        ends: [SocketAddr; 2],
        service: ServiceId,
        now_ms: u64,
        world: &mut impl World,
    ) -> Option<u64> {
        let terms = world.terms(service)?;
        self.make_room(now_ms, world);
        if self.connections.len() >= self.common.settings.connections {
            return None;
        }
        self.ids += 1;
        let id = self.ids;
        let new = Connection::new(ends, service, id, terms, &mut self.common, now_ms)?;
        self.connections.insert(id, Box::new(new));
        self.clients.insert(ends, id);
        self.half_open.push_back(id);
        world.count(Event::Opened);
        Some(id)
    }

    /// Sees to it that one more connection may be half-open.
    fn make_room(&mut self, now_ms: u64, world: &mut impl World) {
        let is_half = |own: &Self, id: &u64| {
            own.connections.get(id).is_some_and(|connection| connection.is_half_open())
        };
        while let Some(id) = self.half_open.front().copied() {
            if !is_half(self, &id) {
                self.half_open.pop_front();
                continue;
            }
            if self.half_open.len() < self.common.settings.half_open {
                return;
            }
            self.half_open
                .retain(|id| self.connections.get(id).is_some_and(|own| own.is_half_open()));
            if self.half_open.len() < self.common.settings.half_open {
                return;
            }
            world.count(Event::NoRoom);
            self.half_open.pop_front();
            self.remove(id, now_ms, world);
        }
    }

    /// Does all that is due, and what packets and the pool have brought.
    pub fn turn(&mut self, now_ms: u64, world: &mut impl World) {
        while let Some(finished) = world.finished() {
            let id = finished.connection;
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.finished(finished, &self.common.settings, now_ms, world);
                self.awake.push(id);
            }
        }
        while let Some(Reverse((at, id))) = self.due.peek().copied() {
            if at > now_ms {
                break;
            }
            self.due.pop();
            if self.deadlines.get(&id) == Some(&at) {
                self.deadlines.remove(&id);
                self.awake.push(id);
            }
        }
        for id in std::mem::take(&mut self.awake) {
            self.run(id, now_ms, world);
        }
    }

    /// When [`Terminator::turn`] is due again without packets and handshakes.
    #[must_use]
    pub fn due_ms(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    fn run(&mut self, id: u64, now_ms: u64, world: &mut impl World) {
        let Self { common, connections, .. } = self;
        let Some(connection) = connections.get_mut(&id) else { return };
        common.present = id;
        connection.run(common, now_ms, world);
        if connection.is_gone() {
            return self.remove(id, now_ms, world);
        }
        let due = connection.due_ms(common, now_ms).max(now_ms + 1);
        if self.deadlines.get(&id) != Some(&due) {
            self.deadlines.insert(id, due);
            self.due.push(Reverse((due, id)));
        }
    }

    fn remove(&mut self, id: u64, now_ms: u64, world: &mut impl World) {
        if let Some(mut connection) = self.connections.remove(&id) {
            connection.drop_out(&mut self.common, now_ms, world);
            self.clients.remove(&connection.ends);
        }
        self.deadlines.remove(&id);
    }
}
