//! The whole measurement.
use super::goals::goals;
use super::hnlb::Hnlb;
use super::measure::{Sample, repetition};
use super::options::{BenchError, Options};
use super::population::Population;
use super::row::{Op, Row, TableName};
use super::rte::{Concurrent, Plain};
use super::show;
use super::subject::Subject;
use crate::machine::memory::Memory;
use crate::report::Goal;
use crate::statistics::median;

/// What is measured of every size, in this order: fuller and fuller.
const OPS: [(Op, f64); 6] = [
    (Op::Insert, 0.5),
    (Op::InsertBulk, 0.5),
    (Op::Insert, 0.9),
    (Op::InsertBulk, 0.9),
    (Op::Lookup, 0.9),
    (Op::LookupBulk, 0.9),
];

/// Everything measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The figures.
    pub rows: Vec<Row>,
    /// HNLB's with half the connections, so as many keys as rte_hash has.
    /// `entries` are the keys.
    pub same_keys: Vec<Row>,
    /// The goals and what was measured.
    pub goals: Vec<Goal>,
    /// The memory that all tables are in.
    pub memory: String,
}

impl Outcome {
    /// All of it as a page for people.
    #[must_use]
    pub fn page(&self) -> String {
        show::page(self)
    }
}

/// A table, what is in it, and what it gave so far.
struct Contestant {
    table: TableName,
    /// With half the connections.
    same_keys: bool,
    entries: u32,
    subject: Box<dyn Subject>,
    population: Population,
    samples: Vec<Sample>,
    /// Whether it has refused connections that it is said to have.
    lacks_some: bool,
}

/// Measures; `told` is called with the steps done and all steps. Starts DPDK, so
/// it works once per process.
///
/// # Errors
/// DPDK or the memory is not there, or a table did not do what it should.
pub fn run(options: &Options, told: &mut dyn FnMut(usize, usize)) -> Result<Outcome, BenchError> {
    let (sizes, threads) = (options.sizes(), options.threads());
    let cores = dpdk::thread::allowed_cores().len();
    for &threads in &threads {
        if threads == 0 || threads > cores.min(4) {
            return Err(BenchError::Threads { threads, cores });
        }
    }
    let largest = sizes.iter().copied().max().unwrap_or_default();
    let memory = Memory::start(megabytes(largest), options.ordinary_pages)?;
    let steps = sizes.len() * threads.len() * OPS.len();
    let (mut rows, mut same_keys, mut done) = (Vec::new(), Vec::new(), 0);
    for &entries in &sizes {
        let mut contestants = contestants(entries)?;
        for (op, load) in OPS {
            for &threads in &threads {
                for contestant in &mut contestants {
                    contestant.fill(op, load)?;
                }
                for (row, is_same_keys) in
                    measure_op(&mut contestants, op, load, threads, options.repetitions())?
                {
                    if is_same_keys { same_keys.push(row) } else { rows.push(row) }
                }
                done += 1;
                told(done, steps);
            }
        }
    }
    Ok(Outcome { goals: goals(&rows), rows, same_keys, memory: memory.to_string() })
}

/// Memory for three tables of rte_hash: buckets of 64 bytes for 8 keys, rounded
/// up to a power of two, slots of 32 bytes for the keys, and a ring of slots.
fn megabytes(entries: u32) -> u32 {
    let (slots, entries) = (u64::from(entries.next_power_of_two()), u64::from(entries));
    let table = slots * 8 + entries * 32 + slots * 2 * 4;
    ((table * 3) >> 20) as u32 + 96
}

