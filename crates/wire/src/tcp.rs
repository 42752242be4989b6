//! TCP headers (RFC 9293 section 3.1).
use std::borrow::Borrow;

use crate::headers::TcpFlags;
use crate::malformed::Malformed;
use crate::view::header;

header! {
    /// The fixed part of a TCP header.
    20
    /// The source port.
    0..2 sport set_sport: u16;
    /// The destination port.
    2..2 dport set_dport: u16;
    /// The sequence number.
    4..4 sequence set_sequence: u32;
    /// The acknowledgement number.
    8..4 acknowledgement set_acknowledgement: u32;
    /// The header length in 4 bytes, in the upper half; the rest is reserved.
    12..1 data_offset set_data_offset: u8;
    /// The control bits.
    13..1 control set_control: u8;
    /// The receive window, not scaled.
    14..2 window set_window: u16;
    /// The checksum over pseudo-header, header and data.
    16..2 checksum set_checksum: u16;
    /// The urgent pointer.
    18..2 urgent set_urgent: u16;
}

impl<B: Borrow<[u8; LEN]>> Header<B> {
    /// The header's length with options, in bytes.
    pub fn header_length(&self) -> usize {
        usize::from(self.data_offset() >> 4) * 4
    }

    /// The control bits that a load balancer looks at.
    pub fn flags(&self) -> TcpFlags {
        TcpFlags(self.control())
    }
}

/// The parts of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The header's fixed part.
    pub header: Header<&'a [u8; LEN]>,
    /// The options, padded to 4 bytes.
    pub options: &'a [u8],
    /// The data.
    pub data: &'a [u8],
}

impl<'a> Segment<'a> {
    /// The segment that is all of `bytes`.
    ///
    /// # Errors
    /// [`Malformed`] for a wrong data offset.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) = Header::split(bytes)?;
        let options = header.header_length().checked_sub(LEN).ok_or(Malformed::BadHeaderLength)?;
        let (options, data) =
            rest.split_at_checked(options).ok_or(Malformed::TransportTruncated)?;
        Ok(Self { header, options, data })
    }
}

/// The values of a header without options and urgent data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The source port.
    pub sport: u16,
    /// The destination port.
    pub dport: u16,
    /// The sequence number.
    pub sequence: u32,
    /// The acknowledgement number.
    pub acknowledgement: u32,
    /// The control bits.
    pub flags: TcpFlags,
    /// The receive window, not scaled.
    pub window: u16,
}

impl Repr {
    /// The values that `header` holds.
    pub fn parse<B: Borrow<[u8; LEN]>>(header: &Header<B>) -> Self {
        Self {
            sport: header.sport(),
            dport: header.dport(),
            sequence: header.sequence(),
            acknowledgement: header.acknowledgement(),
            flags: header.flags(),
            window: header.window(),
        }
    }

    /// The header with these values. `pseudo` is the sum of the pseudo-header
    /// (with the length of header and data), see [`pseudo`](crate::checksum::pseudo).
    #[must_use]
    pub fn emit(&self, pseudo: u32, data: &[u8]) -> [u8; LEN] {
        let mut header = Header::new([0; LEN]);
        header.set_sport(self.sport);
        header.set_dport(self.dport);
        header.set_sequence(self.sequence);
        header.set_acknowledgement(self.acknowledgement);
        header.set_data_offset(0x50);
        header.set_control(self.flags.0);
        header.set_window(self.window);
        let sum = crate::checksum::sum(header.as_bytes(), pseudo);
        header.set_checksum(crate::checksum::of(data, sum));
        header.0
    }
}
