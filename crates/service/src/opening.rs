//! How first packets of connections are served, decided when a service is compiled.
use flow::Scheduler;

use crate::{Forwarding, ModeSpec};

/// Whether the first answer to a new connection is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstAnswer {
    /// Answers do not pass the load balancer.
    Unseen,
    /// Its time is counted.
    Timed,
    /// Its time is counted, and the scheduler is to know of an answer that does not come.
    Awaited,
}

impl FirstAnswer {
    /// Of a service with this forwarding and scheduler.
    const fn of(forwarding: Forwarding, scheduler: Scheduler) -> Self {
        match (forwarding.is_one_way(), scheduler.measures_answers()) {
            (true, _) => Self::Unseen,
            (false, false) => Self::Timed,
            (false, true) => Self::Awaited,
        }
    }
}

/// What the path of first packets asks of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Whether the fast path may open connections: the backend follows from the 5-tuple
    /// and the scheduler alone, and the client's address stays.
    pub is_usual: bool,
    /// How its backends are chosen.
    pub scheduler: Scheduler,
    /// What is done with the first answer.
    pub first_answer: FirstAnswer,
}

impl Opening {
    /// Of a service with this mode and scheduler; `reads`: what its clients send is looked
    /// at for a backend.
    pub(crate) fn of(mode: &ModeSpec, scheduler: Scheduler, reads: bool) -> Self {
        let keeps_clients = matches!(mode, ModeSpec::Nat | ModeSpec::Dsr | ModeSpec::Tunnel(_));
        let first_answer = FirstAnswer::of(mode.forwarding(), scheduler);
        Self { is_usual: keeps_clients && !reads, scheduler, first_answer }
    }
}
