//! Why a frame is dropped unread.

/// Why a frame can't be parsed. Each reason is the name of a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// Longer than any Ethernet frame with an IP datagram that offsets of 16 bits reach.
    #[error("the frame is longer than 65535 bytes")]
    TooLong,
    /// Shorter than the header that should be there.
    #[error("the frame ends inside a header")]
    Truncated,
    /// The version nibble doesn't agree with the EtherType.
    #[error("the IP version is not the one that the EtherType says")]
    BadVersion,
    /// The IPv4 header length is below 20 bytes.
    #[error("the IPv4 header length is below 20 bytes")]
    BadHeaderLength,
    /// The IPv4 total length or the IPv6 payload length doesn't fit the frame.
    #[error("the IP length is shorter than the headers or longer than the frame")]
    BadTotalLength,
    /// More extension headers than [`MAX_EXTENSION_HEADERS`](crate::headers::MAX_EXTENSION_HEADERS).
    #[error("more than 8 IPv6 extension headers")]
    TooManyExtensionHeaders,
    /// A hop-by-hop header not right behind the IPv6 header (RFC 8200 section 4.1).
    #[error("an IPv6 hop-by-hop header is not the first extension header")]
    MisplacedHopByHop,
    /// An unfragmented datagram without a whole transport header.
    #[error("the datagram ends inside the transport header")]
    TransportTruncated,
    /// A first fragment without the whole header chain, or a later one that
    /// overlaps the TCP header (RFC 1858, RFC 3128, RFC 7112).
    #[error("a fragment divides the transport header")]
    TinyFragment,
    /// A fragment that can't be part of a datagram: a length that isn't a
    /// multiple of 8 with more to follow, an end beyond 65535 bytes, or a
    /// fragment inside a fragment.
    #[error("a fragment that can't be part of a datagram")]
    BadFragment,
    /// An IPv4 option whose length is below 2 bytes or reaches beyond the header.
    #[error("an IPv4 option is shorter than 2 bytes or reaches beyond the header")]
    BadOptions,
    /// An IPv4 source route (LSRR, SSRR): packets with one are not forwarded (RFC
    /// 7126 sections 4.3 and 4.4).
    #[error("the IPv4 header has a source route")]
    SourceRoute,
    /// An IPv6 routing header with segments left: the destination address is not
    /// the packet's last one, and the load balancer is no hop of such routes (RFC
    /// 5095, RFC 8200 section 4.4).
    #[error("an IPv6 routing header has segments left")]
    SegmentsLeft,
    /// A wrong IPv4 header checksum. Found by [`Headers::check`](crate::Headers::check).
    #[error("the IPv4 header checksum is wrong")]
    BadHeaderChecksum,
    /// A UDP length below 8 bytes or beyond the datagram. Found by
    /// [`Headers::check`](crate::Headers::check).
    #[error("the UDP length is below 8 bytes or beyond the datagram")]
    BadUdpLength,
    /// A TCP data offset below 20 bytes or beyond the datagram. Found by
    /// [`Headers::check`](crate::Headers::check).
    #[error("the TCP data offset is below 20 bytes or beyond the datagram")]
    BadDataOffset,
    /// TCP control bits that no segment has (RFC 9293 section 3.10.7): none of SYN,
    /// ACK, FIN and RST, or two of SYN, FIN and RST. Found by
    /// [`Headers::check`](crate::Headers::check).
    #[error("no TCP segment has these control bits")]
    BadTcpFlags,
}

impl Malformed {
    /// Every reason.
    pub const ALL: &[Self] = &[
        Self::TooLong,
        Self::Truncated,
        Self::BadVersion,
        Self::BadHeaderLength,
        Self::BadTotalLength,
        Self::TooManyExtensionHeaders,
        Self::MisplacedHopByHop,
        Self::TransportTruncated,
        Self::TinyFragment,
        Self::BadFragment,
        Self::BadOptions,
        Self::SourceRoute,
        Self::SegmentsLeft,
        Self::BadHeaderChecksum,
        Self::BadUdpLength,
        Self::BadDataOffset,
        Self::BadTcpFlags,
    ];

    /// The name of the drop, in snake_case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLong => "frame_too_long",
            Self::Truncated => "truncated",
            Self::BadVersion => "bad_version",
            Self::BadHeaderLength => "bad_header_length",
            Self::BadTotalLength => "bad_total_length",
            Self::TooManyExtensionHeaders => "too_many_extension_headers",
            Self::MisplacedHopByHop => "misplaced_hop_by_hop",
            Self::TransportTruncated => "transport_truncated",
            Self::TinyFragment => "tiny_fragment",
            Self::BadFragment => "bad_fragment",
            Self::BadOptions => "bad_options",
            Self::SourceRoute => "source_route",
            Self::SegmentsLeft => "segments_left",
            Self::BadHeaderChecksum => "bad_header_checksum",
            Self::BadUdpLength => "bad_udp_length",
            Self::BadDataOffset => "bad_data_offset",
            Self::BadTcpFlags => "bad_tcp_flags",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_snake_case_in_order() {
        let mut names: Vec<_> = Malformed::ALL.iter().map(|reason| reason.name()).collect();
        for (index, reason) in Malformed::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
        }
        assert!(names.iter().all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Malformed::ALL.len());
    }
}
