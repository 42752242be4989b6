//! What an outer header takes from the packet inside.
use crate::bytes::array;
use crate::fast_header::FastHeader;
use crate::flow_key::FlowKey;
use crate::headers::{Fragment, Headers, Net};
use crate::numbers::protocol;

/// A packet that goes into a tunnel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner {
    pub(crate) ipv6: bool,
    /// Header and data, in bytes.
    pub(crate) length: u16,
    pub(crate) traffic_class: u8,
    /// A hash of the flow. All fragments of a datagram have one hash, which is why
    /// ports count in whole packets only.
    pub(crate) entropy: u32,
}

impl Inner {
    /// The IP packet of `frame`; `None` if it has none.
    #[inline]
    pub(crate) fn of(frame: &[u8], headers: &Headers) -> Option<Self> {
        let packet = frame.get(headers.l3.into()..headers.end.into())?;
        let length = headers.end - headers.l3;
        let ports = match (headers.fragment, headers.proto) {
            (Fragment::Whole, protocol::TCP | protocol::UDP) => {
                u32::from_be_bytes(array(frame, headers.l4.into())?)
            }
            _ => 0,
        };
        let (ipv6, traffic_class, addresses) = match headers.net {
            Net::Ipv4 => {
                let ip = packet.first_chunk::<20>()?;
                let addresses: [u8; 8] = array(ip, 12)?;
                (false, ip[1], u64::from_be_bytes(addresses))
            }
            Net::Ipv6 => {
                let ip = packet.first_chunk::<40>()?;
                let words = ip[8..].chunks_exact(8).filter_map(|word| word.first_chunk::<8>());
                let hash = words.fold(0, |hash, word| mix(hash, u64::from_be_bytes(*word)));
                (true, ip[0] << 4 | ip[1] >> 4, hash)
            }
            Net::Arp | Net::Other(_) => return None,
        };
        Some(Self { ipv6, length, traffic_class, entropy: entropy(addresses, ports) })
    }

    /// The packet of `frame` that has the fast header `header` behind `l3` bytes;
    /// `None` if the frame is too short for that.
    #[inline]
    pub(crate) fn of_fast<const K: usize>(
        frame: &[u8],
        l3: usize,
        header: &FastHeader<K>,
    ) -> Option<Self> {
        let ip = frame.get(l3..)?.first_chunk::<2>()?;
        let (length, ports) = (u16::try_from(header.length).ok()?, u32::from_be(header.ports));
        let (ipv6, traffic_class, addresses) = match header.addresses.as_slice() {
            [whole] => (false, ip[1], u64::from_be(*whole)),
            words => {
                let hash = words.iter().fold(0, |hash, word| mix(hash, u64::from_be(*word)));
                (true, ip[0] << 4 | ip[1] >> 4, hash)
            }
        };
        Some(Self { ipv6, length, traffic_class, entropy: entropy(addresses, ports) })
    }

    /// A whole packet of `flow`, of traffic class 0 and no length yet.
    pub(crate) fn of_flow(flow: &FlowKey) -> Self {
        let (src, dst) = (flow.src(), flow.dst());
        let ports = u32::from(src.port()) << 16 | u32::from(dst.port());
        let (ipv6, addresses) = match flow {
            FlowKey::V4(key) => {
                (false, u64::from(u32::from(key.src)) << 32 | u64::from(u32::from(key.dst)))
            }
            FlowKey::V6(key) => {
                let halves = [key.src, key.dst].map(u128::from).into_iter();
                let words = halves.flat_map(|addr| [(addr >> 64) as u64, addr as u64]);
                (true, words.fold(0, mix))
            }
        };
        Self { ipv6, length: 0, traffic_class: 0, entropy: entropy(addresses, ports) }
    }

    /// A packet of no flow, of traffic class 0 and no length yet.
    pub(crate) const fn of_family(ipv6: bool) -> Self {
        Self { ipv6, length: 0, traffic_class: 0, entropy: 0 }
    }
}

fn entropy(addresses: u64, ports: u32) -> u32 {
    (mix(mix(0, addresses), u64::from(ports)) >> 32) as u32
}

const fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 29
}
