//! The programming side as the host sees it: a port that takes rules.
use std::ops::RangeInclusive;
use std::time::Duration;

use dpdk::flow::{
    Action, Completion, Counters, FlowError, FlowErrorKind, FlowPort, Item, QueueConfig, RawRule,
    Rule, RuleHandle, TableHandle, Template, decode,
};

use crate::card::Nic;
use crate::profile::{Parsed, refuse};
use crate::steering::{HeaderKey, Place};

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
    fn parse(&self, rule: &Rule, queued: bool) -> Result<Parsed, FlowError> {
        let rule = decode(&RawRule::lower(rule))?;
        (self.nic.card().parse)(&rule, &self.nic.facts(queued))
    }
}

/// The asynchronous side; only steering cards have it.
impl NicFlows {
    /// With hardware steering (`dv_flow_en=2`) the driver of DPDK 22.11 makes
    /// rules through queues only, that of 24.11 one by one, too.
    fn check_not_configured(&self) -> Result<(), FlowError> {
        if !self.nic.card().rules_by_index && self.nic.with_queues(|queues, _| queues.configured())
        {
            let message = "the port's rules are created through its queues";
            return Err(refuse(FlowErrorKind::Unspecified, FlowError::NOT_SUPPORTED, message));
        }
        Ok(())
    }

    /// Puts the creation of `rule` in line, once `place` has found its place.
    fn enqueue(
        &self,
        (queue, table, token): (u16, u64, u64),
        rule: &Rule,
        place: impl FnOnce(&mut Place),
    ) -> Result<RuleHandle, FlowError> {
        let parsed = self.parse(rule, true);
        let mut parsed =
            parsed.inspect_err(|_| self.nic.with_rules(|rules| rules.refused_by_parser()))?;
        if let Parsed::Steering(flow) = &mut parsed {
            place(&mut flow.place);
        }
        self.nic.with_queues(|queues, rules| {
            let id = rules.next_id();
            queues.enqueue_create(queue, table, (id, parsed), token)?;
            Ok(RuleHandle::from_port(id as usize))
        })
    }

    fn check_steering(&self) -> Result<(), FlowError> {
        if self.nic.profile().rewrites() {
            return Ok(());
        }
        let message = "Function not implemented: the driver has no flow queues";
        Err(refuse(FlowErrorKind::Unspecified, FlowError::NOT_SUPPORTED, message))
    }
}

impl FlowPort for NicFlows {
    /// Checks the rule's format only, as the drivers do: room, duplicates,
    /// masks and soft ids show when it is created.
    fn validate(&mut self, rule: &Rule) -> Result<(), FlowError> {
        self.parse(rule, false).map(|_| ())
    }

    fn create(&mut self, rule: &Rule) -> Result<RuleHandle, FlowError> {
        self.check_not_configured()?;
        let parsed = self.parse(rule, false);
        let parsed =
            parsed.inspect_err(|_| self.nic.with_rules(|rules| rules.refused_by_parser()))?;
        let insert_ns = self.nic.insertion().insert_ns;
        let (id, cost) = self.nic.with_rules(|rules| rules.create(parsed, insert_ns))?;
        self.last_create_ns = cost.ns;
        if cost.sleep {
            std::thread::sleep(Duration::from_nanos(cost.ns));
        }
        Ok(RuleHandle::from_port(id as usize))
    }

