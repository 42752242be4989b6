//! The thread that ages connections, gives their memory back and resolves next
//! hops. It calls no driver, so nothing that a card does stops it.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conntrack::ConnId;
use dpdk::{Mbuf, Mempool};
use flow::{HopId, PortId};
use keeper::{Keeper, KeeperOutbox, LinkNotice};
use state::{Counter, Counters, Offload, Shared};

use crate::clock::Clock;
use crate::idle::{Bell, Rest};
use crate::outbox::OffloadRequest;
use crate::rings::drain;
use crate::takeover::Waiting;
use crate::worker::Injected;

/// How long the thread rests between two turns, and while nothing happens: a worker makes no
/// system call to wake it, so a next hop that it asks for waits as long at most.
const REST: Duration = Duration::from_millis(1);
const LONG_REST: Duration = Duration::from_millis(4);
/// Next hops taken from one worker in one turn.
const HOPS_PER_TURN: usize = 256;
/// Frames of the keeper's that may wait for a worker.
pub(crate) const INJECTED: usize = 1024;
/// Reports of expired connections that may wait for the offload thread; more
/// are made again in the next round.
pub(crate) const REPORTS: usize = 1 << 16;

/// Everything the thread owns.
pub(crate) struct KeeperThread {
    keeper: Keeper,
    /// Next hops that workers want resolved.
    wanted: Vec<rtrb::Consumer<HopId>>,
    out: KeeperOut,
    announce: Arc<AtomicBool>,
    /// Connections of a killed load balancer that wait for their backends.
    waiting: Option<(Arc<Shared>, Waiting)>,
    /// Connections removed so far, and open ones, after the last turn.
    counted: (u64, usize),
}

/// Sends a frame on a port.
pub(crate) type SendFrame = Box<dyn FnMut(PortId, &[u8]) + Send>;

/// Where the keeper's frames and reports go.
pub(crate) struct KeeperOut {
    /// Sends a frame; one that finds no room is lost, as on a wire.
    pub(crate) send: SendFrame,
    pub(crate) reports: rtrb::Producer<OffloadRequest>,
    pub(crate) counters: Arc<Counters>,
}

/// The keeper's way to the wire: the first worker sends its frames, since a send
/// queue belongs to one thread. `bell` wakes that worker.
pub(crate) fn injector(
    mut ring: rtrb::Producer<Injected>,
    pool: Mempool,
    bell: Option<Arc<Bell>>,
) -> SendFrame {
    Box::new(move |port, frame| {
        if let Some(mbuf) = Mbuf::copy_from(&pool, frame) {
            drop(ring.push((port, mbuf)));
            if let Some(bell) = &bell {
                bell.ring();
            }
        }
    })
}

impl KeeperThread {
    /// The thread of `keeper`. It announces the load balancer's addresses on
    /// every link when `announce` is set.
    pub(crate) fn new(
        keeper: Keeper,
        wanted: Vec<rtrb::Consumer<HopId>>,
        out: KeeperOut,
        announce: Arc<AtomicBool>,
    ) -> Self {
        Self { keeper, wanted, out, announce, waiting: None, counted: (0, 0) }
    }

    /// Lets it take over connections as their backends answer.
    pub(crate) fn take_over(&mut self, shared: Arc<Shared>, waiting: Waiting) {
        self.waiting = Some((shared, waiting));
    }

    /// Runs until `stop`.
    pub(crate) fn run(mut self, clock: Clock, stop: &AtomicBool) {
        let mut rest = Rest::new(REST, LONG_REST);
        while !stop.load(Ordering::Relaxed) {
            let busy = self.turn(clock.now_ms());
            std::thread::sleep(rest.after(busy));
        }
    }

    /// Whether there was anything to do.
    pub(crate) fn turn(&mut self, now_ms: u64) -> bool {
        let Self { keeper, wanted, out, announce, waiting, counted } = self;
        if let Some((shared, waiting)) = waiting {
            waiting.attend(shared, now_ms);
        }
        let mut asked = 0_usize;
        let wanted = drain(wanted, HOPS_PER_TURN).inspect(|_| asked += 1);
        keeper.turn(now_ms, wanted, out);
        let announces = announce.swap(false, Ordering::Relaxed);
        if announces {
            keeper.announce(out);
        }
        let now = (keeper.removed(), keeper.connections());
        let change = std::mem::replace(counted, now) != now;
        asked > 0 || change || announces
    }
}

impl KeeperOutbox for KeeperOut {
    fn send(&mut self, port: PortId, frame: &[u8]) {
        (self.send)(port, frame);
    }

    fn report(&mut self, conn: ConnId, reason: Offload) {
        let told = self.reports.push((conn, reason)).is_ok();
        self.counters.count(if told { Counter::OffloadRequests } else { Counter::OffloadRingFull });
    }

    fn notice(&mut self, notice: &LinkNotice) {
        match notice {
            LinkNotice::Moved { addr, former, mac } => {
                tracing::warn!(%addr, %former, %mac, "a next hop has another Ethernet address");
            }
            LinkNotice::Claimed { addr, station } => {
                tracing::warn!(%addr, %station, "another station claims an address of ours");
            }
        }
    }
}
