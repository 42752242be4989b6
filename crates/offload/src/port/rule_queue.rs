//! How rules reach a card: one by one, or through its queue of operations.
use std::collections::{BTreeMap, HashMap};

use dpdk::flow::{
    Action, Completion, FlowError, FlowPort, QueueConfig, Rule, RuleHandle, TableHandle, Template,
};

use crate::encode::Shape;

/// Operations that the queue holds.
const DEPTH: u32 = 1024;
/// The queue of connections' rules.
const CONNECTIONS: u16 = 0;
/// The queue of stateless services' rules.
pub(crate) const STATELESS: u16 = 1;
/// Rules that one table holds at most, and counters and ages the port has.
const TABLE_RULES: u32 = 1 << 18;
/// ENOMEM: the answer of a queue, or a table, that has no room.
const NO_MEMORY: i32 = 12;
/// EBUSY: the queue has no room now.
const BUSY: i32 = 16;
/// An operation that has not been completed after this time is overdue: the
/// card is very slow, or the port was reset.
const OVERDUE_MS: u64 = 5_000;

/// The result of an operation that was put in line; `T` labels a rule.
#[derive(Debug)]
pub(crate) enum Finished<T> {
    /// The rule is in the card.
    Created,
    /// The rule could not be created. Its handle must be destroyed.
    NotCreated(T),
    /// The rule is gone.
    Destroyed(T),
    /// The rule is still there.
    NotDestroyed(T, RuleHandle),
}

/// The result of a request to destroy a rule.
#[derive(Debug)]
pub(crate) enum Destroy<T> {
    /// It is gone.
    Done(T),
    /// It will be: see [`RuleQueue::finish`].
    InLine,
    /// It is still there.
    Failed(T, RuleHandle, FlowError),
}

/// The operations in line, by token, and since when they wait.
#[derive(Debug)]
enum Operation<T> {
    Create(T, u64),
    Destroy(T, u64),
}

#[derive(Debug)]
struct Queued<T> {
    number: u16,
    tables: HashMap<Shape, TableHandle>,
    in_line: BTreeMap<u64, Operation<T>>,
    last_token: u64,
    completions: Vec<Completion>,
    /// The last operation that was counted as overdue; so were those before it.
    last_overdue: u64,
}

/// One port's way of making rules.
#[derive(Debug)]
pub(crate) struct RuleQueue<T> {
    queued: Option<Queued<T>>,
}

impl<T> Default for RuleQueue<T> {
    fn default() -> Self {
        Self { queued: None }
    }
}

impl<T: Clone> RuleQueue<T> {
    /// Takes the port's queues into use, if it has any. Before the first rule,
    /// or on a port whose queues somebody has set up before.
    pub(crate) fn set_up(&mut self, flows: &mut dyn FlowPort, probe: &Rule) {
        let configured = configure(flows).is_ok();
        // A port keeps its queues as long as it has tables of a predecessor.
        let template = template(probe, 1);
        let takes = flows.create_table(&template);
        if let Ok(table) = takes {
            let _ = flows.destroy_table(table);
        } else if !configured {
            return;
        }
        *self = Self::queued(CONNECTIONS);
    }

    /// Whether the port takes a table for rules like `rule`.
    pub(crate) fn takes(&self, flows: &mut dyn FlowPort, rule: &Rule) -> bool {
        let table = flows.create_table(&template(rule, 1));
        table.map(|table| flows.destroy_table(table)).is_ok()
    }

    /// Queue `number` of a port that has its queues already.
    pub(crate) fn queued(number: u16) -> Self {
        Self {
            queued: Some(Queued {
                number,
                tables: HashMap::new(),
                in_line: BTreeMap::new(),
                last_token: 0,
                completions: Vec::new(),
                last_overdue: 0,
            }),
        }
    }

    /// Whether rules go through a queue.
    pub(crate) fn is_queued(&self) -> bool {
        self.queued.is_some()
    }

