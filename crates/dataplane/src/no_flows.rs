//! A port that takes no rules.
use dpdk::flow::{Counters, FlowError, FlowErrorKind, FlowPort, Rule, RuleHandle};

/// Refuses everything.
pub(crate) struct NoFlows;

fn refused() -> FlowError {
    FlowError {
        kind: FlowErrorKind::Unspecified,
        errno: FlowError::NOT_SUPPORTED,
        message: "the device takes no rules".to_owned(),
    }
}

impl FlowPort for NoFlows {
    fn validate(&mut self, _: &Rule) -> Result<(), FlowError> {
        Err(refused())
    }

    fn create(&mut self, _: &Rule) -> Result<RuleHandle, FlowError> {
        Err(refused())
    }

    fn destroy(&mut self, handle: RuleHandle) -> Result<(), (RuleHandle, FlowError)> {
        Err((handle, refused()))
    }

    fn query(&mut self, _: &RuleHandle) -> Result<Counters, FlowError> {
        Err(refused())
    }
}
