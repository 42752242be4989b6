//! What a frame carries through a network function, and how (section 4.1.7.2; the
//! thesis does not disclose its encoding).
//!
//! [`Tagging::Mac`] writes the tag over the source address, for an NF that leaves
//! addresses alone or exchanges them:
//!
//! ```text
//! byte   0      1                2              3                4..6
//!        0xF2   direction|port   bucket 10..3   bucket 2..0|crc  sequence
//! ```
//!
//! 0xF2 makes it a locally administered individual address. The lower five bits of
//! byte 3 are the exclusive or of all other bits in groups of five, so that an address
//! of an NF's own is not taken for a tag by accident.
//!
//! [`Tagging::Vlan`] puts an 802.1ad tag (0x88A8) and an 802.1Q tag (0x8100) behind the
//! addresses, for an NF that writes addresses of its own: the first holds direction (1
//! bit), port (4 bits) and bucket (11 bits), the second the sequence.
use packet::PacketBuf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::streams::Direction;

const FIRST: u8 = 0xf2;
const DIRECTION: u8 = 0x80;
const SERVICE_TAG: u16 = 0x88a8;
const CUSTOMER_TAG: u16 = 0x8100;
const ADDRESSES: usize = 12;
const TAGS: usize = 8;

/// The way in which a frame carries its [`Tag`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tagging {
    /// In place of the source address.
    #[default]
    Mac,
    /// In two VLAN tags.
    Vlan,
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Its way through the server.
    pub direction: Direction,
    /// The port that it leaves by, below 16.
    pub egress: u8,
    /// Its bucket, below 2048.
    pub bucket: u16,
    /// The lower half of its number among the frames of its NF.
    pub sequence: u16,
}

/// A tag that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagged {
    /// The NF has let the frame pass.
    Onward(Tag),
    /// The NF has exchanged the addresses: it answers the sender.
    Back(Tag),
}

impl Tagging {
    /// Puts `tag` onto a frame and returns the source address that it had. `None` and
    /// no change: the frame is shorter than an Ethernet header or there is no headroom.
    #[must_use]
    pub fn put<P: PacketBuf>(self, packet: &mut P, tag: Tag) -> Option<[u8; 6]> {
        let source = packet.bytes().get(6..ADDRESSES)?.try_into().ok()?;
        match self {
            Self::Mac => {
                packet.bytes_mut().get_mut(6..ADDRESSES)?.copy_from_slice(&tag.to_mac());
            }
            Self::Vlan => {
                if !packet.prepend(TAGS) {
                    return None;
                }
                let frame = packet.bytes_mut();
                frame.copy_within(TAGS..TAGS + ADDRESSES, 0);
                let tags = frame.get_mut(ADDRESSES..ADDRESSES + TAGS)?;
                tags.copy_from_slice(&tag.to_vlan());
            }
        }
        Some(source)
    }

    /// Finds the tag of a frame; with [`Tagging::Vlan`] takes it off.
    #[must_use]
    pub fn take<P: PacketBuf>(self, packet: &mut P) -> Option<Tagged> {
        match self {
            Self::Mac => {
                let frame = packet.bytes();
                let address = |at: usize| Tag::from_mac(frame.get(at..at + 6)?.try_into().ok()?);
                address(6).map(Tagged::Onward).or_else(|| address(0).map(Tagged::Back))
            }
            Self::Vlan => {
                let frame = packet.bytes_mut();
                let tags = frame.get(ADDRESSES..ADDRESSES + TAGS)?.try_into().ok()?;
                let tag = Tag::from_vlan(tags)?;
                frame.copy_within(..ADDRESSES, TAGS);
                packet.cut_front(TAGS).then_some(Tagged::Onward(tag))
            }
        }
    }

    /// Writes the source address back.
    pub fn restore<P: PacketBuf>(self, packet: &mut P, tagged: Tagged, source: [u8; 6]) {
        let at = match (self, tagged) {
            // The NF may have written an address of its own, which then is its business.
            (Self::Vlan, _) => return,
            (Self::Mac, Tagged::Onward(_)) => 6,
            (Self::Mac, Tagged::Back(_)) => 0,
        };
        if let Some(address) = packet.bytes_mut().get_mut(at..at + 6) {
            address.copy_from_slice(&source);
        }
    }
}

impl Tag {
    fn to_mac(self) -> [u8; 6] {
        let way = if self.direction == Direction::Down { DIRECTION } else { 0 };
        let [high, low] = (self.bucket << 5).to_be_bytes();
        let [more, less] = self.sequence.to_be_bytes();
        let open = [FIRST, way | self.egress, high, low, more, less];
        let mut mac = open;
        mac[3] |= check(open);
        mac
    }

