//! Layer 3: the networks that the load balancer is attached to, the routes to
//! all others, and the Ethernet addresses of next hops.
//!
//! An address is looked up in the [`RouteTable`], which gives the interface and
//! the neighbour that leads there; the [`NeighbourTable`] gives that neighbour a
//! [`HopId`](flow::HopId) and, once it is known, its Ethernet address.
#![forbid(unsafe_code)]

mod defences;
mod interface;
mod neighbour;
mod route;

pub use defences::Defences;
pub use interface::{Interface, Interfaces};
pub use neighbour::{Change, Learnt, Neighbour, NeighbourState, NeighbourTable};
pub use route::{Route, RouteTable};
