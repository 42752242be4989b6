//! Connections and ports' tables, as plain as can be.
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use conntrack::ConnId;
use flow::{BackendId, Direction, HopId, PortId, ServiceId};
use offload::{Connections, NextHop, NextHops, Path, PortTables, Ports};
use service::Binding;
use state::{BackendCounts, MarkTable, QueueEpochs, QueueTable, WorkerLoads};
use wire::{Encap, Mac, Transport};

/// What conntrack keeps for the offload side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    None,
    Wanted,
    Installed,
    Withdrawing,
}

#[derive(Clone, Debug)]
pub struct Conn {
    pub binding: Binding,
    pub state: State,
    pub seen_ms: u64,
    pub established: bool,
    pub generation: u32,
}

pub struct Port {
    pub marks: MarkTable,
    pub queues: QueueTable,
    pub queue_epochs: QueueEpochs,
}

pub struct World {
    pub conns: RefCell<BTreeMap<u32, Conn>>,
    pub ports: Vec<Port>,
    pub any_port: ServiceId,
    opened: Cell<u32>,
    /// Odd backends' links take shorter packets than the clients'.
    pub narrow: Cell<bool>,
    /// The longest packet on other links to backends.
    pub wide: Cell<u16>,
    /// By backend.
    pub tunnels: RefCell<BTreeMap<u16, Encap>>,
    /// The last byte of next hops' Ethernet addresses; `None`: forgotten.
    pub macs: RefCell<BTreeMap<u32, Option<u8>>>,
    pub hop_changes: Cell<u64>,
    /// Clients and backends have changed places: packets arrive at the other port.
    pub swapped: Cell<bool>,
    /// How busy the workers are.
    pub worker_loads: WorkerLoads,
    /// Next hops that packets went to.
    pub used: RefCell<BTreeSet<u32>>,
}

/// Our own Ethernet address.
pub const STATION: Mac = Mac([2, 0, 0, 0, 0, 9]);
/// Every connection's timeout.
pub const TIMEOUT_MS: u32 = 5_000;

/// Descriptors of each receive queue.
pub const RING: u32 = 64;

/// The world, for all who live in it.
#[derive(Clone)]
pub struct Ours(Rc<World>);

impl std::ops::Deref for Ours {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl World {
    /// Two ports (clients behind the first, backends behind the second).
    pub fn ours(marks: usize, queues: usize) -> Ours {
        let port = |_| Port {
            marks: MarkTable::new(marks),
            queues: QueueTable::new(queues, 8),
            queue_epochs: QueueEpochs::new(queues, RING),
        };
        Ours(Rc::new(Self {
            conns: RefCell::default(),
            ports: (0..2).map(port).collect(),
            any_port: ServiceId(1),
            opened: Cell::new(0),
            narrow: Cell::new(false),
            wide: Cell::new(1500),
            tunnels: RefCell::default(),
            macs: RefCell::default(),
            hop_changes: Cell::new(0),
            swapped: Cell::new(false),
            worker_loads: WorkerLoads::default(),
            used: RefCell::default(),
        }))
    }

    pub fn open(&self, id: u32, binding: Binding) {
        self.opened.set(self.opened.get() + 1);
        let generation = self.opened.get();
        let conn = Conn { binding, state: State::None, seen_ms: 0, established: true, generation };
        assert!(self.conns.borrow_mut().insert(id, conn).is_none());
    }

    pub fn state(&self, id: u32) -> Option<State> {
        self.conns.borrow().get(&id).map(|conn| conn.state)
    }

    pub fn set_state(&self, id: u32, state: State) {
        if let Some(conn) = self.conns.borrow_mut().get_mut(&id) {
            conn.state = state;
        }
    }

    /// Removal as the ager does it: only without rules.
    pub fn remove(&self, id: u32) -> bool {
        let mut conns = self.conns.borrow_mut();
        let free = conns.get(&id).is_some_and(|conn| conn.state == State::None);
        free && conns.remove(&id).is_some()
    }

