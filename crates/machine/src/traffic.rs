//! What reaches the machine by an interface of the kernel's, and is cut off when the kernel
//! loses it: the default route, and ssh.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Tree;

/// The port of ssh, and a connection that is established (`TCP_ESTABLISHED`).
const SSH: &str = "0016";
const ESTABLISHED: &str = "01";

/// What goes over `interface`, or over what is made of it (VLANs, bonds, bridges), as
/// words for a sentence; `None`: nothing that would be missed.
pub(crate) fn over(tree: &Tree, interface: &str) -> Option<String> {
    let names = with_uppers(tree, interface);
    let routes = routes(tree);
    let is_own = |route: &&Route| names.contains(&route.interface);
    let mut found = Vec::new();
    if routes.iter().filter(is_own).any(|route| route.length == 0) {
        found.push("the default route".to_owned());
    }
    let mut peers: Vec<IpAddr> = ssh_peers(tree)
        .into_iter()
        .filter(|peer| way_to(&routes, *peer).as_ref().is_some_and(is_own))
        .collect();
    peers.sort_unstable();
    peers.dedup();
    found.extend(peers.iter().map(|peer| format!("ssh from {peer}")));
    (!found.is_empty()).then(|| found.join(" and "))
}

/// The interface, and all that have it beneath them.
fn with_uppers(tree: &Tree, interface: &str) -> Vec<String> {
    let mut names = vec![interface.to_owned()];
    let mut next = 0;
    while let Some(name) = names.get(next) {
        for file in tree.names(&format!("sys/class/net/{name}")) {
            match file.strip_prefix("upper_") {
                Some(upper) if !names.iter().any(|known| known == upper) => {
                    names.push(upper.to_owned());
                }
                _ => {}
            }
        }
        next += 1;
    }
    names
}

/// Packets to addresses that begin with the first `length` bits of `to`.
struct Route {
    interface: String,
    to: IpAddr,
    length: u32,
    metric: u32,
}

impl Route {
    fn has(&self, address: IpAddr) -> bool {
        match (self.to, address) {
            (IpAddr::V4(to), IpAddr::V4(address)) => {
                (to.to_bits() ^ address.to_bits()).leading_zeros() >= self.length
            }
            (IpAddr::V6(to), IpAddr::V6(address)) => {
                (to.to_bits() ^ address.to_bits()).leading_zeros() >= self.length
            }
            _ => false,
        }
    }
}

fn way_to(routes: &[Route], address: IpAddr) -> Option<&Route> {
    let ways = routes.iter().filter(|route| route.has(address));
    ways.min_by_key(|route| (u32::MAX - route.length, route.metric))
}

/// The main routing tables of both families (proc(5); `rt6_info_route` of the kernel for
/// `ipv6_route`).
fn routes(tree: &Tree) -> Vec<Route> {
    let v4 = tree.text("proc/net/route").unwrap_or_default();
    let v6 = tree.text("proc/net/ipv6_route").unwrap_or_default();
    v4.lines().filter_map(route_v4).chain(v6.lines().filter_map(route_v6)).collect()
}

fn route_v4(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [interface, to, _, _, _, _, metric, mask, ..] = fields[..] else { return None };
    Some(Route {
        interface: interface.to_owned(),
        to: v4(to)?.into(),
        length: u32::from_str_radix(mask, 16).ok()?.count_ones(),
        metric: metric.parse().ok()?,
    })
}

fn route_v6(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [to, length, _, _, _, metric, _, _, _, interface] = fields[..] else { return None };
    Some(Route {
        interface: interface.to_owned(),
        to: Ipv6Addr::from(u128::from_str_radix(to, 16).ok()?).into(),
        length: u32::from_str_radix(length, 16).ok()?,
        metric: u32::from_str_radix(metric, 16).ok()?,
    })
}

/// Who has an ssh connection to this machine.
fn ssh_peers(tree: &Tree) -> Vec<IpAddr> {
    let tables = ["proc/net/tcp", "proc/net/tcp6"].map(|file| tree.text(file).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().filter_map(ssh_peer)).collect()
}

fn ssh_peer(line: &str) -> Option<IpAddr> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, local, remote, state, ..] = fields[..] else { return None };
    let (_, port) = local.split_once(':')?;
    let (address, _) = remote.split_once(':')?;
    if port != SSH || state != ESTABLISHED {
        return None;
    }
    let peer = match address.len() {
        8 => v4(address)?.into(),
        _ => v6(address)?.to_canonical(),
    };
    (!peer.is_loopback()).then_some(peer)
}

/// An address as the kernel prints it: the word in memory, as a number.
fn v4(text: &str) -> Option<Ipv4Addr> {
    Some(u32::from_str_radix(text, 16).ok()?.to_ne_bytes().into())
}

/// Four such words.
fn v6(text: &str) -> Option<Ipv6Addr> {
    let mut octets = [0; 16];
    for (at, to) in octets.chunks_exact_mut(4).enumerate() {
        to.copy_from_slice(&v4(text.get(8 * at..8 * at + 8)?)?.octets());
    }
    Some(octets.into())
}
