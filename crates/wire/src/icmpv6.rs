//! ICMPv6 messages (RFC 4443). What the data path does with them is in
//! [`icmp`](crate::icmp), for both families, and in [`ndp`](crate::ndp).
use std::borrow::Borrow;

use crate::view::header;

header! {
    /// The fixed part of an ICMPv6 message.
    8
    /// The type.
    0..1 kind set_kind: u8;
    /// The code: a kind of type.
    1..1 code set_code: u8;
    /// The checksum over pseudo-header and message.
    2..2 checksum set_checksum: u16;
    /// What the type makes of the second word.
    4..4 rest set_rest: u32;
}

/// Message types.
pub mod kind {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 129;
    /// Neighbour solicitation (RFC 4861 section 4.3).
    pub const NEIGHBOUR_SOLICITATION: u8 = 135;
    /// Neighbour advertisement (RFC 4861 section 4.4).
    pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
    /// Redirect (RFC 4861 section 4.5).
    pub const REDIRECT: u8 = 137;
}

/// Whether no error may be sent about messages of this type (RFC 4443 section
/// 2.4 e): errors, and redirects.
#[must_use]
pub const fn is_error(kind: u8) -> bool {
    kind < 128 || kind == kind::REDIRECT
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
    },
    /// The packet is longer than the next hop takes.
    PacketTooBig {
        /// The next hop's MTU in bytes.
        mtu: u32,
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
            kind::UNREACHABLE => Self::Unreachable { code },
            kind::PACKET_TOO_BIG => Self::PacketTooBig { mtu: rest },
            kind::TIME_EXCEEDED => Self::TimeExceeded { code },
            kind => Self::Other { kind, code, rest },
        }
    }

    /// The fixed part with these values and the checksum over it and `data`.
    /// `pseudo` is [`checksum::pseudo_v6`](crate::checksum::pseudo_v6) with the
    /// length of the whole message.
    #[must_use]
    pub fn emit(&self, pseudo: u32, data: &[u8]) -> [u8; LEN] {
        let echo = |id: u16, sequence: u16| u32::from(id) << 16 | u32::from(sequence);
        let (kind, code, rest) = match *self {
            Self::EchoRequest { id, sequence } => (kind::ECHO_REQUEST, 0, echo(id, sequence)),
            Self::EchoReply { id, sequence } => (kind::ECHO_REPLY, 0, echo(id, sequence)),
            Self::Unreachable { code } => (kind::UNREACHABLE, code, 0),
            Self::PacketTooBig { mtu } => (kind::PACKET_TOO_BIG, 0, mtu),
            Self::TimeExceeded { code } => (kind::TIME_EXCEEDED, code, 0),
            Self::Other { kind, code, rest } => (kind, code, rest),
        };
        let mut header = Header::new([0; LEN]);
        header.set_kind(kind);
        header.set_code(code);
        header.set_rest(rest);
        let sum = crate::checksum::sum(header.as_bytes(), pseudo);
        header.set_checksum(crate::checksum::of(data, sum));
        header.0
    }
}
