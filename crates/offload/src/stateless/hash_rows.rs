//! The rows of one service's table of rules by index on one port: the card finds
//! a packet's row by a hash, as `service::Classes` finds its class.
//!
//! A row is destroyed before its successor is made, since the table has each
//! index once: meanwhile its packets reach software, which sends them to the new
//! backend.
use std::collections::BTreeMap;
use std::net::SocketAddr;

use dpdk::flow::{Counters, FlowError, FlowErrorKind, FlowPort, Rule, RuleHandle, TableHandle};
use flow::{PortId, ServiceId};
use service::{Entry, Service};
use wire::{FlowKey, Mac};

use super::pipe::sum_of;
use super::plan::Plan;
use super::side::Past;
use crate::FlowType;
use crate::encode::rewrite::Style;
use crate::encode::stateless::{self as encode, Target};
use crate::port::rule_queue::{Destroy, Finished, RuleQueue, STATELESS, configure};

/// Flows whose hash the card is asked for before it gets a row.
const SAMPLES: u16 = 16;

/// The queue of a port through which the rows of all services are made.
pub(crate) type RowQueue = RuleQueue<(ServiceId, u32)>;

/// A port's card, and its queue.
pub(crate) type Card<'a> = (&'a mut dyn FlowPort, &'a mut RowQueue);

/// That queue, of a port that has its queues.
pub(crate) fn row_queue() -> RowQueue {
    RuleQueue::queued(STATELESS)
}

/// A row.
#[derive(Debug)]
struct Row {
    entry: Entry,
    target: Target,
    /// `None`: it is being destroyed.
    handle: Option<RuleHandle>,
    counters: Counters,
}

/// The table of one service on one port, and its rows by index.
#[derive(Debug, Default)]
pub(crate) struct HashRows {
    /// The group and the rows that it was made for.
    table: Option<(TableHandle, u32, u32)>,
    rows: BTreeMap<u32, Row>,
    /// The card could not make a row after all.
    failed: bool,
}

impl HashRows {
    /// Rows in the card.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// What the rows stand for, and what they have counted.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Entry, Counters)> {
        self.rows.values().map(|row| (row.entry, row.counters))
    }

    /// Whether the card holds the rows of the plan, and no others.
    pub(crate) fn is_as(&self, plan: &Plan) -> bool {
        let same = |(entry, target): &(Entry, Target)| {
            let row = self.rows.get(&entry.value);
            row.is_some_and(|row| row.is(entry, target) && row.handle.is_some())
        };
        self.rows.len() == plan.rows.len() && plan.rows.iter().all(same)
    }

    /// Whether the card has neither rows nor the table.
    pub(crate) fn is_gone(&self) -> bool {
        self.rows.is_empty() && self.table.is_none()
    }

    /// Makes the rows of the plan, at most `budget`. A row that must go leaves its
    /// place to another one in a later call.
    pub(crate) fn bring(
        &mut self,
        service: &Service,
        plan: &Plan,
        (flows, queue): Card<'_>,
        budget: &mut usize,
        now_ms: u64,
    ) -> Result<(), FlowError> {
        let rows = plan.rows.len().next_power_of_two() as u32;
        let wanted: BTreeMap<u32, _> =
            plan.rows.iter().map(|(entry, target)| (entry.value, (entry, target))).collect();
        let other =
            |(_, group, held): &(TableHandle, u32, u32)| (*group, *held) != (plan.group, rows);
        if plan.rows.is_empty() || self.table.as_ref().is_some_and(other) {
            self.empty(service.id(), (flows, queue), now_ms);
        }
        let stays = |(index, row): (&u32, &Row)| {
            let wanted = wanted.get(index);
            wanted.is_some_and(|(entry, target)| row.is(entry, target))
        };
        let gone = self.rows.iter().filter(|row| !stays(*row)).map(|(index, _)| *index);
        let gone: Vec<u32> = gone.take(*budget).collect();
        *budget -= gone.len();
        for index in gone {
            self.destroy((service.id(), index), (flows, queue), now_ms);
        }
        let Some((_, first)) = plan.rows.first() else { return Ok(()) };
        if self.table.is_none() {
            self.table =
                Some((table(service, (plan.group, rows), first, flows)?, plan.group, rows));
        }
        let Some((table, group, held)) = &self.table else { return Ok(()) };
        if (*group, *held) != (plan.group, rows) {
            return Ok(());
        }
        let v4 = service.vip().is_ipv4();
        for (index, (entry, target)) in wanted {
            if *budget == 0 || self.rows.contains_key(&index) {
                continue;
            }
            *budget -= 1;
            let (actions, label) =
                (encode::actions(v4, target, Style::BEST), (service.id(), index));
            let made = queue.create_by_index(flows, (table, index), &actions, label, now_ms)?;
            let (entry, target, counters) = (*entry, *target, Counters::default());
            self.rows.insert(index, Row { entry, target, handle: Some(made), counters });
        }
        if std::mem::take(&mut self.failed) {
            return Err(unspecified("the card could not make a row of the table"));
        }
        Ok(())
    }

    /// Destroys all rows, and the table once it has none.
    pub(crate) fn empty(&mut self, service: ServiceId, (flows, queue): Card<'_>, now_ms: u64) {
        let all: Vec<u32> = self.rows.keys().copied().collect();
        for index in all {
            self.destroy((service, index), (flows, queue), now_ms);
        }
        if !self.rows.is_empty() {
            return;
        }
        if let Some((table, group, rows)) = self.table.take() {
            let stays = flows.destroy_table(table).err();
            self.table = stays.map(|(table, _)| (table, group, rows));
        }
    }

    /// Reads what the rows have counted.
    pub(crate) fn count(&mut self, flows: &mut dyn FlowPort) {
        for row in self.rows.values_mut() {
            if let Some(Ok(counters)) = row.handle.as_ref().map(|handle| flows.query(handle)) {
                row.counters = counters;
            }
        }
    }

    fn destroy(
        &mut self,
        (service, index): (ServiceId, u32),
        (flows, queue): Card<'_>,
        now_ms: u64,
    ) {
        let Some(row) = self.rows.get_mut(&index) else { return };
        let Some(handle) = row.handle.take() else { return };
        row.counters = flows.query(&handle).unwrap_or(row.counters);
        let label = (service, index);
        if let Destroy::Failed(_, handle, _) = queue.destroy(flows, handle, label, now_ms) {
            row.handle = Some(handle);
        }
    }

    /// Takes note of what the card has completed for one of the rows.
    pub(crate) fn finished(
        &mut self,
        finished: Finished<(ServiceId, u32)>,
        card: Card<'_>,
        now_ms: u64,
        past: &mut Past,
    ) {
        match finished {
            Finished::Created => {}
            Finished::NotCreated(label) => {
                self.failed = true;
                self.destroy(label, card, now_ms);
            }
            Finished::Destroyed((_, index)) => {
                if let Some(row) = self.rows.remove(&index) {
                    let sum = past.entry(row.entry.backend).or_default();
                    *sum = sum_of(*sum, row.counters);
                }
            }
            Finished::NotDestroyed((_, index), handle) => {
                if let Some(row) = self.rows.get_mut(&index) {
                    row.handle = Some(handle);
                }
            }
        }
    }
}

