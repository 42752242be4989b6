//! The thread that makes rules: the only one that calls a driver for them. A
//! driver may take as long as it likes for a call; workers, ageing, resolution
//! and the control thread go on meanwhile.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use conntrack::ConnId;
use dpdk::flow::FlowPort;
use nic::Nic;
use offload::{Explained, OffloadCause, Rules, RulesReport};

use crate::clock::Clock;
use crate::counted_flows::CountedFlows;
use crate::idle::Rest;
use crate::outbox::OffloadRequest;
use crate::rings::drain;

/// How long the thread rests between two turns, and while there are neither rules nor
/// requests. A question ends a rest.
const REST: Duration = Duration::from_millis(1);
const LONG_REST: Duration = Duration::from_millis(10);
/// Requests taken from one ring in one turn.
const REQUESTS_PER_TURN: usize = 4096;
/// How long a question waits for its answer: so short that the control thread's whole
/// turn stays below 10 ms. A thread that rests answers within a millisecond or two.
const PATIENCE: Duration = Duration::from_millis(5);
/// The thread is between two turns.
const AT_REST: u64 = u64::MAX;

/// A question to the thread, with the way its answer takes.
enum Question {
    Report(SyncSender<RulesReport>),
    Explain(Vec<ConnId>, SyncSender<Vec<Option<Explained>>>),
    Causes(Vec<ConnId>, SyncSender<Vec<Option<OffloadCause>>>),
    Known(Vec<ConnId>, SyncSender<Vec<Known>>),
    Rates(SyncSender<Option<Vec<(ConnId, f64)>>>),
}

/// What the thread knows of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// Where it is served, or why not in the NIC; `None`: it has ended.
    pub(crate) cause: Option<OffloadCause>,
    /// Packets per second, if they are measured.
    pub(crate) rate: Option<f64>,
}

/// Everything the thread owns.
pub(crate) struct OffloadThread {
    rules: Rules,
    /// What workers and keeper have to say of connections.
    requests: Vec<rtrb::Consumer<OffloadRequest>>,
    flows: Vec<Box<dyn FlowPort + Send>>,
    nics: Vec<Nic>,
    questions: Receiver<Question>,
    turn_began_ms: Arc<AtomicU64>,
    /// Calls from which drivers have returned while all rules are taken back.
    calls: Arc<AtomicU64>,
}

/// Where others ask the thread about rules.
pub(crate) struct RulesDesk {
    questions: Sender<Question>,
    turn_began_ms: Arc<AtomicU64>,
    /// The answer to come to a question that has not been answered in time.
    due: Option<Receiver<RulesReport>>,
    last: RulesReport,
}

impl OffloadThread {
    /// The thread of `rules`, which are put into `flows`, and where to ask it.
    pub(crate) fn new(
        rules: Rules,
        requests: Vec<rtrb::Consumer<OffloadRequest>>,
        flows: Vec<Box<dyn FlowPort + Send>>,
        nics: Vec<Nic>,
    ) -> (Self, RulesDesk) {
        let (asked, questions) = channel();
        let turn_began_ms = Arc::new(AtomicU64::new(AT_REST));
        let desk = RulesDesk {
            questions: asked,
            turn_began_ms: Arc::clone(&turn_began_ms),
            due: None,
            last: RulesReport::default(),
        };
        let calls = Arc::default();
        (Self { rules, requests, flows, nics, questions, turn_began_ms, calls }, desk)
    }

    /// The number of calls from which drivers have returned at the end, when all
    /// rules are taken back.
    pub(crate) fn calls(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.calls)
    }

    /// Runs until `stop`, then takes back every rule from the NICs. The
    /// workers still run then.
    pub(crate) fn run(mut self, clock: Clock, stop: &AtomicBool) {
        let mut rest = Rest::new(REST, LONG_REST);
        while !stop.load(Ordering::Relaxed) {
            for nic in &self.nics {
                nic.advance(clock.now_ns());
            }
            let busy = self.turn(clock.now_ms());
            self.rest(rest.after(busy));
        }
        let rules = self.rules.report().connections.now().rules;
        let flows = self.flows.iter_mut().map(|flows| &mut **flows as &mut dyn FlowPort);
        let mut flows: Vec<_> = flows.map(|flows| CountedFlows::new(flows, &self.calls)).collect();
        let mut flows: Vec<_> = flows.iter_mut().map(|own| own as &mut dyn FlowPort).collect();
        let left = self.rules.shutdown(&mut flows);
        if left > 0 {
            tracing::error!(left, "rules stay in the NIC: the driver refused to destroy them");
        } else {
            tracing::info!(rules, "all rules are destroyed");
        }
    }

    /// Whether there are rules or requests.
    pub(crate) fn turn(&mut self, now_ms: u64) -> bool {
        self.turn_began_ms.store(now_ms, Ordering::Relaxed);
        let mut asked = 0_usize;
        let requests = drain(&mut self.requests, REQUESTS_PER_TURN).inspect(|_| asked += 1);
        self.rules.turn(now_ms, requests, &mut by_port(&mut self.flows));
        self.turn_began_ms.store(AT_REST, Ordering::Relaxed);
        self.questions.try_iter().for_each(|question| answer(&self.rules, question));
        asked > 0 || self.rules.has_work()
    }

    /// Answers questions for `time`, or until the first of them.
    fn rest(&self, time: Duration) {
        match self.questions.recv_timeout(time) {
            Ok(question) => answer(&self.rules, question),
            Err(RecvTimeoutError::Timeout) => {}
            // Nobody can ask any more.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(time),
        }
    }
}

