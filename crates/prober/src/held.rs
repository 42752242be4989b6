//! Rules that have been made, so that none is left behind.
use dpdk::flow::{FlowError, FlowPort, RuleHandle};

/// How often a rule is tried to be destroyed.
const TRIES: usize = 8;

/// Rules that the card would not destroy.
#[derive(Debug, Default)]
pub(crate) struct Held {
    left: Vec<RuleHandle>,
}

impl Held {
    /// Destroys the rule of `handle`, or keeps the handle for [`Self::end`]; whether it
    /// is destroyed.
    pub(crate) fn destroy(&mut self, flows: &mut dyn FlowPort, handle: RuleHandle) -> bool {
        let left = try_destroy(flows, handle);
        let is_destroyed = left.is_none();
        self.left.extend(left);
        is_destroyed
    }

    /// Tries the rest once more; how many are left.
    pub(crate) fn end(self, flows: &mut dyn FlowPort) -> usize {
        self.left.into_iter().filter_map(|handle| try_destroy(flows, handle)).count()
    }
}

/// The handle, if the rule can't be destroyed.
fn try_destroy(flows: &mut dyn FlowPort, mut handle: RuleHandle) -> Option<RuleHandle> {
    for _ in 0..TRIES {
        match flows.destroy(handle) {
            Ok(()) => return None,
            Err((_, error)) if error.errno == FlowError::NOT_FOUND => return None,
            Err((back, _)) => handle = back,
        }
    }
    Some(handle)
}
