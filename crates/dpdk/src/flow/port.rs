//! The rules of a port, through its driver.
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::ops::RangeInclusive;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dpdk_sys as sys;

use super::port_queues::Queues;
use super::raw::RawRule;
use super::raw_action::LONGEST_AGE;
use super::{
    Action, Completion, Counters, FlowError, FlowErrorKind, FlowPort, GroupUse, Item, QueueConfig,
    Rule, RuleHandle, TableHandle, Template,
};
use crate::errno;
use crate::port::Inner;

/// Aged rules that one call reports; the others are reported once these are
/// destroyed.
const AGED: usize = 4096;

/// The number of the next rule of any port, so that no handle fits two rules.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// The rules of a port: made by `Port::flows`, one at a time. Rules that are
/// not destroyed stay until the port is closed.
#[derive(Debug)]
pub struct PortFlows {
    pub(super) port: Arc<Inner>,
    /// Handles carry a number, not the driver's pointer, so that a wrong one
    /// is an error and nothing worse.
    pub(super) rules: BTreeMap<usize, Installed>,
    pub(super) queues: Queues,
}

#[derive(Debug)]
pub(super) struct Installed {
    pub(super) flow: NonNull<sys::rte_flow>,
    /// Whether it was made through a queue, and must be destroyed through one.
    pub(super) queued: bool,
    /// In which group it is, and to which it jumps.
    pub(super) groups: GroupUse,
}

// SAFETY: the driver's handle of a rule is not bound to a thread; calls are
// serialised by the port's control lock.
unsafe impl Send for Installed {}

