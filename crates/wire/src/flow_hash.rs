//! The bytes of a 5-tuple that NICs hash, and the hash of their match tables.
use crate::FlowKey;

/// Two IPv6 addresses and two ports: the longest input.
pub const INPUT_LEN: usize = 36;

impl FlowKey {
    /// What NICs hash of the 5-tuple: source address, destination address, source
    /// port, destination port, in network byte order.
    #[must_use]
    pub fn hash_input<'a>(&self, room: &'a mut [u8; INPUT_LEN]) -> &'a [u8] {
        match self {
            Self::V4(f) => {
                room[..4].copy_from_slice(&f.src.octets());
                room[4..8].copy_from_slice(&f.dst.octets());
                room[8..10].copy_from_slice(&f.sport.to_be_bytes());
                room[10..12].copy_from_slice(&f.dport.to_be_bytes());
                &room[..12]
            }
            Self::V6(f) => {
                room[..16].copy_from_slice(&f.src.octets());
                room[16..32].copy_from_slice(&f.dst.octets());
                room[32..34].copy_from_slice(&f.sport.to_be_bytes());
                room[34..].copy_from_slice(&f.dport.to_be_bytes());
                room
            }
        }
    }

    /// The CRC-32 (IEEE 802.3) of [`Self::hash_input`]: the hash by which tables
    /// of rules by index find a rule (`RTE_FLOW_TABLE_HASH_FUNC_CRC32`).
    #[must_use]
    pub fn crc32(&self) -> u32 {
        crc32fast::hash(self.hash_input(&mut [0; INPUT_LEN]))
    }
}

#[cfg(test)]
mod tests {
    use crate::Transport;

    use super::*;

    #[test]
    fn the_hash_is_the_crc_of_ethernet() {
        // Bit by bit, as IEEE 802.3 has it.
        let crc = |bytes: &[u8]| {
            let each = |crc: u32, byte: &u8| {
                (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                    (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
                })
            };
            !bytes.iter().fold(u32::MAX, each)
        };
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
        for (src, dst) in
            [("10.0.0.1:5000", "203.0.113.1:53"), ("[2001:db8::1]:5000", "[2001:db8::2]:53")]
        {
            let key = FlowKey::new(Transport::Udp, src.parse().unwrap(), dst.parse().unwrap());
            let key = key.unwrap();
            let mut room = [0; INPUT_LEN];
            assert_eq!(key.crc32(), crc(key.hash_input(&mut room)));
        }
    }
}
