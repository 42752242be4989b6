//! IPv6 headers (RFC 8200 section 3).
use std::borrow::Borrow;
use std::net::Ipv6Addr;

use crate::malformed::Malformed;
use crate::view::header;

header! {
    /// An IPv6 header without extension headers.
    40
    /// Version, traffic class and flow label.
    0..4 version_class_label set_version_class_label: u32;
    /// Bytes that follow this header.
    4..2 payload_length set_payload_length: u16;
    /// The protocol of what follows.
    6..1 next_header set_next_header: u8;
    /// Hop limit.
    7..1 hop_limit set_hop_limit: u8;
    /// The source address.
    8..16 src set_src: Ipv6Addr;
    /// The destination address.
    24..16 dst set_dst: Ipv6Addr;
}

impl<B: Borrow<[u8; LEN]>> Header<B> {
    /// Differentiated services and congestion notification.
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_label() >> 20) as u8
    }

    /// The flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        self.version_class_label() & 0x000f_ffff
    }
}

/// The parts of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The header.
    pub header: Header<&'a [u8; LEN]>,
    /// What follows the header, up to the payload length: extension headers too.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// The datagram at the front of `packet`.
    ///
    /// # Errors
    /// [`Malformed`] for a wrong version or payload length.
    pub fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) = Header::split(packet)?;
        if header.version_class_label() >> 28 != 6 {
            return Err(Malformed::BadVersion);
        }
        let length = usize::from(header.payload_length());
        let payload = rest.get(..length).ok_or(Malformed::BadTotalLength)?;
        Ok(Self { header, payload })
    }
}

/// The values of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The source address.
    pub src: Ipv6Addr,
    /// The destination address.
    pub dst: Ipv6Addr,
    /// The protocol of what follows.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Differentiated services and congestion notification.
    pub traffic_class: u8,
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes that follow the header.
    pub payload_len: u16,
}

impl Repr {
    /// The values that `header` holds.
    pub fn parse<B: Borrow<[u8; LEN]>>(header: &Header<B>) -> Self {
        Self {
            src: header.src(),
            dst: header.dst(),
            next_header: header.next_header(),
            hop_limit: header.hop_limit(),
            traffic_class: header.traffic_class(),
            flow_label: header.flow_label(),
            payload_len: header.payload_length(),
        }
    }

    /// The header with these values.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut header = Header::new([0; LEN]);
        let label = self.flow_label & 0x000f_ffff;
        header.set_version_class_label(6 << 28 | u32::from(self.traffic_class) << 20 | label);
        header.set_payload_length(self.payload_len);
        header.set_next_header(self.next_header);
        header.set_hop_limit(self.hop_limit);
        header.set_src(self.src);
        header.set_dst(self.dst);
        header.0
    }
}
