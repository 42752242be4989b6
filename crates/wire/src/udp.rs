//! UDP headers (RFC 768).
use std::borrow::Borrow;

use crate::checksum;
use crate::view::header;

header! {
    /// A UDP header.
    8
    /// The source port.
    0..2 sport set_sport: u16;
    /// The destination port.
    2..2 dport set_dport: u16;
    /// The length of header and data.
    4..2 length set_length: u16;
    /// The checksum over pseudo-header, header and data; 0 if there is none.
    6..2 checksum set_checksum: u16;
}

/// The values of a UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The source port.
    pub sport: u16,
    /// The destination port.
    pub dport: u16,
}

impl Repr {
    /// The values that `header` holds.
    pub fn parse<B: Borrow<[u8; LEN]>>(header: &Header<B>) -> Self {
        Self { sport: header.sport(), dport: header.dport() }
    }

    /// The header with these values. `pseudo` is the sum of the pseudo-header
    /// (with the length of header and data), see [`pseudo`](crate::checksum::pseudo).
    #[must_use]
    pub fn emit(&self, pseudo: u32, data: &[u8]) -> [u8; LEN] {
        let mut header = Header::new([0; LEN]);
        header.set_sport(self.sport);
        header.set_dport(self.dport);
        header.set_length(u16::try_from(LEN + data.len()).unwrap_or(0));
        let sum = checksum::sum(header.as_bytes(), pseudo);
        header.set_checksum(match checksum::of(data, sum) {
            0 => 0xffff,
            computed => computed,
        });
        header.0
    }
}
