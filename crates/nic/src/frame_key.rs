//! What the card's parser finds in a frame.
use wire::{Fragment, Headers, Net, Transport};

use crate::key::{FlowType, Key, KeyV4, KeyV6, rest};

/// A frame as the filters and RSS see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKey {
    /// A whole IP datagram; ports are 0 unless it is TCP or UDP.
    Whole(FlowType, Key),
    /// A fragment: addresses only, never matched by a filter.
    Fragment(Key),
    /// Not IP, or malformed.
    NotIp,
}

impl FrameKey {
    /// Parses `frame`, from the first byte of the Ethernet header. One VLAN
    /// tag is stepped over.
    #[inline]
    pub(crate) fn parse(frame: &[u8]) -> Self {
        let Ok(headers) = Headers::parse(frame) else { return Self::NotIp };
        let transport = Transport::from_number(headers.proto);
        let ports = if headers.fragment == Fragment::Whole { headers.ports(frame) } else { None };
        let (sport, dport) = ports.unwrap_or((0, 0));
        let rest = rest(sport, dport, headers.proto);
        let Some(key) = addresses(&headers, frame, rest) else { return Self::NotIp };
        if headers.fragment != Fragment::Whole {
            return Self::Fragment(key);
        }
        let kind = match transport {
            Some(Transport::Tcp) => FlowType::Tcp,
            Some(Transport::Udp) => FlowType::Udp,
            None => FlowType::Other,
        };
        Self::Whole(kind, key)
    }
}

#[inline]
fn addresses(headers: &Headers, frame: &[u8], rest: u64) -> Option<Key> {
    let l3 = frame.get(usize::from(headers.l3)..)?;
    match headers.net {
        Net::Ipv4 => {
            let both: [u8; 8] = *l3.get(12..)?.first_chunk()?;
            Some(Key::V4(KeyV4 { addresses: u64::from_be_bytes(both), rest }))
        }
        Net::Ipv6 => {
            let src: [u8; 16] = *l3.get(8..)?.first_chunk()?;
            let dst: [u8; 16] = *l3.get(24..)?.first_chunk()?;
            let (src, dst) = (u128::from_be_bytes(src), u128::from_be_bytes(dst));
            Some(Key::V6(KeyV6 { src, dst, rest }))
        }
        Net::Arp | Net::Other(_) => None,
    }
}
