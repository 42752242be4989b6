//! The keeper: everything slow, on a core that is nobody's worker. Resolves
//! next hops, ages connections, programs the NIC (step 4b of the paper),
//! answers the status socket.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dpdk::flow::FlowPort;
use dpdk::{Mbuf, Mempool};
use flow::PortId;
use keeper::{Ager, Resolver};
use nic::Nic;
use offload::{Offloader, StatelessRules};
use state::Shared;

use crate::clock::Clock;
use crate::control::Control;
use crate::outbox::Request;
use crate::report::Reporter;
use crate::status_socket::StatusSocket;
use crate::worker::Injected;

/// How long the keeper rests between two turns.
const REST: Duration = Duration::from_millis(1);
/// Requests taken from one worker in one turn, so that no other waits long.
const REQUESTS_PER_TURN: usize = 4096;
/// Frames of the keeper's that may wait for a worker.
pub(crate) const INJECTED: usize = 1024;

/// Everything the keeper owns.
pub(crate) struct Keeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Clock,
    pub(crate) requests: Vec<rtrb::Consumer<Request>>,
    pub(crate) injector: Injector,
    pub(crate) resolver: Resolver,
    pub(crate) ager: Ager,
    pub(crate) offloader: Offloader,
    pub(crate) stateless: StatelessRules,
    pub(crate) control: Control,
    pub(crate) flows: Vec<Box<dyn FlowPort + Send>>,
    pub(crate) nics: Vec<Nic>,
    pub(crate) reporter: Reporter,
    pub(crate) socket: StatusSocket,
}

/// The keeper's way to the wire: a worker sends for it.
pub(crate) struct Injector {
    pub(crate) ring: rtrb::Producer<Injected>,
    pub(crate) pool: Mempool,
}

impl Injector {
    /// Hands a copy of `frame` to the worker. A frame that finds no room is
    /// lost, as on a wire: the resolver asks again.
    fn send(&mut self, port: PortId, frame: &[u8]) {
        if let Some(mbuf) = Mbuf::copy_from(&self.pool, frame) {
            drop(self.ring.push((port, mbuf)));
        }
    }
}

impl Keeper {
    /// Runs until `stop`, then takes back every rule from the NICs. The
    /// workers still run then.
    pub(crate) fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.turn();
            std::thread::sleep(REST);
        }
        let mut flows = by_port(&mut self.flows);
        let rules = self.offloader.stats().now().rules;
        let left = self.stateless.shutdown(&mut flows) + self.offloader.shutdown(&mut flows);
        if left > 0 {
            tracing::error!(left, "rules stay in the NIC: it would not destroy them");
        } else {
            tracing::info!(rules, "all rules are taken back");
        }
    }

    fn turn(&mut self) {
        let now_ms = self.clock.now_ms();
        self.take_requests();
        for nic in &self.nics {
            nic.advance(self.clock.now_ns());
        }
        let injector = &mut self.injector;
        self.resolver.tick(now_ms, &mut |port, frame| injector.send(port, frame));
        let offloader = &mut self.offloader;
        self.ager.tick(now_ms, &mut |conn| offloader.withdraw(conn));
        let mut flows = by_port(&mut self.flows);
        self.stateless.tick(now_ms, &mut flows);
        self.offloader.tick(now_ms, &mut flows);
        self.shared.table.reclaim();
        if self.reporter.tick(now_ms) {
            // Switches may have learnt our addresses elsewhere meanwhile.
            self.resolver.announce(&mut |port, frame| injector.send(port, frame));
        }
        let Self { reporter, offloader, stateless, control, .. } = self;
        self.socket.serve(now_ms, |question| match control.obey(question, now_ms) {
            Some(answer) => answer,
            None => reporter.answer(question, offloader, stateless),
        });
        control.forget(now_ms);
    }

    fn take_requests(&mut self) {
        for ring in &mut self.requests {
            for _ in 0..REQUESTS_PER_TURN {
                match ring.pop() {
                    Ok(Request::Offload(conn, reason)) => self.offloader.request(conn, reason),
                    Ok(Request::Resolve(hop)) => self.resolver.want(hop),
                    Err(_) => break,
                }
            }
        }
    }
}

fn by_port(flows: &mut [Box<dyn FlowPort + Send>]) -> Vec<&mut dyn FlowPort> {
    flows.iter_mut().map(|flows| &mut **flows as &mut dyn FlowPort).collect()
}
