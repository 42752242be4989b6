//! rte_flow: rules as typed values, the C arrays they are lowered to, and
//! what accepts such arrays: a port's driver or the emulated NIC.

mod action;
mod decode;
mod decode_action;
mod error;
mod header;
mod layer;
mod port;
mod port_queues;
mod port_tables;
mod queues;
mod raw;
mod raw_action;
mod rule;

use std::ops::RangeInclusive;

pub use action::{Action, HopField, Modify, NumberField, SetField};
pub use decode::{decode, decode_raw};
pub use error::{FlowError, FlowErrorKind};
pub use layer::{FlowCall, FlowLayer};
pub use port::PortFlows;
pub use queues::{Completion, QueueConfig, TableHandle, TableHash, Template};
pub use raw::RawRule;
pub use rule::{
    Attributes, Counters, EthFields, Field, GroupUse, Ipv4Fields, Ipv6Fields, Item, Match,
    PortFields, Rule, RuleHandle, VlanFields,
};

/// What accepts rules: a port's driver (`rte_flow_create` and its kin) or the
/// emulated NIC. Calls may take hundreds of microseconds: never from a worker.
pub trait FlowPort {
    /// Whether the card would take `rule`. A rule that validates can still be refused.
    ///
    /// # Errors
    /// The driver's reason.
    fn validate(&mut self, rule: &Rule) -> Result<(), FlowError>;

    /// Installs `rule`.
    ///
    /// # Errors
    /// The driver's reason; nothing is installed then.
    fn create(&mut self, rule: &Rule) -> Result<RuleHandle, FlowError>;

    /// Removes a rule of this port.
    ///
    /// # Errors
    /// The driver's reason and the handle back: the rule is still there.
    fn destroy(&mut self, handle: RuleHandle) -> Result<(), (RuleHandle, FlowError)>;

    /// Reads a rule's COUNT action.
    ///
    /// # Errors
    /// The driver's reason, for instance that the rule has no counter.
    fn query(&mut self, handle: &RuleHandle) -> Result<Counters, FlowError>;

    /// The rules with AGE whose timeout has passed without a packet, by their
    /// handles' [`RuleHandle::port_value`]. A rule may be named again by each
    /// call until it is destroyed.
    ///
    /// # Errors
    /// The driver's reason; ENOTSUP, as here, if the port can't age rules.
    fn query_age(&mut self) -> Result<Vec<usize>, FlowError> {
        Err(FlowError {
            kind: FlowErrorKind::Unspecified,
            errno: FlowError::NOT_SUPPORTED,
            message: "the port does not age rules: poll their counters".to_owned(),
        })
    }

    /// New handles for the transfer rules that this object still holds in the
    /// groups `groups`, and in other groups with a jump into them: for an owner that
    /// has lost its own. The jumps come first. rte_flow lists no rules, so this
    /// is what the object itself remembers; rules that another process made are
    /// not among them. Empty, as here, for an object that remembers nothing.
    fn recover(&mut self, groups: RangeInclusive<u32>) -> Vec<RuleHandle> {
        let _ = groups;
        Vec::new()
    }

    /// Sets up queues of operations. Before the first rule of the port; then
    /// rules are made by `enqueue_create` only.
    ///
    /// # Errors
    /// The driver's reason; ENOTSUP, as here, if the port has no such queues.
    fn configure_queues(&mut self, config: &QueueConfig) -> Result<(), FlowError> {
        let _ = config;
        Err(queues::no_queues())
    }

    /// Makes a table for rules that differ in values only.
    ///
    /// # Errors
    /// The driver's reason; ENOTSUP, as here, if the port has no queues.
    fn create_table(&mut self, template: &Template) -> Result<TableHandle, FlowError> {
        let _ = template;
        Err(queues::no_queues())
    }

    /// Removes a table without rules.
    ///
    /// # Errors
    /// The driver's reason and the handle back: the table is still there.
    fn destroy_table(&mut self, table: TableHandle) -> Result<(), (TableHandle, FlowError)> {
        Err((table, queues::no_queues()))
    }

    /// Puts the creation of `rule` in line; `token` comes back with its
    /// completion. The rule's attributes, items, masks and actions are those
    /// of the table's template.
    ///
    /// # Errors
    /// The driver's reason; nothing was put in line then. ENOMEM or EAGAIN: the
    /// queue is full until [`Self::pull`].
    fn enqueue_create(
        &mut self,
        queue: u16,
        table: &TableHandle,
        rule: &Rule,
        token: u64,
    ) -> Result<RuleHandle, FlowError> {
        let _ = (queue, table, rule, token);
        Err(queues::no_queues())
    }

    /// As [`Self::enqueue_create`], for rule `index` of a table whose rules are
    /// found by a [`TableHash`].
    ///
    /// # Errors
    /// The driver's reason; nothing was put in line then.
    fn enqueue_create_by_index(
        &mut self,
        queue: u16,
        table: &TableHandle,
        index: u32,
        actions: &[Action],
        token: u64,
    ) -> Result<RuleHandle, FlowError> {
        let _ = (queue, table, index, actions, token);
        Err(queues::no_queues())
    }

    /// The hash by which `table` finds the rule of packets with the values of
    /// `pattern`; the index is its low bits.
    ///
    /// # Errors
    /// The driver's reason; ENOTSUP, as here, if it does not tell.
    fn table_hash(&mut self, table: &TableHandle, pattern: &[Item]) -> Result<u32, FlowError> {
        let _ = (table, pattern);
        Err(queues::no_queues())
    }

    /// Puts the destruction of a rule made by [`Self::enqueue_create`] in line.
    ///
    /// # Errors
    /// The driver's reason and the handle back; nothing was put in line.
    fn enqueue_destroy(
        &mut self,
        queue: u16,
        handle: RuleHandle,
        token: u64,
    ) -> Result<(), (RuleHandle, FlowError)> {
        let _ = (queue, token);
        Err((handle, queues::no_queues()))
    }

    /// Hands what is in line to the card.
    ///
    /// # Errors
    /// The driver's reason.
    fn push(&mut self, queue: u16) -> Result<(), FlowError> {
        let _ = queue;
        Err(queues::no_queues())
    }

    /// Appends what has been completed to `out`; how many that were.
    ///
    /// # Errors
    /// The driver's reason.
    fn pull(&mut self, queue: u16, out: &mut Vec<Completion>) -> Result<usize, FlowError> {
        let _ = (queue, out);
        Err(queues::no_queues())
    }
}
