//! The queues of operations of a port's rules, through its driver.
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;

use dpdk_sys as sys;

use super::port::{Installed, PortFlows, complete, explain, next_number, no_error};
use super::port_tables::Table;
use super::raw::RawRule;
use super::{
    Action, Completion, FlowError, FlowErrorKind, GroupUse, QueueConfig, Rule, RuleHandle,
    TableHandle,
};
use crate::errno;

/// Completions read at once.
const PULLED: usize = 64;

/// What is known of a port's tables and of the operations in line.
#[derive(Debug, Default)]
pub(super) struct Queues {
    queues: u16,
    pub(super) tables: BTreeMap<usize, Table>,
    /// By the number that goes to the driver as user data.
    operations: BTreeMap<usize, Operation>,
}

#[derive(Debug)]
struct Operation {
    token: u64,
    /// The rule to be destroyed; `None`: one is created.
    destroys: Option<usize>,
}

/// The operation waits for a push.
fn postponed() -> sys::rte_flow_op_attr {
    // SAFETY: numbers only: zero is valid.
    let mut attr: sys::rte_flow_op_attr = unsafe { std::mem::zeroed() };
    attr.set_postpone(1);
    attr
}

impl PortFlows {
    pub(super) fn do_configure(&mut self, config: &QueueConfig) -> Result<(), FlowError> {
        // SAFETY: numbers only: zero is valid.
        let mut attr: sys::rte_flow_port_attr = unsafe { std::mem::zeroed() };
        attr.nb_counters = config.counters;
        attr.nb_aging_objects = config.aging;
        let queue = sys::rte_flow_queue_attr { size: config.depth };
        let mut queues = vec![&raw const queue; usize::from(config.queues)];
        let mut error = no_error();
        let _one = self.port.control();
        // SAFETY: the port exists; as many queue attributes as queues.
        let code = unsafe {
            sys::rte_flow_configure(
                self.port.id,
                &raw const attr,
                config.queues,
                queues.as_mut_ptr(),
                &raw mut error,
            )
        };
        if code != 0 {
            return Err(explain(code, &error));
        }
        self.queues.queues = config.queues;
        Ok(())
    }

    pub(super) fn do_enqueue_create(
        &mut self,
        queue: u16,
        table: &TableHandle,
        rule: &Rule,
        token: u64,
    ) -> Result<RuleHandle, FlowError> {
        self.check_queue(queue)?;
        let table = self.table(table)?.table;
        let number = next_number();
        let raw = RawRule::lower_for(rule, number);
        let (_, pattern, actions) = raw.as_ptrs();
        let (op, user) = self.operation(token, None);
        let (postponed, mut error) = (postponed(), no_error());
        let guard = self.port.control();
        // SAFETY: queue and table are this port's; the arrays are complete and
        // END-terminated, and the driver reads them before it returns.
        let flow = unsafe {
            sys::rte_flow_async_create(
                self.port.id,
                u32::from(queue),
                &raw const postponed,
                table.as_ptr(),
                pattern,
                0,
                actions,
                0,
                user,
                &raw mut error,
            )
        };
        drop(guard);
        self.created(flow, op, number, GroupUse::of(rule), &error)
    }

    pub(super) fn do_enqueue_create_by_index(
        &mut self,
        queue: u16,
        table: &TableHandle,
        index: u32,
        actions: &[Action],
        token: u64,
    ) -> Result<RuleHandle, FlowError> {
        self.check_queue(queue)?;
        let rule = Rule {
            attributes: self.table(table)?.attributes,
            pattern: Vec::new(),
            actions: actions.to_vec(),
        };
        complete(&rule)?;
        let table = self.table(table)?.table;
        let number = next_number();
        let raw = RawRule::lower_for(&rule, number);
        let (_, _, actions) = raw.as_ptrs();
        let (op, user) = self.operation(token, None);
        let (postponed, mut error) = (postponed(), no_error());
        let guard = self.port.control();
        // SAFETY: queue and table are this port's; the actions are complete and
        // END-terminated, and the driver reads them before it returns.
        let flow = unsafe {
            sys::hnlb_create_by_index(
                self.port.id,
                u32::from(queue),
                &raw const postponed,
                table.as_ptr(),
                index,
                actions,
                user,
                &raw mut error,
            )
        };
        drop(guard);
        self.created(flow, op, number, GroupUse::of(&rule), &error)
    }

