//! Connections of the L7 agent that the NIC may send on: they get an id by which the
//! offload side knows them, and rules are asked for as for others.
use conntrack::ConnId;
use flow::AdmissionPolicy;
use packet::PacketBuf;
use splice::{Constant, Place, Worth};
use state::{Loan, Offload, Return};

use crate::Outbox;
use crate::context::Context;
use crate::offload_requests::{REMIND, tell};
use crate::pipeline::Stages;
use crate::slow::act::hop_to;

impl<B: PacketBuf> Stages<B> {
    /// Takes a packet of the agent's connection at `place` as an occasion to ask for a rule.
    #[cold]
    pub(crate) fn lend<O: Outbox<B>>(&mut self, cx: &mut Context<'_, O>, place: Place) {
        if cx.snapshot.admit == AdmissionPolicy::Off {
            return;
        }
        let (now_ms, worth) = (cx.now_ms, Worth(cx.snapshot.reply_bytes));
        if let Some((agent, mut surroundings)) = self.surrounded(cx) {
            agent.occasion(place, worth, now_ms, &mut surroundings);
        }
    }
}

/// Lends an id to a connection; `None`: it can't have rules, or there is no id.
pub(crate) fn lend<O>(cx: &Context<'_, O>, constant: &Constant) -> Option<splice::Loan> {
    let Constant { service, ends: [client, vip], backend, added, idle_ms } = *constant;
    let loan = Loan {
        service,
        backend: backend.id,
        ends: [client, vip, backend.at],
        hops: [hop_to(cx, client.ip()).ok()?, hop_to(cx, backend.at.ip()).ok()?],
        added,
        timeout_ms: u32::try_from(idle_ms).unwrap_or(u32::MAX),
    };
    let near = usize::from(client.port()).wrapping_mul(61);
    let conn = cx.shared.loans().lend(&loan, near, cx.now_ms)?;
    Some(splice::Loan(conn.raw()))
}

/// Asks for a rule. `false`: packets take another way by now than when the id was lent.
pub(crate) fn remind<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    loan: splice::Loan,
) -> bool {
    let (conn, loans) = (ConnId::from_raw(loan.0), cx.shared.loans());
    let Some(Loan { ends: [client, _, backend], hops, .. }) = loans.get(conn) else { return false };
    if hops.map(Ok) != [hop_to(cx, client.ip()), hop_to(cx, backend.ip())] {
        return false;
    }
    if cx.snapshot.admit == AdmissionPolicy::Heavy {
        tell(cx, conn, Offload::Seen(REMIND));
    } else if loans.want(conn) && !tell(cx, conn, Offload::Wanted) {
        cx.shared.loans().want_not(conn);
    }
    true
}

/// Takes an id back. `false`: there may be a rule.
pub(crate) fn take_back<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    loan: splice::Loan,
) -> bool {
    let conn = ConnId::from_raw(loan.0);
    match cx.shared.loans().take_back(conn) {
        Return::Done => true,
        Return::Asked => {
            // If there is no room for it, the offload side finds out by itself.
            tell(cx, conn, Offload::Recalled);
            false
        }
        Return::Awaited => false,
    }
}