/// Rows, each with whether its table had the same keys. Repetitions in turn, so that a slow spell of the machine hits all tables.
fn measure_op(
    contestants: &mut [Contestant],
    op: Op,
    load: f64,
    threads: usize,
    repetitions: usize,
) -> Result<Vec<(Row, bool)>, BenchError> {
    let changes = op.inserts();
    let fit = |it: &Contestant| {
        let offers = op != Op::InsertBulk || it.table == TableName::Hnlb;
        offers && (threads == 1 || !changes || it.subject.shares_changes())
    };
    for repetition in 0..repetitions {
        for contestant in contestants.iter_mut().filter(|it| fit(it)) {
            contestant.repeat(op, threads, repetition as u64)?;
        }
    }
    let rows = contestants.iter_mut().filter(|it| fit(it)).map(|it| {
        let entries = if it.same_keys { it.entries * 2 } else { it.entries };
        let row = Row { table: it.table, op, entries, load, threads, ns: it.take_median() };
        (row, it.same_keys)
    });
    Ok(rows.collect())
}

/// Empty tables of one size.
fn contestants(entries: u32) -> Result<Vec<Contestant>, BenchError> {
    let make = |table, entries, same_keys| {
        let name = format!("{entries}");
        let subject: Box<dyn Subject> = match table {
            TableName::Hnlb => Box::new(Hnlb::new(entries)?),
            TableName::RteHash => Box::new(Plain::new(&name, entries)?),
            TableName::RteHashRw => Box::new(Concurrent::locked(&format!("{name}_rw"), entries)?),
            TableName::RteHashLf => {
                Box::new(Concurrent::lock_free(&format!("{name}_lf"), entries)?)
            }
        };
        let (population, samples) = (Population::new(2), Vec::new());
        Ok(Contestant {
            table,
            same_keys,
            entries,
            subject,
            population,
            samples,
            lacks_some: false,
        })
    };
    let all = TableName::ALL.into_iter().map(|table| make(table, entries, false));
    all.chain([make(TableName::Hnlb, entries / 2, true)]).collect()
}

impl Contestant {
    /// Fills to what `op` starts from.
    fn fill(&mut self, op: Op, load: f64) -> Result<(), BenchError> {
        let part = if op.inserts() { load - 0.02 } else { load };
        let wanted = (f64::from(self.entries) * part) as u32;
        if std::mem::take(&mut self.lacks_some) {
            self.population.reach(self.subject.as_ref(), 0);
        }
        let refused = self.population.reach(self.subject.as_ref(), wanted);
        self.subject.rest();
        let sample = Sample { failed: refused, operations: u64::from(wanted), cycles: 0.0 };
        self.check(Op::Insert, sample)
    }

    fn repeat(&mut self, op: Op, threads: usize, seed: u64) -> Result<(), BenchError> {
        let (subject, population) = (self.subject.as_ref(), &mut self.population);
        let sample = repetition(subject, population, op, self.entries, threads, seed)?;
        self.check(op, sample)?;
        self.lacks_some |= sample.failed > 0;
        self.samples.push(sample);
        Ok(())
    }

    /// HNLB's must not fail; rte_hash refuses keys before it is full, and what
    /// it refused is missed later.
    fn check(&self, op: Op, sample: Sample) -> Result<(), BenchError> {
        let one_in = match (self.table, op) {
            (TableName::Hnlb, _) => u64::MAX,
            (_, Op::Lookup | Op::LookupBulk) => 20,
            _ => 3,
        };
        if sample.failed.saturating_mul(one_in) <= sample.operations {
            return Ok(());
        }
        Err(BenchError::Failed {
            table: self.table.name(),
            op: op.name(),
            entries: self.entries,
            failed: sample.failed,
            of: sample.operations,
        })
    }

    /// Nanoseconds per operation.
    fn take_median(&mut self) -> f64 {
        let cycles: Vec<f64> = self.samples.drain(..).map(|sample| sample.cycles).collect();
        nanoseconds(median(&cycles).unwrap_or_default())
    }
}

/// Rounded to what can be told apart.
fn nanoseconds(cycles: f64) -> f64 {
    let ns = cycles * 1e9 / dpdk::cycles_per_second().max(1) as f64;
    (ns * 100.0).round() / 100.0
}
