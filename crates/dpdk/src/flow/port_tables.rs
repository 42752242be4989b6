//! The tables of a port's rules, made from templates through its driver.
use std::ptr::NonNull;

use dpdk_sys as sys;

use super::port::{PortFlows, complete, explain, next_number, no_error};
use super::raw::RawRule;
use super::raw_action::RawActions;
use super::{Attributes, FlowError, FlowErrorKind, Item, Rule, TableHandle, Template};
use crate::errno;

/// A table, and the templates that it is made from.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) attributes: Attributes,
    pub(super) table: NonNull<sys::rte_flow_template_table>,
    pattern: NonNull<sys::rte_flow_pattern_template>,
    actions: NonNull<sys::rte_flow_actions_template>,
}

// SAFETY: the driver's handles are not bound to a thread; calls are serialised
// by the port's control lock.
unsafe impl Send for Table {}

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

    /// The table of `handle`.
    pub(super) fn table(&self, handle: &TableHandle) -> Result<&Table, FlowError> {
        self.queues.tables.get(&handle.port_value()).ok_or_else(|| FlowError {
            kind: FlowErrorKind::Handle,
            errno: FlowError::NOT_FOUND,
            message: format!("device '{}' has no such table", self.port.device),
        })
    }
}
