//! What keeps a client at its backend.
use crate::word::words;

words! {
    /// The property by which a client stays at its backend.
    #[derive(Default)]
    Affinity: "affinity" {
        /// The 5-tuple: a client whose address or port changes counts as a new client.
        #[default]
        FiveTuple => "5-tuple",
        /// The QUIC connection id as well: a packet of an unknown 5-tuple goes to the backend that its connection id names (draft-ietf-quic-load-balancers), if it names one. Only with the protocol `udp`.
        QuicCid => "quic-cid",
    }
}

impl Affinity {
    /// Whether it is the default, which configurations leave out.
    #[must_use]
    pub const fn is_five_tuple(&self) -> bool {
        matches!(self, Self::FiveTuple)
    }
}
