//! Packets that the load balancer answers itself: ARP, neighbour discovery, ICMP
//! echoes, reports about tunnels that are too narrow, and refusals.

pub(crate) mod arp;
mod conflict;
pub(crate) mod echo;
pub(crate) mod icmp;
pub(crate) mod ndp;
mod reassembly;
pub(crate) mod refusal;
pub(crate) mod revoked;
mod too_long;
