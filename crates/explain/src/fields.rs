//! The fields of a frame that the load balancer may change, as text.
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use wire::{Headers, Mac};

/// The fields of `frame` by name.
pub(crate) fn fields(frame: &[u8]) -> BTreeMap<&'static str, String> {
    let mut fields = BTreeMap::from([("length", frame.len().to_string())]);
    let mac = |at: usize| frame.get(at..).and_then(|rest| rest.first_chunk()).copied().map(Mac);
    for (name, mac) in [("ethernet destination", mac(0)), ("ethernet source", mac(6))] {
        fields.extend(mac.map(|mac| (name, mac.to_string())));
    }
    let Ok(headers) = Headers::parse(frame) else { return fields };
    let (source, destination) = headers.ports(frame).unzip();
    let ends = [
        ("source", headers.src_addr(frame).map(|addr| endpoint(addr, source))),
        ("destination", headers.dst_addr(frame).map(|addr| endpoint(addr, destination))),
    ];
    let numbers = [
        ("vlan", headers.vlan.map(|vlan| vlan.to_string())),
        ("protocol", Some(headers.proto.to_string())),
        ("ttl", Some(headers.ttl.to_string())),
    ];
    fields.extend(ends.into_iter().chain(numbers).filter_map(|(name, text)| Some((name, text?))));
    fields
}

fn endpoint(addr: IpAddr, port: Option<u16>) -> String {
    match port {
        Some(port) => SocketAddr::new(addr, port).to_string(),
        None => addr.to_string(),
    }
}
