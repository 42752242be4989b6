//! Rules that a predecessor has left in a card because it ended without taking
//! them back: they are found once, at the start, and destroyed before any rule is
//! made.
//!
//! A gate that stays could lead clients of another service into a group that means
//! something else now; so no rule is made while one of them remains, and software
//! serves all packets meanwhile.
use dpdk::flow::{FlowPort, RuleHandle};

use crate::groups;
use crate::port::rule_queue::destroy_once;

/// Rules in our groups, or into them, that nobody here has made.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// The card has been asked.
    asked: bool,
    /// Gates first, then entries: packets that such a rule doesn't take any more
    /// reach software.
    ways: Vec<RuleHandle>,
    /// Guards and the seat: as long as an entry can be reached, so must these be.
    guards: Vec<RuleHandle>,
}

impl Leftovers {
    /// How many are in the card.
    pub(crate) fn len(&self) -> usize {
        self.ways.len() + self.guards.len()
    }

    /// Destroys them, `budget` at most. Returns how many are gone.
    pub(crate) fn clear(&mut self, budget: &mut usize, flows: &mut dyn FlowPort) -> usize {
        if !self.asked {
            self.asked = true;
            // rte_flow says nothing of a rule but its handle; guards are those
            // that jump to the empty group, as the connections' guards do.
            let to_empty = flows.recover(groups::EMPTY..=groups::EMPTY);
            let all = flows.recover(groups::OF_STATELESS).into_iter();
            (self.guards, self.ways) = all.partition(|rule| to_empty.contains(rule));
        }
        let before = self.len();
        destroy(&mut self.ways, budget, flows);
        if self.ways.is_empty() {
            destroy(&mut self.guards, budget, flows);
        }
        before - self.len()
    }
}

/// Destroys `rules` in their order; those that stay keep it.
fn destroy(rules: &mut Vec<RuleHandle>, budget: &mut usize, flows: &mut dyn FlowPort) {
    for handle in std::mem::take(rules) {
        if *budget == 0 {
            rules.push(handle);
            continue;
        }
        *budget -= 1;
        rules.extend(destroy_once(flows, handle).err());
    }
}
