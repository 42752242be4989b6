//! Which backend a new connection is given: the policy of the fast and the slow
//! path alike.
use flow::BackendId;
use service::{Service, WorkerScheduleState};
use wire::{FlowKey, TcpFlags, Transport};

use crate::context::Context;
use crate::slow::stateless;

/// What one worker's choices depend on besides the packet.
#[derive(Debug)]
pub(crate) struct Scheduling {
    /// Of the schedulers; belongs to the present service table.
    pub(crate) state: WorkerScheduleState,
    /// When the connection table was last found full, by family: each has records
    /// of its own, and connections of one say nothing about those of the other.
    full_ms: [Option<u64>; 2],
    /// How long flows stay where they were served without state.
    pub(crate) udp_timeout_ms: u64,
    /// The backend of the packet that is about to take the slow path, if the
    /// fast path has chosen it already.
    chosen: Option<BackendId>,
}

impl Scheduling {
    pub(crate) const fn new(state: WorkerScheduleState, udp_timeout_ms: u64) -> Self {
        Self { state, full_ms: [None; 2], udp_timeout_ms, chosen: None }
    }

    /// Whether no flow of the family of `flow` is about that found the table full.
    #[inline]
    pub(crate) fn is_calm(&self, flow: &FlowKey, now_ms: u64) -> bool {
        let [v4, v6] = self.full_ms;
        let full_ms = if matches!(flow, FlowKey::V6(_)) { v6 } else { v4 };
        full_ms.is_none_or(|full_ms| now_ms.saturating_sub(full_ms) > self.udp_timeout_ms)
    }

    /// The connection of `flow` has found the table full.
    pub(crate) const fn table_is_full(&mut self, flow: &FlowKey, now_ms: u64) {
        let [v4, v6] = &mut self.full_ms;
        *(if matches!(flow, FlowKey::V6(_)) { v6 } else { v4 }) = Some(now_ms);
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
    /// packet, and a SYN sent again, while connections are about that found the
    /// table full.
    pub(crate) fn choose<O>(
        &mut self,
        cx: &Context<'_, O>,
        service: &Service,
        flow: &FlowKey,
        flags: TcpFlags,
    ) -> Option<BackendId> {
        let calm = self.is_calm(flow, cx.now_ms);
        let begins = match flow.proto() {
            Transport::Tcp => calm && stateless::opens(Transport::Tcp, flags),
            Transport::Udp => calm,
        };
        if begins {
            service.schedule(flow, &mut self.state, &cx.shared.loads)
        } else {
            service.hashed(flow)
        }
    }
}
