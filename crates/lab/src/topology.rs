//! The hosts of the lab and their addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends requests to the VIPs.
    Client,
    /// Runs the servers.
    Backend,
    /// Sends what nobody wants to receive.
    Attacker,
}

/// One client or backend.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    /// Short name; the namespace is `hnlb-<lab>-<name>`.
    pub name: &'static str,
    /// What it does.
    pub role: Role,
    /// Its IPv4 address, in a /24.
    pub v4: Ipv4Addr,
    /// Its IPv6 address, in a /64.
    pub v6: Ipv6Addr,
}

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

const fn host(name: &'static str, role: Role, subnet: u8, number: u8) -> Host {
    // The digits of the IPv6 address read like those of the IPv4 address.
    let digits = ((number / 10 * 16) + number % 10) as u16;
    let prefix = 0xfd00 | ((subnet / 10 * 16) + subnet % 10) as u16;
    Host {
        name,
        role,
        v4: Ipv4Addr::new(10, subnet, 0, number),
        v6: Ipv6Addr::new(prefix, 0, 0, 0, 0, 0, 0, digits),
    }
}

/// The two clients.
pub const CLIENTS: [Host; 2] = [host("c1", Role::Client, 71, 11), host("c2", Role::Client, 71, 12)];

/// The four backends.
pub const BACKENDS: [Host; 4] = [
    host("b1", Role::Backend, 72, 11),
    host("b2", Role::Backend, 72, 12),
    host("b3", Role::Backend, 72, 13),
    host("b4", Role::Backend, 72, 14),
];

/// A host on the clients' link that means harm.
pub const ATTACKER: Host = host("x1", Role::Attacker, 71, 66);

/// HNLB's namespace.
pub const BALANCER: &str = "lb";
/// The switch's namespace.
pub const SWITCH: &str = "sw";
/// HNLB's end of its link.
pub const PORT: &str = "hnlb0";
/// HNLB's end of a second link, which it uses towards backends behind tunnels:
/// outer packets fit it, however long the inner ones are.
pub const WIDE_PORT: &str = "hnlb1";
/// The switch's end of that link.
pub const WIDE_BALANCER: &str = "lb1";
/// The longest IP packet on that link, and that backends take; elsewhere, and
/// where backends answer, it is 1500 bytes.
pub const WIDE_MTU: u16 = 1600;

/// Every namespace's short name.
pub const NAMESPACES: [&str; 9] = [SWITCH, BALANCER, "c1", "c2", "x1", "b1", "b2", "b3", "b4"];

/// The router's namespace, in a lab with a pair of load balancers.
pub const ROUTER: &str = "r1";
/// The second HNLB's namespace.
pub const SECOND: &str = "lb2";
/// The namespaces that only a lab with a pair of load balancers has.
pub const PAIR_NAMESPACES: [&str; 2] = [ROUTER, SECOND];

/// HNLB's own addresses: gateway of the clients' and the backends' subnets.
pub const BALANCER_ADDRESSES: [&str; 4] =
    ["10.71.0.1/24", "fd71::1/64", "10.72.0.1/24", "fd72::1/64"];

/// HNLB's own addresses of a family: the gateways of clients and of backends.
#[must_use]
pub const fn balancer_address(family: Family) -> [IpAddr; 2] {
    let [client, backend] = [&CLIENTS[0], &BACKENDS[0]];
    let [outside, inside] = [client.gateways(), backend.gateways()];
    match family {
        Family::V4 => [IpAddr::V4(outside.0), IpAddr::V4(inside.0)],
        Family::V6 => [IpAddr::V6(outside.1), IpAddr::V6(inside.1)],
    }
}

/// The clients' subnets.
const CLIENT_NET4: &str = "10.71.0.0/24";
const CLIENT_NET6: &str = "fd71::/64";
/// The backends' routing table for answers that go past HNLB.
pub(crate) const DIRECT: u8 = 100;

