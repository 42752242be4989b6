//! From a packet's 5-tuple to its bucket.
//!
//! Both hashes are the CRC-32 of IEEE 802.3 (reflected, polynomial 0xEDB88320, initial
//! and final value all ones, as zlib's `crc32`) over the fields in network byte order.
use std::net::IpAddr;

use crc32fast::Hasher;

/// The thesis' hash (section 4.1.7): source, destination, protocol and two values, which
/// are the ports, or ICMP's type and checksum. The two directions of a flow fall into
/// different buckets.
#[must_use]
pub fn thesis(source: (IpAddr, u16), destination: (IpAddr, u16), protocol: u8) -> u32 {
    let mut hasher = Hasher::new();
    address(&mut hasher, source.0);
    address(&mut hasher, destination.0);
    hasher.update(&[protocol]);
    hasher.update(&source.1.to_be_bytes());
    hasher.update(&destination.1.to_be_bytes());
    hasher.finalize()
}

/// As [`thesis`], of the endpoints in order: both directions of a flow fall into one
/// bucket, as a network function with state needs it.
#[must_use]
pub fn symmetric(one: (IpAddr, u16), other: (IpAddr, u16), protocol: u8) -> u32 {
    thesis(one.min(other), one.max(other), protocol)
}

fn address(hasher: &mut Hasher, address: IpAddr) {
    match address {
        IpAddr::V4(address) => hasher.update(&address.octets()),
        IpAddr::V6(address) => hasher.update(&address.octets()),
    }
}
