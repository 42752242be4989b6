//! The Toeplitz hash with which NICs spread packets over their receive queues
//! (Microsoft, "RSS hashing types" and "Verifying the RSS hash calculation").
use std::fmt;

use crate::FlowKey;
use crate::flow_hash::INPUT_LEN;
use crate::numbers::{ethertype, protocol};

/// Length of an RSS key in bytes.
pub const RSS_KEY_LEN: usize = 40;

/// The key of Microsoft's verification suite, the default of ixgbe too.
pub const MICROSOFT_KEY: [u8; RSS_KEY_LEN] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// The Toeplitz hash of one key, tabulated per input byte.
pub struct Toeplitz {
    tables: [[u32; 256]; INPUT_LEN],
}

impl fmt::Debug for Toeplitz {
    /// Without the tables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toeplitz").finish_non_exhaustive()
    }
}

impl Toeplitz {
    /// The hash with `key`. The tables have 36 KiB.
    #[must_use]
    #[allow(clippy::indexing_slicing, reason = "loops of const functions need indices")]
    pub const fn new(key: &[u8; RSS_KEY_LEN]) -> Self {
        let mut tables = [[0; 256]; INPUT_LEN];
        let mut at = 0;
        while at < INPUT_LEN {
            // The 32 bits of the key from the byte on, and the 8 behind them.
            let (mut window, mut byte) = (0_u64, at);
            while byte < at + 5 {
                window = window << 8 | if byte < RSS_KEY_LEN { key[byte] as u64 } else { 0 };
                byte += 1;
            }
            let mut value = 0;
            while value < 256 {
                let mut bit = 0;
                while bit < 8 {
                    if value & 0x80 >> bit != 0 {
                        tables[at][value] ^= (window >> (8 - bit)) as u32;
                    }
                    bit += 1;
                }
                value += 1;
            }
            at += 1;
        }
        Self { tables }
    }

    /// The hash of `input`; bytes beyond the longest RSS input don't count.
    #[must_use]
    pub fn hash(&self, input: &[u8]) -> u32 {
        let columns = input.iter().zip(self.tables.iter());
        columns.fold(0, |hash, (byte, table)| hash ^ table[usize::from(*byte)])
    }

    /// The hash of a 5-tuple: source address, destination address, source port,
    /// destination port.
    #[must_use]
    pub fn flow(&self, flow: &FlowKey) -> u32 {
        let mut room = [0; INPUT_LEN];
        self.hash(flow.hash_input(&mut room))
    }

    /// The hash over addresses and ports of a whole TCP or UDP packet, without options, in
    /// a frame with one VLAN tag at most. `None`: it is none of those.
    #[must_use]
    pub fn frame(&self, frame: &[u8]) -> Option<u32> {
        let ports = |protocol: u8| matches!(protocol, protocol::TCP | protocol::UDP);
        let kind_at = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let tag = if kind_at(12)? == ethertype::VLAN { 4 } else { 0 };
        let packet = frame.get(14 + tag..)?;
        // In both families the addresses are followed by the ports.
        let input = match kind_at(12 + tag)? {
            ethertype::IPV4 => {
                let head: &[u8; 10] = packet.first_chunk()?;
                let whole = u16::from_be_bytes([head[6], head[7]]) & 0x3fff == 0;
                (head[0] == 0x45 && whole && ports(head[9])).then(|| packet.get(12..24))?
            }
            ethertype::IPV6 => ports(*packet.get(6)?).then(|| packet.get(8..44))?,
            _ => None,
        };
        input.map(|input| self.hash(input))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::Transport;

    /// Microsoft's verification suite: destination, source, hash over addresses,
    /// hash over addresses and ports.
    #[test]
    fn microsofts_vectors_come_out() {
        let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
        for (dst, src, addresses, with_ports) in [
            ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
            ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
            ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
            ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
            ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
            ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
            ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
            (
                "[fe80::200:f8ff:fe21:67cf]:38024",
                "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
                0x4b61_e985,
                0x02d1_feef,
            ),
        ] {
            let [src, dst]: [SocketAddr; 2] = [src, dst].map(|end| end.parse().unwrap());
            let key = FlowKey::new(Transport::Udp, src, dst).unwrap();
            assert_eq!(toeplitz.flow(&key), with_ports, "{src} to {dst}");
            let bytes = |end: SocketAddr| match end.ip() {
                std::net::IpAddr::V4(address) => address.octets().to_vec(),
                std::net::IpAddr::V6(address) => address.octets().to_vec(),
            };
            let input = [bytes(src), bytes(dst)].concat();
            assert_eq!(toeplitz.hash(&input), addresses, "{src} to {dst}");
        }
    }

    #[test]
    fn a_frame_has_the_hash_of_its_flow() {
        use etherparse::PacketBuilder;
        let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
        let mut v4 = Vec::new();
        let build = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(
            [66, 9, 149, 187],
            [161, 142, 100, 80],
            9,
        );
        build.tcp(2794, 1766, 1, 100).write(&mut v4, b"x").unwrap();
        assert_eq!(toeplitz.frame(&v4), Some(0x51cc_c178));
        let mut tagged = [&v4[..12], &[0x81, 0, 0, 7], &v4[12..]].concat();
        assert_eq!(toeplitz.frame(&tagged), Some(0x51cc_c178));
        tagged[18 + 7] = 1;
        assert_eq!(toeplitz.frame(&tagged), None, "a fragment");
        let mut v6 = Vec::new();
        let [src, dst] = ["3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1"]
            .map(|text| text.parse::<std::net::Ipv6Addr>().unwrap().octets());
        let build = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6(src, dst, 9);
        build.udp(2794, 1766).write(&mut v6, b"").unwrap();
        assert_eq!(toeplitz.frame(&v6), Some(0x4020_7d3d));
        for length in 0..v4.len() {
            let hash = toeplitz.frame(&v4[..length]);
            assert_eq!(hash.is_some(), length >= 38, "{length} bytes");
        }
    }
}
