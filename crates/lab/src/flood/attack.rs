//! What an attacker on the link can send.

use clap::ValueEnum;

/// A kind of frames that a load balancer has to survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Attack {
    /// TCP SYNs to the web services from random sources.
    Syn,
    /// UDP from random sources to the DNS services and to closed ports.
    Udp,
    /// TCP RSTs and FINs of connections that exist, in both directions, with random sequence numbers.
    Rst,
    /// Fragments of datagrams that never become whole, from random sources and from the clients' addresses.
    Fragments,
    /// ARP replies and neighbour advertisements that claim the addresses of backends, clients and VIPs.
    Arp,
    /// SYNs, ARP requests and neighbour solicitations of hosts on the link that do not exist.
    Neighbours,
}

impl Attack {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Syn, Self::Udp, Self::Rst, Self::Fragments, Self::Arp, Self::Neighbours];

    /// The word of the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Syn => "syn",
            Self::Udp => "udp",
            Self::Rst => "rst",
            Self::Fragments => "fragments",
            Self::Arp => "arp",
            Self::Neighbours => "neighbours",
        }
    }
}