    /// Rules whose destruction is in line.
    pub(crate) fn destroying(&self) -> usize {
        let in_line = self.queued.iter().flat_map(|queued| queued.in_line.values());
        in_line.filter(|operation| matches!(operation, Operation::Destroy(..))).count()
    }

    /// Creates `rule`, which has `shape`. Through a queue it may still turn out
    /// that it could not be.
    pub(crate) fn create(
        &mut self,
        flows: &mut dyn FlowPort,
        (rule, shape): (&Rule, Shape),
        label: &T,
        now_ms: u64,
    ) -> Result<RuleHandle, FlowError> {
        let Some(queued) = &mut self.queued else { return flows.create(rule) };
        queued.make_room(flows)?;
        let table = match queued.tables.entry(shape) {
            std::collections::hash_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(flows.create_table(&template(rule, TABLE_RULES))?)
            }
        };
        let token = queued.last_token + 1;
        let handle = flows.enqueue_create(queued.number, table, rule, token).map_err(full)?;
        queued.last_token = token;
        queued.in_line.insert(token, Operation::Create(label.clone(), now_ms));
        Ok(handle)
    }

    /// Creates a rule with `actions` at row `index` of `table`; it may still turn
    /// out that it could not be.
    pub(crate) fn create_by_index(
        &mut self,
        flows: &mut dyn FlowPort,
        (table, index): (&TableHandle, u32),
        actions: &[Action],
        label: T,
        now_ms: u64,
    ) -> Result<RuleHandle, FlowError> {
        let Some(queued) = &mut self.queued else { return Err(busy("the port has no queues")) };
        queued.make_room(flows)?;
        let token = queued.last_token + 1;
        let number = queued.number;
        let handle = flows.enqueue_create_by_index(number, table, index, actions, token);
        let handle = handle.map_err(full)?;
        queued.last_token = token;
        queued.in_line.insert(token, Operation::Create(label, now_ms));
        Ok(handle)
    }

    /// Destroys the rule of `handle`.
    pub(crate) fn destroy(
        &mut self,
        flows: &mut dyn FlowPort,
        handle: RuleHandle,
        label: T,
        now_ms: u64,
    ) -> Destroy<T> {
        let Some(queued) = &mut self.queued else {
            return match flows.destroy(handle) {
                Ok(()) => Destroy::Done(label),
                Err((handle, error)) => Destroy::Failed(label, handle, error),
            };
        };
        if let Err(error) = queued.make_room(flows) {
            return Destroy::Failed(label, handle, error);
        }
        let token = queued.last_token + 1;
        match flows.enqueue_destroy(queued.number, handle, token) {
            Ok(()) => {
                queued.last_token = token;
                queued.in_line.insert(token, Operation::Destroy(label, now_ms));
                Destroy::InLine
            }
            Err((handle, error)) => Destroy::Failed(label, handle, error),
        }
    }

    /// Hands to the card what is in line, and reports what it has completed.
    pub(crate) fn finish(&mut self, flows: &mut dyn FlowPort) -> Vec<Finished<T>> {
        let Some(queued) = &mut self.queued else { return Vec::new() };
        if queued.in_line.is_empty() {
            return Vec::new();
        }
        let _ = flows.push(queued.number);
        queued.pull(flows);
        let completions = std::mem::take(&mut queued.completions);
        completions.into_iter().filter_map(|one| queued.complete(one)).collect()
    }

    /// How many operations have become overdue by `now_ms` since it was asked
    /// last. They stay in line: a card that is only slow may still match the
    /// rule it was to destroy, so its 5-tuple and tag must not be used again
    /// before it says that the rule is gone.
    pub(crate) fn became_overdue(&mut self, now_ms: u64) -> u64 {
        let Some(queued) = &mut self.queued else { return 0 };
        let is_overdue = |operation: &Operation<T>| {
            let (Operation::Create(_, since) | Operation::Destroy(_, since)) = operation;
            since.saturating_add(OVERDUE_MS) < now_ms
        };
        let from = queued.last_overdue + 1;
        let mut found = 0;
        // Tokens and times grow together.
        for (token, _) in queued.in_line.range(from..).take_while(|(_, one)| is_overdue(one)) {
            queued.last_overdue = *token;
            found += 1;
        }
        found
    }

    /// Operations in line that are overdue.
    pub(crate) fn overdue(&self) -> usize {
        let queued = self.queued.as_ref();
        queued.map_or(0, |queued| queued.in_line.range(..=queued.last_overdue).count())
    }

    /// The port was reset: no rule is left, and nothing in line will ever be
    /// completed. Returns those that were to be destroyed.
    pub(crate) fn reset(&mut self) -> Vec<T> {
        let in_line = self.queued.iter_mut().flat_map(|queued| {
            queued.completions.clear();
            std::mem::take(&mut queued.in_line)
        });
        let destroyed = in_line.filter_map(|(_, operation)| match operation {
            Operation::Destroy(label, _) => Some(label),
            Operation::Create(..) => None,
        });
        destroyed.collect()
    }
}

