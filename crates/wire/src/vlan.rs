//! The 802.1Q tag: added, taken away, exchanged.
use packet::PacketBuf;

use crate::bytes::be16;
use crate::headers::Headers;
use crate::numbers::ethertype;

/// The length of a tag in bytes.
pub const LEN: usize = 4;

/// Puts a tag with VLAN `id` (12 bits) and priority 0 in front of the EtherType.
/// Returns `false` and changes nothing without headroom or a whole Ethernet header.
#[must_use]
pub fn push<P: PacketBuf>(packet: &mut P, id: u16) -> bool {
    if packet.bytes().len() < 14 || !packet.prepend(LEN) {
        return false;
    }
    let Some(front) = packet.bytes_mut().first_chunk_mut::<16>() else { return false };
    front.copy_within(LEN..16, 0);
    front[12..14].copy_from_slice(&ethertype::VLAN.to_be_bytes());
    front[14..].copy_from_slice(&(id & 0x0fff).to_be_bytes());
    true
}

/// Takes the tag away. Returns `false` and changes nothing if there is none.
#[must_use]
pub fn pop<P: PacketBuf>(packet: &mut P) -> bool {
    if tag(packet.bytes()).is_none() {
        return false;
    }
    let Some(front) = packet.bytes_mut().first_chunk_mut::<18>() else { return false };
    front.copy_within(..12, LEN);
    packet.cut_front(LEN)
}

/// Exchanges the tag's VLAN id and keeps its priority. Returns `false` and changes
/// nothing if there is no tag.
#[must_use]
pub fn replace(frame: &mut [u8], id: u16) -> bool {
    let Some(old) = tag(frame) else { return false };
    let Some(front) = frame.first_chunk_mut::<16>() else { return false };
    front[14..].copy_from_slice(&((old & 0xf000) | (id & 0x0fff)).to_be_bytes());
    true
}

/// Makes the packet leave with the tag `id`, or without one, and keeps `headers`
/// true. Returns `false` and changes nothing without headroom for a tag or if
/// `headers` isn't of this packet.
#[must_use]
pub fn set<P: PacketBuf>(packet: &mut P, headers: &mut Headers, id: Option<u16>) -> bool {
    let moved = LEN as u16;
    match (headers.vlan, id) {
        (None, None) => true,
        (Some(_), Some(new)) if replace(packet.bytes_mut(), new) => {
            headers.vlan = Some(new & 0x0fff);
            true
        }
        (None, Some(new)) if headers.end <= u16::MAX - moved && push(packet, new) => {
            headers.vlan = Some(new & 0x0fff);
            headers.l3 = headers.l3.saturating_add(moved);
            headers.l4 = headers.l4.saturating_add(moved);
            headers.end += moved;
            true
        }
        (Some(_), None) if headers.l3 >= moved && pop(packet) => {
            headers.vlan = None;
            headers.l3 -= moved;
            headers.l4 = headers.l4.saturating_sub(moved);
            headers.end = headers.end.saturating_sub(moved);
            true
        }
        _ => false,
    }
}

/// The tag control information of a tagged frame.
fn tag(frame: &[u8]) -> Option<u16> {
    (frame.len() >= 18 && be16(frame, 12) == Some(ethertype::VLAN)).then(|| be16(frame, 14))?
}

#[cfg(test)]
mod tests {
    use packet::HeapPacket;

    use super::*;

    fn arp() -> HeapPacket {
        let mut frame = [7; 42];
        frame[12..14].copy_from_slice(&ethertype::ARP.to_be_bytes());
        HeapPacket::new(&frame)
    }

    #[test]
    fn a_tag_comes_and_goes_and_headers_stay_true() {
        let mut packet = arp();
        let before = packet.bytes().to_vec();
        let mut headers = Headers::parse(packet.bytes()).unwrap();
        for id in [Some(5), Some(0xfff), None, None, Some(1), None] {
            assert!(set(&mut packet, &mut headers, id));
            assert_eq!(Headers::parse(packet.bytes()), Ok(headers));
            assert_eq!(headers.vlan, id);
        }
        assert_eq!(packet.bytes(), before);
        assert!(!pop(&mut packet));
        assert!(!replace(packet.bytes_mut(), 9));
    }

    #[test]
    fn replacing_keeps_the_priority() {
        let mut packet = arp();
        assert!(push(&mut packet, 5));
        packet.bytes_mut()[14] |= 0xe0;
        assert!(replace(packet.bytes_mut(), 0x123));
        assert_eq!(packet.bytes()[14..16], [0xe1, 0x23]);
    }
}
