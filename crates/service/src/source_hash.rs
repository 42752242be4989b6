//! Source hash: a client's connections all go to one backend.
use wire::FlowKey;

use crate::maglev::Maglev;
use crate::siphash::{self, Key};

// Fixed, so that several load balancers with the same backends agree.
const KEY: Key = [0x736f_7572_6365_2068, 0x6173_6820_6b65_7931];

/// The place in the Maglev table for the client address of `flow`, so that
/// few clients move when the backends change.
pub(crate) fn place(table: &Maglev, flow: &FlowKey) -> Option<u16> {
    table.get(siphash::address(KEY, flow.src().ip(), 0))
}
