//! Least latency: of two backends that chance picks, the one that answers
//! sooner (the power of two choices: Mitzenmacher, 2001).
use wire::FlowKey;

use crate::maglev::Maglev;
use crate::siphash::{self, Key};

// Fixed: the choice need not differ between load balancers.
const KEY: Key = [0x6c65_6173_7420_6c61, 0x7465_6e63_7920_6b31];

/// One connection in so many goes to the first of the two, whichever is sooner,
/// so that a backend which has become quick again is noticed.
const EXPLORE: u64 = 32;

/// How often another backend than the first is looked for.
const TRIES: u64 = 4;

/// A backend that is sooner by less than this part of the other's time is not
/// preferred: the difference may be chance, and both share alike.
const EQUAL: u32 = 8;

/// The place in the Maglev table, where weights are shares, for `flow`;
/// `latency` is how soon the backend at a place answers.
pub(crate) fn place(table: &Maglev, flow: &FlowKey, latency: impl Fn(u16) -> u32) -> Option<u16> {
    let hash = siphash::flow(KEY, flow, 0);
    let first = table.get(hash)?;
    if hash % EXPLORE == 0 {
        return Some(first);
    }
    let mut others = (1..=TRIES).filter_map(|n| table.get(siphash::flow(KEY, flow, n)));
    match others.find(|other| *other != first) {
        Some(second) => {
            let bound = latency(first);
            Some(if latency(second) < bound - bound / EQUAL { second } else { first })
        }
        None => Some(first),
    }
}
