//! What the program does with a connection's packets; the layout is that of
//! `struct action` in `bpf/forward.h`.
use wire::{Mac, Rewrite, Side, checksum};

use crate::entry::halves;

/// Words of an action: sequence and interface, addresses, ports and checksums,
/// Ethernet addresses with MTU and fields.
pub(crate) const WORDS: usize = 8;

/// The TTL's word in the IPv4 header after one is taken off (RFC 1624).
const TTL_DELTA: u16 = !0x0100;

/// A rewrite and a next hop. All connections of a backend that are sent to the same
/// next hop share it, unless their sources are replaced too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// The new addresses and ports; `None` leaves them (direct server return).
    pub rewrite: Option<Rewrite>,
    /// The kernel's index of the interface that the packets leave by.
    pub interface: u32,
    /// The Ethernet source: our address on that interface.
    pub source: Mac,
    /// The Ethernet destination: the next hop's.
    pub destination: Mac,
    /// The longest datagram that the interface takes, in bytes; longer ones go up.
    pub mtu: u16,
}

impl Action {
    /// The words that the program reads; the sequence is zero.
    pub(crate) fn words(&self) -> [u64; WORDS] {
        let mut addresses = [0; 4];
        let (mut ports, mut transport, mut net, mut fields) = ([0; 4], 0, TTL_DELTA, 0);
        match &self.rewrite {
            Some(Rewrite::V4(plan)) => {
                addresses[0] = u64::from_le_bytes(plan.addresses);
                (ports, transport) = (plan.ports, plan.transport_delta);
                net = checksum::combine(plan.net_delta, TTL_DELTA);
                fields = mask(plan.side, plan.port_side);
            }
            Some(Rewrite::V6(plan)) => {
                let [source, destination] = split(plan.addresses).map(halves);
                addresses = [source.0, source.1, destination.0, destination.1];
                (ports, transport) = (plan.ports, plan.transport_delta);
                fields = mask(plan.side, plan.port_side);
            }
            None => {}
        }
        let [p, q, r, s] = ports;
        let ([t, u], [n, m]) = (transport.to_be_bytes(), net.to_be_bytes());
        let [a, b, c, d] = addresses;
        [
            u64::from(self.interface) << 32,
            a,
            b,
            c,
            d,
            u64::from_le_bytes([p, q, r, s, t, u, n, m]),
            with_mac(self.destination, self.mtu),
            with_mac(self.source, fields),
        ]
    }
}

fn with_mac(Mac([a, b, c, d, e, f]): Mac, upper: u16) -> u64 {
    let [g, h] = upper.to_le_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

fn split(pair: [u8; 32]) -> [[u8; 16]; 2] {
    let mut halves = [[0; 16]; 2];
    for (half, from) in halves.iter_mut().zip(pair.chunks_exact(16)) {
        half.copy_from_slice(from);
    }
    halves
}

/// Which fields are written, as bits.
fn mask(side: Side, ports: Option<Side>) -> u16 {
    u16::from(side.source())
        | u16::from(side.destination()) << 1
        | u16::from(ports.is_some_and(Side::source)) << 2
        | u16::from(ports.is_some_and(Side::destination)) << 3
}
