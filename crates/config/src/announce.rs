//! `[announce]`: how routers learn of the VIPs.
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Config, text};

/// Announcing VIPs to routers. HNLB has a route of the kernel's for each VIP that can serve; BIRD tells routers of them, or keepalived moves an address. See pair.md.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Announce {
    /// The kernel interface that the routes point to. HNLB creates it; it is up while a VIP is announced, and disappears with the process.
    #[schemars(extend("format" = "kernel-interface"))]
    pub device: String,
    /// The kernel's routing table with the routes. No other program should use it.
    #[schemars(range(min = 256, max = 4_294_967_295u32))]
    pub table: u32,
    /// How long a VIP must have been able to serve before it is announced.
    #[serde(with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "0s", "x-maximum" = "1h"))]
    pub settle: Duration,
    /// How long HNLB keeps serving at shutdown after it has withdrawn the VIPs: the time that routers may need to switch to other paths.
    #[serde(with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "0s", "x-maximum" = "1h"))]
    pub leave: Duration,
    /// Settings for BIRD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bgp: Option<Bgp>,
    /// Settings for keepalived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vrrp: Option<Vrrp>,
}

impl Default for Announce {
    fn default() -> Self {
        Self {
            device: "hnlb-vips".to_owned(),
            table: 7171,
            settle: Duration::from_secs(2),
            leave: Duration::from_secs(3),
            bgp: None,
            vrrp: None,
        }
    }
}

/// What `hnlb announce render bird` makes BIRD's configuration of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bgp {
    /// The load balancer's own AS number.
    #[serde(rename = "as")]
    #[schemars(range(min = 1, max = 4_294_967_294u32))]
    pub asn: u32,
    /// The load balancer's BGP router ID; by default the first IPv4 address of its interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "ip"))]
    pub router_id: Option<Ipv4Addr>,
    /// How long a router keeps the routes of a load balancer that has gone silent.
    #[serde(default = "Bgp::hold", with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "3s", "x-maximum" = "10m"))]
    pub hold: Duration,
    /// The interval of BFD packets; a router notices after three intervals that the load balancer is gone. Without it there is no BFD.
    #[serde(default, with = "text::optional_duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "time-span", "x-minimum" = "10ms", "x-maximum" = "10s"))]
    pub bfd: Option<Duration>,
    /// A router, which learns the VIPs of its own address family.
    #[serde(rename = "peer")]
    #[schemars(length(min = 1))]
    pub peers: Vec<BgpPeer>,
}

impl Bgp {
    const fn hold() -> Duration {
        Duration::from_secs(9)
    }

    /// The load balancer's number among routers, if there is one.
    #[must_use]
    pub fn router_id(&self, config: &Config) -> Option<Ipv4Addr> {
        let mut all = config.interfaces.iter().flat_map(|own| &own.addresses);
        self.router_id.or_else(|| {
            all.find_map(|own| match own.addr() {
                IpAddr::V4(own) => Some(own),
                IpAddr::V6(_) => None,
            })
        })
    }
}

/// A router that VIPs are announced to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BgpPeer {
    /// Its address.
    #[schemars(with = "String", extend("format" = "ip"))]
    pub address: IpAddr,
    /// Its AS number.
    #[serde(rename = "as")]
    #[schemars(range(min = 1, max = 4_294_967_294u32))]
    pub asn: u32,
    /// The TCP MD5 password of the session (RFC 2385), without quotation marks, backslashes and control characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 80))]
    pub password: Option<String>,
    /// How many hops away the router may be; by default it must be on-link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub multihop: Option<u8>,
}

/// What `hnlb announce render keepalived` makes keepalived's configuration of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vrrp {
    /// The `kernel` name of the interface on which the load balancers exchange VRRP and which gets the addresses.
    #[schemars(extend("format" = "kernel-interface"))]
    pub interface: String,
    /// The virtual router ID, the same on all its load balancers and used by no other router on the link.
    #[schemars(range(min = 1, max = 255))]
    pub id: u8,
    /// The load balancer with the highest priority gets the addresses.
    #[serde(default = "Vrrp::priority")]
    #[schemars(range(min = 1, max = 254))]
    pub priority: u8,
    /// How often the load balancer that has the addresses advertises; the others take over after about three intervals.
    #[serde(default = "Vrrp::interval", with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "10ms", "x-maximum" = "40s"))]
    pub interval: Duration,
    /// The addresses, on-link at the interface: the next hop of routers towards the VIPs, and the gateway of backends.
    #[schemars(with = "Vec<text::InterfaceAddress>", length(min = 1))]
    pub addresses: Vec<IpNet>,
}

impl Vrrp {
    const fn priority() -> u8 {
        100
    }

    const fn interval() -> Duration {
        Duration::from_secs(1)
    }
}
