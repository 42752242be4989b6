//! How packets get to the backends.
use crate::word::words;

words! {
    /// How packets reach the backends.
    #[derive(Default)]
    Mode: "mode" {
        /// HNLB rewrites the destination only: the backend sees the client's address, and must send its answers through HNLB.
        #[default]
        Nat => "nat",
        /// HNLB rewrites source and destination: the backend sees an address of a pool.
        FullNat => "fullnat",
        /// HNLB changes only the Ethernet addresses: the backend, which must be on-link, has the VIP without announcing it and answers clients itself.
        Dsr => "dsr",
        /// HNLB sends the unchanged packet in an IP-in-IP tunnel (RFC 2003, RFC 2473); the backend has the VIP and answers clients itself.
        Ipip => "ipip",
        /// HNLB sends the unchanged packet in UDP (generic UDP encapsulation, variant 1), by default to port 6080; the backend has the VIP and answers clients itself.
        Gue => "gue",
        /// HNLB sends the unchanged packet behind a GRE header (RFC 2784); the backend has the VIP and answers clients itself.
        Gre => "gre",
        /// HNLB sends the unchanged packet behind a Geneve header (RFC 8926) in UDP, by default to port 6081; the backend has the VIP and answers clients itself.
        Geneve => "geneve",
    }
}

impl Mode {
    /// Whether packets reach the backend as the client sent them and the
    /// backend answers the client itself, so that HNLB sees one direction only.
    #[must_use]
    pub const fn is_one_way(self) -> bool {
        !matches!(self, Self::Nat | Self::FullNat)
    }

    /// Whether packets reach the backend inside outer packets.
    #[must_use]
    pub const fn is_tunnel(self) -> bool {
        !matches!(self, Self::Nat | Self::FullNat | Self::Dsr)
    }

    /// All modes that tunnel.
    pub fn tunnels() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|mode| mode.is_tunnel())
    }

    /// Whether the outer packets are UDP datagrams, to a port of the backend
    /// that can be configured.
    #[must_use]
    pub const fn has_tunnel_port(self) -> bool {
        matches!(self, Self::Gue | Self::Geneve)
    }
}