/// The VIPs of a pair of load balancers: on no link, so that routers find them.
pub const PAIR_VIP4: Ipv4Addr = Ipv4Addr::new(10, 73, 0, 100);
/// The IPv6 one.
pub const PAIR_VIP6: Ipv6Addr = Ipv6Addr::new(0xfd73, 0, 0, 0, 0, 0, 0, 0x100);

/// The IPv4 VIP.
pub const VIP4: Ipv4Addr = Ipv4Addr::new(10, 71, 0, 100);
/// The IPv6 VIP.
pub const VIP6: Ipv6Addr = Ipv6Addr::new(0xfd71, 0, 0, 0, 0, 0, 0, 0x100);
/// Port of the web service at the VIPs.
pub const WEB_PORT: u16 = 80;
/// Port of the DNS service at the VIPs.
pub const DNS_PORT: u16 = 53;
/// Port of the web server at a backend.
pub const WEB_BACKEND_PORT: u16 = 8080;
/// The port of the web servers at which connections begin with a header of the PROXY protocol.
pub const PROXY_BACKEND_PORT: u16 = 8090;
/// TCP port at which the server of `lab http --compare` listens, in the first backend.
pub const ORIGIN_PORT: u16 = 8091;
/// Port of the DNS server at a backend.
pub const DNS_BACKEND_PORT: u16 = 5353;

/// Port of GUE at a backend.
pub const GUE_PORT: u16 = 6080;

/// The VIP of a family.
#[must_use]
pub const fn vip(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(VIP4),
        Family::V6 => IpAddr::V6(VIP6),
    }
}

impl Host {
    /// The host's address of a family.
    #[must_use]
    pub const fn address(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => IpAddr::V4(self.v4),
            Family::V6 => IpAddr::V6(self.v6),
        }
    }

    /// Default gateways: HNLB on the host's subnet.
    #[must_use]
    pub const fn gateways(&self) -> (Ipv4Addr, Ipv6Addr) {
        let [a, b, c, _] = self.v4.octets();
        let [prefix, ..] = self.v6.segments();
        (Ipv4Addr::new(a, b, c, 1), Ipv6Addr::new(prefix, 0, 0, 0, 0, 0, 0, 1))
    }
}

/// Settings that every namespace gets before its link is up.
pub(crate) const SYSCTL: &str = "\
set_() { [ ! -e /proc/sys/net/$1 ] || echo \"$2\" > /proc/sys/net/$1; }
for i in all default eth0; do
  set_ ipv6/conf/$i/accept_dad 0
  set_ ipv6/conf/$i/accept_ra 0
  set_ ipv6/conf/$i/accept_redirects 0
  set_ ipv4/conf/$i/accept_redirects 0
  set_ ipv4/conf/$i/send_redirects 0
  set_ ipv4/conf/$i/rp_filter 0
done
set_ ipv4/ip_local_port_range '1024 65535'
set_ ipv4/tcp_tw_reuse 1
set_ core/somaxconn 4096
set_ ipv4/tcp_max_syn_backlog 8192
";

/// Turns off everything that leaves checksums or segments to a card.
pub(crate) fn no_offloads(device: &str) -> String {
    // Features that a kernel doesn't know are an error of ethtool's, hence
    // two calls: those that matter, and those that are nice to have off.
    format!(
        "ethtool -K {device} rx off tx off sg off tso off gso off gro off >/dev/null\n\
         ethtool -K {device} tx-udp-segmentation off txvlan off rxvlan off >/dev/null 2>&1 || :\n"
    )
}

/// What a backend needs so that packets for the VIPs can reach it as clients
/// sent them, and its answers go straight to the clients: the VIPs at the
/// loopback, silence about them (ARP; NDP answers for a device's own addresses
/// only), and from them the clients' subnets on-link. Packets from its own
/// addresses still go through HNLB. See `docs/user/forwarding.md`.
fn one_way_script() -> String {
    format!(
        "for i in all eth0; do\n\
         set_ ipv4/conf/$i/arp_ignore 1\n\
         set_ ipv4/conf/$i/arp_announce 2\n\
         done\n\
         ip addr add {VIP4}/32 dev lo\n\
         ip addr add {VIP6}/128 dev lo nodad\n\
         ip route add {CLIENT_NET4} dev eth0 mtu 1500 table {DIRECT}\n\
         ip rule add from {VIP4} lookup {DIRECT}\n\
         ip -6 route add {CLIENT_NET6} dev eth0 mtu 1500 table {DIRECT}\n\
         ip -6 rule add from {VIP6} lookup {DIRECT}\n"
    )
}

