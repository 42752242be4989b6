//! The asynchronous side of rte_flow: tables made from templates, and queues
//! of operations on them.
use super::{Action, Attributes, FlowError, FlowErrorKind, Item, RuleHandle};

/// What a port's flow engine is set up for (`rte_flow_configure`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Queues of operations.
    pub queues: u16,
    /// Operations each holds.
    pub depth: u32,
    /// Counters: one a rule with COUNT, or AGE.
    pub counters: u32,
    /// Ageing objects: one a rule with AGE.
    pub aging: u32,
}

/// What all rules of a table have in common: a pattern template, an actions
/// template and the table's attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Group, priority and direction of the table's rules.
    pub attributes: Attributes,
    /// The items; of fields the masks count, not the values.
    pub pattern: Vec<Item>,
    /// The actions; their values are each rule's own, but which field a
    /// MODIFY_FIELD modifies, and how, is the table's.
    pub actions: Vec<Action>,
    /// Rules the table holds at most.
    pub rules: u32,
    /// By which hash of a packet's fields, those that the items mask, the table
    /// finds its rule: rules are inserted by index then. `None`: by their items'
    /// values.
    pub hash: Option<TableHash>,
}

/// How a table finds the index of a packet's rule (`rte_flow_table_hash_func`,
/// since DPDK 23.03).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableHash {
    /// The fields' bits themselves.
    Linear = 1,
    /// CRC-32.
    Crc32 = 2,
    /// CRC-16.
    Crc16 = 3,
}

/// A table of a port. Its holder gives it back to the same port.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a table whose handle is dropped stays until the port is closed"]
pub struct TableHandle(usize);

impl TableHandle {
    /// The handle for a port's own number of a table. Only for implementations
    /// of a port.
    pub fn from_port(value: usize) -> Self {
        Self(value)
    }

    /// The number the port gave it.
    #[must_use]
    pub fn port_value(&self) -> usize {
        self.0
    }
}

/// The end of an operation, as [`super::FlowPort::pull`] reports it.
#[derive(Debug, PartialEq, Eq)]
pub struct Completion {
    /// What the caller named the operation.
    pub token: u64,
    /// Whether it was carried out. A rule whose creation was not is in no
    /// table, but its handle must be given to `enqueue_destroy` all the same.
    pub done: bool,
    /// The handle of a rule whose destruction failed: the rule is still there.
    pub handle: Option<RuleHandle>,
}

/// The answer of a port without queues, for callers to fall back on `create`.
pub(super) fn no_queues() -> FlowError {
    FlowError {
        kind: FlowErrorKind::Unspecified,
        errno: FlowError::NOT_SUPPORTED,
        message: "the port has no asynchronous flow queues: create rules one by one".to_owned(),
    }
}
