//! Ports around other ports: for counting, watching and disturbing calls.
use std::ops::RangeInclusive;

use super::{
    Action, Completion, Counters, FlowError, FlowErrorKind, FlowPort, Item, QueueConfig, Rule,
    RuleHandle, TableHandle, Template,
};

/// Which function of a [`FlowPort`] is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowCall {
    /// `create`.
    Create,
    /// `destroy`.
    Destroy,
    /// `push`.
    Push,
    /// `pull`.
    Pull,
    /// Any other function.
    Other,
}

/// A port around an inner one, to which it passes its calls. Whatever implements this
/// is a [`FlowPort`].
pub trait FlowLayer {
    /// The port to which calls are passed.
    fn inner(&mut self) -> &mut dyn FlowPort;

    /// Comes before each call. `false`: the call isn't passed on; a push or a pull does
    /// nothing then, and any other call is refused.
    fn before(&mut self, _: FlowCall) -> bool {
        true
    }

    /// Comes behind each call that was passed on.
    fn after(&mut self, _: FlowCall) {}

    /// What the port says if the inner port's [`FlowPort::table_hash`] is `hash`.
    fn hash(&self, hash: u32) -> u32 {
        hash
    }
}

/// Passes a call on, between what the layer does before and after it.
fn pass<L: FlowLayer, T>(
    layer: &mut L,
    call: FlowCall,
    run: impl FnOnce(&mut dyn FlowPort) -> T,
) -> Option<T> {
    layer.before(call).then(|| {
        let done = run(layer.inner());
        layer.after(call);
        done
    })
}

fn refused() -> FlowError {
    let message = "the call was not passed on".to_owned();
    FlowError { kind: FlowErrorKind::Unspecified, errno: FlowError::NOT_SUPPORTED, message }
}

impl<L: FlowLayer> FlowPort for L {
    fn validate(&mut self, rule: &Rule) -> Result<(), FlowError> {
        pass(self, FlowCall::Other, |port| port.validate(rule)).unwrap_or_else(|| Err(refused()))
    }

    fn create(&mut self, rule: &Rule) -> Result<RuleHandle, FlowError> {
        pass(self, FlowCall::Create, |port| port.create(rule)).unwrap_or_else(|| Err(refused()))
    }

    fn destroy(&mut self, handle: RuleHandle) -> Result<(), (RuleHandle, FlowError)> {
        if !self.before(FlowCall::Destroy) {
            return Err((handle, refused()));
        }
        let done = self.inner().destroy(handle);
        self.after(FlowCall::Destroy);
        done
    }

    fn query(&mut self, handle: &RuleHandle) -> Result<Counters, FlowError> {
        pass(self, FlowCall::Other, |port| port.query(handle)).unwrap_or_else(|| Err(refused()))
    }

    fn query_age(&mut self) -> Result<Vec<usize>, FlowError> {
        pass(self, FlowCall::Other, |port| port.query_age()).unwrap_or_else(|| Err(refused()))
    }

    fn recover(&mut self, groups: RangeInclusive<u32>) -> Vec<RuleHandle> {
        pass(self, FlowCall::Other, |port| port.recover(groups)).unwrap_or_default()
    }

    fn configure_queues(&mut self, config: &QueueConfig) -> Result<(), FlowError> {
        pass(self, FlowCall::Other, |port| port.configure_queues(config))
            .unwrap_or_else(|| Err(refused()))
    }

    fn create_table(&mut self, template: &Template) -> Result<TableHandle, FlowError> {
        pass(self, FlowCall::Other, |port| port.create_table(template))
            .unwrap_or_else(|| Err(refused()))
    }

    fn destroy_table(&mut self, table: TableHandle) -> Result<(), (TableHandle, FlowError)> {
        if !self.before(FlowCall::Other) {
            return Err((table, refused()));
        }
        let done = self.inner().destroy_table(table);
        self.after(FlowCall::Other);
        done
    }

    fn enqueue_create(
        &mut self,
        queue: u16,
        table: &TableHandle,
        rule: &Rule,
        token: u64,
    ) -> Result<RuleHandle, FlowError> {
        pass(self, FlowCall::Other, |port| port.enqueue_create(queue, table, rule, token))
            .unwrap_or_else(|| Err(refused()))
    }

    fn enqueue_create_by_index(
        &mut self,
        queue: u16,
        table: &TableHandle,
        index: u32,
        actions: &[Action],
        token: u64,
    ) -> Result<RuleHandle, FlowError> {
        let run = |port: &mut dyn FlowPort| {
            port.enqueue_create_by_index(queue, table, index, actions, token)
        };
        pass(self, FlowCall::Other, run).unwrap_or_else(|| Err(refused()))
    }

    fn table_hash(&mut self, table: &TableHandle, pattern: &[Item]) -> Result<u32, FlowError> {
        let hash = pass(self, FlowCall::Other, |port| port.table_hash(table, pattern));
        hash.unwrap_or_else(|| Err(refused())).map(|hash| self.hash(hash))
    }

    fn enqueue_destroy(
        &mut self,
        queue: u16,
        handle: RuleHandle,
        token: u64,
    ) -> Result<(), (RuleHandle, FlowError)> {
        if !self.before(FlowCall::Other) {
            return Err((handle, refused()));
        }
        let done = self.inner().enqueue_destroy(queue, handle, token);
        self.after(FlowCall::Other);
        done
    }

    fn push(&mut self, queue: u16) -> Result<(), FlowError> {
        pass(self, FlowCall::Push, |port| port.push(queue)).unwrap_or(Ok(()))
    }

    fn pull(&mut self, queue: u16, out: &mut Vec<Completion>) -> Result<usize, FlowError> {
        pass(self, FlowCall::Pull, |port| port.pull(queue, out)).unwrap_or(Ok(0))
    }
}
