//! A tunnel as rules say it: the Ethernet header goes, and another with the outer
//! headers behind it comes (RAW_DECAP, RAW_ENCAP).
use std::net::IpAddr;

use wire::{Encap, FlowKey, Mac, Tunnel};

/// Bytes of an Ethernet header without tags.
pub(crate) const ETHERNET: usize = 14;
/// Where an IPv4 header has TTL, source and destination.
const V4: [usize; 3] = [8, 12, 16];
/// Where an IPv6 header has the hop limit, source and destination.
const V6: [usize; 3] = [7, 8, 24];

/// The new headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entrance {
    pub(crate) source: Mac,
    pub(crate) destination: Mac,
    pub(crate) encap: Encap,
}

/// The tunnel that `headers` enter packets of `key` into, if the program would make the
/// same of such packets, but for the fields that follow from the length.
pub(crate) fn entrance(headers: &[u8], key: &FlowKey) -> Option<Entrance> {
    let (ethernet, outer) = headers.split_at_checked(ETHERNET)?;
    let (destination, rest) = ethernet.split_first_chunk::<6>()?;
    let (source, kind) = rest.split_first_chunk::<6>()?;
    let encap = match kind {
        [0x08, 0x00] => encap(outer, V4, |bytes: [u8; 4]| bytes.into()),
        [0x86, 0xdd] => encap(outer, V6, |bytes: [u8; 16]| bytes.into()),
        _ => None,
    }?;
    let same = encap.of_flow(key) == outer;
    same.then_some(Entrance { source: Mac(*source), destination: Mac(*destination), encap })
}

/// The tunnel whose outer header is as long and has these addresses.
fn encap<const N: usize>(
    outer: &[u8],
    [ttl, source, destination]: [usize; 3],
    address: impl Fn([u8; N]) -> IpAddr,
) -> Option<Encap> {
    let read = |at: usize| outer.get(at..)?.first_chunk().copied().map(&address);
    let (source, destination) = (read(source)?, read(destination)?);
    let ipv6 = source.is_ipv6();
    let long = |tunnel: &&Tunnel| usize::from(tunnel.overhead(ipv6)) == outer.len();
    let kind = Tunnel::ALL.iter().find(long)?;
    let behind = outer.get(if ipv6 { 42 } else { 22 }..);
    let port = behind.and_then(|bytes| bytes.first_chunk()).copied().map(u16::from_be_bytes);
    let tunnel = Tunnel::of(kind.mode(), port)?;
    Encap::new(tunnel, source, destination, *outer.get(ttl)?)
}