impl Row {
    fn is(&self, entry: &Entry, target: &Target) -> bool {
        self.entry == *entry && self.target == *target
    }
}

/// Sets up the port's queues, before its first rule, if its driver has tables of
/// rules by index: a driver that has none may make no rules one by one beside
/// its queues.
pub(crate) fn set_up(service: &Service, flows: &mut dyn FlowPort) {
    let nowhere = Target::new(Mac::BROADCAST, Mac::BROADCAST, PortId(0));
    let Some(template) = encode::hash_table(service, 1, 1, &nowhere) else { return };
    match flows.create_table(&template) {
        Err(error) if error.errno == FlowError::INVALID => drop(configure(flows)),
        Err(_) => {}
        Ok(table) => drop(flows.destroy_table(table)),
    }
}

/// Makes a service's table, if the card finds its rows as software does.
fn table(
    service: &Service,
    (group, rows): (u32, u32),
    target: &Target,
    flows: &mut dyn FlowPort,
) -> Result<TableHandle, FlowError> {
    let template = encode::hash_table(service, group, rows, target);
    let template = template.ok_or_else(|| unspecified("no table is for both families"))?;
    let table = flows.create_table(&template)?;
    match check_hash(service, &table, flows) {
        Ok(()) => Ok(table),
        Err(error) => {
            // It has no rules: nothing can keep it.
            let _ = flows.destroy_table(table);
            Err(error)
        }
    }
}

/// Compares the card's hash with software's.
fn check_hash(
    service: &Service,
    table: &TableHandle,
    flows: &mut dyn FlowPort,
) -> Result<(), FlowError> {
    let kind = FlowType { ipv6: service.vip().is_ipv6(), proto: service.proto() };
    let Some(example) = kind.example() else { return Ok(()) };
    for sample in 0..SAMPLES {
        let src = SocketAddr::new(example.src().ip(), sample.wrapping_mul(4_093));
        let dst = SocketAddr::new(service.vip(), service.port().unwrap_or(sample));
        let Some(key) = FlowKey::new(kind.proto, src, dst) else { continue };
        if flows.table_hash(table, &Rule::five_tuple(&key, Vec::new()).pattern)? != key.crc32() {
            return Err(unspecified("the card's hash is not the CRC-32 of addresses and ports"));
        }
    }
    Ok(())
}

fn unspecified(message: &str) -> FlowError {
    let (kind, errno) = (FlowErrorKind::Unspecified, FlowError::NOT_SUPPORTED);
    FlowError { kind, errno, message: message.to_owned() }
}
