//! Connections whose packets did not match the rule for their tunnel.
use std::collections::BTreeMap;

use conntrack::ConnId;

/// Connections remembered as not matched.
const REMEMBERED: usize = 1 << 16;

/// Connections whose rules for a tunnel their packets did not match, and how
/// many had had their ids then.
#[derive(Debug, Default)]
pub(crate) struct Unmatched(BTreeMap<ConnId, u32>);

impl Unmatched {
    /// Remembers `conn`, the `generation`th connection with its id.
    pub(crate) fn note(&mut self, conn: ConnId, generation: u32) {
        if self.0.len() >= REMEMBERED {
            self.0.pop_first();
        }
        self.0.insert(conn, generation);
    }

    /// Whether `conn` is remembered now. An id that is used again is forgotten.
    pub(crate) fn is_known(&mut self, conn: ConnId, generation: u32) -> bool {
        let known = self.0.get(&conn) == Some(&generation);
        if !known {
            self.0.remove(&conn);
        }
        known
    }
}