    fn change(&self, id: ConnId, f: impl FnOnce(&mut Conn)) -> bool {
        self.conns.borrow_mut().get_mut(&id.raw()).map(f).is_some()
    }
}

/// The binding of the `n`th connection ever: its client is its own.
pub fn binding(n: u32, backend: u16, service: u16, ipv6: bool, fullnat: bool) -> Binding {
    let at = |v4: [u8; 4], last: u16, port: u16| -> SocketAddr {
        if ipv6 {
            let [a, b, c, d] = v4;
            let parts = [0xfd00, 0, 0, 0, u16::from_be_bytes([a, b]), u16::from(c), d.into(), last];
            SocketAddr::from((parts, port))
        } else {
            SocketAddr::from((v4, port))
        }
    };
    let [_, b, c, d] = n.to_be_bytes();
    let client = at([10, b, c, d], 1, 1024 + (n % 60_000) as u16);
    // Service 1 takes every port; its backends keep the port.
    let port = if service == 1 { 1000 + (n % 7) as u16 } else { 80 };
    let server_port = if service == 1 { port } else { 8080 };
    Binding {
        proto: if n % 3 == 0 { Transport::Udp } else { Transport::Tcp },
        service: ServiceId(service),
        backend: BackendId(backend),
        forwarding: service::Forwarding::Rewrite,
        client,
        vip: at([203, 0, 113, service as u8], 2, port),
        server: at([192, 168, 0, backend as u8], 3, server_port),
        local: if fullnat { at([192, 168, 1, 1], 4, client.port()) } else { client },
    }
}

impl Connections for Ours {
    fn binding(&self, conn: ConnId) -> Option<Binding> {
        self.conns.borrow().get(&conn.raw()).map(|conn| conn.binding)
    }

    fn path(&self, conn: ConnId, direction: Direction) -> Option<Path> {
        let backend = self.binding(conn)?.backend;
        let arrives = PortId((direction == Direction::Reply) as u16 ^ self.swapped.get() as u16);
        let backend = HopId(u32::from(backend.0));
        Some(match direction {
            Direction::Forward => Path { arrives, hop: backend, from: HopId(1000) },
            Direction::Reply => Path { arrives, hop: HopId(1000), from: backend },
        })
    }

    fn generation(&self, conn: ConnId) -> Option<u32> {
        self.conns.borrow().get(&conn.raw()).map(|conn| conn.generation)
    }

    fn is_established(&self, conn: ConnId) -> bool {
        self.conns.borrow().get(&conn.raw()).is_some_and(|conn| conn.established)
    }

    fn claim(&self, conn: ConnId) -> bool {
        let mut conns = self.conns.borrow_mut();
        let Some(conn) = conns.get_mut(&conn.raw()) else { return false };
        if conn.state == State::None {
            conn.state = State::Wanted;
        }
        conn.state == State::Wanted
    }

    fn hold(&self, conn: ConnId) -> bool {
        self.change(conn, |conn| conn.state = State::Installed)
    }

    fn withdrawing(&self, conn: ConnId) {
        self.change(conn, |conn| conn.state = State::Withdrawing);
    }

    fn let_go(&self, conn: ConnId, ask_again: bool) {
        let state = if ask_again { State::None } else { State::Wanted };
        self.change(conn, |conn| conn.state = state);
    }

    fn rearm(&self, conn: ConnId, now_ms: u64) {
        self.change(conn, |conn| conn.seen_ms = now_ms);
    }

    fn timeout_ms(&self, conn: ConnId) -> Option<u32> {
        self.conns.borrow().get(&conn.raw()).map(|_| TIMEOUT_MS)
    }

    fn idle_ms(&self, conn: ConnId, now_ms: u64) -> Option<u64> {
        self.conns.borrow().get(&conn.raw()).map(|conn| now_ms.saturating_sub(conn.seen_ms))
    }

    fn any_port(&self, service: ServiceId) -> bool {
        service == self.any_port
    }
}

impl NextHops for Ours {
    fn next_hop(&self, hop: HopId) -> Option<NextHop> {
        let port = PortId(u16::from(hop.0 != 1000));
        let last = self.macs.borrow().get(&hop.0).copied().unwrap_or(Some(1))?;
        let mac = Some(Mac([2, 0, 1, (hop.0 >> 8) as u8, hop.0 as u8, last]));
        let narrow = self.narrow.get() && hop.0 % 2 == 1;
        let mtu = match hop.0 {
            1000 => 1500,
            _ if narrow => 1400,
            _ => self.wide.get(),
        };
        Some(NextHop { port, vlan: None, source: STATION, mac, mtu })
    }

    fn use_hop(&self, hop: HopId, _: u64) {
        self.used.borrow_mut().insert(hop.0);
    }

    fn hop_changes(&self) -> u64 {
        self.hop_changes.get()
    }

    fn tunnel(&self, backend: BackendId) -> Option<Encap> {
        self.tunnels.borrow().get(&backend.0).copied()
    }
}

impl Ports for Ours {
    fn tables(&self, port: PortId) -> Option<PortTables<'_>> {
        let port = self.ports.get(usize::from(port.0))?;
        Some(PortTables {
            marks: &port.marks,
            queues: &port.queues,
            queue_epochs: &port.queue_epochs,
        })
    }

    fn counts(&self) -> Arc<BackendCounts> {
        Arc::default()
    }

    fn worker_loads(&self) -> &WorkerLoads {
        &self.worker_loads
    }

    fn station(&self, _: PortId) -> Option<(Mac, u16)> {
        Some((STATION, 1500))
    }
}
