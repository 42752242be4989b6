//! The transport protocols that are balanced.
use crate::word::words;

words! {
    /// A transport protocol.
    #[repr(u8)]
    Transport: "transport protocol" {
        /// TCP (RFC 9293).
        Tcp = 6 => "tcp",
        /// UDP (RFC 768).
        Udp = 17 => "udp",
    }
}

impl Transport {
    /// The IP protocol number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The transport with IP protocol number `number`, if it is balanced.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            6 => Some(Self::Tcp),
            17 => Some(Self::Udp),
            _ => None,
        }
    }
}
