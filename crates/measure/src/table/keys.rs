//! From a connection's number to its keys.
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use dpdk::hash::HashKey;
use flow::{BackendId, Direction, ServiceId};
use service::{Binding, Forwarding};
use wire::{FlowKey, Transport};

const VIP: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// The client of connection `n`: clients with 16,384 ports each, in no order.
/// DPDK's CRC is linear: of consecutive ones it reaches a part of the buckets.
fn client(n: u32) -> (Ipv4Addr, u16) {
    let n = scatter(n);
    (Ipv4Addr::from_bits(0x0a00_0000 + (n >> 14)), 1024 + (n & 0x3fff) as u16)
}

/// A bijection that leaves no order.
const fn scatter(n: u32) -> u32 {
    let n = (n ^ n >> 16).wrapping_mul(0x9e37_79b1);
    let n = (n ^ n >> 15).wrapping_mul(0x85eb_ca77);
    n ^ n >> 16
}

/// Everything about connection `n`, mode `nat`.
pub(super) fn binding(n: u32) -> Binding {
    let (address, port) = client(n);
    let client = SocketAddr::new(IpAddr::V4(address), port);
    let server = Ipv4Addr::new(172, 16, 0, 1 + (n & 3) as u8);
    Binding {
        proto: Transport::Tcp,
        service: ServiceId(0),
        backend: BackendId((n & 3) as u16),
        forwarding: Forwarding::Rewrite,
        client,
        vip: SocketAddr::new(IpAddr::V4(VIP), 443),
        server: SocketAddr::new(IpAddr::V4(server), 8443),
        local: client,
    }
}

/// What packets of one direction of connection `n` carry.
pub(super) fn flow(n: u32, direction: Direction) -> Option<FlowKey> {
    binding(n).key(direction)
}

/// Connection `n` as a key of rte_hash: the forward 5-tuple, padded.
pub(super) fn hash_key(n: u32) -> HashKey {
    let (address, port) = client(n);
    let mut key = [0; 16];
    key[..4].copy_from_slice(&address.octets());
    key[4..8].copy_from_slice(&VIP.octets());
    key[8..10].copy_from_slice(&port.to_be_bytes());
    key[10..12].copy_from_slice(&443_u16.to_be_bytes());
    key[12] = Transport::Tcp.number();
    key
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_connection_has_its_own_keys() {
        let numbers = (0..40_000).chain((1 << 28)..(1 << 28) + 40_000);
        let mut seen = HashSet::new();
        let mut keys = HashSet::new();
        for n in numbers {
            for direction in Direction::BOTH {
                assert!(seen.insert(flow(n, direction).unwrap()), "{n}");
            }
            assert!(keys.insert(hash_key(n)), "{n}");
        }
    }
}
