//! The process's shared state, as the offload side sees it.
use std::sync::Arc;

use conntrack::{ConnId, ConnState, Hit, OffloadState};
use flow::{BackendId, Direction, HopId, PortId, ServiceId};
use service::Binding;
use state::{BackendCounts, Shared, WorkerLoads};
use wire::{Encap, Mac};

use crate::environment::{Connections, NextHop, NextHops, Path, PortTables, Ports};

/// States from which a connection is held or let go.
const STATES: [OffloadState; 4] =
    [OffloadState::Wanted, OffloadState::None, OffloadState::Installed, OffloadState::Withdrawing];

/// Tries of a change.
const ROUNDS: usize = 16;

impl Connections for Arc<Shared> {
    fn binding(&self, conn: ConnId) -> Option<Binding> {
        if is_lent(conn) {
            return self.loans().get(conn).map(|loan| loan.binding());
        }
        self.table().binding(conn)
    }

    fn added(&self, conn: ConnId) -> Option<[u32; 2]> {
        self.loans().get(conn).map(|loan| loan.added)
    }

    fn path(&self, conn: ConnId, direction: Direction) -> Option<Path> {
        if is_lent(conn) {
            let [to_client, to_backend] = self.loans().get(conn)?.hops;
            let (hop, from) = match direction {
                Direction::Forward => (to_backend, to_client),
                Direction::Reply => (to_client, to_backend),
            };
            return Some(Path { arrives: self.port_of(from)?, hop, from });
        }
        let hop = |direction| self.table().action(Hit { conn, direction }).map(|action| action.hop);
        let back = match direction {
            Direction::Forward => Direction::Reply,
            Direction::Reply => Direction::Forward,
        };
        let from = hop(back)?;
        let path = Path { arrives: self.port_of(from)?, hop: hop(direction)?, from };
        self.table().is_live(conn).then_some(path)
    }

    fn generation(&self, conn: ConnId) -> Option<u32> {
        if is_lent(conn) {
            return self.loans().generation(conn);
        }
        self.table().generation(conn)
    }

    fn is_established(&self, conn: ConnId) -> bool {
        use ConnState::{Established, HalfClosed, Stream};
        if is_lent(conn) {
            return self.loans().is_good(conn);
        }
        matches!(self.table().state(conn), Some(Established | Stream | HalfClosed(_)))
    }

    fn claim(&self, conn: ConnId) -> bool {
        if is_lent(conn) {
            return self.loans().is_good(conn);
        }
        self.table().change_offload(conn, OffloadState::None, OffloadState::Wanted)
            || self.table().offloaded(conn) == Some(OffloadState::Wanted)
    }

    fn hold(&self, conn: ConnId) -> bool {
        if is_lent(conn) {
            return self.loans().hold(conn);
        }
        change(self, conn, OffloadState::Installed)
    }

    fn withdrawing(&self, conn: ConnId) {
        if is_lent(conn) {
            return;
        }
        change(self, conn, OffloadState::Withdrawing);
    }

    fn let_go(&self, conn: ConnId, ask_again: bool) {
        use OffloadState::{Installed, None, Wanted, Withdrawing};
        if is_lent(conn) {
            return self.loans().let_go(conn, ask_again);
        }
        if ask_again {
            change(self, conn, None);
        } else if !self.table().change_offload(conn, Installed, Wanted) {
            // A connection that was never held is still as the worker that asked left
            // it.
            self.table().change_offload(conn, Withdrawing, Wanted);
        }
    }

    fn rearm(&self, conn: ConnId, now_ms: u64) {
        if is_lent(conn) {
            return self.loans().touch(conn, now_ms);
        }
        self.table().rearm(conn, now_ms);
    }

    fn timeout_ms(&self, conn: ConnId) -> Option<u32> {
        if is_lent(conn) {
            return self.loans().get(conn).map(|loan| loan.timeout_ms);
        }
        self.table().timeout_ms(conn)
    }

    fn idle_ms(&self, conn: ConnId, now_ms: u64) -> Option<u64> {
        if is_lent(conn) {
            return self.loans().idle_ms(conn, now_ms);
        }
        self.table().idle_ms(conn, now_ms)
    }

    fn any_port(&self, service: ServiceId) -> bool {
        let snapshot = self.snapshot();
        snapshot.services.service(service).is_some_and(|service| service.port().is_none())
    }
}

impl NextHops for Arc<Shared> {
    fn next_hop(&self, hop: HopId) -> Option<NextHop> {
        let neighbour = self.neighbours().get(hop)?;
        let snapshot = self.snapshot();
        let interface = snapshot.interfaces.get(neighbour.interface)?;
        Some(NextHop {
            port: interface.port,
            vlan: interface.vlan,
            source: interface.mac,
            mac: neighbour.mac,
            mtu: interface.mtu,
        })
    }

    fn use_hop(&self, hop: HopId, now_ms: u64) {
        // Resolving notes it.
        let _ = self.neighbours().resolve(hop, now_ms);
    }

    fn hop_changes(&self) -> u64 {
        self.neighbours().changes()
    }

    fn tunnel(&self, backend: BackendId) -> Option<Encap> {
        self.snapshot().tunnels.get(backend).copied()
    }
}

impl Ports for Arc<Shared> {
    fn tables(&self, port: PortId) -> Option<PortTables<'_>> {
        let port = Shared::port(self, port)?;
        Some(PortTables {
            marks: &port.marks,
            queues: &port.queues,
            queue_epochs: &port.queue_epochs,
        })
    }

    fn counts(&self) -> Arc<BackendCounts> {
        self.totals().register()
    }

    fn worker_loads(&self) -> &WorkerLoads {
        Shared::worker_loads(self)
    }

    fn station(&self, port: PortId) -> Option<(Mac, u16)> {
        let snapshot = self.snapshot();
        let (_, interface) = snapshot.interfaces.at(port, None)?;
        Some((interface.mac, Shared::port(self, port)?.mtu))
    }
}

/// Whether `conn` is not of the connection table, but of the [loans](state::Loans).
const fn is_lent(conn: ConnId) -> bool {
    conn.lent_number().is_some()
}

/// Brings `conn` to state `to`, whatever it is in now. `false` if there is no
/// such connection. Workers may change it at the same time, between `None` and
/// `Wanted`, so one more round may be needed, and some more do no harm.
fn change(shared: &Shared, conn: ConnId, to: OffloadState) -> bool {
    (0..ROUNDS).any(|_| STATES.iter().any(|&from| shared.table().change_offload(conn, from, to)))
}
