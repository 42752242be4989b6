//! A new outer header in the place of the Ethernet header.
use std::sync::Arc;

use packet::PacketBuf;
use wire::{Headers, Net, checksum};

/// Bytes of an Ethernet header without tags.
const ETHERNET: usize = 14;
const VLAN: u16 = 0x8100;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: u8 = 17;

/// RAW_DECAP of the Ethernet header and RAW_ENCAP of another with what follows
/// it, up to the tunnel's own header: mlx5's "L2 to L3 tunnel". Clones share
/// the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encap(Arc<[u8]>);

impl Encap {
    pub(crate) fn new(header: &[u8]) -> Self {
        Self(header.into())
    }

    /// Takes the Ethernet header and tags off `packet` and puts the new headers in
    /// front. Their length fields and an IPv4 checksum are made right; everything
    /// else, also a UDP checksum, is as the rule says. Bytes behind the inner IP
    /// packet stay and are not counted.
    ///
    /// Returns `false` and changes nothing: there is no room in front.
    #[must_use]
    pub fn apply<P: PacketBuf>(&self, packet: &mut P) -> bool {
        let frame = packet.bytes();
        let whole = (ETHERNET.min(frame.len()), frame.len());
        let (inner, end) = match Headers::parse(frame) {
            Ok(headers) if matches!(headers.net, Net::Ipv4 | Net::Ipv6) => {
                (usize::from(headers.l3), usize::from(headers.end))
            }
            _ => whole,
        };
        let new = self.0.len();
        let moved = match new.checked_sub(inner) {
            Some(more) => packet.prepend(more),
            None => packet.cut_front(inner - new),
        };
        let Some(front) = packet.bytes_mut().get_mut(..new).filter(|_| moved) else { return false };
        front.copy_from_slice(&self.0);
        fill(front, end.saturating_sub(inner));
        true
    }
}

/// Writes the fields that follow from the length of the `inner` packet into `front`.
/// Unknown headers stay as they are.
fn fill(front: &mut [u8], inner: usize) {
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 2)?.first_chunk().map(|word| u16::from_be_bytes(*word))
    };
    let mut ip = ETHERNET;
    while word(front, ip - 2) == Some(VLAN) {
        ip += 4;
    }
    let total = front.len().saturating_sub(ip) + inner;
    let (next, behind) = match word(front, ip - 2) {
        Some(IPV4) => {
            let Some(header) = front.get(ip).map(|first| usize::from(first & 15) * 4) else {
                return;
            };
            put(front, ip + 2, total);
            let Some(bytes) = front.get(ip..ip + header) else { return };
            let (old, next) = (word(bytes, 10).unwrap_or(0), bytes.get(9).copied());
            // The sum over all but the field itself.
            let sum = checksum::fold(checksum::sum(bytes, u32::from(!old)));
            put(front, ip + 10, usize::from(!sum));
            (next, ip + header)
        }
        Some(IPV6) => {
            put(front, ip + 4, total.saturating_sub(40));
            (front.get(ip + 6).copied(), ip + 40)
        }
        _ => return,
    };
    if next == Some(UDP) {
        put(front, behind + 4, (total + ip).saturating_sub(behind));
    }
}

/// Writes a number of 16 bits.
fn put(bytes: &mut [u8], at: usize, value: usize) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&(value as u16).to_be_bytes());
    }
}
