//! `tunnel_source`, `tunnel_ttl` and `tunnel_port` of a `[[service]]`, and
//! whether what is inside fits.
use std::net::IpAddr;

use flow::{Mode, alternatives};

use crate::tree::Way;
use crate::{Backend, Config, Service};

use super::Findings;
use super::services::family;

/// The smallest MTU that IPv6 works with (RFC 8200 section 5).
const IPV6_LEAST: u16 = 1280;

pub(super) fn check(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    let tunnels = service.mode.is_tunnel();
    for (key, given) in [
        ("tunnel_source", service.tunnel_source.is_some()),
        ("tunnel_ttl", service.tunnel_ttl.is_some()),
    ] {
        if given && !tunnels {
            let mode = service.mode.name();
            let text = format!(
                "the mode {mode} has no tunnel; leave this out, or set mode to {}",
                alternatives(Mode::tunnels().map(|mode| format!("\"{mode}\"")))
            );
            findings.wrong(&way.key(key), text);
        }
    }
    if service.tunnel_port.is_some() && !service.mode.has_tunnel_port() {
        let mode = service.mode.name();
        let ported = Mode::tunnels().filter(|mode| mode.has_tunnel_port());
        let ported = alternatives(ported.map(|mode| format!("\"{mode}\"")));
        let text = format!("the mode {mode} has no port; leave this out, or set mode = {ported}");
        findings.wrong(&way.key("tunnel_port"), text);
    }
    if let Some(source) = service.tunnel_source.filter(|_| tunnels) {
        check_source(findings, &way.key("tunnel_source"), service, source);
    }
}

fn check_source(findings: &mut Findings<'_>, way: &Way, service: &Service, source: IpAddr) {
    if let Some(text) = findings.config.unusable(source) {
        return findings.wrong(way, text);
    }
    let v4 = source.is_ipv4();
    if let Some(other) = service.backends.iter().find(|b| b.address.is_ipv4() != v4) {
        let text = format!(
            "{source} is {}, the backend {} is {}; outer packets have one family, so give an {} address, or leave this out",
            family(v4),
            other.address,
            family(!v4),
            family(!v4)
        );
        findings.wrong(way, text);
    } else if !findings.config.is_ours(source) {
        let text = format!(
            "{source} is neither an interface's own address nor a vip, so ICMP errors about outer packets would not come back; give one of these, or leave this out"
        );
        findings.wrong(way, text);
    }
}

/// Whether IPv6's smallest packets fit into the tunnel to `backend`.
pub(super) fn check_room(
    findings: &mut Findings<'_>,
    way: &Way,
    service: &Service,
    backend: &Backend,
) {
    let (config, address) = (findings.config, backend.address);
    let Some(tunnel) = service.tunnel().filter(|_| service.vip.is_ipv6()) else { return };
    let Some((port, mtu)) = config.mtu_towards(address) else { return };
    let least = IPV6_LEAST + tunnel.overhead(address.is_ipv6());
    if mtu < least {
        let text = format!(
            "the tunnel to {address} leaves less than {IPV6_LEAST} bytes of the mtu {mtu} of port '{port}' for IPv6 packets; give the port an mtu of at least {least}"
        );
        findings.wrong(way, text);
    }
}

impl Config {
    /// The port that leads to `address`, and its MTU.
    fn mtu_towards(&self, address: IpAddr) -> Option<(&str, u16)> {
        let on_link = |address| {
            let own = |i: &&crate::Interface| i.addresses.iter().any(|net| net.contains(&address));
            self.interfaces.iter().find(own)
        };
        let routes = self.routes.iter().filter(|route| route.prefix.contains(&address));
        let routed = || routes.max_by_key(|route| route.prefix.prefix_len());
        let interface = on_link(address).or_else(|| on_link(routed()?.via))?;
        let port = self.ports.iter().find(|port| port.name == interface.port)?;
        Some((&port.name, port.mtu))
    }
}
