//! rte_flow: rules as typed values, the C arrays they are lowered to, and
//! whoever takes such arrays: a port's driver or the emulated NIC.

mod action;
mod decode;
mod decode_action;
mod error;
mod header;
mod port;
mod raw;
mod raw_action;
mod rule;

pub use action::{Action, HopField, Modify, SetField};
pub use decode::{decode, decode_raw};
pub use error::{FlowError, FlowErrorKind};
pub use port::PortFlows;
pub use raw::RawRule;
pub use rule::{
    Attributes, Counters, EthFields, Field, Ipv4Fields, Ipv6Fields, Item, Match, PortFields, Rule,
    RuleHandle, VlanFields,
};

/// Whoever takes rules: a port's driver (`rte_flow_create` and its kin) or the
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
}
