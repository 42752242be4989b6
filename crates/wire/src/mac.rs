//! Ethernet addresses.
use std::fmt;
use std::str::FromStr;

/// An Ethernet address (IEEE 802.3), in wire order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All ones.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether the group bit is set: multicast or broadcast.
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The text is not six hexadecimal bytes separated by colons.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an Ethernet address; write six hexadecimal bytes, as in 02:00:0a:01:00:05")]
pub struct BadMac(String);

impl FromStr for Mac {
    type Err = BadMac;

    fn from_str(text: &str) -> Result<Self, BadMac> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            *byte = parts
                .next()
                .filter(|part| part.len() == 2)
                .and_then(|part| u8::from_str_radix(part, 16).ok())
                .ok_or_else(|| BadMac(text.to_owned()))?;
        }
        match parts.next() {
            None => Ok(Self(bytes)),
            Some(_) => Err(BadMac(text.to_owned())),
        }
    }
}
