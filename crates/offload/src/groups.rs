//! Which groups of a card's switch are ours, and for what. A group is a table
//! of rules; the root is everybody's, the others nobody enters but by a JUMP.
//! Whatever is in our groups, or leads to them, we have made.
use std::ops::RangeInclusive;

use dpdk::flow::Attributes;
use flow::{PortId, ServiceId};

/// The root: every packet starts here.
pub(crate) const ROOT: u32 = 0;
/// The rules of connections that are rewritten.
pub(crate) const CONNECTIONS: u32 = 101;
/// A group without rules, for connections: what is sent there reaches the host.
pub(crate) const HOST: u32 = 102;
/// The groups of connections.
pub(crate) const OF_CONNECTIONS: RangeInclusive<u32> = CONNECTIONS..=HOST;

/// The group of a rule that only occupies the port; nothing leads there.
pub(crate) const SEAT: u32 = 0x0ffe;
/// A group without rules, for stateless services: what is sent there reaches
/// software.
pub(crate) const DEAD_END: u32 = 0x0fff;
/// The first group of stateless services.
const FIRST_SERVICE: u32 = 0x1000;
/// The groups of stateless services.
pub(crate) const OF_STATELESS: RangeInclusive<u32> = SEAT..=u32::MAX;

/// The group of a stateless service for frames that arrive at `port`: two ports
/// may be one switch with one set of groups.
pub(crate) fn of_service(port: PortId, service: ServiceId) -> u32 {
    FIRST_SERVICE + (u32::from(port.0) << 16) + u32::from(service.0)
}

/// In the root the gates of stateless services come first: they match packets
/// that no connection has.
pub(crate) const GATE_PRIORITY: u32 = 0;
/// In the root, the entry to the connections' rules.
pub(crate) const ENTRY_PRIORITY: u32 = 1;
/// In the connections' group, what is for software whatever else matches it.
pub(crate) const GUARD_PRIORITY: u32 = 0;
/// In the connections' group, the connections.
pub(crate) const CONNECTION_PRIORITY: u32 = 1;

/// A rule of the switch.
pub(crate) fn transfer(group: u32, priority: u32) -> Attributes {
    Attributes { group, priority, transfer: true, ..Attributes::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_has_one_purpose() {
        assert!(!OF_CONNECTIONS.contains(&ROOT) && !OF_STATELESS.contains(&ROOT));
        assert!(OF_CONNECTIONS.end() < OF_STATELESS.start());
        let first = of_service(PortId(0), ServiceId(0));
        let next = of_service(PortId(1), ServiceId(0));
        assert!(first > DEAD_END && of_service(PortId(0), ServiceId(u16::MAX)) < next);
        assert!(OF_STATELESS.contains(&of_service(PortId(u16::MAX - 1), ServiceId(u16::MAX))));
    }

    #[test]
    fn what_keeps_packets_from_rules_comes_before_them() {
        const { assert!(GATE_PRIORITY < ENTRY_PRIORITY && GUARD_PRIORITY < CONNECTION_PRIORITY) };
    }
}
