//! Every flow has a 5-tuple of its own.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::net::SocketAddr;

use proptest::prelude::*;
use traffic::Flows;
use wire::{FlowKey, Transport};

fn vip(v6: bool) -> SocketAddr {
    if v6 { "[fd71::100]:443" } else { "192.0.2.1:80" }.parse().unwrap()
}

#[test]
fn four_million_flows_are_four_million_tuples() {
    let flows = Flows::new(Transport::Udp, vip(false), 0);
    let tuple = |index| match flows.key(index) {
        FlowKey::V4(key) => u64::from(key.src.to_bits()) << 16 | u64::from(key.sport),
        FlowKey::V6(_) => unreachable!("the VIP is an IPv4 address"),
    };
    let mut tuples: Vec<u64> = (0..1 << 22).map(tuple).collect();
    tuples.sort_unstable();
    tuples.dedup();
    assert_eq!(tuples.len(), 1 << 22);
}

#[test]
fn neighbours_in_index_are_not_neighbours_in_address() {
    let flows = Flows::new(Transport::Tcp, vip(false), 0);
    let clients: HashSet<_> = (0..1000).map(|index| flows.key(index).src().ip()).collect();
    assert!(clients.len() > 950, "{}", clients.len());
}

proptest! {
    #[test]
    fn the_tuple_leads_back_to_the_index(index: u32, seed: u32, v6: bool, tcp: bool) {
        let proto = if tcp { Transport::Tcp } else { Transport::Udp };
        let flows = Flows::new(proto, vip(v6), seed);
        let key = flows.key(index);
        prop_assert_eq!(flows.index(&key), Some(index));
        prop_assert_eq!((key.dst(), key.proto()), (vip(v6), proto));
        prop_assert!(key.src().port() >= 1 << 15);
        prop_assert_eq!(flows.index(&key.reversed()), None);
        let strange = Flows::new(proto, vip(!v6), seed).key(index);
        prop_assert_eq!(flows.index(&strange), None);
    }
}
