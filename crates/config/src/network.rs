//! `[[interface]]`, `[[route]]`, `[[neighbour]]`, `[neighbours]`: layers 2 and 3.
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::Mac;

use crate::text;

/// A layer-3 interface on a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// The name of its port.
    #[schemars(extend("format" = "name"))]
    pub port: String,
    /// The 802.1Q VLAN of its packets; by default they are untagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub vlan: Option<u16>,
    /// Its Ethernet address; by default the port's.
    #[serde(default, with = "text::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "mac"))]
    pub mac: Option<Mac>,
    /// Its addresses with the length of the on-link prefix, such as `["10.71.0.1/24", "fd71::1/64"]`.
    #[schemars(with = "Vec<text::InterfaceAddress>", length(min = 1))]
    pub addresses: Vec<IpNet>,
    /// The name of a kernel interface that stands for this one, such as `hnlb0`: HNLB creates it, with this interface's addresses, and hands the kernel the packets that are for none of the services. See exceptions.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "kernel-interface"))]
    pub kernel: Option<String>,
}

/// A route to addresses that are not on-link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The destinations, such as `0.0.0.0/0` or `2001:db8::/32`.
    #[schemars(with = "String", extend("format" = "prefix"))]
    pub prefix: IpNet,
    /// The next hop: an address on-link at an interface.
    #[schemars(with = "String", extend("format" = "ip"))]
    pub via: IpAddr,
}

/// A neighbour with a fixed Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    /// Its address, on-link at an interface.
    #[schemars(with = "String", extend("format" = "ip"))]
    pub address: IpAddr,
    /// Its Ethernet address.
    #[serde(with = "text::plain")]
    #[schemars(with = "String", extend("format" = "mac"))]
    pub mac: Mac,
}

/// The neighbour table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Neighbours {
    /// The number of neighbours that the table holds.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub max: u32,
    /// How long a resolved address is valid before HNLB probes the neighbour again.
    #[serde(with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "1s", "x-maximum" = "1h"))]
    pub refresh: Duration,
    /// Whether a resolved Ethernet address is kept as long as the neighbour answers there, whatever other stations claim.
    pub pin: bool,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self { max: 65536, refresh: Duration::from_secs(30), pin: false }
    }
}