/// Answers a question; the thread that has asked may have lost patience.
fn answer(rules: &Rules, question: Question) {
    match question {
        Question::Report(answer) => drop(answer.send(rules.report())),
        Question::Explain(conns, answer) => {
            let explain = |conn: &ConnId| rules.explain(*conn);
            drop(answer.send(conns.iter().map(explain).collect()));
        }
        Question::Causes(conns, answer) => {
            let cause = |conn: &ConnId| rules.cause(*conn);
            drop(answer.send(conns.iter().map(cause).collect()));
        }
        Question::Known(conns, answer) => {
            let known =
                |conn: &ConnId| Known { cause: rules.cause(*conn), rate: rules.rate(*conn) };
            drop(answer.send(conns.iter().map(known).collect()));
        }
        Question::Rates(answer) => drop(answer.send(rules.rates())),
    }
}

impl RulesDesk {
    /// What there is to say of all rules. While a driver keeps the thread, this
    /// is what the thread said last.
    pub(crate) fn report(&mut self) -> &RulesReport {
        let due = self.due.take().or_else(|| {
            let (answer, due) = sync_channel(1);
            self.questions.send(Question::Report(answer)).ok().map(|()| due)
        });
        if let Some(due) = due {
            match due.recv_timeout(PATIENCE) {
                Ok(report) => self.last = report,
                Err(RecvTimeoutError::Timeout) => self.due = Some(due),
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
        &self.last
    }

    /// Why each of `conns` is, or is not, in hardware; `None` if a driver keeps
    /// the thread from answering.
    pub(crate) fn explain(&self, conns: Vec<ConnId>) -> Option<Vec<Option<Explained>>> {
        let (answer, due) = sync_channel(1);
        self.questions.send(Question::Explain(conns, answer)).ok()?;
        due.recv_timeout(PATIENCE).ok()
    }

    /// Where each of `conns` is served, or why not in the NIC; `None` if a driver keeps
    /// the thread from answering.
    pub(crate) fn causes(&self, conns: Vec<ConnId>) -> Option<Vec<Option<OffloadCause>>> {
        let (answer, due) = sync_channel(1);
        self.questions.send(Question::Causes(conns, answer)).ok()?;
        due.recv_timeout(PATIENCE).ok()
    }

    /// What is known of each of `conns`; `None` if a driver keeps the thread from
    /// answering.
    pub(crate) fn known(&self, conns: Vec<ConnId>) -> Option<Vec<Known>> {
        let (answer, due) = sync_channel(1);
        self.questions.send(Question::Known(conns, answer)).ok()?;
        due.recv_timeout(PATIENCE).ok()
    }

    /// The packets per second of every connection whose rate is measured, in no order;
    /// `Some(None)`: rates are not measured; `None`: a driver keeps the thread from
    /// answering.
    pub(crate) fn rates(&self) -> Option<Option<Vec<(ConnId, f64)>>> {
        let (answer, due) = sync_channel(1);
        self.questions.send(Question::Rates(answer)).ok()?;
        due.recv_timeout(PATIENCE).ok()
    }

    /// For how many milliseconds the thread has been in its present turn; 0:
    /// it rests.
    pub(crate) fn busy_ms(&self, now_ms: u64) -> u64 {
        match self.turn_began_ms.load(Ordering::Relaxed) {
            AT_REST => 0,
            began_ms => now_ms.saturating_sub(began_ms),
        }
    }
}

fn by_port(flows: &mut [Box<dyn FlowPort + Send>]) -> Vec<&mut dyn FlowPort> {
    flows.iter_mut().map(|flows| &mut **flows as &mut dyn FlowPort).collect()
}

#[cfg(test)]
mod tests;
