//! What a frame is and where its parts are.

/// The network protocol of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    /// RFC 791.
    Ipv4,
    /// RFC 8200.
    Ipv6,
    /// RFC 826.
    Arp,
    /// Anything else; the EtherType.
    Other(u16),
}

/// Whether an IP packet is a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// A whole datagram.
    Whole,
    /// The first fragment, with the transport header; the datagram's id.
    First(u32),
    /// A later fragment, without a transport header; the datagram's id.
    Later(u32),
}

/// TCP control bits (RFC 9293 section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// The acknowledgement field counts.
    pub const ACK: u8 = 0x10;

    /// Whether any of `bits` is set.
    #[must_use]
    pub const fn any(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
}

/// Where the parts of a frame are. Made by [`Headers::parse`], which has
/// checked that every byte that forwarding and rewriting touch exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The network protocol.
    pub net: Net,
    /// Offset of the network header: 14, or 18 with an 802.1Q tag.
    pub l3: u16,
    /// Offset of the transport header. Meaningless in a later fragment.
    pub l4: u16,
    /// Offset of the first byte after the IP datagram: Ethernet padding lies behind it.
    pub end: u16,
    /// The 802.1Q VLAN id, if the frame is tagged.
    pub vlan: Option<u16>,
    /// The transport protocol's number, behind all IPv6 extension headers.
    pub proto: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Control bits; empty unless a TCP header is there.
    pub tcp_flags: TcpFlags,
    /// Whether the packet is a fragment.
    pub fragment: Fragment,
}

/// Why a frame can't be parsed. Each reason is the name of a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Shorter than the header that should be there.
    #[error("the frame ends inside a header")]
    Truncated,
}
