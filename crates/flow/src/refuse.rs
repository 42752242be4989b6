//! What a client is told whose packet no service or backend takes.
use crate::word::words;

words! {
    /// The answer to a packet that no service or no backend takes.
    #[derive(Default)]
    Refuse: "refuse" {
        /// The answer of a host with a closed port: a RST to TCP (RFC 9293 section 3.10.7.1), ICMP "port unreachable" to UDP.
        #[default]
        Reset => "reset",
        /// ICMP "port unreachable" (RFC 1122 section 3.2.2.1, RFC 4443 section 3.1), to TCP as well.
        Unreachable => "unreachable",
        /// No answer.
        Drop => "drop",
    }
}

impl Refuse {
    /// Whether it is the default, which configurations leave out.
    #[must_use]
    pub const fn is_reset(&self) -> bool {
        matches!(self, Self::Reset)
    }
}
