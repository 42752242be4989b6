//! What a new connection costs: from the SYN to the entry in the table, and to
//! the rule in the NIC.
use flow::{Encoding, PortId};

use crate::report::NewFlowRow;
use dpdk::{Batch, Mempool, cycles, pin_to_core, register_thread};
use packet::PacketBuf;
use state::Source;
use wire::TcpFlags;

use crate::error::MeasureError;
use crate::evaluation::options::Options;
use crate::systems::balancer::{Balancer, Hnlb, RX_BURST};
use crate::testbed::frames::{DATA, FrameSpec, Templates};
use crate::testbed::outbox::{Out, Requests, TxPort};
use crate::testbed::ports::{Lane, Testbed};
use crate::testbed::run::INTERRUPTED_US;
use crate::testbed::scenario::{Plan, QUEUES, Scenario};
use crate::testbed::source::blank;

/// Shares of the table that are filled before connections are opened.
pub(crate) const FILLS: [f64; 3] = [0.0, 0.5, 0.9];
/// Connections opened in one repetition, at most; and at most such a part of
/// the table, so that its filling is the same at the end.
const MOST: u64 = 4096;
const PART: u64 = 40;
/// Room in the table while connections go into the NIC.
const HARDWARE_TABLE: u32 = 1 << 16;
/// Microseconds from which on a keeper's turn was interrupted.
const KEEPER_INTERRUPTED_US: u64 = 2000;

/// Sizes of the table, in connections.
pub(crate) const fn tables(quick: bool) -> &'static [u32] {
    if quick { &[1 << 16, 1 << 20] } else { &[1 << 16, 1 << 18, 1 << 20, 1 << 22] }
}

/// Time spent on connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    cycles: u64,
    connections: u64,
}

impl Spent {
    /// Adds what a burst took, unless another process had the core meanwhile.
    pub(crate) fn add(&mut self, cycles: u64, connections: usize, interrupted: u64) {
        if cycles <= interrupted {
            self.cycles += cycles;
            self.connections += connections as u64;
        }
    }

    /// Nanoseconds per connection; `None`: there was none.
    fn ns(self, cycles_per_second: u64) -> Option<f64> {
        let ns = self.cycles as f64 * 1e9 / cycles_per_second.max(1) as f64;
        (self.connections > 0).then(|| ns / self.connections as f64)
    }
}

/// The measured core with source and keeper on it, by turns.
struct Bench<'a> {
    lane: &'a mut Lane,
    pool: &'a Mempool,
    templates: Templates,
    hnlb: Hnlb,
    requests: Option<Requests>,
    per_us: u64,
}

impl Bench<'_> {
    /// Lets a burst in at a port and takes away what comes out; what the load
    /// balancer's part of it took.
    fn burst(&mut self, specs: &[FrameSpec], port: u16, spent: &mut Spent) {
        let Lane { rx, tx: [clients, servers], to_host, from_host, .. } = &mut *self.lane;
        let pool = self.pool;
        let mut batch = Batch::<{ pipeline::BURST }>::new();
        for spec in specs {
            let Some(mut mbuf) = blank(pool, spec.len()) else { return };
            self.templates.write(spec, mbuf.bytes_mut());
            // As many as the batch has room for.
            drop(batch.push(mbuf));
        }
        let ring = usize::from(port * QUEUES);
        let rx = rx.get_mut(usize::from(port)).and_then(|queues| queues.first_mut());
        let (Some(ring), Some(rx)) = (to_host.get_mut(ring), rx) else { return };
        ring.enqueue_burst(&mut batch);
        batch.clear();
        let ports = [TxPort::new(clients), TxPort::new(servers)];
        let requests = self.requests.take();
        let mut out = Out { ports, pool, requests, unheard: 0 };
        let from = Source { port: PortId(port), queue: 0 };
        self.hnlb.begin();
        let before = cycles();
        let found = rx.rx_burst(&mut batch);
        self.hnlb.process(from, &mut batch, 1, &mut out);
        out.flush();
        let took = cycles().wrapping_sub(before);
        spent.add(took, found, INTERRUPTED_US * self.per_us);
        self.requests = out.requests.take();
        let mut back = Batch::<{ pipeline::BURST }>::new();
        for ring in from_host.iter_mut() {
            while ring.dequeue_burst(&mut back) > 0 {
                back.clear();
            }
        }
    }
}