pub(super) fn next_number() -> usize {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl PortFlows {
    pub(crate) fn new(port: Arc<Inner>) -> Self {
        Self { port, rules: BTreeMap::new(), queues: Queues::default() }
    }

    /// Rules installed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The driver's pointer of a rule that was made as `queued` says.
    pub(super) fn find_made(
        &self,
        handle: &RuleHandle,
        queued: bool,
    ) -> Result<*mut sys::rte_flow, FlowError> {
        let flow = self.find(handle)?;
        match self.rules.get(&handle.port_value()) {
            Some(installed) if installed.queued != queued => Err(FlowError {
                kind: FlowErrorKind::Handle,
                errno: FlowError::INVALID,
                message: "a rule is destroyed as it was made: at once, or through a queue"
                    .to_owned(),
            }),
            _ => Ok(flow),
        }
    }

    fn find(&self, handle: &RuleHandle) -> Result<*mut sys::rte_flow, FlowError> {
        let installed = self.rules.get(&handle.port_value()).ok_or_else(|| FlowError {
            kind: FlowErrorKind::Handle,
            errno: FlowError::NOT_FOUND,
            message: format!("device '{}' has no such rule", self.port.device),
        })?;
        Ok(installed.flow.as_ptr())
    }
}

impl Drop for PortFlows {
    fn drop(&mut self) {
        self.port.flows_taken.store(false, Ordering::Release);
    }
}

impl FlowPort for PortFlows {
    fn validate(&mut self, rule: &Rule) -> Result<(), FlowError> {
        complete(rule)?;
        let raw = RawRule::lower(rule);
        let (attr, pattern, actions) = raw.as_ptrs();
        let mut error = no_error();
        let _one = self.port.control();
        // SAFETY: the port exists; the arrays are complete and END-terminated,
        // every action has the configuration that its type wants.
        let code =
            unsafe { sys::rte_flow_validate(self.port.id, attr, pattern, actions, &raw mut error) };
        if code == 0 { Ok(()) } else { Err(explain(code, &error)) }
    }

    fn create(&mut self, rule: &Rule) -> Result<RuleHandle, FlowError> {
        complete(rule)?;
        let number = next_number();
        let raw = RawRule::lower_for(rule, number);
        let (attr, pattern, actions) = raw.as_ptrs();
        let mut error = no_error();
        let _one = self.port.control();
        // SAFETY: as in `validate`.
        let flow =
            unsafe { sys::rte_flow_create(self.port.id, attr, pattern, actions, &raw mut error) };
        let Some(flow) = NonNull::new(flow) else {
            return Err(explain(errno::last(), &error));
        };
        self.rules.insert(number, Installed { flow, queued: false, groups: GroupUse::of(rule) });
        Ok(RuleHandle::from_port(number))
    }

    fn destroy(&mut self, handle: RuleHandle) -> Result<(), (RuleHandle, FlowError)> {
        let flow = match self.find_made(&handle, false) {
            Ok(flow) => flow,
            Err(error) => return Err((handle, error)),
        };
        let mut error = no_error();
        let _one = self.port.control();
        // SAFETY: a rule of this port that was created and not destroyed.
        let code = unsafe { sys::rte_flow_destroy(self.port.id, flow, &raw mut error) };
        if code != 0 {
            return Err((handle, explain(code, &error)));
        }
        self.rules.remove(&handle.port_value());
        Ok(())
    }

    fn query(&mut self, handle: &RuleHandle) -> Result<Counters, FlowError> {
        let flow = self.find(handle)?;
        let conf = sys::rte_flow_action_count { id: 0 };
        let actions = [
            sys::rte_flow_action {
                type_: sys::RTE_FLOW_ACTION_TYPE_COUNT,
                conf: std::ptr::from_ref(&conf).cast(),
            },
            sys::rte_flow_action { type_: sys::RTE_FLOW_ACTION_TYPE_END, conf: std::ptr::null() },
        ];
        // SAFETY: numbers only: zero is valid, and says that nothing is counted.
        let mut count: sys::rte_flow_query_count = unsafe { std::mem::zeroed() };
        let mut error = no_error();
        let _one = self.port.control();
        // SAFETY: a rule of this port; a COUNT query writes a rte_flow_query_count.
        let code = unsafe {
            sys::rte_flow_query(
                self.port.id,
                flow,
                actions.as_ptr(),
                (&raw mut count).cast(),
                &raw mut error,
            )
        };
        if code == 0 {
            Ok(Counters { packets: count.hits, bytes: count.bytes })
        } else {
            Err(explain(code, &error))
        }
    }

    /// AGE's context is the handle's number.
    fn query_age(&mut self) -> Result<Vec<usize>, FlowError> {
        let room = self.rules.len().min(AGED);
        let mut aged: Vec<*mut std::ffi::c_void> = vec![std::ptr::null_mut(); room];
        let mut error = no_error();
        let _one = self.port.control();
        let room = u32::try_from(aged.len()).unwrap_or(u32::MAX);
        // SAFETY: the port exists; `room` pointers can be written. With no room
        // the driver only counts.
        let found = unsafe {
            sys::rte_flow_get_aged_flows(self.port.id, aged.as_mut_ptr(), room, &raw mut error)
        };
        if found < 0 {
            return Err(explain(found, &error));
        }
        aged.truncate(found as usize);
        let numbers = aged.into_iter().map(|context| context.addr());
        Ok(numbers.filter(|number| self.rules.contains_key(number)).collect())
    }

    fn recover(&mut self, groups: RangeInclusive<u32>) -> Vec<RuleHandle> {
        let mut found: Vec<_> = self
            .rules
            .iter()
            .filter_map(|(number, rule)| Some((rule.groups.rank(&groups)?, *number)))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, number)| RuleHandle::from_port(number)).collect()
    }

    fn configure_queues(&mut self, config: &QueueConfig) -> Result<(), FlowError> {
        self.do_configure(config)
    }

    fn create_table(&mut self, template: &Template) -> Result<TableHandle, FlowError> {
        self.do_create_table(template)
    }

    fn destroy_table(&mut self, table: TableHandle) -> Result<(), (TableHandle, FlowError)> {
        self.do_destroy_table(&table).map_err(|error| (table, error))
    }

    fn enqueue_create(
        &mut self,
        queue: u16,
        table: &TableHandle,
        rule: &Rule,
        token: u64,
    ) -> Result<RuleHandle, FlowError> {
        complete(rule)?;
        self.do_enqueue_create(queue, table, rule, token)
    }

    fn enqueue_create_by_index(
        &mut self,
        queue: u16,
        table: &TableHandle,
        index: u32,
        actions: &[Action],
        token: u64,
    ) -> Result<RuleHandle, FlowError> {
        self.do_enqueue_create_by_index(queue, table, index, actions, token)
    }

    fn table_hash(&mut self, table: &TableHandle, pattern: &[Item]) -> Result<u32, FlowError> {
        self.do_table_hash(table, pattern)
    }

    fn enqueue_destroy(
        &mut self,
        queue: u16,
        handle: RuleHandle,
        token: u64,
    ) -> Result<(), (RuleHandle, FlowError)> {
        self.do_enqueue_destroy(queue, &handle, token).map_err(|error| (handle, error))
    }

    fn push(&mut self, queue: u16) -> Result<(), FlowError> {
        self.do_push(queue)
    }

    fn pull(&mut self, queue: u16, out: &mut Vec<Completion>) -> Result<usize, FlowError> {
        self.do_pull(queue, out)
    }
}

