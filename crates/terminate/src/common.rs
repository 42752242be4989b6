//! What all connections have in common.
use std::collections::HashMap;
use std::hash::Hasher as _;
use std::net::{IpAddr, SocketAddr};

use flow::{Account, BackendId, Direction};
use siphasher::sip::SipHasher13;
use splice::Peer;
use tls::BackendSession;

use crate::endpoint::Endpoint;
use crate::link::{Link, Sealed};
use crate::paths::Paths;
use crate::settings::Settings;
use crate::sockets::Sockets;
use crate::stack::Stack;
use crate::upstream::Upstream;
use crate::world::World;

/// How many of our ports are tried for a backend.
const PORTS: u32 = 16;
/// The first port that has no owner (RFC 6056 section 3.2).
const FIRST_PORT: u16 = 1024;

/// Settings, numbers, and who is at which end towards the backends.
pub(crate) struct Common {
    pub(crate) settings: Settings,
    numbers: u64,
    pub(crate) sockets: Sockets,
    /// Paths that take no packets as long as ours.
    pub(crate) paths: Paths,
    /// Which ends towards backends are taken. Behind a change the terminator says by whom.
    pub(crate) backends: HashMap<[SocketAddr; 2], u64>,
    /// Whose turn it is.
    pub(crate) present: u64,
}

impl Common {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            numbers: 0,
            sockets: Sockets::default(),
            paths: Paths::default(),
            backends: HashMap::new(),
            present: 0,
        }
    }

    /// A number that nobody can tell beforehand.
    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        let [a, b] = self.settings.secret;
        let mut hasher = SipHasher13::new_with_keys(a, b);
        hasher.write_u64(self.numbers);
        hasher.finish()
    }

    /// Begins a connection to `backend`, which sees the client's address; and its port too,
    /// if that is free and this is the client's first.
    pub(crate) fn connect(
        &mut self,
        (client, Peer { at: backend, id }): (SocketAddr, Peer),
        is_first: bool,
        mut session: Option<BackendSession>,
        now_ms: u64,
        world: &mut impl World,
    ) -> Option<Upstream> {
        if self.backends.len() >= self.settings.backends {
            return None;
        }
        for again in 0..PORTS {
            let mut local = client;
            if again > 0 || !is_first {
                let free = u64::from(u16::MAX - FIRST_PORT) + 1;
                local.set_port(FIRST_PORT + (self.number() % free) as u16);
            }
            let ends = [backend, local];
            if self.backends.contains_key(&ends) || !world.claim(backend, local) {
                continue;
            }
            let Settings { backend: buffers, mtu, .. } = self.settings;
            let (mtu, seed) = (self.paths.mtu(backend.ip(), mtu, now_ms), self.number());
            let ends = [local, backend];
            let stack = Stack::connect_with(&self.sockets, ends, buffers, mtu, seed);
            let ends = [backend, local];
            let link = stack.map(|tcp| match session.take() {
                None => Link::Plain(Box::new(tcp)),
                Some(session) => Link::Sealed(Box::new(Sealed::new(tcp, session))),
            });
            let Some(link) = link else {
                world.release(backend, local);
                return None;
            };
            self.backends.insert(ends, self.present);
            world.joined(id);
            return Some(Upstream { link, backend, id, local, opened_ms: now_ms, is_used: false });
        }
        None
    }

    /// Ends a connection to a backend. Whatever either side had to say has been said, so
    /// it is reset, unless the backend waits for nothing but our end.
    pub(crate) fn disconnect(
        &mut self,
        mut upstream: Upstream,
        now_ms: u64,
        world: &mut impl World,
    ) {
        let Upstream { link, backend, id, local, .. } = &mut upstream;
        if link.has_ended() && link.is_flushed() {
            link.close();
        } else {
            link.abort();
        }
        link.poll(now_ms);
        while let Some(packet) = link.outgoing() {
            send_to(world, packet, (backend.ip(), *id));
        }
        world.left(*id);
        self.backends.remove(&[*backend, *local]);
        world.release(*backend, *local);
    }
}

/// Sends a packet to a backend, and counts it for that.
pub(crate) fn send_to(world: &mut impl World, packet: Vec<u8>, (to, backend): (IpAddr, BackendId)) {
    world.carried(Account { backend, direction: Direction::Forward }, packet.len());
    world.send(packet, to);
}
