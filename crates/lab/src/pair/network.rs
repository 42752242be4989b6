//! The network around a pair: a router that clients send to, and hosts that know it.

use std::net::IpAddr;
use std::path::Path;

use super::AnnouncedBy;
use crate::topology::{
    BACKENDS, CLIENTS, DIRECT, Family, PAIR_VIP4, PAIR_VIP6, PORT, ROUTER, SECOND, SYSCTL,
    no_offloads,
};
use crate::{Lab, LabError};

/// The VIP of a family.
pub(super) const fn vip(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(PAIR_VIP4),
        Family::V6 => IpAddr::V6(PAIR_VIP6),
    }
}

/// Adds the router and the second load balancer's host to the lab, and has the hosts send
/// what is for the VIPs to the router, or, where VRRP moves the gateways' addresses, leaves
/// them with their gateways.
pub(super) fn extend(lab: &Lab, way: AnnouncedBy) -> Result<(), LabError> {
    lab.add_host(SECOND, PORT, &balancer_script())?;
    if way == AnnouncedBy::Vrrp {
        return Ok(());
    }
    lab.add_host(ROUTER, "eth0", &router_script())?;
    for host in &CLIENTS {
        let script = "ip route replace default via 10.71.0.254 dev eth0\n\
                      ip -6 route replace default via fd71::254 dev eth0\n";
        lab.script(host.name, script)?;
    }
    // As for the lab's own VIPs: packets for them reach the servers as clients sent them,
    // and answers go straight to the clients.
    let script = format!(
        "ip addr add {PAIR_VIP4}/32 dev lo\n\
         ip addr add {PAIR_VIP6}/128 dev lo nodad\n\
         ip rule add from {PAIR_VIP4} lookup {DIRECT}\n\
         ip -6 rule add from {PAIR_VIP6} lookup {DIRECT}\n"
    );
    BACKENDS.iter().try_for_each(|host| lab.script(host.name, &script))
}

fn balancer_script() -> String {
    let offloads = no_offloads(PORT);
    format!(
        "{SYSCTL}for i in all default {PORT}; do\n\
         set_ ipv6/conf/$i/disable_ipv6 1\ndone\n\
         {offloads}ip link set lo up\nip link set {PORT} mtu 1500 up\n"
    )
}

/// The router forwards by the addresses and ports of packets (ECMP, RFC 2992).
fn router_script() -> String {
    let offloads = no_offloads("eth0");
    format!(
        "{SYSCTL}set_ ipv4/ip_forward 1\nset_ ipv6/conf/all/forwarding 1\n\
         set_ ipv4/fib_multipath_hash_policy 1\nset_ ipv6/fib_multipath_hash_policy 1\n\
         {offloads}ip link set lo up\n\
         ip -batch - <<EOF\n\
         link set eth0 up\n\
         addr add 10.71.0.254/24 dev eth0\n\
         addr add fd71::254/64 dev eth0 nodad\n\
         addr add 10.72.0.254/24 dev eth0\n\
         addr add fd72::254/64 dev eth0 nodad\n\
         EOF\n"
    )
}

/// The configuration of the router's BIRD: it takes the VIPs from both load balancers.
pub(super) fn router_bird(dir: &Path) -> String {
    let mut text = format!(
        "router id 10.71.0.254;\nlog \"{}\" all;\nprotocol device {{\n}}\n\
         protocol bfd {{\n\tinterface \"*\" {{ interval 200 ms; multiplier 3; }};\n}}\n",
        dir.join("r1-bird.log").display()
    );
    for family in [4, 6] {
        text += &format!(
            "protocol kernel {{\n\tmerge paths on;\n\tscan time 10;\n\
             \tipv{family} {{ import none; export all; }};\n}}\n"
        );
    }
    for (family, net, peers) in
        [(4, "10.73.0.0/24", ["10.71.0.2", "10.71.0.3"]), (6, "fd73::/64", ["fd71::2", "fd71::3"])]
    {
        for peer in peers {
            text += &format!(
                "protocol bgp {{\n\tlocal as 65000;\n\tneighbor {peer} as 65001;\n\thold time 9;\n\
                 \tconnect delay time 1;\n\tconnect retry time 2;\n\terror wait time 1, 5;\n\
                 \tbfd on;\n\
                 \tipv{family} {{ import where net ~ [ {net}+ ]; export none; }};\n}}\n"
            );
        }
    }
    text
}
