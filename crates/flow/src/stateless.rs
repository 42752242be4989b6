//! What chooses the backend of a stateless service.
use crate::word::words;

words! {
    /// The 32 bits of a packet whose lowest ones choose the backend of a stateless service.
    #[derive(Default)]
    StatelessKey: "key" {
        /// The low bits of the client's address: all packets of a client go to one backend. A NIC that can rewrite packets balances them by itself.
        #[default]
        Source => "source",
        /// The low bits of the Toeplitz hash of addresses and ports that NICs use for receive side scaling: each 5-tuple goes to one backend, however alike the clients' addresses are. HNLB balances these packets in software.
        Hash => "hash",
        /// The low bits of the CRC-32 of addresses and ports, by which a NIC with tables of indexed rules (`bluefield3`; DPDK 23.11 or later) balances by itself: each 5-tuple goes to one backend.
        Crc32 => "crc32",
    }
}

impl StatelessKey {
    /// Whether it is the default, which configurations leave out.
    #[must_use]
    pub const fn is_source(&self) -> bool {
        matches!(self, Self::Source)
    }
}
