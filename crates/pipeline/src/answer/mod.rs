//! What the load balancer answers itself: ARP, neighbour discovery, ICMP echoes,
//! and reports about tunnels that are too narrow.

pub(crate) mod arp;
pub(crate) mod icmp;
pub(crate) mod ndp;
mod too_long;