impl Testbed {
    /// The cost of new connections, on one core.
    ///
    /// # Errors
    /// Something needed is missing; see [`MeasureError`].
    pub(crate) fn new_flows(
        &mut self,
        options: &Options,
        tell: &(dyn Fn() + Sync),
    ) -> Result<Vec<NewFlowRow>, MeasureError> {
        let [_, core] = options.cores.unwrap_or([0, 1]);
        let Self { lanes: [lane, ..], pool, .. } = self;
        let pool = &*pool;
        let rows = std::thread::scope(|scope| {
            let measuring = scope.spawn(|| {
                pin_to_core(core)?;
                let _guard = register_thread()?;
                let mut rows = Vec::new();
                let chosen = &options.connections;
                let all = tables(options.quick).iter().copied();
                let tables: Vec<u32> =
                    all.filter(|n| chosen.is_empty() || chosen.contains(n)).collect();
                let pieces = tables.len() + 1;
                for (at, &table) in tables.iter().enumerate() {
                    let until = options.until(pieces - at);
                    software((&mut *lane, pool), table, options, until, &mut rows)?;
                    tell();
                }
                let until = options.until(1);
                for repetition in 0..options.repetitions.max(1) {
                    if repetition > 0 && until.is_some_and(|end| std::time::Instant::now() > end) {
                        break;
                    }
                    hardware((&mut *lane, pool), repetition, &mut rows)?;
                }
                tell();
                Ok::<_, MeasureError>(rows)
            });
            measuring.join().map_err(|_| MeasureError::ThreadFailed("measuring"))?
        })?;
        Ok(rows)
    }
}

/// SYNs into a table of this size, at each filling.
fn software(
    (lane, pool): (&mut Lane, &Mempool),
    table: u32,
    options: &Options,
    until: Option<std::time::Instant>,
    rows: &mut Vec<NewFlowRow>,
) -> Result<(), MeasureError> {
    let plan = Plan { open: 0, in_nic: 0, ..Plan::of(table, 10, Encoding::Off) };
    let mut scenario = Scenario::build(plan)?;
    for (at, fill) in FILLS.into_iter().enumerate() {
        let now = std::time::Instant::now();
        let pieces = (FILLS.len() - at) as u32;
        let share = until.map(|end| now + end.saturating_duration_since(now) / pieces);
        let open = (f64::from(table) * fill) as u64;
        scenario.open_up_to(open)?;
        let fresh = open..open + MOST.min(u64::from(table) / PART);
        let specs = syns(&scenario, fresh.clone());
        for repetition in 0..options.repetitions.max(1) {
            let late = share.is_some_and(|end| std::time::Instant::now() >= end);
            if repetition > 0 && late {
                break;
            }
            let of = (table.into(), fill);
            let spent = flood((&mut *lane, pool), &scenario, &specs)?;
            scenario.close(fresh.clone())?;
            rows.push(row("software", "worker", of, spent, repetition));
        }
    }
    full((lane, pool), &mut scenario, table, options, rows)
}

/// SYNs for which the table has no room: Maglev serves them without state.
fn full(
    (lane, pool): (&mut Lane, &Mempool),
    scenario: &mut Scenario,
    table: u32,
    options: &Options,
    rows: &mut Vec<NewFlowRow>,
) -> Result<(), MeasureError> {
    let room = scenario.shared.table().stats().v4.capacity as u64;
    scenario.open_up_to(room)?;
    let specs = syns(scenario, room..room + MOST.min(u64::from(table) / PART));
    for repetition in 0..options.repetitions.max(1) {
        let spent = flood((&mut *lane, pool), scenario, &specs)?;
        rows.push(row("full", "worker", (table.into(), 1.0), spent, repetition));
    }
    Ok(())
}

fn syns(scenario: &Scenario, numbers: std::ops::Range<u64>) -> Vec<FrameSpec> {
    numbers.map(|number| scenario.templates.forward(number, 64, TcpFlags::SYN)).collect()
}