    fn from_mac(mac: [u8; 6]) -> Option<Self> {
        let mut open = mac;
        open[3] &= 0xe0;
        if mac[0] != FIRST || mac[3] & 0x1f != check(open) {
            return None;
        }
        let egress = mac[1] & !DIRECTION;
        (egress < 16).then_some(Self {
            direction: if mac[1] & DIRECTION == 0 { Direction::Up } else { Direction::Down },
            egress,
            bucket: u16::from_be_bytes([open[2], open[3]]) >> 5,
            sequence: u16::from_be_bytes([mac[4], mac[5]]),
        })
    }

    fn to_vlan(self) -> [u8; TAGS] {
        let way = u16::from(self.direction == Direction::Down) << 15;
        let first = way | u16::from(self.egress & 15) << 11 | self.bucket & 0x7ff;
        let words = [SERVICE_TAG, first, CUSTOMER_TAG, self.sequence];
        let mut tags = [0; TAGS];
        for (bytes, word) in tags.chunks_exact_mut(2).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        tags
    }

    fn from_vlan(tags: [u8; TAGS]) -> Option<Self> {
        let word = |at: usize| u16::from_be_bytes([tags[at], tags[at + 1]]);
        if word(0) != SERVICE_TAG || word(4) != CUSTOMER_TAG {
            return None;
        }
        let first = word(2);
        Some(Self {
            direction: if first >> 15 == 0 { Direction::Up } else { Direction::Down },
            egress: (first >> 11 & 15) as u8,
            bucket: first & 0x7ff,
            sequence: word(6),
        })
    }
}

/// The exclusive or of all groups of five bits.
fn check(open: [u8; 6]) -> u8 {
    let mut bits = open.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    let mut sum = 0;
    while bits != 0 {
        sum ^= bits as u8 & 0x1f;
        bits >>= 5;
    }
    sum
}

#[cfg(test)]
mod tests {
    use packet::HeapPacket;
    use proptest::prelude::*;

    use super::*;

    fn tags() -> impl Strategy<Value = Tag> {
        (any::<bool>(), 0..16_u8, 0..2048_u16, any::<u16>()).prop_map(
            |(down, egress, bucket, sequence)| Tag {
                direction: if down { Direction::Down } else { Direction::Up },
                egress,
                bucket,
                sequence,
            },
        )
    }

    proptest! {
        #[test]
        fn a_tag_comes_back_and_the_frame_is_as_before(
            tag in tags(), frame in prop::collection::vec(any::<u8>(), 14..100),
            vlan in any::<bool>(),
        ) {
            let tagging = if vlan { Tagging::Vlan } else { Tagging::Mac };
            let mut packet = HeapPacket::new(&frame);
            let source = tagging.put(&mut packet, tag).unwrap();
            prop_assert_ne!(packet.bytes(), &frame[..]);
            let tagged = tagging.take(&mut packet).unwrap();
            prop_assert_eq!(tagged, Tagged::Onward(tag));
            tagging.restore(&mut packet, tagged, source);
            prop_assert_eq!(packet.bytes(), &frame[..]);
        }

        #[test]
        fn a_changed_bit_of_an_address_is_no_tag_or_another_bit_is_wrong_too(
            tag in tags(), bit in 0..48_usize,
        ) {
            let mut mac = tag.to_mac();
            mac[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Tag::from_mac(mac), None);
        }
    }

    #[test]
    fn an_answer_of_the_function_goes_back() {
        let tag = Tag { direction: Direction::Up, egress: 1, bucket: 1234, sequence: 7 };
        let mut frame = [0; 60];
        frame[..12].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let mut packet = HeapPacket::new(&frame);
        let source = Tagging::Mac.put(&mut packet, tag).unwrap();
        let (destination, tagged) = packet.bytes_mut().split_at_mut(6);
        destination.swap_with_slice(&mut tagged[..6]);
        let found = Tagging::Mac.take(&mut packet).unwrap();
        assert_eq!(found, Tagged::Back(tag));
        Tagging::Mac.restore(&mut packet, found, source);
        assert_eq!(packet.bytes()[..12], [7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_tag_is_a_local_individual_address() {
        let tag = Tag { direction: Direction::Down, egress: 15, bucket: 2047, sequence: 65535 };
        assert_eq!(tag.to_mac()[0] & 3, 2, "IEEE 802c: local, not a group");
    }

    #[test]
    fn garbage_has_no_tag() {
        for length in 0..40 {
            for tagging in [Tagging::Mac, Tagging::Vlan] {
                let mut packet = HeapPacket::new(&vec![0xf2; length]);
                let found = tagging.take(&mut packet);
                assert!(found.is_none() || length >= 12, "{tagging:?} {length}");
            }
        }
    }
}
