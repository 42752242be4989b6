//! The Toeplitz hash of a 5-tuple, as NICs compute it for receive side scaling
//! (Microsoft, "RSS hashing types" and "Verifying the RSS hash calculation").
use wire::FlowKey;

/// The key of Microsoft's verification suite. Stated, so that several load
/// balancers agree, and a NIC that is given it.
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];
/// Two IPv6 addresses and two ports: the longest input.
const INPUT: usize = 36;
/// What each value of each byte of the input adds.
static TABLES: [[u32; 256]; INPUT] = tables();

/// The hash of addresses and ports: source address, destination address, source
/// port, destination port.
pub(crate) fn flow(flow: &FlowKey) -> u32 {
    let mut input = [0; INPUT];
    let length = match flow {
        FlowKey::V4(f) => {
            let words = [f.src.to_bits(), f.dst.to_bits(), ports(f.sport, f.dport)];
            input.iter_mut().zip(words.map(u32::to_be_bytes).as_flattened()).for_each(copy);
            12
        }
        FlowKey::V6(f) => {
            let addresses = [f.src.to_bits(), f.dst.to_bits()].map(u128::to_be_bytes);
            let ports = ports(f.sport, f.dport).to_be_bytes();
            let all = addresses.as_flattened().iter().chain(&ports);
            input.iter_mut().zip(all).for_each(copy);
            INPUT
        }
    };
    let added = input.iter().zip(&TABLES).take(length);
    added.fold(0, |hash, (byte, table)| hash ^ table.get(usize::from(*byte)).unwrap_or(&0))
}

fn copy((to, from): (&mut u8, &u8)) {
    *to = *from;
}

fn ports(source: u16, destination: u16) -> u32 {
    u32::from(source) << 16 | u32::from(destination)
}

#[allow(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const fn tables() -> [[u32; 256]; INPUT] {
    let mut tables = [[0; 256]; INPUT];
    let mut at = 0;
    while at < INPUT {
        // The 32 bits of the key from the byte on, and the 8 behind them.
        let (mut window, mut byte) = (0_u64, at);
        while byte < at + 5 {
            window = window << 8 | if byte < KEY.len() { KEY[byte] as u64 } else { 0 };
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
    tables
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use wire::Transport;

    use super::*;

    /// Microsoft's verification suite.
    #[test]
    fn the_published_hashes() {
        for (client, server, expected) in [
            ("66.9.149.187:2794", "161.142.100.80:1766", 0x51cc_c178),
            ("199.92.111.2:14230", "65.69.140.83:4739", 0xc626_b0ea),
            ("24.19.198.95:12898", "12.22.207.184:38024", 0x5c2b_394a),
            ("38.27.205.30:48228", "209.142.163.6:2217", 0xafc7_327f),
            ("153.39.163.191:44251", "202.188.127.2:1303", 0x10e8_28a2),
            ("[3ffe:2501:200:1fff::7]:2794", "[3ffe:2501:200:3::1]:1766", 0x4020_7d3d),
            ("[3ffe:501:8::260:97ff:fe40:efab]:14230", "[ff02::1]:4739", 0xdde5_1bbf),
            (
                "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
                "[fe80::200:f8ff:fe21:67cf]:38024",
                0x02d1_feef,
            ),
        ] {
            let [src, dst]: [SocketAddr; 2] = [client, server].map(|end| end.parse().unwrap());
            let key = FlowKey::new(Transport::Udp, src, dst).unwrap();
            assert_eq!(flow(&key), expected, "{client} to {server}");
        }
    }
}
