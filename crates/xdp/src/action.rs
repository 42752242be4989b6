//! What the program does with a connection's packets; the layout is that of
//! `struct whole_action` in `bpf/table.h`.
use wire::{Encap, Mac, Rewrite, Side, checksum};

use crate::entry::halves;

/// Words of an action: sequence and interface, addresses, ports and checksums,
/// Ethernet addresses with MTU and fields; an outer header, its length and sum.
pub(crate) const WORDS: usize = 16;

/// Words of an outer header.
const OUTER: usize = 7;

/// The bits of [`mask`] for tunnels: there is one, its addresses are of IPv6, it has a
/// UDP header.
pub(crate) const TUNNEL: u16 = 16;
pub(crate) const OUTER_V6: u16 = 32;
const OUTER_UDP: u16 = 64;

/// The TTL's word in the IPv4 header after one is taken off (RFC 1624).
const TTL_DELTA: u16 = !0x0100;

/// What becomes of a packet beside its Ethernet addresses and one off its TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing (direct server return).
    None,
    /// New addresses and ports.
    Rewrite(Rewrite),
    /// An outer header comes in front.
    Tunnel {
        /// The tunnel.
        encap: Encap,
        /// Whether the packets inside are of IPv6.
        ipv6: bool,
    },
}

/// A change and a next hop. All connections of a backend that are sent to the same
/// next hop share it, unless their sources are replaced too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// What becomes of packets.
    pub change: Change,
    /// The kernel's index of the interface that the packets leave by.
    pub interface: u32,
    /// The Ethernet source: our address on that interface.
    pub source: Mac,
    /// The Ethernet destination: the next hop's.
    pub destination: Mac,
    /// The longest datagram that the interface takes, in bytes; packets that are longer
    /// when they leave go up.
    pub mtu: u16,
}

impl Action {
    /// The words that the program reads; the sequence is zero.
    pub(crate) fn words(&self) -> [u64; WORDS] {
        let mut addresses = [0; 4];
        let (mut ports, mut transport, mut net, mut fields) = ([0; 4], 0, TTL_DELTA, 0);
        let (mut outer, mut mtu) = ([0; OUTER + 1], self.mtu);
        match &self.change {
            Change::Rewrite(Rewrite::V4(plan)) => {
                addresses[0] = u64::from_le_bytes(plan.addresses);
                (ports, transport) = (plan.ports, plan.transport_delta);
                net = checksum::combine(plan.net_delta, TTL_DELTA);
                fields = mask(plan.side, plan.port_side);
            }
            Change::Rewrite(Rewrite::V6(plan)) => {
                let [source, destination] = split(plan.addresses).map(halves);
                addresses = [source.0, source.1, destination.0, destination.1];
                (ports, transport) = (plan.ports, plan.transport_delta);
                fields = mask(plan.side, plan.port_side);
            }
            Change::Tunnel { encap, ipv6 } => {
                outer = outer_words(encap, *ipv6);
                mtu = mtu.saturating_sub(encap.overhead());
                fields = TUNNEL
                    | if encap.is_ipv6() { OUTER_V6 } else { 0 }
                    | if encap.tunnel().port().is_some() { OUTER_UDP } else { 0 };
            }
            Change::None => {}
        }
        let [p, q, r, s] = ports;
        let ([t, u], [n, m]) = (transport.to_be_bytes(), net.to_be_bytes());
        let first = [
            u64::from(self.interface) << 32,
            u64::from_le_bytes([p, q, r, s, t, u, n, m]),
            with_mac(self.destination, mtu),
            with_mac(self.source, fields),
        ];
        join(first, addresses, outer)
    }
}

/// The words in the order of memory.
const fn join(
    [version, ports, destination, source]: [u64; 4],
    [a, b, c, d]: [u64; 4],
    [e, f, g, h, i, j, k, l]: [u64; OUTER + 1],
) -> [u64; WORDS] {
    [version, a, b, c, d, ports, destination, source, e, f, g, h, i, j, k, l]
}

/// `struct outer` of `bpf/table.h`.
fn outer_words(encap: &Encap, ipv6_inside: bool) -> [u64; OUTER + 1] {
    let header = encap.of_family(ipv6_inside);
    let mut words = [0; OUTER + 1];
    for (word, bytes) in words.iter_mut().zip(header.chunks(8)) {
        let mut whole = [0; 8];
        whole.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        *word = u64::from_le_bytes(whole);
    }
    let sum = match encap.is_ipv6() {
        true => 0,
        false => checksum::fold(checksum::sum(header.get(..20).unwrap_or_default(), 0)),
    };
    let ([a, b], [c, d]) = (encap.overhead().to_le_bytes(), sum.to_be_bytes());
    let [.., last] = &mut words;
    *last = u64::from_le_bytes([a, b, c, d, 0, 0, 0, 0]);
    words
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
