//! The asynchronous side of a port's rules, through its driver.
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;

use dpdk_sys as sys;

use super::port::{Installed, PortFlows, complete, explain, next_number, no_error};
use super::raw::RawRule;
use super::raw_action::RawActions;
use super::{
    Action, Attributes, Completion, FlowError, FlowErrorKind, GroupUse, Item, QueueConfig, Rule,
    RuleHandle, TableHandle, Template,
};
use crate::errno;

/// Completions read at once.
const PULLED: usize = 64;

/// What is known of a port's tables and of the operations in line.
#[derive(Debug, Default)]
pub(super) struct Queues {
    queues: u16,
    tables: BTreeMap<usize, Table>,
    /// By the number that goes to the driver as user data.
    operations: BTreeMap<usize, Operation>,
}

#[derive(Debug)]
struct Table {
    attributes: Attributes,
    table: NonNull<sys::rte_flow_template_table>,
    pattern: NonNull<sys::rte_flow_pattern_template>,
    actions: NonNull<sys::rte_flow_actions_template>,
}

// SAFETY: the driver's handles are not bound to a thread; calls are serialised
// by the port's control lock.
unsafe impl Send for Table {}

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

/// Makes the table one of rules by index, if the template says so. A DPDK that
/// has none says so here, whatever the port.
fn by_index(
    table: &mut sys::rte_flow_template_table_attr,
    template: &Template,
) -> Result<(), FlowError> {
    let Some(hash) = template.hash else { return Ok(()) };
    // SAFETY: writes members of the attributes.
    match unsafe { sys::hnlb_table_by_index(table, hash as u32) } {
        0 => Ok(()),
        code => Err(FlowError {
            kind: FlowErrorKind::Unspecified,
            errno: code.wrapping_abs(),
            message: "rules by index need DPDK 23.03".to_owned(),
        }),
    }
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

    pub(super) fn do_create_table(
        &mut self,
        template: &Template,
    ) -> Result<TableHandle, FlowError> {
        let rule = Rule {
            attributes: template.attributes,
            pattern: template.pattern.clone(),
            actions: template.actions.clone(),
        };
        complete(&rule)?;
        // SAFETY: numbers only: zero is valid.
        by_index(&mut unsafe { std::mem::zeroed() }, template)?;
        let raw = RawRule::lower(&rule);
        let masks = RawActions::template_mask(&template.actions);
        let _one = self.port.control();
        let pattern = self.pattern_template(&raw, template)?;
        let actions = self.actions_template(&raw, &masks, template).inspect_err(|_| {
            self.drop_templates(Some(pattern), None);
        })?;
        let table = self.template_table(&raw, template, pattern, actions).inspect_err(|_| {
            self.drop_templates(Some(pattern), Some(actions));
        })?;
        let (number, attributes) = (next_number(), template.attributes);
        self.queues.tables.insert(number, Table { attributes, table, pattern, actions });
        Ok(TableHandle::from_port(number))
    }

    fn pattern_template(
        &self,
        raw: &RawRule,
        template: &Template,
    ) -> Result<NonNull<sys::rte_flow_pattern_template>, FlowError> {
        // SAFETY: numbers only: zero is valid.
        let mut attr: sys::rte_flow_pattern_template_attr = unsafe { std::mem::zeroed() };
        attr.set_ingress(u32::from(template.attributes.ingress));
        attr.set_egress(u32::from(template.attributes.egress));
        attr.set_transfer(u32::from(template.attributes.transfer));
        let (_, items, _) = raw.as_ptrs();
        let mut error = no_error();
        // SAFETY: the port exists; the items are complete and END-terminated.
        let made = unsafe {
            sys::rte_flow_pattern_template_create(
                self.port.id,
                &raw const attr,
                items,
                &raw mut error,
            )
        };
        NonNull::new(made).ok_or_else(|| explain(errno::last(), &error))
    }

    fn actions_template(
        &self,
        raw: &RawRule,
        masks: &RawActions,
        template: &Template,
    ) -> Result<NonNull<sys::rte_flow_actions_template>, FlowError> {
        // SAFETY: numbers only: zero is valid.
        let mut attr: sys::rte_flow_actions_template_attr = unsafe { std::mem::zeroed() };
        attr.set_ingress(u32::from(template.attributes.ingress));
        attr.set_egress(u32::from(template.attributes.egress));
        attr.set_transfer(u32::from(template.attributes.transfer));
        let (_, _, actions) = raw.as_ptrs();
        let mut error = no_error();
        // SAFETY: the port exists; both arrays are END-terminated and of the
        // same actions.
        let made = unsafe {
            sys::rte_flow_actions_template_create(
                self.port.id,
                &raw const attr,
                actions,
                masks.as_ptr(),
                &raw mut error,
            )
        };
        NonNull::new(made).ok_or_else(|| explain(errno::last(), &error))
    }

    fn template_table(
        &self,
        raw: &RawRule,
        template: &Template,
        pattern: NonNull<sys::rte_flow_pattern_template>,
        actions: NonNull<sys::rte_flow_actions_template>,
    ) -> Result<NonNull<sys::rte_flow_template_table>, FlowError> {
        let (attr, _, _) = raw.as_ptrs();
        // SAFETY: numbers only: zero is valid.
        let mut table: sys::rte_flow_template_table_attr = unsafe { std::mem::zeroed() };
        // SAFETY: `raw` holds the attributes.
        table.flow_attr = unsafe { *attr };
        table.nb_flows = template.rules;
        by_index(&mut table, template)?;
        let (mut patterns, mut lists) = ([pattern.as_ptr()], [actions.as_ptr()]);
        let mut error = no_error();
        // SAFETY: the port exists; one template of each kind, of this port.
        let made = unsafe {
            sys::rte_flow_template_table_create(
                self.port.id,
                &raw const table,
                patterns.as_mut_ptr(),
                1,
                lists.as_mut_ptr(),
                1,
                &raw mut error,
            )
        };
        NonNull::new(made).ok_or_else(|| explain(errno::last(), &error))
    }

    fn drop_templates(
        &self,
        pattern: Option<NonNull<sys::rte_flow_pattern_template>>,
        actions: Option<NonNull<sys::rte_flow_actions_template>>,
    ) {
        let mut error = no_error();
        if let Some(actions) = actions {
            // SAFETY: of this port, not used by a table.
            unsafe {
                sys::rte_flow_actions_template_destroy(
                    self.port.id,
                    actions.as_ptr(),
                    &raw mut error,
                );
            }
        }
        if let Some(pattern) = pattern {
            // SAFETY: as above.
            unsafe {
                sys::rte_flow_pattern_template_destroy(
                    self.port.id,
                    pattern.as_ptr(),
                    &raw mut error,
                );
            }
        }
    }

    pub(super) fn do_destroy_table(&mut self, handle: &TableHandle) -> Result<(), FlowError> {
        let table = self.table(handle)?.table;
        let mut error = no_error();
        let _one = self.port.control();
        // SAFETY: a table of this port that was created and not destroyed.
        let code = unsafe {
            sys::rte_flow_template_table_destroy(self.port.id, table.as_ptr(), &raw mut error)
        };
        if code != 0 {
            return Err(explain(code, &error));
        }
        if let Some(table) = self.queues.tables.remove(&handle.port_value()) {
            self.drop_templates(Some(table.pattern), Some(table.actions));
        }
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

    pub(super) fn do_table_hash(
        &mut self,
        table: &TableHandle,
        pattern: &[Item],
    ) -> Result<u32, FlowError> {
        let found = self.table(table)?;
        let rule =
            Rule { attributes: found.attributes, pattern: pattern.to_vec(), actions: Vec::new() };
        complete(&rule)?;
        let raw = RawRule::lower(&rule);
        let (_, items, _) = raw.as_ptrs();
        let (mut hash, mut error) = (0, no_error());
        let _one = self.port.control();
        // SAFETY: the table is this port's; the items are complete and
        // END-terminated; a number can be written.
        let code = unsafe {
            sys::hnlb_table_hash(
                self.port.id,
                found.table.as_ptr(),
                items,
                &raw mut hash,
                &raw mut error,
            )
        };
        if code == 0 { Ok(hash) } else { Err(explain(code, &error)) }
    }

    /// What has come of operation `op`, the creation of rule `number`.
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

    fn table(&self, handle: &TableHandle) -> Result<&Table, FlowError> {
        self.queues.tables.get(&handle.port_value()).ok_or_else(|| FlowError {
            kind: FlowErrorKind::Handle,
            errno: FlowError::NOT_FOUND,
            message: format!("device '{}' has no such table", self.port.device),
        })
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
