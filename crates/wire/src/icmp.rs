//! ICMP messages (RFC 792) and what the data path does with them.
use std::borrow::Borrow;

use crate::view::header;

pub use crate::echo::{answer_message, echo_reply_in_place};
pub use crate::icmp_error::{ErrorKind, MAX_ERROR_LEN, error_about, error_into};

header! {
    /// The fixed part of an ICMP message.
    8
    /// The type.
    0..1 kind set_kind: u8;
    /// The code: a kind of type.
    1..1 code set_code: u8;
    /// The checksum over the message.
    2..2 checksum set_checksum: u16;
    /// What the type makes of the second word.
    4..4 rest set_rest: u32;
}

/// Message types (RFC 792 and the registry of ICMP types).
pub mod kind {
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Source quench, deprecated by RFC 6633.
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
}

/// The code of [`UNREACHABLE`](kind::UNREACHABLE) that asks for smaller packets (RFC 1191).
pub const FRAGMENTATION_NEEDED: u8 = 4;

/// Whether messages of this type are about another packet, so that no error may be
/// sent about them (RFC 1122 section 3.2.2).
#[must_use]
pub const fn is_error(kind: u8) -> bool {
    matches!(
        kind,
        kind::UNREACHABLE
            | kind::SOURCE_QUENCH
            | kind::REDIRECT
            | kind::TIME_EXCEEDED
            | kind::PARAMETER_PROBLEM
    )
}

/// The values of a message's fixed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr {
    /// Asks for an answer.
    EchoRequest {
        /// Whose request it is.
        id: u16,
        /// Which request it is.
        sequence: u16,
    },
    /// Answers a request.
    EchoReply {
        /// Whose request it is.
        id: u16,
        /// Which request it is.
        sequence: u16,
    },
    /// The packet didn't arrive.
    Unreachable {
        /// Why.
        code: u8,
        /// The next hop's MTU in bytes if the code is [`FRAGMENTATION_NEEDED`], else 0.
        mtu: u16,
    },
    /// The packet went over too many hops (code 0) or wasn't complete in time (1).
    TimeExceeded {
        /// Which.
        code: u8,
    },
    /// Anything else.
    Other {
        /// The type.
        kind: u8,
        /// The code.
        code: u8,
        /// The second word.
        rest: u32,
    },
}

impl Repr {
    /// The values that `header` holds.
    pub fn parse<B: Borrow<[u8; LEN]>>(header: &Header<B>) -> Self {
        let (code, rest) = (header.code(), header.rest());
        let (id, sequence) = ((rest >> 16) as u16, rest as u16);
        match header.kind() {
            kind::ECHO_REQUEST if code == 0 => Self::EchoRequest { id, sequence },
            kind::ECHO_REPLY if code == 0 => Self::EchoReply { id, sequence },
            kind::UNREACHABLE => Self::Unreachable {
                code,
                mtu: if code == FRAGMENTATION_NEEDED { sequence } else { 0 },
            },
            kind::TIME_EXCEEDED => Self::TimeExceeded { code },
            kind => Self::Other { kind, code, rest },
        }
    }

    /// The fixed part with these values and the checksum over it and `data`.
    #[must_use]
    pub fn emit(&self, data: &[u8]) -> [u8; LEN] {
        let echo = |id: u16, sequence: u16| u32::from(id) << 16 | u32::from(sequence);
        let (kind, code, rest) = match *self {
            Self::EchoRequest { id, sequence } => (kind::ECHO_REQUEST, 0, echo(id, sequence)),
            Self::EchoReply { id, sequence } => (kind::ECHO_REPLY, 0, echo(id, sequence)),
            Self::Unreachable { code, mtu } => (kind::UNREACHABLE, code, u32::from(mtu)),
            Self::TimeExceeded { code } => (kind::TIME_EXCEEDED, code, 0),
            Self::Other { kind, code, rest } => (kind, code, rest),
        };
        let mut header = Header::new([0; LEN]);
        header.set_kind(kind);
        header.set_code(code);
        header.set_rest(rest);
        let sum = crate::checksum::sum(header.as_bytes(), 0);
        header.set_checksum(crate::checksum::of(data, sum));
        header.0
    }
}