/// Refuses what `Rule` can carry but not state in full: a driver may read the
/// configuration of an action that we know by its number only.
pub(super) fn complete(rule: &Rule) -> Result<(), FlowError> {
    let refuse =
        |kind, message: String| Err(FlowError { kind, errno: FlowError::NOT_SUPPORTED, message });
    if let Some(Item::Other(number)) =
        rule.pattern.iter().find(|item| matches!(item, Item::Other(_)))
    {
        return refuse(FlowErrorKind::Item, format!("item {number} is known by its number only"));
    }
    if let Some(Action::Other(number)) =
        rule.actions.iter().find(|action| matches!(action, Action::Other(_)))
    {
        let message = format!("action {number} is known by its number only");
        return refuse(FlowErrorKind::Action, message);
    }
    let too_long = rule
        .actions
        .iter()
        .any(|action| matches!(action, Action::Age { timeout_s } if *timeout_s > LONGEST_AGE));
    if too_long {
        let message = format!("the timeout of AGE is at most {LONGEST_AGE} s");
        return refuse(FlowErrorKind::Action, message);
    }
    Ok(())
}

pub(super) fn no_error() -> sys::rte_flow_error {
    sys::rte_flow_error {
        type_: sys::RTE_FLOW_ERROR_TYPE_NONE,
        cause: std::ptr::null(),
        message: std::ptr::null(),
    }
}

/// The driver's error as ours. `code` is an errno of either sign.
pub(super) fn explain(code: i32, error: &sys::rte_flow_error) -> FlowError {
    let message = if error.message.is_null() {
        errno::text(code)
    } else {
        // SAFETY: drivers point to static text.
        unsafe { CStr::from_ptr(error.message) }.to_string_lossy().into_owned()
    };
    FlowError { kind: kind(error.type_), errno: code.wrapping_abs(), message }
}

fn kind(number: sys::rte_flow_error_type) -> FlowErrorKind {
    match number {
        sys::RTE_FLOW_ERROR_TYPE_HANDLE => FlowErrorKind::Handle,
        sys::RTE_FLOW_ERROR_TYPE_ATTR_GROUP..=sys::RTE_FLOW_ERROR_TYPE_ATTR => {
            FlowErrorKind::Attribute
        }
        sys::RTE_FLOW_ERROR_TYPE_ITEM_NUM..=sys::RTE_FLOW_ERROR_TYPE_ITEM => FlowErrorKind::Item,
        sys::RTE_FLOW_ERROR_TYPE_ACTION_NUM..=sys::RTE_FLOW_ERROR_TYPE_ACTION => {
            FlowErrorKind::Action
        }
        _ => FlowErrorKind::Unspecified,
    }
}
