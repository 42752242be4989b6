//! The messages of the control socket: 128 bytes each, in the byte order of the machine.

/// Bytes of a message.
pub const MESSAGE_BYTES: usize = 128;
/// Version 2.0.
pub(crate) const VERSION: u16 = 0x0200;
/// The largest ring: 2^14 descriptors.
pub(crate) const MOST_LOG2_RING: u8 = 14;
/// The regions that a client may have.
pub(crate) const MOST_REGIONS: usize = 256;

/// What one side tells the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The last message was taken.
    Ack,
    /// The server's first word: its version and what it has room for.
    Hello,
    /// The client's first word.
    Init {
        /// Its version.
        version: u16,
        /// The interface that it wants.
        id: u32,
        /// 0: Ethernet.
        mode: u8,
    },
    /// The client has memory; its descriptor comes with the message.
    AddRegion {
        /// Its number.
        index: u16,
        /// Its bytes.
        size: u64,
    },
    /// A ring is in a region; the descriptor to wake its reader comes with the message.
    AddRing {
        /// Whether it is for frames from the client to the server.
        to_server: bool,
        /// Its number among those of its direction.
        index: u16,
        /// The region.
        region: u16,
        /// Where in the region.
        offset: u32,
        /// The logarithm of its descriptors' number.
        log2_size: u8,
    },
    /// The client has said everything.
    Connect,
    /// The server has taken everything.
    Connected,
    /// The end, and why, at most 95 bytes.
    Disconnect {
        /// Why.
        reason: String,
    },
}

/// Why a client is sent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisconnectReason {
    /// The message is not of 128 bytes, or of no kind.
    #[error("invalid message")]
    Message,
    /// A message that must not come now.
    #[error("unexpected message")]
    Order,
    /// Another version.
    #[error("incompatible memif version")]
    Version,
    /// Another mode than Ethernet.
    #[error("only ethernet mode supported")]
    Mode,
    /// An interface that isn't there.
    #[error("ID not found")]
    Id,
    /// A descriptor is missing.
    #[error("missing file descriptor")]
    Descriptor,
    /// A region's number is not the next.
    #[error("invalid region index")]
    Region,
    /// Its memory may become shorter, is shorter than was said, or can't be mapped.
    #[error("region is not sealed against shrinking, or too short")]
    Memory,
    /// A ring that there is no room for, or that is outside of its region.
    #[error("invalid ring")]
    Ring,
    /// A ring is missing.
    #[error("missing ring")]
    NoRing,
    /// An index, offset or length in a ring can't be.
    #[error("invalid ring contents")]
    Contents,
    /// The client has not connected in time.
    #[error("no connection in time")]
    Late,
    /// The server ends.
    #[error("server ends")]
    End,
}

impl Message {
    /// Reads a message; `None`: it is of no kind, or has not 128 bytes.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; MESSAGE_BYTES] = bytes.try_into().ok()?;
        let two = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let four = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let eight = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(match two(0)? {
            1 => Self::Ack,
            2 => Self::Hello,
            3 => Self::Init { version: two(2)?, id: four(4)?, mode: *bytes.get(8)? },
            4 => Self::AddRegion { index: two(2)?, size: eight(4)? },
            5 => Self::AddRing {
                to_server: two(2)? & 1 != 0,
                index: two(4)?,
                region: two(6)?,
                offset: four(8)?,
                log2_size: *bytes.get(12)?,
            },
            6 => Self::Connect,
            7 => Self::Connected,
            8 => {
                let text = bytes.get(6..102)?;
                let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
                let reason = String::from_utf8_lossy(text.get(..end)?).into_owned();
                Self::Disconnect { reason }
            }
            _ => return None,
        })
    }

    /// The message's bytes.
    #[must_use]
    pub fn write(&self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        let mut put = |at: usize, value: &[u8]| {
            for (to, from) in bytes.iter_mut().skip(at).zip(value) {
                *to = *from;
            }
        };
        let kind: u16 = match self {
            Self::Ack => 1,
            Self::Hello => {
                put(2, b"HNLB");
                put(34, &VERSION.to_ne_bytes());
                put(36, &VERSION.to_ne_bytes());
                put(38, &(MOST_REGIONS as u16 - 1).to_ne_bytes());
                // The highest number of a ring is 0 in both directions.
                put(44, &[MOST_LOG2_RING]);
                2
            }
            Self::Init { version, id, mode } => {
                put(2, &version.to_ne_bytes());
                put(4, &id.to_ne_bytes());
                put(8, &[*mode]);
                3
            }
            Self::AddRegion { index, size } => {
                put(2, &index.to_ne_bytes());
                put(4, &size.to_ne_bytes());
                4
            }
            Self::AddRing { to_server, index, region, offset, log2_size } => {
                put(2, &u16::from(*to_server).to_ne_bytes());
                put(4, &index.to_ne_bytes());
                put(6, &region.to_ne_bytes());
                put(8, &offset.to_ne_bytes());
                put(12, &[*log2_size]);
                5
            }
            Self::Connect => 6,
            Self::Connected => {
                put(2, b"hnlb");
                7
            }
            Self::Disconnect { reason } => {
                put(6, reason.as_bytes().get(..95).unwrap_or(reason.as_bytes()));
                8
            }
        };
        put(0, &kind.to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_read_as_they_are_written() {
        let reason = DisconnectReason::Contents.to_string();
        for message in [
            Message::Ack,
            Message::Hello,
            Message::Init { version: VERSION, id: 0x1234_5678, mode: 2 },
            Message::AddRegion { index: 3, size: 0x1_2345_6789 },
            Message::AddRing {
                to_server: true,
                index: 1,
                region: 2,
                offset: 0xfedc_ba98,
                log2_size: 10,
            },
            Message::Connect,
            Message::Connected,
            Message::Disconnect { reason },
        ] {
            assert_eq!(Message::read(&message.write()), Some(message));
        }
    }

    /// The layout of memif.h (version 2.0), whose structures are packed.
    #[test]
    fn fields_are_where_other_implementations_have_them() {
        let hello = Message::Hello.write();
        assert_eq!(&hello[34..38], [VERSION.to_ne_bytes(), VERSION.to_ne_bytes()].concat());
        assert_eq!(hello[44], 14);
        let ring =
            Message::AddRing { to_server: true, index: 0, region: 0, offset: 0x80, log2_size: 10 };
        assert_eq!(ring.write()[8..13], [0x80_u32.to_ne_bytes().as_slice(), &[10]].concat());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let read = Message::read(&bytes);
            prop_assert!(bytes.len() == MESSAGE_BYTES || read.is_none());
        }

        #[test]
        fn a_long_reason_is_cut(reason in ".{0,120}") {
            let read = Message::read(&Message::Disconnect { reason: reason.clone() }.write());
            let Some(Message::Disconnect { reason: read }) = read else { panic!("{read:?}") };
            prop_assert!(read.len() <= 95 * 3 + 3);
            if reason.len() <= 95 && !reason.contains('\0') {
                prop_assert_eq!(read, reason);
            }
        }
    }
}
