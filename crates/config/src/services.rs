//! `[[pool]]`, `[[service]]`, `[[service.backend]]`: what is balanced.
use std::net::IpAddr;
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// Source addresses for services in mode `fullnat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Its name, by which services refer to it; at most 32 letters, digits, `_`, `-` and `.`.
    #[schemars(extend("format" = "name"))]
    pub name: String,
    /// The addresses that backends see as clients. The backends must send answers to them back to this load balancer.
    #[schemars(with = "Vec<text::Address>", length(min = 1))]
    pub addresses: Vec<IpAddr>,
    /// The ports used at each address, as `"1024-65535"`.
    #[serde(default = "ports", with = "text::port_range")]
    #[schemars(with = "String", extend("format" = "port-range"))]
    pub ports: RangeInclusive<u16>,
}

const fn ports() -> RangeInclusive<u16> {
    1024..=65535
}

/// A virtual address and the backends behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its name; at most 32 letters, digits, `_`, `-` and `.`.
    #[schemars(extend("format" = "name"))]
    pub name: String,
    /// The address that clients speak to. It is answered for (ARP, NDP, ICMP echo) at the interface where it is on-link.
    #[schemars(with = "String", extend("format" = "ip"))]
    pub vip: IpAddr,
    /// The port that clients speak to, or `"any"` for all that no other service of the address has.
    #[serde(with = "text::service_port")]
    #[schemars(with = "text::ServicePort")]
    pub port: Option<u16>,
    /// The transport protocol.
    pub protocol: Protocol,
    /// How packets get to the backends: rewritten, or as they are.
    #[serde(default)]
    pub mode: Mode,
    /// Balanced without connections: what `by` says chooses the backend, whatever the scheduler, in proportion to the weights. Only with the mode `dsr`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stateless: bool,
    /// What chooses the backend of a stateless service.
    #[serde(default, skip_serializing_if = "By::is_source")]
    pub by: By,
    /// The name of the pool of source addresses; needed with the mode `fullnat`, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "name"))]
    pub pool: Option<String>,
    /// The source address of outer packets, of the backends' family; by default that of the interface towards the backend. Only with the modes `ipip`, `gue` and `gre`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "ip"), with = "Option<String>")]
    pub tunnel_source: Option<IpAddr>,
    /// Time to live or hop limit of outer packets, by default 64. Only with the modes `ipip`, `gue` and `gre`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub tunnel_ttl: Option<u8>,
    /// The UDP port at which backends take tunnelled packets, by default 6080. Only with the mode `gue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub tunnel_port: Option<u16>,
    /// How the backend of a new connection is chosen.
    #[serde(default)]
    pub scheduler: Scheduler,
    /// Slots of the service's Maglev table: a prime, at least 100 times the number of backends.
    #[serde(default = "maglev_size")]
    #[schemars(range(min = 101, max = 16_777_213))]
    pub maglev_size: u32,
    /// A server behind it. At least one is needed.
    #[serde(rename = "backend", default)]
    #[schemars(length(min = 1))]
    pub backends: Vec<Backend>,
}

const fn maglev_size() -> u32 {
    service::MAGLEV_DEFAULT
}

impl Service {
    /// What is between the outer and the inner IP header; `None` without tunnels.
    #[must_use]
    pub fn tunnel(&self) -> Option<wire::Tunnel> {
        match self.mode {
            Mode::Nat | Mode::FullNat | Mode::Dsr => None,
            Mode::Ipip => Some(wire::Tunnel::Ipip),
            Mode::Gre => Some(wire::Tunnel::Gre),
            Mode::Gue => {
                let port = self.tunnel_port.unwrap_or(wire::encap::GUE_PORT);
                Some(wire::Tunnel::Gue { port })
            }
        }
    }
}

/// A server behind a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// Its address, of the VIP's family, or with the modes `ipip`, `gue` and `gre` of either.
    #[schemars(with = "String", extend("format" = "ip"))]
    pub address: IpAddr,
    /// Its port; by default the port that the client asked for. Not allowed in a service of any port, and only with the modes `nat` and `fullnat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
    /// Its share of new connections compared with the others'; 0: drained, it keeps its connections and gets no new ones.
    #[serde(default = "weight")]
    #[schemars(range(min = 0, max = 65535))]
    pub weight: u16,
}

const fn weight() -> u16 {
    1
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl From<Protocol> for wire::Transport {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Tcp => Self::Tcp,
            Protocol::Udp => Self::Udp,
        }
    }
}

/// How packets get to the backends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Only the destination is rewritten: the backend sees the client's address, and must send its answers through this load balancer.
    #[default]
    Nat,
    /// Source and destination are rewritten: the backend sees an address of a pool.
    FullNat,
    /// Nothing but Ethernet addresses: the backend, on-link, has the VIP without announcing it, and answers clients itself.
    Dsr,
    /// Nothing: packets go inside others, IP in IP (RFC 2003, RFC 2473), to the backend, which has the VIP and answers clients itself.
    Ipip,
    /// Nothing: packets go inside UDP (generic UDP encapsulation, variant 1) to the backend, which has the VIP and answers clients itself.
    Gue,
    /// Nothing: packets go inside others behind a GRE header (RFC 2784) to the backend, which has the VIP and answers clients itself.
    Gre,
}

impl Mode {
    /// Its name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nat => "nat",
            Self::FullNat => "fullnat",
            Self::Dsr => "dsr",
            Self::Ipip => "ipip",
            Self::Gue => "gue",
            Self::Gre => "gre",
        }
    }

    /// Whether packets reach the backend as the client sent them, and the
    /// backend answers by itself.
    #[must_use]
    pub const fn is_one_way(self) -> bool {
        !matches!(self, Self::Nat | Self::FullNat)
    }

    /// Whether packets get to the backend inside others.
    #[must_use]
    pub const fn is_tunnel(self) -> bool {
        matches!(self, Self::Ipip | Self::Gue | Self::Gre)
    }
}

/// What chooses the backend of a stateless service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The low bits of the client's address: all its packets go to one backend. A NIC that can does all of it.
    #[default]
    Source,
    /// The low bits of the hash of addresses and ports that NICs use for receive side scaling: each flow goes to one backend, however alike the clients' addresses are. Software does all of it.
    Hash,
}

impl By {
    const fn is_source(&self) -> bool {
        matches!(self, Self::Source)
    }
}

impl From<By> for service::By {
    fn from(by: By) -> Self {
        match by {
            By::Source => Self::Source,
            By::Hash => Self::Hash,
        }
    }
}

/// How the backend of a new connection is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Each in turn; weights don't matter.
    RoundRobin,
    /// Each in turn, as often as its weight says, evenly spread.
    WeightedRoundRobin,
    /// The one with the fewest connections for its weight.
    LeastConnections,
    /// Consistent hashing over addresses and ports: few connections move when backends change.
    #[default]
    Maglev,
    /// Consistent hashing over the client's address: all its connections go to one backend.
    SourceHash,
}

impl From<Scheduler> for service::Scheduler {
    fn from(scheduler: Scheduler) -> Self {
        match scheduler {
            Scheduler::RoundRobin => Self::RoundRobin,
            Scheduler::WeightedRoundRobin => Self::WeightedRoundRobin,
            Scheduler::LeastConnections => Self::LeastConnections,
            Scheduler::Maglev => Self::Maglev,
            Scheduler::SourceHash => Self::SourceHash,
        }
    }
}
