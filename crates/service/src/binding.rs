//! The decision for one connection: which backend, with which rewrite.
use std::net::SocketAddr;

use flow::{BackendId, Direction, ServiceId};
use wire::{FlowKey, Rewrite, Transport};

use crate::{Delivery, Forwarding};

/// Everything decided for one connection when its first packet came: the
/// addresses on both sides of the load balancer. Keys and rewrites of both
/// directions follow from it. All four endpoints are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// TCP or UDP.
    pub proto: Transport,
    /// The service the connection belongs to.
    pub service: ServiceId,
    /// The backend that serves it.
    pub backend: BackendId,
    /// How its packets get there.
    pub forwarding: Forwarding,
    /// The client, as it sent the first packet.
    pub client: SocketAddr,
    /// The VIP and port the client speaks to.
    pub vip: SocketAddr,
    /// What the backend takes itself for: its own address and port, or `vip`
    /// if packets reach it as they are.
    pub server: SocketAddr,
    /// What the backend takes the client for: the client's own address and
    /// port, or one of the pool in mode `fullnat`.
    pub local: SocketAddr,
}

impl Binding {
    /// The 5-tuple that packets of `direction` carry when they reach the load
    /// balancer; `None` if the endpoints are of different families.
    #[must_use]
    pub fn key(&self, direction: Direction) -> Option<FlowKey> {
        match direction {
            Direction::Forward => FlowKey::new(self.proto, self.client, self.vip),
            Direction::Reply => FlowKey::new(self.proto, self.server, self.local),
        }
    }

    /// What is done to packets of `direction`; `None` if the endpoints are of
    /// different families.
    #[must_use]
    pub fn delivery(&self, direction: Direction) -> Option<Delivery> {
        let unchanged = self.forwarding.delivery(direction, self.backend);
        unchanged.or_else(|| self.rewrite(direction).map(Delivery::Rewrite))
    }

    /// The change of endpoints in packets of `direction`, for connections
    /// whose packets are rewritten; `None` if the endpoints are of different
    /// families.
    #[must_use]
    pub fn rewrite(&self, direction: Direction) -> Option<Rewrite> {
        let nat = self.local == self.client;
        match (direction, nat) {
            (Direction::Forward, true) => Rewrite::destination(self.vip, self.server),
            (Direction::Forward, false) => {
                Rewrite::both((self.client, self.vip), (self.local, self.server))
            }
            (Direction::Reply, true) => Rewrite::source(self.server, self.vip),
            (Direction::Reply, false) => {
                Rewrite::both((self.server, self.local), (self.vip, self.client))
            }
        }
    }
}
