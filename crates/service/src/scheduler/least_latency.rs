//! Least latency: of two backends that chance picks, the one that answers
//! sooner (the power of two choices: Mitzenmacher, 2001).
use wire::FlowKey;

use super::Members;
use crate::BackendLoads;
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

/// The place for `flow`, of two that the Maglev table gives, where weights are
/// shares.
pub(super) fn place(
    Members { backends, maglev, .. }: Members<'_>,
    flow: &FlowKey,
    loads: &BackendLoads,
) -> Option<u16> {
    let hash = siphash::flow(KEY, flow, 0);
    let first = maglev.get(hash)?;
    if hash % EXPLORE == 0 {
        return Some(first);
    }
    let mut others = (1..=TRIES).filter_map(|n| maglev.get(siphash::flow(KEY, flow, n)));
    let latency =
        |place| backends.get(usize::from(place)).map_or(u32::MAX, |own| loads.latency(own.id));
    match others.find(|other| *other != first) {
        Some(second) => {
            let bound = latency(first);
            Some(if latency(second) < bound - bound / EQUAL { second } else { first })
        }
        None => Some(first),
    }
}
