//! What leads packets to the connections' rules, and what keeps some from them.
use dpdk::flow::{Action, EthFields, Field, Ipv4Fields, Ipv6Fields, Item, Match, Rule};
use wire::Mac;

use crate::groups::{self, CONNECTIONS, ENTRY_PRIORITY, GUARD_PRIORITY, HOST};

/// The TTLs 0 and 1 have none of these bits.
const MORE_HOPS: u8 = 0xfe;

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

/// What is for software whatever rule matches it: frames with a tag, packets
/// that must not go any further.
pub(crate) fn guards() -> [Rule; 3] {
    let ttl = Field { spec: 0, mask: MORE_HOPS };
    let v4 = Ipv4Fields { ttl, ..Ipv4Fields::default() };
    let v6 = Ipv6Fields { hop_limit: ttl, ..Ipv6Fields::default() };
    [Item::Vlan(Match::Present), Item::Ipv4(Match::Fields(v4)), Item::Ipv6(Match::Fields(v6))].map(
        |item| Rule {
            attributes: groups::transfer(CONNECTIONS, GUARD_PRIORITY),
            pattern: vec![Item::Eth(Match::Present), item],
            actions: vec![Action::Jump(HOST)],
        },
    )
}
