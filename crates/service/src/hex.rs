//! Bytes written as hexadecimal digits.
use std::fmt;
use std::str::FromStr;

/// Text that is no server id or key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadHex(pub(crate) String);

/// A secret of 16 bytes, written as 32 hexadecimal digits. `{:?}` doesn't print it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key128(pub [u8; 16]);

impl FromStr for Key128 {
    type Err = BadHex;

    fn from_str(text: &str) -> Result<Self, BadHex> {
        // The error doesn't show the text, which may be a secret with a slip in it.
        let bad =
            || BadHex("this is not a key of 16 bytes; write 32 hexadecimal digits".to_owned());
        hex(text).and_then(|key| key.try_into().ok()).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for Key128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key128(..)")
    }
}

/// The bytes that the hexadecimal digits of `text` say.
pub(crate) fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| u8::try_from(c.to_digit(16)?).ok()).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|two| two.iter().fold(0, |byte, d| byte << 4 | d)).collect())
}
