//! Keeps packets that match no rule out of the queues that mean a backend.
use dpdk::flow::{Action, Attributes, FlowPort, Item, Match, Rule, RuleHandle};

/// Priority of the rule: behind every rule for a connection.
const LAST: u32 = 8;

/// A rule behind all others that sends what nothing matches to queue 0. For
/// devices that otherwise spread it over all queues by a hash of their own
/// (net_tap): there a queue number would mean nothing without it.
pub(crate) fn catch_all(flows: &mut dyn FlowPort) -> Result<RuleHandle, String> {
    let rule = Rule {
        attributes: Attributes { ingress: true, priority: LAST, ..Attributes::default() },
        pattern: vec![Item::Eth(Match::Present)],
        actions: vec![Action::Queue(0)],
    };
    flows.create(&rule).map_err(|error| error.to_string())
}
