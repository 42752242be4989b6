//! What happens to connections whose backend leaves the configuration.
use crate::word::words;

words! {
    /// What happens to the connections of a backend that leaves the
    /// configuration, or of a service that leaves it with all its backends.
    #[derive(Default)]
    OnRemove: "on_remove" {
        /// They stay with that backend until they end.
        #[default]
        Keep => "keep",
        /// HNLB forgets them and withdraws their rules: the next packet goes to another backend, which resets a TCP connection that it doesn't know.
        Move => "move",
        /// HNLB withdraws the rules of TCP connections and answers the next packet of either side with a RST to both; UDP flows move.
        Reset => "reset",
    }
}

impl OnRemove {
    /// Whether it is the default, which configurations leave out.
    #[must_use]
    pub const fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}