    /// The outcome of operation `op`, the creation of rule `number`.
    fn created(
        &mut self,
        flow: *mut sys::rte_flow,
        op: usize,
        number: usize,
        groups: GroupUse,
        error: &sys::rte_flow_error,
    ) -> Result<RuleHandle, FlowError> {
        let Some(flow) = NonNull::new(flow) else {
            self.queues.operations.remove(&op);
            return Err(explain(errno::last(), error));
        };
        self.rules.insert(number, Installed { flow, queued: true, groups });
        Ok(RuleHandle::from_port(number))
    }

    pub(super) fn do_enqueue_destroy(
        &mut self,
        queue: u16,
        handle: &RuleHandle,
        token: u64,
    ) -> Result<(), FlowError> {
        self.check_queue(queue)?;
        let flow = self.find_made(handle, true)?;
        let (op, user) = self.operation(token, Some(handle.port_value()));
        let (postponed, mut error) = (postponed(), no_error());
        let guard = self.port.control();
        // SAFETY: the queue is this port's, the rule was created and not destroyed.
        let code = unsafe {
            sys::rte_flow_async_destroy(
                self.port.id,
                u32::from(queue),
                &raw const postponed,
                flow,
                user,
                &raw mut error,
            )
        };
        drop(guard);
        if code != 0 {
            self.queues.operations.remove(&op);
            return Err(explain(code, &error));
        }
        Ok(())
    }

    pub(super) fn do_push(&mut self, queue: u16) -> Result<(), FlowError> {
        self.check_queue(queue)?;
        let mut error = no_error();
        let _one = self.port.control();
        // SAFETY: the queue is this port's.
        let code = unsafe { sys::rte_flow_push(self.port.id, u32::from(queue), &raw mut error) };
        if code < 0 { Err(explain(code, &error)) } else { Ok(()) }
    }

    pub(super) fn do_pull(
        &mut self,
        queue: u16,
        out: &mut Vec<Completion>,
    ) -> Result<usize, FlowError> {
        self.check_queue(queue)?;
        let nothing = sys::rte_flow_op_result {
            status: sys::RTE_FLOW_OP_SUCCESS,
            user_data: std::ptr::null_mut(),
        };
        let mut results = [nothing; PULLED];
        let mut error = no_error();
        let guard = self.port.control();
        // SAFETY: the queue is this port's; so many results can be written.
        let found = unsafe {
            sys::rte_flow_pull(
                self.port.id,
                u32::from(queue),
                results.as_mut_ptr(),
                PULLED as u16,
                &raw mut error,
            )
        };
        drop(guard);
        let Ok(found) = usize::try_from(found) else { return Err(explain(found, &error)) };
        let before = out.len();
        for result in results.iter().take(found) {
            let Some(op) = self.queues.operations.remove(&result.user_data.addr()) else {
                continue;
            };
            let done = result.status == sys::RTE_FLOW_OP_SUCCESS;
            if let (Some(number), true) = (op.destroys, done) {
                self.rules.remove(&number);
            }
            let handle = op.destroys.filter(|_| !done).map(RuleHandle::from_port);
            out.push(Completion { token: op.token, done, handle });
        }
        Ok(out.len() - before)
    }

    /// Notes an operation; its number, and that as user data.
    fn operation(&mut self, token: u64, destroys: Option<usize>) -> (usize, *mut c_void) {
        let number = next_number();
        self.queues.operations.insert(number, Operation { token, destroys });
        (number, std::ptr::without_provenance_mut(number))
    }

    /// DPDK checks neither that there are queues nor that the number is one's.
    fn check_queue(&self, queue: u16) -> Result<(), FlowError> {
        if queue < self.queues.queues {
            return Ok(());
        }
        let errno =
            if self.queues.queues == 0 { FlowError::NOT_SUPPORTED } else { FlowError::INVALID };
        let message =
            format!("device '{}' has {} flow queues", self.port.device, self.queues.queues);
        Err(FlowError { kind: FlowErrorKind::Unspecified, errno, message })
    }
}
