//! The rules of a port, through its driver.
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dpdk_sys as sys;

use super::raw::RawRule;
use super::{Action, Counters, FlowError, FlowErrorKind, FlowPort, Item, Rule, RuleHandle};
use crate::errno;
use crate::port::Inner;

/// The number of the next rule of any port, so that no handle fits two rules.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// The rules of a port: made by `Port::flows`, one at a time. Rules that are
/// not destroyed stay until the port is closed.
#[derive(Debug)]
pub struct PortFlows {
    port: Arc<Inner>,
    /// Handles carry a number, not the driver's pointer, so that a wrong one
    /// is an error and nothing worse.
    rules: BTreeMap<usize, Installed>,
}

#[derive(Debug)]
struct Installed(NonNull<sys::rte_flow>);

// SAFETY: the driver's handle of a rule is not bound to a thread; calls are
// serialised by the port's control lock.
unsafe impl Send for Installed {}

impl PortFlows {
    pub(crate) fn new(port: Arc<Inner>) -> Self {
        Self { port, rules: BTreeMap::new() }
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

    fn find(&self, handle: &RuleHandle) -> Result<*mut sys::rte_flow, FlowError> {
        let installed = self.rules.get(&handle.port_value()).ok_or_else(|| FlowError {
            kind: FlowErrorKind::Handle,
            errno: FlowError::NOT_FOUND,
            message: format!("device '{}' has no such rule", self.port.device),
        })?;
        Ok(installed.0.as_ptr())
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
        let raw = RawRule::lower(rule);
        let (attr, pattern, actions) = raw.as_ptrs();
        let mut error = no_error();
        let _one = self.port.control();
        // SAFETY: as in `validate`.
        let flow =
            unsafe { sys::rte_flow_create(self.port.id, attr, pattern, actions, &raw mut error) };
        let Some(flow) = NonNull::new(flow) else {
            return Err(explain(errno::last(), &error));
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.rules.insert(number, Installed(flow));
        Ok(RuleHandle::from_port(number))
    }

    fn destroy(&mut self, handle: RuleHandle) -> Result<(), (RuleHandle, FlowError)> {
        let flow = match self.find(&handle) {
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
}

/// Refuses what `Rule` can carry but not state in full: a driver may read the
/// configuration of an action that we know by its number only.
fn complete(rule: &Rule) -> Result<(), FlowError> {
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
    Ok(())
}

fn no_error() -> sys::rte_flow_error {
    sys::rte_flow_error {
        type_: sys::RTE_FLOW_ERROR_TYPE_NONE,
        cause: std::ptr::null(),
        message: std::ptr::null(),
    }
}

/// The driver's error as ours. `code` is an errno of either sign.
fn explain(code: i32, error: &sys::rte_flow_error) -> FlowError {
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