    fn destroy(&mut self, handle: RuleHandle) -> Result<(), (RuleHandle, FlowError)> {
        let id = handle.port_value() as u64;
        if let Err(error) = self.check_not_configured() {
            return Err((handle, error));
        }
        if self.nic.with_queues(|queues, _| queues.made(id)) {
            let message = "a rule is destroyed as it was made: at once, or through a queue";
            return Err((handle, refuse(FlowErrorKind::Handle, FlowError::INVALID, message)));
        }
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

    fn query_age(&mut self) -> Result<Vec<usize>, FlowError> {
        if !self.nic.profile().rewrites() {
            let message = "Function not implemented";
            return Err(refuse(FlowErrorKind::Unspecified, NOT_IMPLEMENTED, message));
        }
        let aged = self.nic.with_rules(|rules| rules.aged());
        Ok(aged.into_iter().map(|id| id as usize).collect())
    }

    fn recover(&mut self, groups: RangeInclusive<u32>) -> Vec<RuleHandle> {
        let found = self.nic.with_rules(|rules| rules.in_groups(&groups));
        found.into_iter().map(|id| RuleHandle::from_port(id as usize)).collect()
    }

    fn configure_queues(&mut self, config: &QueueConfig) -> Result<(), FlowError> {
        self.check_steering()?;
        self.nic.with_queues(|queues, rules| {
            if rules.is_empty() {
                return queues.configure(config);
            }
            let message = "the port has rules: queues are configured before the first";
            Err(refuse(FlowErrorKind::Unspecified, FlowError::INVALID, message))
        })
    }

    fn create_table(&mut self, template: &Template) -> Result<TableHandle, FlowError> {
        self.check_steering()?;
        let rule = Rule {
            attributes: template.attributes,
            pattern: template.pattern.clone(),
            actions: template.actions.clone(),
        };
        let profile = self.nic.card();
        let made = self.nic.with_queues(|queues, _| queues.create_table(template, profile));
        let table = made?;
        if let Err(error) = self.parse(&rule, true) {
            // The table was empty, so nothing can keep it.
            let _ = self.nic.with_queues(|queues, _| queues.destroy_table(table));
            return Err(error);
        }
        Ok(TableHandle::from_port(table as usize))
    }

    fn destroy_table(&mut self, table: TableHandle) -> Result<(), (TableHandle, FlowError)> {
        let number = table.port_value() as u64;
        let gone = self
            .check_steering()
            .and_then(|()| self.nic.with_queues(|queues, _| queues.destroy_table(number)));
        gone.map_err(|error| (table, error))
    }

    fn enqueue_create(
        &mut self,
        queue: u16,
        table: &TableHandle,
        rule: &Rule,
        token: u64,
    ) -> Result<RuleHandle, FlowError> {
        self.check_steering()?;
        let table = table.port_value() as u64;
        self.nic.with_queues(|queues, _| queues.check_rule(table, rule))?;
        self.enqueue((queue, table, token), rule, |_| {})
    }

    fn enqueue_create_by_index(
        &mut self,
        queue: u16,
        table: &TableHandle,
        index: u32,
        actions: &[Action],
        token: u64,
    ) -> Result<RuleHandle, FlowError> {
        self.check_steering()?;
        let table = table.port_value() as u64;
        let found = self.nic.with_queues(|queues, _| queues.rule_by_index(table, index, actions));
        let (rule, rows) = found?;
        self.enqueue((queue, table, token), &rule, |place| {
            (place.rows, place.value) = (Some(rows), HeaderKey::of_index(index));
        })
    }

    fn table_hash(&mut self, table: &TableHandle, pattern: &[Item]) -> Result<u32, FlowError> {
        self.check_steering()?;
        let table = table.port_value() as u64;
        let rule = self.nic.with_queues(|queues, _| queues.rule_to_hash(table, pattern))?;
        match self.parse(&rule, true)? {
            Parsed::Steering(flow) => Ok(flow.place.value.crc32(&flow.place.mask)),
            Parsed::Director(_) => self.check_steering().map(|()| 0),
        }
    }

    fn enqueue_destroy(
        &mut self,
        queue: u16,
        handle: RuleHandle,
        token: u64,
    ) -> Result<(), (RuleHandle, FlowError)> {
        let id = handle.port_value() as u64;
        let queued = self.check_steering().and_then(|()| {
            self.nic.with_queues(|queues, _| queues.enqueue_destroy(queue, id, token))
        });
        queued.map_err(|error| (handle, error))
    }

    fn push(&mut self, queue: u16) -> Result<(), FlowError> {
        self.check_steering()?;
        let insert_ns = self.nic.insertion().queued_insert_ns;
        self.nic.with_queues(|queues, rules| queues.push(queue, rules, insert_ns))
    }

    fn pull(&mut self, queue: u16, out: &mut Vec<Completion>) -> Result<usize, FlowError> {
        self.check_steering()?;
        self.nic.with_queues(|queues, rules| queues.pull(queue, rules.now_ns(), out))
    }
}
