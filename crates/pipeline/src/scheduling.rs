//! Which backend a new connection is given: the policy of the fast and the slow
//! path alike.
use flow::{BackendId, ServiceId};
use service::{Service, WorkerScheduleState};
use wire::{FlowKey, TcpFlags, Transport};

use crate::context::Context;
use crate::exhausted_pools::ExhaustedPools;
use crate::refusals::{Refusals, Refused};
use crate::slow::stateless;

/// What one worker's choices depend on besides the packet.
#[derive(Debug)]
pub(crate) struct Scheduling {
    /// Of the schedulers; belongs to the present service table.
    pub(crate) state: WorkerScheduleState,
    /// What the connection table has refused.
    refusals: Refusals,
    /// Pools without a free local endpoint.
    pub(crate) exhausted: ExhaustedPools,
    /// How long flows stay where they were served without state.
    pub(crate) udp_timeout_ms: u64,
    /// The backend of the packet that is about to take the slow path, if the
    /// fast path has chosen it already.
    chosen: Option<BackendId>,
}

impl Scheduling {
    pub(crate) fn new(state: WorkerScheduleState, udp_timeout_ms: u64) -> Self {
        let (refusals, exhausted) = (Refusals::default(), ExhaustedPools::default());
        Self { state, refusals, exhausted, udp_timeout_ms, chosen: None }
    }

    /// Whether no flow is about that the table refused for a reason that holds for
    /// `flow` to `service`, too.
    #[inline]
    pub(crate) fn is_calm(&self, service: ServiceId, flow: &FlowKey, now_ms: u64) -> bool {
        self.refusals.is_calm((service, flow), now_ms, self.udp_timeout_ms)
    }

    /// The table has refused the connection of `flow` to `service`.
    pub(crate) fn refused(
        &mut self,
        service: ServiceId,
        flow: &FlowKey,
        why: Refused,
        now_ms: u64,
    ) {
        self.refusals.note((service, flow), why, now_ms);
    }

    /// Hands `backend` on to the slow path: the next choice is that one. `None`
    /// takes it back.
    pub(crate) const fn hand_on(&mut self, backend: Option<BackendId>) {
        self.chosen = backend;
    }

    /// The backend for the connection that a packet with `flags` opens: the one
    /// handed on, or else [`Self::choose`]'s.
    pub(crate) fn backend<O>(
        &mut self,
        cx: &Context<'_, O>,
        service: &Service,
        flow: &FlowKey,
        flags: TcpFlags,
    ) -> Option<BackendId> {
        self.chosen.take().or_else(|| self.choose(cx, service, flow, flags))
    }

    /// A TCP connection begins with SYN, and a scheduler may choose. Any other
    /// packet may be of a connection that was served before, by this load
    /// balancer or another, and Maglev is what they agree on. So may a UDP
    /// packet, and a SYN sent again, while connections are about that the table
    /// refused.
    pub(crate) fn choose<O>(
        &mut self,
        cx: &Context<'_, O>,
        service: &Service,
        flow: &FlowKey,
        flags: TcpFlags,
    ) -> Option<BackendId> {
        let calm = self.is_calm(service.id(), flow, cx.now_ms);
        let begins = match flow.proto() {
            Transport::Tcp => calm && stateless::opens(Transport::Tcp, flags),
            Transport::Udp => calm,
        };
        if begins && service.scheduler().remembers() {
            service.schedule(flow, &mut self.state, &cx.shared.loads)
        } else {
            cx.snapshot.services.hashed(service, flow)
        }
    }
}
