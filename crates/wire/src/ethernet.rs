//! Ethernet II headers (IEEE 802.3 clause 3).
use crate::mac::Mac;
use crate::view::header;

header! {
    /// An Ethernet header; a VLAN tag counts as what follows.
    14
    /// The destination address.
    0..6 dst set_dst: Mac;
    /// The source address.
    6..6 src set_src: Mac;
    /// The EtherType, or a length below 0x0600.
    12..2 kind set_kind: u16;
}

/// The values of an Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The destination address.
    pub dst: Mac,
    /// The source address.
    pub src: Mac,
    /// The EtherType.
    pub kind: u16,
}

impl Repr {
    /// The values that `header` holds.
    pub fn parse<B: std::borrow::Borrow<[u8; LEN]>>(header: &Header<B>) -> Self {
        Self { dst: header.dst(), src: header.src(), kind: header.kind() }
    }

    /// The header with these values.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut header = Header::new([0; LEN]);
        header.set_dst(self.dst);
        header.set_src(self.src);
        header.set_kind(self.kind);
        header.0
    }
}

/// Writes both addresses of `frame`. Returns `false` and changes nothing if it is too
/// short.
#[inline]
#[must_use]
pub fn set_macs(frame: &mut [u8], dst: Mac, src: Mac) -> bool {
    let Some(macs) = frame.first_chunk_mut::<12>() else { return false };
    macs[..6].copy_from_slice(&dst.0);
    macs[6..].copy_from_slice(&src.0);
    true
}

/// The destination and source address of `frame`.
#[inline]
#[must_use]
pub fn macs(frame: &[u8]) -> Option<(Mac, Mac)> {
    let (header, _) = Header::split(frame).ok()?;
    Some((header.dst(), header.src()))
}

/// Destination and source of the answer to `frame`: its addresses change places.
/// `None` if one of them is a group's.
#[must_use]
pub fn answer(frame: &[u8]) -> Option<(Mac, Mac)> {
    let (dst, src) = macs(frame)?;
    Some((src, dst)).filter(|_| !dst.is_group() && !src.is_group())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_standard_puts_them() {
        let mut frame = *b"\x02\x01\x02\x03\x04\x05\x02\x11\x12\x13\x14\x15\x08\x00rest";
        let (header, rest) = Header::split(&frame).unwrap();
        let repr = Repr::parse(&header);
        assert_eq!(repr.dst, Mac([2, 1, 2, 3, 4, 5]));
        assert_eq!(repr.src, Mac([2, 0x11, 0x12, 0x13, 0x14, 0x15]));
        assert_eq!((repr.kind, rest), (0x0800, &b"rest"[..]));
        assert_eq!(repr.emit(), frame[..14]);
        assert_eq!(answer(&frame), Some((repr.src, repr.dst)));
        assert!(set_macs(&mut frame, repr.src, Mac::BROADCAST));
        assert_eq!(macs(&frame), Some((repr.src, Mac::BROADCAST)));
        assert!(!set_macs(&mut frame[..11], repr.src, repr.dst));
        assert!(Header::split(&frame[..13]).is_err());
    }
}
