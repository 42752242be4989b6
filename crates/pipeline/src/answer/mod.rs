//! What the load balancer answers itself: ARP, neighbour discovery, ICMP echoes,
//! reports about tunnels that are too narrow, and refusals.

pub(crate) mod arp;
mod conflict;
pub(crate) mod icmp;
pub(crate) mod ndp;
pub(crate) mod refusal;
mod too_long;
