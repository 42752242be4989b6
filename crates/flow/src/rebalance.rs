//! When a connection that carries requests changes its backend.
use crate::word::words;

words! {
    /// When the requests of one connection get different backends of the same group. A request for another group always goes there.
    #[derive(Default)]
    Rebalance: "rebalance" {
        /// Never: all requests of a connection for one group go to one backend.
        #[default]
        Never => "never",
        /// The scheduler chooses a backend for each request.
        PerRequest => "per-request",
    }
}

impl Rebalance {
    /// Whether it is the default.
    #[must_use]
    pub const fn is_never(&self) -> bool {
        matches!(self, Self::Never)
    }
}
