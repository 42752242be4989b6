//! From a flow's index to its 5-tuple and back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wire::{FlowKey, Transport};

/// Bits of a flow's number that go into the client's port; ports start at 2^15.
const PORT_BITS: u32 = 15;

/// The clients of one VIP: every index has a 5-tuple of its own.
///
/// The index is scrambled by a bijection on 32 bits first, so that neighbours
/// in index are no neighbours in address or port (the ranks of [`crate::Zipf`]
/// say nothing about the 5-tuple); 15 bits of the result are the client's port
/// (32768 to 65535) and 17 bits its address within a /15 (IPv6: a /111).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flows {
    transport: Transport,
    vip: SocketAddr,
    seed: u32,
}

impl Flows {
    /// Network of the IPv4 clients, 10.128.0.0/15.
    pub const CLIENTS_V4: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);
    /// Network of the IPv6 clients, fd80::/111.
    pub const CLIENTS_V6: Ipv6Addr = Ipv6Addr::new(0xfd80, 0, 0, 0, 0, 0, 0, 0);

    /// The flows towards a VIP, of its address family.
    #[must_use]
    pub const fn new(transport: Transport, vip: SocketAddr, seed: u32) -> Self {
        Self { transport, vip, seed }
    }

    /// The 5-tuple of a flow, as its client's packets carry it.
    #[must_use]
    pub fn key(&self, index: u32) -> FlowKey {
        let number = scramble(index ^ self.seed);
        let (client, low) = (number >> PORT_BITS, number & ((1 << PORT_BITS) - 1));
        let sport = 1 << PORT_BITS | low as u16;
        match self.vip {
            SocketAddr::V4(vip) => FlowKey::V4(wire::FlowV4 {
                src: Ipv4Addr::from_bits(Self::CLIENTS_V4.to_bits() | client),
                dst: *vip.ip(),
                sport,
                dport: vip.port(),
                proto: self.transport,
            }),
            SocketAddr::V6(vip) => FlowKey::V6(wire::FlowV6 {
                src: Ipv6Addr::from_bits(Self::CLIENTS_V6.to_bits() | u128::from(client)),
                dst: *vip.ip(),
                sport,
                dport: vip.port(),
                proto: self.transport,
            }),
        }
    }

    /// The flow with this 5-tuple, if it is one of these.
    #[must_use]
    pub fn index(&self, key: &FlowKey) -> Option<u32> {
        let src = key.src();
        let client = match src.ip() {
            IpAddr::V4(v4) => v4.to_bits() ^ Self::CLIENTS_V4.to_bits(),
            IpAddr::V6(v6) => u32::try_from(v6.to_bits() ^ Self::CLIENTS_V6.to_bits()).ok()?,
        };
        let low = u32::from(src.port()).checked_sub(1 << PORT_BITS)?;
        let ours = key.proto() == self.transport
            && key.dst() == self.vip
            && client >> (u32::BITS - PORT_BITS) == 0;
        ours.then(|| unscramble(client << PORT_BITS | low) ^ self.seed)
    }
}

/// Odd factors and xor-shifts: each step can be undone, so all of it can.
const FACTORS: [u32; 2] = [0x9e37_79b1, 0x85eb_ca77];
/// The factors' inverses modulo 2^32.
const INVERSES: [u32; 2] = [inverse(FACTORS[0]), inverse(FACTORS[1])];

const fn scramble(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(FACTORS[0]);
    x ^= x >> 16;
    x = x.wrapping_mul(FACTORS[1]);
    x ^ (x >> 16)
}

const fn unscramble(mut x: u32) -> u32 {
    // x ^ (x >> 16) undoes itself.
    x ^= x >> 16;
    x = x.wrapping_mul(INVERSES[1]);
    x ^= x >> 16;
    x = x.wrapping_mul(INVERSES[0]);
    x ^ (x >> 16)
}

/// Inverse of an odd number modulo 2^32, by Newton's iteration: each step
/// doubles the bits that are right, from 3 on.
const fn inverse(odd: u32) -> u32 {
    let mut x = odd;
    let mut bits = 3;
    while bits < 32 {
        x = x.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(x)));
        bits *= 2;
    }
    x
}
