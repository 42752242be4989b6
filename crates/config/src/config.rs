//! The whole file.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Conntrack, Eal, Fragments, Interface, Neighbour, Neighbours, Offload, Pool, Port, Route,
    Service, Status, Workers,
};

/// The configuration of HNLB.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// DPDK's environment abstraction layer: memory and arguments.
    pub eal: Eal,
    /// A device that packets come from and go to. At least one is needed.
    #[serde(rename = "port")]
    pub ports: Vec<Port>,
    /// A layer-3 interface on a port: its addresses and VLAN. At least one is needed.
    #[serde(rename = "interface")]
    pub interfaces: Vec<Interface>,
    /// A route to what is not on-link; the longest prefix wins.
    #[serde(rename = "route")]
    pub routes: Vec<Route>,
    /// A neighbour whose Ethernet address is given and not asked for.
    #[serde(rename = "neighbour")]
    pub static_neighbours: Vec<Neighbour>,
    /// The worker cores and how they poll.
    pub workers: Workers,
    /// The connection table.
    pub conntrack: Conntrack,
    /// Reassembly of fragmented datagrams.
    pub fragments: Fragments,
    /// Offload of connections into the match table of the NIC.
    pub offload: Offload,
    /// The neighbour table (ARP and NDP).
    pub neighbours: Neighbours,
    /// Source addresses for services in mode `fullnat`.
    #[serde(rename = "pool")]
    pub pools: Vec<Pool>,
    /// A virtual address and the backends behind it.
    #[serde(rename = "service")]
    pub services: Vec<Service>,
    /// Where counters are asked for.
    pub status: Status,
}
