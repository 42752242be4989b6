//! Backends that several services of mode `nat` share at one address and port.
//!
//! An answer from there says which backend and which client, but not which VIP.
//! The connection table knows; without a connection in it the services agree by
//! hashing alone. To each answer's 5-tuple belongs one service, the claimant: of
//! those to which hashing gives that backend for that client the first, services of
//! a certain port before those of any port; if hashing gives it to none, the one
//! with the highest rendezvous hash. A service forwards without state only to a
//! backend where it is the claimant, and so takes another than hashing gives it
//! first where it is not.
use std::net::SocketAddr;

use flow::BackendId;
use wire::FlowKey;

use super::ServiceTable;
use crate::siphash::{self, Key};
use crate::{ModeSpec, Service};

// Fixed, so that several load balancers with the same services agree.
const KEY: Key = [0x7368_6172_6564_2062, 0x6163_6b65_6e64_2031];

/// Backends tried besides the one that hashing gives first.
const TRIES: u64 = 8;

impl ServiceTable {
    /// The backend for `flow`, to `service`, without any state: what
    /// [`Service::hashed`] gives, or another if the answers from there belong to
    /// another service and there is one from which they don't.
    #[must_use]
    pub fn hashed(&self, service: &Service, flow: &FlowKey) -> Option<BackendId> {
        let first = service.hashed(flow)?;
        if self.claims(service, first, flow) {
            return Some(first);
        }
        let others = (1..=TRIES).filter_map(|again| service.hashed_again(flow, again));
        Some(others.into_iter().find(|own| self.claims(service, *own, flow)).unwrap_or(first))
    }

    /// Whether answers of `backend` to `flow`, to `service`, can be told from those
    /// of all other services without any state.
    #[must_use]
    pub fn claims(&self, service: &Service, backend: BackendId, flow: &FlowKey) -> bool {
        if !self.shares {
            return true;
        }
        // Of other modes than `nat` answers don't come from the backend's address.
        let nat = matches!(service.mode(), ModeSpec::Nat);
        let server = service.server(backend, flow.dst().port()).filter(|_| nat);
        let answer = server.and_then(|server| FlowKey::new(flow.proto(), server, flow.src()));
        answer.is_none_or(|answer| {
            self.claimant(&answer).is_some_and(|(own, _)| own.id() == service.id())
        })
    }

    /// The service that the packet with 5-tuple `answer`, from a backend, is an
    /// answer of if it belongs to no connection in the table, and the backend.
    #[must_use]
    pub fn claimant(&self, answer: &FlowKey) -> Option<(&Service, BackendId)> {
        let pairs = self.by_backend(answer.proto(), answer.src());
        let sharers = pairs.iter().filter_map(|&(service, backend)| {
            let service = self.service(service)?;
            let flow = service.answered_flow(answer)?;
            let reached = self.lookup(&flow)?.id() == service.id();
            let nat = matches!(service.mode(), ModeSpec::Nat);
            (reached && nat).then_some((service, backend, flow))
        });
        let by_hashing =
            sharers.clone().filter(|(service, own, flow)| service.hashed(flow) == Some(*own));
        let first = by_hashing
            .min_by_key(|(service, ..)| (service.port().is_none(), service.vip(), service.port()));
        // No packet is sent to a drained backend without state, so it comes last.
        let serves = |own| self.backend(own).is_some_and(|own| own.weight > 0);
        let seed = siphash::flow(KEY, answer, 0);
        let rendezvous =
            || sharers.max_by_key(|(_, own, flow)| (serves(*own), siphash::flow(KEY, flow, seed)));
        first.or_else(rendezvous).map(|(service, backend, _)| (service, backend))
    }
}

impl Service {
    /// The client's 5-tuple, if the packet with 5-tuple `answer` is an answer to it
    /// of this service's backend.
    #[must_use]
    pub fn answered_flow(&self, answer: &FlowKey) -> Option<FlowKey> {
        let port = self.port().unwrap_or(answer.src().port());
        FlowKey::new(answer.proto(), answer.dst(), SocketAddr::new(self.vip(), port))
    }
}
