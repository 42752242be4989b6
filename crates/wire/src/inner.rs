//! What an outer header takes from the packet inside.
use crate::bytes::{array, be16};
use crate::checksum;
use crate::headers::{Fragment, Headers, Net};
use crate::numbers::protocol;

/// A packet that goes into a tunnel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner {
    pub(crate) ipv6: bool,
    /// Header and data, in bytes.
    pub(crate) length: u16,
    pub(crate) traffic_class: u8,
    /// A hash of the flow. All fragments of a datagram have the same, which is
    /// why ports count in whole packets only.
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
        let entropy = (mix(mix(0, addresses), u64::from(ports)) >> 32) as u32;
        Some(Self { ipv6, length, traffic_class, entropy })
    }

    /// The ones' complement sum over the whole packet.
    ///
    /// Where TCP or UDP has a checksum of its own, header and data together
    /// with their pseudo-header sum up to zero, so that nobody has to look at
    /// the data again. If that checksum is wrong, so is the sum, and whoever
    /// opens the tunnel drops what the receiver would have dropped.
    pub(crate) fn sum(&self, frame: &[u8], headers: &Headers) -> Option<u16> {
        let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
        let packet = frame.get(l3..headers.end.into())?;
        let data = headers.end.checked_sub(headers.l4)?;
        // A source route hides the destination that the pseudo-header has.
        let front = packet.get(..l4.checked_sub(l3)?)?;
        let bare = front.len() == if self.ipv6 { 40 } else { 20 };
        let covered = bare && headers.fragment == Fragment::Whole && covers(frame, headers, data);
        if !covered {
            return Some(checksum::fold(checksum::sum(packet, 0)));
        }
        let addresses = packet.get(if self.ipv6 { 8..40 } else { 12..20 })?;
        let words = u32::from(headers.proto) + u32::from(data);
        let pseudo = checksum::fold(checksum::sum(addresses, words));
        Some(checksum::fold(checksum::sum(front, u32::from(!pseudo))))
    }
}

/// Whether the transport has a checksum, over all `data` bytes.
fn covers(frame: &[u8], headers: &Headers, data: u16) -> bool {
    let l4 = usize::from(headers.l4);
    match headers.proto {
        protocol::TCP => true,
        protocol::UDP => {
            be16(frame, l4 + 4) == Some(data) && be16(frame, l4 + 6).is_some_and(|sum| sum != 0)
        }
        _ => false,
    }
}

const fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 29
}
