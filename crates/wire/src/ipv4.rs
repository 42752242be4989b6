//! IPv4 headers (RFC 791 section 3.1).
use std::borrow::Borrow;
use std::net::Ipv4Addr;

use crate::checksum;
use crate::malformed::Malformed;
use crate::view::header;

header! {
    /// The fixed part of an IPv4 header.
    20
    /// Version and header length: 0x45 without options.
    0..1 version_and_length set_version_and_length: u8;
    /// Differentiated services and congestion notification.
    1..1 traffic_class set_traffic_class: u8;
    /// The datagram's length with this header, in bytes.
    2..2 total_length set_total_length: u16;
    /// The datagram's id, for reassembly.
    4..2 id set_id: u16;
    /// Reserved bit, don't-fragment, more-fragments, and the offset in 8 bytes.
    6..2 flags_and_offset set_flags_and_offset: u16;
    /// Time to live.
    8..1 ttl set_ttl: u8;
    /// The transport protocol's number.
    9..1 protocol set_protocol: u8;
    /// The header checksum.
    10..2 checksum set_checksum: u16;
    /// The source address.
    12..4 src set_src: Ipv4Addr;
    /// The destination address.
    16..4 dst set_dst: Ipv4Addr;
}

/// The don't-fragment bit.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// The more-fragments bit.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// The fragment offset's bits.
pub const OFFSET_MASK: u16 = 0x1fff;

impl<B: Borrow<[u8; LEN]>> Header<B> {
    /// The header's length with options, in bytes.
    pub fn header_length(&self) -> usize {
        usize::from(self.version_and_length() & 0x0f) * 4
    }
}

/// Option types (RFC 791 section 3.1).
pub mod option {
    /// The end of the options.
    pub const END: u8 = 0;
    /// One byte that means nothing.
    pub const NO_OPERATION: u8 = 1;
    /// Record route.
    pub const RECORD_ROUTE: u8 = 7;
    /// Internet timestamp.
    pub const TIMESTAMP: u8 = 68;
    /// Loose source route.
    pub const LOOSE_ROUTE: u8 = 131;
    /// Strict source route.
    pub const STRICT_ROUTE: u8 = 137;
}

/// The options of a header that are longer than one byte: where each begins, and
/// its bytes. The last item is an error if an option's length is impossible.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Options<'a> {
    /// The options in the bytes behind the header's fixed part.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<(usize, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.bytes.get(self.at..)?;
            let option = match *rest {
                [] | [option::END, ..] => return None,
                [option::NO_OPERATION, ..] => {
                    self.at += 1;
                    continue;
                }
                [_, length, ..] if length >= 2 => rest.get(..length.into()),
                _ => None,
            };
            let at = self.at;
            self.at = option.map_or(self.bytes.len(), |option| at + option.len());
            return Some(option.map(|option| (at, option)).ok_or(Malformed::BadOptions));
        }
    }
}

/// The parts of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The header's fixed part.
    pub header: Header<&'a [u8; LEN]>,
    /// The options, padded to 4 bytes.
    pub options: &'a [u8],
    /// What follows the header, up to the total length.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// The datagram at the front of `packet`. The checksum isn't looked at.
    ///
    /// # Errors
    /// [`Malformed`] for a wrong version, header length or total length.
    pub fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        let (header, _) = Header::split(packet)?;
        if header.version_and_length() >> 4 != 4 {
            return Err(Malformed::BadVersion);
        }
        if header.header_length() < LEN {
            return Err(Malformed::BadHeaderLength);
        }
        let total = usize::from(header.total_length());
        let datagram = packet.get(..total).ok_or(Malformed::BadTotalLength)?;
        let (front, payload) =
            datagram.split_at_checked(header.header_length()).ok_or(Malformed::BadTotalLength)?;
        Ok(Self { header, options: front.get(LEN..).unwrap_or_default(), payload })
    }

    /// Whether the header checksum is right.
    #[must_use]
    pub fn checksum_is_right(&self) -> bool {
        let sum = checksum::sum(self.header.as_bytes(), 0);
        checksum::fold(checksum::sum(self.options, sum)) == 0xffff
    }
}

/// The values of a header without options of a datagram that isn't fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The source address.
    pub src: Ipv4Addr,
    /// The destination address.
    pub dst: Ipv4Addr,
    /// The transport protocol's number.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// Differentiated services and congestion notification.
    pub traffic_class: u8,
    /// Bytes that follow the header.
    pub payload_len: u16,
}

impl Repr {
    /// The values that a datagram's header holds.
    #[must_use]
    pub fn parse(datagram: &Datagram<'_>) -> Self {
        let header = &datagram.header;
        Self {
            src: header.src(),
            dst: header.dst(),
            protocol: header.protocol(),
            ttl: header.ttl(),
            traffic_class: header.traffic_class(),
            payload_len: header.total_length().saturating_sub(header.header_length() as u16),
        }
    }

    /// The header with these values, don't-fragment set, id 0 (RFC 6864
    /// section 4.1) and the checksum. A payload above 65515 bytes is cut to that.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut header = Header::new([0; LEN]);
        header.set_version_and_length(0x45);
        header.set_traffic_class(self.traffic_class);
        header.set_total_length(self.payload_len.saturating_add(LEN as u16));
        header.set_flags_and_offset(DONT_FRAGMENT);
        header.set_ttl(self.ttl);
        header.set_protocol(self.protocol);
        header.set_src(self.src);
        header.set_dst(self.dst);
        header.set_checksum(checksum::of(header.as_bytes(), 0));
        header.0
    }
}
