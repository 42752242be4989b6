//! Tunnels as rules say them: new headers in the place of Ethernet's.
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dpdk::flow::{Action, Field, Item, Match};
use wire::{Encap, FlowKey, Mac, Tunnel};

/// A kind of tunnel as cards tell them apart: by the length of its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TunnelType {
    /// What is between the IP headers; GUE's port doesn't matter.
    pub tunnel: Tunnel,
    /// IPv6 outside rather than IPv4.
    pub ipv6: bool,
}

impl TunnelType {
    /// The number of types.
    pub const COUNT: usize = 2 * Tunnel::ALL.len();

    /// All of them, in the order of [`index`](Self::index).
    pub const ALL: [Self; Self::COUNT] = {
        let mut all = [Self { tunnel: Tunnel::Ipip, ipv6: false }; Self::COUNT];
        let mut at = 0;
        while at < Self::COUNT {
            let kinds = Tunnel::ALL.len();
            all[at] = Self { tunnel: Tunnel::ALL[at % kinds], ipv6: at >= kinds };
            at += 1;
        }
        all
    };

    /// The type of the tunnel `encap`.
    #[must_use]
    pub const fn of(encap: &Encap) -> Self {
        Self { tunnel: encap.tunnel(), ipv6: encap.is_ipv6() }
    }

    /// Its place in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        let kind = self.tunnel.kind();
        if self.ipv6 { Tunnel::ALL.len() + kind } else { kind }
    }

    /// A tunnel between addresses reserved for documentation.
    pub(crate) fn example(self) -> Option<Encap> {
        let address = |last: u8| match self.ipv6 {
            true => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into())),
            false => IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)),
        };
        Encap::new(self.tunnel, address(5), address(6), 64)
    }
}

impl fmt::Display for TunnelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tunnel = self.tunnel.mode();
        write!(f, "{tunnel} over {}", if self.ipv6 { "IPv6" } else { "IPv4" })
    }
}

/// Bytes of an Ethernet header without tags.
const ETHERNET: usize = 14;
/// The traffic class in an IPv6 header's first four bytes.
const TRAFFIC_CLASS: u32 = 0x0ff0_0000;

/// The Ethernet header goes and another comes, from `source` to `to`, with the
/// outer headers of `flow`'s packets behind it. Lengths and the IPv4 checksum
/// are the card's affair.
pub(crate) fn enter(encap: &Encap, flow: &FlowKey, source: Mac, to: Mac) -> [Action; 2] {
    let kind: u16 = if encap.is_ipv6() { 0x86dd } else { 0x0800 };
    let outer = encap.of_flow(flow);
    let headers = [&to.0[..], &source.0[..], &kind.to_be_bytes(), &outer].concat();
    [Action::RawDecap(vec![0; ETHERNET]), Action::RawEncap(headers)]
}

/// Leaves to software what has a traffic class: it goes to the outer header
/// (RFC 6040), which a rule has once for all packets.
pub(crate) fn without_class(item: &mut Item) {
    match item {
        Item::Ipv4(Match::Fields(fields)) => fields.tos = Field { spec: 0, mask: u8::MAX },
        Item::Ipv6(Match::Fields(fields)) => {
            fields.vtc_flow = Field { spec: 0, mask: TRAFFIC_CLASS };
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_its_own_place_and_is_that_of_its_example() {
        for (at, kind) in TunnelType::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), at);
            assert_eq!(TunnelType::of(&kind.example().unwrap()), kind);
        }
        assert_eq!(TunnelType::ALL[7].to_string(), "geneve over IPv6");
    }
}