impl<T> Queued<T> {
    /// Room for one more operation.
    fn make_room(&mut self, flows: &mut dyn FlowPort) -> Result<(), FlowError> {
        if self.has_room() {
            return Ok(());
        }
        flows.push(self.number)?;
        self.pull(flows);
        if self.has_room() {
            return Ok(());
        }
        Err(busy("the operations in line take longer than usual"))
    }

    fn has_room(&self) -> bool {
        self.in_line.len().saturating_sub(self.completions.len()) < DEPTH as usize
    }

    fn pull(&mut self, flows: &mut dyn FlowPort) {
        while flows.pull(self.number, &mut self.completions).is_ok_and(|found| found > 0) {}
    }

    fn complete(&mut self, one: Completion) -> Option<Finished<T>> {
        match (self.in_line.remove(&one.token)?, one.done, one.handle) {
            (Operation::Create(..), true, _) => Some(Finished::Created),
            (Operation::Create(label, _), false, _) => Some(Finished::NotCreated(label)),
            (Operation::Destroy(label, _), false, Some(handle)) => {
                Some(Finished::NotDestroyed(label, handle))
            }
            (Operation::Destroy(label, _), ..) => Some(Finished::Destroyed(label)),
        }
    }
}

/// Sets up the queues of a port, before its first rule.
pub(crate) fn configure(flows: &mut dyn FlowPort) -> Result<(), FlowError> {
    let (counters, aging) = (TABLE_RULES, TABLE_RULES);
    flows.configure_queues(&QueueConfig { queues: 2, depth: DEPTH, counters, aging })
}

/// Tries once to destroy a rule of which it is not known how it was made.
pub(crate) fn destroy_once(flows: &mut dyn FlowPort, handle: RuleHandle) -> Result<(), RuleHandle> {
    let Err((handle, _)) = flows.destroy(handle) else { return Ok(()) };
    let mut queue = RuleQueue::<()>::queued(CONNECTIONS);
    match queue.destroy(flows, handle, (), 0) {
        Destroy::Done(()) => Ok(()),
        Destroy::Failed((), back, _) => Err(back),
        Destroy::InLine => match queue.finish(flows).pop() {
            Some(Finished::NotDestroyed((), back)) => Err(back),
            _ => Ok(()),
        },
    }
}

fn busy(message: &str) -> FlowError {
    let kind = dpdk::flow::FlowErrorKind::Unspecified;
    FlowError { kind, errno: BUSY, message: message.to_owned() }
}

/// What rules like `rule` have in common.
fn template(rule: &Rule, rules: u32) -> Template {
    let Rule { attributes, pattern, actions } = rule.clone();
    Template { attributes, pattern, actions, rules, hash: None }
}

/// A table without room says ENOMEM; so does a queue, but that has room.
fn full(error: FlowError) -> FlowError {
    if error.errno == NO_MEMORY {
        return FlowError { errno: FlowError::NO_SPACE, ..error };
    }
    error
}
