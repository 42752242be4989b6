//! The configuration of BIRD.
use std::fmt::Write;
use std::net::IpAddr;

use config::{Announce, Bgp, BgpPeer, Config};
use ipnet::IpNet;

use crate::RenderError;

/// The number by which the kernel's routes tell that they are HNLB's (`rtm_protocol`,
/// rtnetlink(7)). It is none of those in /etc/iproute2/rt_protos.
pub const ROUTE_PROTOCOL: u8 = 171;
/// Intervals of BFD without a packet until a neighbour counts as gone (RFC 5880,
/// section 6.8.1, bfd.DetectMult).
const MULTIPLIER: u8 = 3;

/// The configuration of BIRD 2 for `config`, which is from `file`: a whole file.
///
/// # Errors
/// There is no `[announce.bgp]`.
pub fn bird(config: &Config, file: &str) -> Result<String, RenderError> {
    let missing = || RenderError { file: file.to_owned(), section: "bgp", what: "BIRD" };
    let announce = config.announce.as_ref().ok_or_else(missing)?;
    let bgp = announce.bgp.as_ref().ok_or_else(missing)?;
    let mut text = format!(
        "# BIRD 2. Made of {file} by `hnlb announce render bird`; make it anew instead of\n\
         # editing it. Routes in the kernel's table {table} are VIPs that HNLB announces.\n\
         log syslog all;\n",
        table = announce.table
    );
    if let Some(id) = bgp.router_id(config) {
        line(&mut text, &format!("router id {id};"));
    }
    line(&mut text, "\nprotocol device {\n}");
    for (family, length) in [(4, 32), (6, 128)] {
        if bgp.peers.iter().any(|peer| peer.address.is_ipv4() == (family == 4)) {
            vips(&mut text, announce, family, length);
        }
    }
    if let Some(interval) = bgp.bfd {
        bfd(&mut text, bgp, interval.as_millis());
    }
    for (number, peer) in bgp.peers.iter().enumerate() {
        session(&mut text, config, (bgp, peer), number + 1);
    }
    Ok(text)
}

/// The table of the VIPs of a family, and which of its routes are announced.
fn vips(text: &mut String, announce: &Announce, family: u8, length: u8) {
    let Announce { device, table, .. } = announce;
    line(
        text,
        &format!(
            "\nipv{family} table hnlb{family};\n\n\
         protocol kernel hnlb_vips{family} {{\n\
         \tkernel table {table};\n\
         \tlearn;\n\
         \tscan time 10;\n\
         \tipv{family} {{ table hnlb{family}; import all; export none; }};\n\
         }}\n\n\
         filter hnlb_announced{family} {{\n\
         \tif source = RTS_INHERIT && krt_source = {ROUTE_PROTOCOL} && ifname = \"{device}\" && net.len = {length} then accept;\n\
         \treject;\n\
         }}"
        ),
    );
}

/// BFD towards all peers, every `interval` milliseconds.
fn bfd(text: &mut String, bgp: &Bgp, interval: u128) {
    let timers = format!("{{ interval {interval} ms; multiplier {MULTIPLIER}; }}");
    line(text, &format!("\nprotocol bfd hnlb_bfd {{\n\tinterface \"*\" {timers};"));
    if bgp.peers.iter().any(|peer| peer.multihop.is_some()) {
        line(text, &format!("\tmultihop {timers};"));
    } else {
        line(text, "\taccept direct;");
    }
    line(text, "}");
}

/// The session with a peer.
fn session(text: &mut String, config: &Config, (bgp, peer): (&Bgp, &BgpPeer), number: usize) {
    let family = if peer.address.is_ipv4() { 4 } else { 6 };
    let (asn, BgpPeer { address, asn: other, multihop, password }) = (bgp.asn, peer);
    // Towards a peer that is not on-link BFD has to know where it sends from.
    let source = multihop.and_then(|_| source(config, address.is_ipv4()));
    let local = source.map_or_else(String::new, |own| format!("{own} "));
    line(text, &format!("\nprotocol bgp hnlb_peer{number} {{\n\tlocal {local}as {asn};"));
    line(text, &format!("\tneighbor {address} as {other};\n\thold time {};", bgp.hold.as_secs()));
    line(text, "\tconnect delay time 1;\n\tconnect retry time 5;\n\terror wait time 1, 30;");
    if let Some(hops) = multihop {
        line(text, &format!("\tmultihop {hops};"));
    }
    if bgp.bfd.is_some() && (multihop.is_none() || source.is_some()) {
        line(text, "\tbfd on;");
    }
    if let Some(password) = password {
        line(text, &format!("\tpassword \"{password}\";"));
    }
    line(
        text,
        &format!(
            "\tipv{family} {{\n\t\ttable hnlb{family};\n\t\timport none;\n\
             \t\texport filter hnlb_announced{family};\n\t\tnext hop self;\n\t}};\n}}"
        ),
    );
}

/// The first address of a family that the kernel has over a port.
fn source(config: &Config, is_ipv4: bool) -> Option<IpAddr> {
    let interfaces = config.interfaces.iter().filter(|own| own.kernel.is_some());
    let mut addresses = interfaces.flat_map(|own| &own.addresses).map(IpNet::addr);
    addresses.find(|own| own.is_ipv4() == is_ipv4)
}

fn line(text: &mut String, line: &str) {
    // Writing to a String doesn't fail.
    let _ = writeln!(text, "{line}");
}
