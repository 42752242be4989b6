//! Receive side scaling: the Toeplitz hash and the redirection table.
use crate::frame::Frame;
use crate::key::{FlowType, Key, ports};

/// Length of an RSS key in bytes.
pub const RSS_KEY_LEN: usize = 40;

/// The key of Microsoft's verification suite, the default of ixgbe too.
pub const MICROSOFT_KEY: [u8; RSS_KEY_LEN] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// Two IPv6 addresses and two ports: the longest input.
const INPUT_LEN: usize = 36;

/// The Toeplitz hash of one key, tabulated per input byte.
pub struct Toeplitz {
    tables: Box<[[u32; 256]; INPUT_LEN]>,
}

impl Toeplitz {
    /// The hash with `key`.
    #[must_use]
    pub fn new(key: &[u8; RSS_KEY_LEN]) -> Self {
        let mut tables = Box::new([[0; 256]; INPUT_LEN]);
        for (position, table) in tables.iter_mut().enumerate() {
            let windows: [u32; 8] = std::array::from_fn(|bit| window(key, position * 8 + bit));
            for (byte, slot) in table.iter_mut().enumerate() {
                let set = windows.iter().enumerate().filter(|(bit, _)| byte & (0x80 >> bit) != 0);
                *slot = set.fold(0, |hash, (_, window)| hash ^ window);
            }
        }
        Self { tables }
    }

    /// The hash of `input`; bytes beyond the longest RSS input don't count.
    #[must_use]
    pub fn hash(&self, input: &[u8]) -> u32 {
        let columns = input.iter().zip(self.tables.iter());
        columns.fold(0, |hash, (byte, table)| hash ^ table[usize::from(*byte)])
    }

    /// The hash of a frame: addresses and ports of whole TCP and UDP packets,
    /// addresses of other IP packets, 0 for the rest.
    pub(crate) fn of(&self, frame: &Frame) -> u32 {
        let (key, with_ports) = match frame {
            Frame::Whole(kind, key) => (key, *kind != FlowType::Other),
            Frame::Fragment(key) => (key, false),
            Frame::NotIp => return 0,
        };
        match key {
            Key::V4(key) => {
                let mut input = [0; 12];
                input[..8].copy_from_slice(&key.addresses.to_be_bytes());
                input[8..].copy_from_slice(&ports(key.rest).to_be_bytes());
                self.hash(if with_ports { &input } else { &input[..8] })
            }
            Key::V6(key) => {
                let mut input = [0; INPUT_LEN];
                input[..16].copy_from_slice(&key.src.to_be_bytes());
                input[16..32].copy_from_slice(&key.dst.to_be_bytes());
                input[32..].copy_from_slice(&ports(key.rest).to_be_bytes());
                self.hash(if with_ports { &input } else { &input[..32] })
            }
        }
    }
}

/// The 32 bits of `key` from bit `start` on.
fn window(key: &[u8; RSS_KEY_LEN], start: usize) -> u32 {
    let bit = |at: usize| key.get(at / 8).map_or(0, |byte| u32::from(byte >> (7 - at % 8) & 1));
    (start..start + 32).fold(0, |word, at| word << 1 | bit(at))
}

/// The Toeplitz hash and the redirection table that its low bits index.
pub(crate) struct Rss {
    toeplitz: Toeplitz,
    /// A power of two of queue numbers.
    reta: Box<[u16]>,
}

impl Rss {
    /// `reta` has a power of two of entries.
    pub(crate) fn new(key: &[u8; RSS_KEY_LEN], mut reta: Vec<u16>) -> Self {
        if reta.iter().all(|queue| Some(queue) == reta.first()) {
            reta.truncate(1);
        }
        Self { toeplitz: Toeplitz::new(key), reta: reta.into() }
    }

    /// The queue among `queues` of a frame that a rule spreads over them; a
    /// driver repeats them to fill a table of its own.
    pub(crate) fn queue_of(&self, frame: &Frame, queues: &[u16]) -> u16 {
        let hash = self.toeplitz.of(frame) as usize;
        queues.get(hash % queues.len().max(1)).copied().unwrap_or(0)
    }

    /// The queue of a frame that no rule sends elsewhere.
    #[inline]
    pub(crate) fn queue(&self, frame: &Frame) -> u16 {
        if self.reta.len() == 1 {
            return self.reta.first().copied().unwrap_or(0);
        }
        let index = self.toeplitz.of(frame) as usize & (self.reta.len() - 1);
        self.reta.get(index).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    /// Microsoft, "Verifying the RSS hash calculation": destination, source,
    /// hash over addresses, hash over addresses and ports.
    #[test]
    fn microsofts_ipv4_vectors() {
        let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
        for (dst, dport, src, sport, plain, with_ports) in [
            ("161.142.100.80", 1766_u16, "66.9.149.187", 2794_u16, 0x323e_8fc2, 0x51cc_c178),
            ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718_262a, 0xc626_b0ea),
            ("12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0_a5de, 0x5c2b_394a),
            ("209.142.163.6", 2217, "38.27.205.30", 48228, 0x8298_9176, 0xafc7_327f),
            ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d18_09c5, 0x10e8_28a2),
        ] {
            let mut input = src.parse::<Ipv4Addr>().unwrap().octets().to_vec();
            input.extend(dst.parse::<Ipv4Addr>().unwrap().octets());
            assert_eq!(toeplitz.hash(&input), plain);
            input.extend(sport.to_be_bytes());
            input.extend(dport.to_be_bytes());
            assert_eq!(toeplitz.hash(&input), with_ports);
        }
    }

    #[test]
    fn microsofts_ipv6_vectors() {
        let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
        for (dst, dport, src, sport, plain, with_ports) in [
            (
                "3ffe:2501:200:3::1",
                1766_u16,
                "3ffe:2501:200:1fff::7",
                2794_u16,
                0x2cc1_8cd5,
                0x4020_7d3d,
            ),
            ("ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c_461c, 0xdde5_1bbf),
            (
                "fe80::200:f8ff:fe21:67cf",
                38024,
                "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
                44251,
                0x4b61_e985,
                0x02d1_feef,
            ),
        ] {
            let mut input = src.parse::<Ipv6Addr>().unwrap().octets().to_vec();
            input.extend(dst.parse::<Ipv6Addr>().unwrap().octets());
            assert_eq!(toeplitz.hash(&input), plain);
            input.extend(sport.to_be_bytes());
            input.extend(dport.to_be_bytes());
            assert_eq!(toeplitz.hash(&input), with_ports);
        }
    }
}
