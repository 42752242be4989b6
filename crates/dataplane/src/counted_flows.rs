//! A driver's rules, with a count of the calls from which the driver has returned:
//! as long as it moves, the driver gets on.
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use dpdk::flow::{
    Completion, Counters, FlowError, FlowPort, QueueConfig, Rule, RuleHandle, TableHandle, Template,
};

/// [`FlowPort`] that counts in `calls`.
pub(crate) struct CountedFlows<'a> {
    flows: &'a mut dyn FlowPort,
    calls: &'a AtomicU64,
}

impl<'a> CountedFlows<'a> {
    pub(crate) const fn new(flows: &'a mut dyn FlowPort, calls: &'a AtomicU64) -> Self {
        Self { flows, calls }
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut dyn FlowPort) -> T) -> T {
        let done = call(self.flows);
        self.calls.fetch_add(1, Ordering::Relaxed);
        done
    }
}

impl FlowPort for CountedFlows<'_> {
    fn validate(&mut self, rule: &Rule) -> Result<(), FlowError> {
        self.call(|flows| flows.validate(rule))
    }

    fn create(&mut self, rule: &Rule) -> Result<RuleHandle, FlowError> {
        self.call(|flows| flows.create(rule))
    }

    fn destroy(&mut self, handle: RuleHandle) -> Result<(), (RuleHandle, FlowError)> {
        self.call(|flows| flows.destroy(handle))
    }

    fn query(&mut self, handle: &RuleHandle) -> Result<Counters, FlowError> {
        self.call(|flows| flows.query(handle))
    }

    fn query_age(&mut self) -> Result<Vec<usize>, FlowError> {
        self.call(|flows| flows.query_age())
    }

    fn recover(&mut self, groups: RangeInclusive<u32>) -> Vec<RuleHandle> {
        self.call(|flows| flows.recover(groups))
    }

    fn configure_queues(&mut self, config: &QueueConfig) -> Result<(), FlowError> {
        self.call(|flows| flows.configure_queues(config))
    }

    fn create_table(&mut self, template: &Template) -> Result<TableHandle, FlowError> {
        self.call(|flows| flows.create_table(template))
    }

    fn destroy_table(&mut self, table: TableHandle) -> Result<(), (TableHandle, FlowError)> {
        self.call(|flows| flows.destroy_table(table))
    }

    fn enqueue_create(
        &mut self,
        queue: u16,
        table: &TableHandle,
        rule: &Rule,
        token: u64,
    ) -> Result<RuleHandle, FlowError> {
        self.call(|flows| flows.enqueue_create(queue, table, rule, token))
    }

    fn enqueue_destroy(
        &mut self,
        queue: u16,
        handle: RuleHandle,
        token: u64,
    ) -> Result<(), (RuleHandle, FlowError)> {
        self.call(|flows| flows.enqueue_destroy(queue, handle, token))
    }

    fn push(&mut self, queue: u16) -> Result<(), FlowError> {
        self.call(|flows| flows.push(queue))
    }

    fn pull(&mut self, queue: u16, out: &mut Vec<Completion>) -> Result<usize, FlowError> {
        self.call(|flows| flows.pull(queue, out))
    }
}
