//! One turn of slow work, for a caller with a thread and a clock.
use std::sync::Arc;

use conntrack::ConnId;
use flow::{HopId, PortId};
use state::{Counters, Offload, Shared};

use crate::{Ager, AgerSettings, LinkNotice, Resolver, ResolverSettings};

/// What a turn gives out.
pub trait KeeperOutbox {
    /// Sends a whole frame on `port`; a frame that is lost is made again.
    fn send(&mut self, port: PortId, frame: &[u8]);

    /// Tells the offload side that `conn`, which has rules, has expired or
    /// ended. A message that is lost is repeated in the next round.
    fn report(&mut self, conn: ConnId, reason: Offload);

    /// Reports what another station has done to the link.
    fn notice(&mut self, notice: &LinkNotice);
}

/// Ages connections, gives their memory back, and resolves next hops.
///
/// Work that takes a driver's time belongs to the offload side's turn
/// (`offload::Rules`), so that each turn can have a thread of its own.
#[derive(Debug)]
pub struct Keeper {
    ager: Ager,
    resolver: Resolver,
}

impl Keeper {
    /// A keeper of `shared`.
    #[must_use]
    pub fn new(shared: &Arc<Shared>, ager: AgerSettings, resolver: ResolverSettings) -> Self {
        Self {
            ager: Ager::new(Arc::clone(shared), ager),
            resolver: Resolver::new(Arc::clone(shared), resolver),
        }
    }

    /// One turn, about once a millisecond. `wanted` are next hops for which workers
    /// have packets but no Ethernet address.
    pub fn turn(
        &mut self,
        now_ms: u64,
        wanted: impl IntoIterator<Item = HopId>,
        out: &mut impl KeeperOutbox,
    ) {
        wanted.into_iter().for_each(|hop| self.resolver.want(hop));
        self.resolver.tick(now_ms, &mut |port, frame| out.send(port, frame));
        self.resolver.take_notices().iter().for_each(|notice| out.notice(notice));
        self.ager.tick(now_ms, &mut |conn, reason| out.report(conn, reason));
    }

    /// Tells every link where our addresses are: see [`Resolver::announce`].
    pub fn announce(&mut self, out: &mut impl KeeperOutbox) {
        self.resolver.announce(&mut |port, frame| out.send(port, frame));
    }

    /// Connections removed so far.
    #[must_use]
    pub const fn removed(&self) -> u64 {
        self.ager.removed()
    }

    /// Connections in the table.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.ager.connections()
    }

    /// Counters of the packets that originate here.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        self.resolver.counters()
    }
}
