//! Rules that lead packets to the connections' rules, and guards that keep some
//! packets from them.
use dpdk::flow::{Action, EthFields, Field, Item, Match, Rule};
use wire::Mac;

use crate::encode::forward::last_hop;
use crate::groups::{self, CONNECTIONS, ENTRY_PRIORITY, to_software};

/// The rule of the root that sends frames for `station` to our group. It counts
/// them.
pub(crate) fn entry(station: Mac) -> Rule {
    let dst = Field { spec: station, mask: Mac::BROADCAST };
    Rule {
        attributes: groups::transfer(groups::ROOT, ENTRY_PRIORITY),
        pattern: vec![Item::Eth(Match::Fields(EthFields { dst, ..EthFields::default() }))],
        actions: vec![Action::Count, Action::Jump(CONNECTIONS)],
    }
}

/// Items that are for software whatever rule matches them: frames with a tag, packets
/// that must not go any further.
pub(crate) fn guards() -> [Rule; 3] {
    [Item::Vlan(Match::Present), last_hop(false), last_hop(true)]
        .map(|item| to_software(CONNECTIONS, Some(item)))
}