/// The shell script that sets up a client or backend inside its namespace.
pub(crate) fn host_script(host: &Host) -> String {
    let offloads = no_offloads("eth0");
    let (one_way, mtu) = match host.role {
        Role::Backend => (one_way_script(), WIDE_MTU),
        Role::Client | Role::Attacker => (String::new(), 1500),
    };
    let addresses = addresses_script(host);
    format!("{SYSCTL}{offloads}ip link set lo up\nip link set eth0 mtu {mtu}\n{addresses}{one_way}")
}

/// The part of it that a new `eth0` needs: its addresses and what goes over it.
pub(crate) fn addresses_script(host: &Host) -> String {
    let Host { v4, v6, .. } = host;
    let (gateway4, gateway6) = host.gateways();
    format!(
        "ip -batch - <<EOF\n\
         link set eth0 up\n\
         addr add {v4}/24 dev eth0\n\
         addr add {v6}/64 dev eth0 nodad\n\
         route add default via {gateway4} dev eth0 mtu 1500\n\
         route add default via {gateway6} dev eth0 mtu 1500\n\
         EOF\n"
    )
}

/// The script for HNLB's namespace: the ports up, and no address of the kernel's.
pub(crate) fn balancer_script() -> String {
    let (offloads, wide) = (no_offloads(PORT), no_offloads(WIDE_PORT));
    format!(
        "{SYSCTL}for i in all default {PORT} {WIDE_PORT}; do\n\
         set_ ipv6/conf/$i/disable_ipv6 1\ndone\n\
         {offloads}{wide}ip link set lo up\nip link set {PORT} mtu 1500 up\n\
         ip link set {WIDE_PORT} mtu {WIDE_MTU} up\n"
    )
}

/// The script for the switch: a bridge that floods what it doesn't know, at
/// once, and its ports, whose devices are called as the hosts. To HNLB's second
/// link it floods nothing: HNLB answers for the VIPs on each, and clients are
/// to learn the first.
pub(crate) fn switch_script(ports: &[&str]) -> String {
    let mut script = format!(
        "{SYSCTL}for i in all default; do set_ ipv6/conf/$i/disable_ipv6 1; done\n\
         ip link set lo up\n\
         ip link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n"
    );
    for port in ports {
        script += &no_offloads(port);
        let backend = BACKENDS.iter().any(|host| host.name == *port);
        let mtu = if backend || *port == WIDE_BALANCER { WIDE_MTU } else { 1500 };
        script += &format!("ip link set {port} mtu {mtu} master br0 up\n");
        if *port == WIDE_BALANCER {
            script +=
                &format!("bridge link set dev {port} flood off mcast_flood off bcast_flood off\n");
        }
    }
    script + "ip link set br0 up\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_plan() {
        let text: Vec<String> = CLIENTS
            .iter()
            .chain(&BACKENDS)
            .map(|h| format!("{} {} {}", h.name, h.v4, h.v6))
            .collect();
        let plan = "c1 10.71.0.11 fd71::11\nc2 10.71.0.12 fd71::12\n\
                    b1 10.72.0.11 fd72::11\nb2 10.72.0.12 fd72::12\n\
                    b3 10.72.0.13 fd72::13\nb4 10.72.0.14 fd72::14";
        assert_eq!(text.join("\n"), plan);
        assert_eq!(
            BACKENDS[3].gateways(),
            ("10.72.0.1".parse().unwrap(), "fd72::1".parse().unwrap())
        );
        assert_eq!(vip(Family::V6).to_string(), "fd71::100");
    }
}
