//! The programming side as the host sees it: a port that takes rules.
use std::time::Duration;

use dpdk::flow::{Counters, FlowError, FlowErrorKind, FlowPort, RawRule, Rule, RuleHandle, decode};

use crate::card::Nic;
use crate::profile::{Filter, refuse};

/// The rules of an emulated NIC, as a driver offers them. Several may exist
/// for one NIC; a handle is good for all of them.
#[derive(Clone)]
pub struct NicFlows {
    nic: Nic,
    last_create_ns: u64,
}

/// ENOSYS: ixgbe has no `rte_flow_query`.
const NOT_IMPLEMENTED: i32 = 38;

impl NicFlows {
    pub(crate) fn new(nic: Nic) -> Self {
        Self { nic, last_create_ns: 0 }
    }

    /// What the last create took, in nanoseconds of the NIC's time.
    #[must_use]
    pub fn last_create_ns(&self) -> u64 {
        self.last_create_ns
    }

    /// Takes the rule as a driver gets it, as C arrays, and reads it from those.
    fn parse(&self, rule: &Rule) -> Result<Filter, FlowError> {
        let rule = decode(&RawRule::lower(rule))?;
        (self.nic.card().parse)(&rule, self.nic.queues())
    }
}

impl FlowPort for NicFlows {
    /// Checks the rule's format only, as the drivers do: room, duplicates,
    /// masks and soft ids show when it is created.
    fn validate(&mut self, rule: &Rule) -> Result<(), FlowError> {
        self.parse(rule).map(|_| ())
    }

    fn create(&mut self, rule: &Rule) -> Result<RuleHandle, FlowError> {
        let filter = self.parse(rule);
        let filter =
            filter.inspect_err(|_| self.nic.with_rules(|rules| rules.refused_by_parser()))?;
        let (id, cost) = self.nic.with_rules(|rules| rules.create(filter))?;
        self.last_create_ns = cost.ns;
        if cost.sleep {
            std::thread::sleep(Duration::from_nanos(cost.ns));
        }
        Ok(RuleHandle::from_port(id as usize))
    }

    fn destroy(&mut self, handle: RuleHandle) -> Result<(), (RuleHandle, FlowError)> {
        let id = handle.port_value() as u64;
        self.nic.with_rules(|rules| rules.destroy(id)).map_err(|error| (handle, error))
    }

    fn query(&mut self, handle: &RuleHandle) -> Result<Counters, FlowError> {
        if !self.nic.card().counts {
            let message = "Function not implemented";
            return Err(refuse(FlowErrorKind::Unspecified, NOT_IMPLEMENTED, message));
        }
        let id = handle.port_value() as u64;
        self.nic.with_rules(|rules| rules.query(id))
    }
}
