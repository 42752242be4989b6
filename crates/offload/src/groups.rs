//! The groups of a card's switch that HNLB uses, for connections and stateless
//! services alike. A group is a table of rules; packets enter the root, and any
//! other group by a JUMP only. All rules in these groups, and all jumps into
//! them, are HNLB's.
//!
//! The numbers are low and without gaps, because cards have few groups: mlx5
//! keeps 16 bits for a table's number and multiplies it where a rule needs
//! several tables, and 15 groups are what the offload of Open vSwitch finds on
//! such cards (XenoFlow, section 3.1).
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use dpdk::flow::{Action, Attributes, FlowPort, Item, Match, Rule};
use flow::{PortId, ServiceId};

/// The root: every packet starts here.
pub(crate) const ROOT: u32 = 0;
/// The rules of connections that are rewritten.
pub(crate) const CONNECTIONS: u32 = 1;
/// A group without rules: packets that are sent there reach the host.
pub(crate) const EMPTY: u32 = 2;
/// The group of [`seat`].
const SEAT: u32 = 3;
/// The first group of a stateless service.
const FIRST_SERVICE: u32 = 4;
/// No card has a group with a higher number.
const HIGHEST: u32 = u16::MAX as u32;

/// The groups of connections.
pub(crate) const OF_CONNECTIONS: RangeInclusive<u32> = CONNECTIONS..=CONNECTIONS;
/// The groups of stateless services, whatever the card.
pub(crate) const OF_STATELESS: RangeInclusive<u32> = SEAT..=u32::MAX;

/// In the root the gates of stateless services come first: they match packets
/// that no connection has.
pub(crate) const GATE_PRIORITY: u32 = 0;
/// In the root, the entry to the connections' rules.
pub(crate) const ENTRY_PRIORITY: u32 = 1;
/// In the other groups, the rules for packets that only software handles.
pub(crate) const GUARD_PRIORITY: u32 = 0;
/// In the connections' group, the connections.
pub(crate) const CONNECTION_PRIORITY: u32 = 1;

/// Where a rule of the switch is.
pub(crate) fn transfer(group: u32, priority: u32) -> Attributes {
    Attributes { group, priority, transfer: true, ..Attributes::default() }
}

/// A rule in a group that no rule leads to. A port either has rules that are made one
/// by one, as stateless services need, or queues of operations; as long as this rule
/// is there, its rules are made one by one.
pub(crate) fn seat() -> Rule {
    to_software(SEAT, None)
}

/// A guard: leaves frames with an `item` behind the Ethernet header to
/// software, whatever else in `group` matches them.
pub(crate) fn to_software(group: u32, item: Option<Item>) -> Rule {
    Rule {
        attributes: transfer(group, GUARD_PRIORITY),
        pattern: std::iter::once(Item::Eth(Match::Present)).chain(item).collect(),
        actions: vec![Action::Jump(EMPTY)],
    }
}

/// The highest group that the card takes rules for, by its driver's word; 0:
/// none but the root.
pub(crate) fn highest(flows: &mut dyn FlowPort) -> u32 {
    let mut takes = |group| flows.validate(&to_software(group, None)).is_ok();
    if !takes(SEAT) {
        return 0;
    }
    let (mut lowest, mut highest) = (SEAT, HIGHEST);
    while lowest < highest {
        let middle = lowest + (highest - lowest).div_ceil(2);
        if takes(middle) {
            lowest = middle;
        } else {
            highest = middle - 1;
        }
    }
    lowest
}

/// Which group a stateless service has for the frames that arrive at a port:
/// two ports may be one switch with one set of groups.
#[derive(Debug, Default)]
pub(crate) struct ServiceGroups {
    taken: BTreeMap<(PortId, ServiceId), u32>,
}

impl ServiceGroups {
    /// The group of `owner`, or the lowest free one up to `highest`; `None`: all
    /// are taken.
    pub(crate) fn take(&mut self, owner: (PortId, ServiceId), highest: u32) -> Option<u32> {
        if let Some(own) = self.taken.get(&owner) {
            return Some(*own);
        }
        let others: BTreeSet<u32> = self.taken.values().copied().collect();
        let group = (FIRST_SERVICE..=highest).find(|group| !others.contains(group))?;
        self.taken.insert(owner, group);
        Some(group)
    }

    /// Frees the group of `owner`, which has no rule left in the card.
    pub(crate) fn release(&mut self, owner: (PortId, ServiceId)) {
        self.taken.remove(&owner);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_group_has_one_purpose() {
        let fixed = BTreeSet::from([ROOT, CONNECTIONS, EMPTY, SEAT]);
        assert_eq!(fixed.len(), 4);
        assert!(fixed.iter().all(|group| *group < FIRST_SERVICE));
        assert!(OF_STATELESS.contains(&FIRST_SERVICE) && !OF_STATELESS.contains(&EMPTY));
        assert!(!OF_CONNECTIONS.contains(&EMPTY) && !OF_CONNECTIONS.contains(&SEAT));
    }

    #[test]
    fn what_keeps_packets_from_rules_comes_before_them() {
        const { assert!(GATE_PRIORITY < ENTRY_PRIORITY && GUARD_PRIORITY < CONNECTION_PRIORITY) };
    }

    proptest! {
        #[test]
        fn services_have_the_lowest_groups_and_none_in_common(
            steps in prop::collection::vec((any::<bool>(), 0u16..3, 0u16..8), 0..100),
        ) {
            let mut groups = ServiceGroups::default();
            let mut model: BTreeMap<(PortId, ServiceId), u32> = BTreeMap::new();
            for (take, port, service) in steps {
                let owner = (PortId(port), ServiceId(service));
                if !take {
                    groups.release(owner);
                    model.remove(&owner);
                    continue;
                }
                let free = (4..=15).find(|group| !model.values().any(|taken| taken == group));
                let wanted = model.get(&owner).copied().or(free);
                prop_assert_eq!(groups.take(owner, 15), wanted);
                model.extend(wanted.map(|group| (owner, group)));
            }
        }
    }
}
