//! The choice of a new connection's backend: one policy for the fast and the slow
//! path.
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
    /// State of the schedulers, which belongs to the present service table.
    pub(crate) state: WorkerScheduleState,
    /// The last refusals of the connection table.
    refusals: Refusals,
    /// Pools without a free local endpoint.
    pub(crate) exhausted: ExhaustedPools,
    /// How long a flow that was served without state stays at its backend.
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

    /// Whether the table has refused no flow lately for a reason that holds for
    /// `flow` to `service`, too.
    #[inline]
    pub(crate) fn is_calm(&self, service: ServiceId, flow: &FlowKey, now_ms: u64) -> bool {
        self.refusals.is_calm((service, flow), now_ms, self.udp_timeout_ms)
    }

    /// Notes that the table has refused the connection of `flow` to `service`.
    pub(crate) fn refused(
        &mut self,
        service: ServiceId,
        flow: &FlowKey,
        why: Refused,
        now_ms: u64,
    ) {
        self.refusals.note((service, flow), why, now_ms);
    }

    /// Hands `backend` on to the slow path, whose next choice it becomes. `None`
    /// takes it back.
    pub(crate) const fn hand_on(&mut self, backend: Option<BackendId>) {
        self.chosen = backend;
    }

    /// The backend for the connection that a packet with `flags` opens: the backend
    /// handed on, or else the result of [`Self::choose`].
    pub(crate) fn backend<O>(
        &mut self,
        cx: &Context<'_, O>,
        service: &Service,
        flow: &FlowKey,
        flags: TcpFlags,
    ) -> Option<BackendId> {
        self.chosen.take().or_else(|| self.choose(cx, service, flow, flags))
    }

    /// A TCP connection begins with SYN, and a scheduler may choose. Any other packet
    /// may belong to a connection that this load balancer or another one served
    /// before; all of them agree on Maglev's choice. So may a UDP packet or a
    /// repeated SYN while connections are alive that the table refused.
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
            service.schedule(flow, &mut self.state, cx.shared.loads())
        } else {
            cx.snapshot.services.hashed(service, flow)
        }
    }
}