/// What `specs` cost the worker.
fn flood(
    (lane, pool): (&mut Lane, &Mempool),
    scenario: &Scenario,
    specs: &[FrameSpec],
) -> Result<Spent, MeasureError> {
    let hnlb = Hnlb::new(scenario, 0)?;
    let per_us = dpdk::cycles_per_second() / 1_000_000;
    let mut bench =
        Bench { lane, pool, templates: scenario.templates.clone(), hnlb, requests: None, per_us };
    let mut spent = Spent::default();
    for burst in specs.chunks(RX_BURST) {
        bench.burst(burst, 0, &mut spent);
    }
    bench.hnlb.begin();
    Ok(spent)
}

/// Whole handshakes, and the rules that follow.
fn hardware(
    (lane, pool): (&mut Lane, &Mempool),
    repetition: u32,
    rows: &mut Vec<NewFlowRow>,
) -> Result<(), MeasureError> {
    let plan = Plan { open: 0, in_nic: 0, ..Plan::of(HARDWARE_TABLE, 10, Encoding::Mark) };
    let mut scenario = Scenario::build(plan)?;
    let (requests, mut asked) = rtrb::RingBuffer::new(MOST as usize * 2);
    let per_us = dpdk::cycles_per_second() / 1_000_000;
    let hnlb = Hnlb::new(&scenario, 0)?;
    let templates = scenario.templates.clone();
    let mut bench = Bench { lane, pool, templates, hnlb, requests: Some(requests), per_us };
    let [mut syn, mut syn_ack, mut ack, mut keeper] = [Spent::default(); 4];
    for (turn, first) in (0..MOST).step_by(RX_BURST).enumerate() {
        let numbers = first..first + RX_BURST as u64;
        let client = |flags| -> Vec<FrameSpec> {
            numbers.clone().map(|number| scenario.templates.forward(number, 64, flags)).collect()
        };
        bench.burst(&client(TcpFlags::SYN), 0, &mut syn);
        let reply = |number| {
            let place = scenario.place_of(number)?;
            let flags = TcpFlags::SYN | TcpFlags::ACK;
            Some(scenario.templates.reply(number, place, 64, flags))
        };
        let replies: Option<Vec<FrameSpec>> = numbers.clone().map(reply).collect();
        bench.burst(&replies.ok_or(MeasureError::NotOpened(first, MOST))?, 1, &mut syn_ack);
        bench.burst(&client(DATA), 0, &mut ack);
        let before = cycles();
        let mut wanted = 0;
        while let Ok((conn, reason)) = asked.pop() {
            scenario.requests.push((conn, reason));
            wanted += 1;
        }
        scenario.tick(turn as u64 + 1);
        let took = cycles().wrapping_sub(before);
        keeper.add(took, wanted, KEEPER_INTERRUPTED_US * per_us);
    }
    let installed = scenario.installed();
    if installed < MOST as usize {
        return Err(MeasureError::NotOffloaded { installed, wanted: MOST as usize });
    }
    let worker = Spent {
        cycles: syn.cycles + syn_ack.cycles + ack.cycles,
        connections: syn.connections.max(syn_ack.connections).max(ack.connections),
    };
    let table = (HARDWARE_TABLE.into(), 0.0);
    for (part, spent) in
        [("worker", worker), ("syn", syn), ("syn-ack", syn_ack), ("ack", ack), ("keeper", keeper)]
    {
        rows.push(row("hardware", part, table, spent, repetition));
    }
    Ok(())
}

fn row(
    path: &str,
    part: &str,
    (table, fill): (u64, f64),
    spent: Spent,
    repetition: u32,
) -> NewFlowRow {
    let ns = spent.ns(dpdk::cycles_per_second());
    NewFlowRow {
        figure: "new".to_owned(),
        path: path.to_owned(),
        part: part.to_owned(),
        table,
        fill,
        ns,
        per_second: ns.map(|ns| 1e9 / ns),
        connections: spent.connections,
        repetition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_bursts_count_nowhere() {
        let mut spent = Spent::default();
        spent.add(1000, 10, 5000);
        spent.add(5001, 10, 5000);
        spent.add(3000, 10, 5000);
        assert_eq!(spent, Spent { cycles: 4000, connections: 20 });
        assert_eq!(spent.ns(2_000_000_000), Some(100.0));
        assert_eq!(Spent::default().ns(1), None);
    }
}
