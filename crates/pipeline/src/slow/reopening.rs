//! A SYN on the 5-tuple of a connection that has ended, or whose backend takes no
//! new connections, begins a new connection: the scheduler decides, as for any
//! other. Proxies and NATs in front use their few 5-tuples again at once, and a
//! drained backend would get their new connections for ever.
//!
//! Successors: if the old connection stays, those of known connections; if it
//! went, the miss stage, with the backend that was chosen.
use conntrack::{ConnState, Hit, OffloadState};
use flow::Direction;
use packet::PacketBuf;
use state::{Counter, Offload};
use wire::{FlowKey, Headers};

use crate::Outbox;
use crate::context::Context;
use crate::offload_requests::tell;
use crate::scheduling::Scheduling;
use crate::verdict::Verdict;

/// A connection keeps its backend for so long after its last packet, unless it has
/// ended and the backend takes no connections. By then the rules of an ended
/// connection have left the NIC (`linger_ms` of the offload side and a few
/// milliseconds), so that the choice is the same with rules and without: hardware
/// and software must agree. The time is longer than the first timeout of a SYN, which
/// is one second (RFC 6298 section 2): a client that sends its SYN again because
/// something was lost should get the backend that has answered already.
const REST_MS: u64 = 1500;

/// The connection whose 5-tuple a client's SYN uses again, if it does.
#[inline]
pub(crate) fn reopened(headers: &Headers, verdict: Verdict) -> Option<Hit> {
    match verdict {
        Verdict::Marked(hit) | Verdict::Found(hit)
            if headers.tcp_flags.opens() && hit.direction == Direction::Forward =>
        {
            Some(hit)
        }
        _ => None,
    }
}

/// Decides whether the SYN with `key` goes on to the connection `hit`, or to no
/// connection: then `hit` has been removed, and `scheduling` has been handed the
/// backend that serves the new one.
#[cold]
#[inline(never)]
pub(crate) fn reopen<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    scheduling: &mut Scheduling,
    hit: Hit,
    key: &FlowKey,
    headers: &Headers,
) -> Result<Verdict, Counter> {
    let snapshot = cx.snapshot;
    let table = cx.shared.table();
    let (Some(action), Some(state)) = (table.action(hit), table.state(hit.conn)) else {
        return Ok(Verdict::Unknown);
    };
    let service = snapshot.services.lookup(key).filter(|service| !service.is_stateless());
    let Some(service) = service else { return Ok(Verdict::Found(hit)) };
    let backend = snapshot.services.backend(action.backend);
    let takes = backend.is_some_and(|own| own.weight > 0 && own.service == service.id());
    let ended = matches!(state, ConnState::Closing | ConnState::Reset);
    let rested = || table.idle_ms(hit.conn, cx.now_ms).is_some_and(|idle_ms| idle_ms >= REST_MS);
    let anew = match (takes, ended) {
        (true, ended) => ended && rested(),
        (false, ended) => ended || rested(),
    };
    if !anew {
        return Ok(Verdict::Found(hit));
    }
    let chosen = scheduling.backend(cx, service, key, headers.tcp_flags);
    let chosen = chosen.ok_or(Counter::NoBackend)?;
    if takes && chosen == action.backend {
        return Ok(Verdict::Found(hit));
    }
    match table.offloaded(hit.conn) {
        Some(OffloadState::None) => {
            if let Some(gone) = table.remove(hit.conn) {
                cx.shared.loads().closed(gone.backend);
                cx.count(Counter::Rescheduled);
            }
            scheduling.hand_on(Some(chosen));
            Ok(Verdict::Unknown)
        }
        // The connection's rules are being withdrawn, and its backend is as good as
        // any.
        _ if takes => Ok(Verdict::Found(hit)),
        _ => {
            tell(cx, hit.conn, Offload::Closing);
            Err(Counter::RulesRemain)
        }
    }
}
