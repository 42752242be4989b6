//! Source hash: a client's connections all go to one backend, and few clients move
//! when the backends change.
use wire::FlowKey;

use crate::siphash::{self, Key};

// Fixed, so that several load balancers with the same backends agree.
const KEY: Key = [0x736f_7572_6365_2068, 0x6173_6820_6b65_7931];

/// The hash of the client's address, for the Maglev table, for the time `again`.
pub(crate) fn hash(flow: &FlowKey, again: u64) -> u64 {
    siphash::address(KEY, flow.src().ip(), again)
}
