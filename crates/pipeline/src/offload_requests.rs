//! Packets of known connections: each one updates its connection's state, and events
//! that concern the offload side are reported to it.
use conntrack::{ConnId, ConnState, Event, Hit, OffloadState, Segment};
use flow::{AdmissionPolicy, BackendId, Direction};
use packet::PacketBuf;
use service::FirstAnswer;
use state::{Counter, Offload};
use wire::{Headers, Transport};

use crate::Outbox;
use crate::context::{Context, Decision};
use crate::sampler::Sampler;

/// One packet in so many of those whose connection is known is an occasion to ask for
/// rules again: the ring may have been full, and rules may have been taken back. The
/// busiest connections ask soonest this way. Where the offload side chooses the
/// connections, each occasion is a sample for it, whether the NIC matched the packet
/// or not.
pub(crate) const REMIND: u32 = 64;

/// What the act stage does to a packet of connection `hit`; `None` if the connection
/// has just been removed.
#[inline]
pub(crate) fn decision<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    hit: Hit,
    headers: &Headers,
) -> Option<Decision> {
    let (action, event) = cx.shared.table().serve(hit, segment(headers), cx.now_ms)?;
    if event != Event::None {
        notice(cx, hit, event);
    }
    Some(action.into())
}

/// Counts a packet that was matched by queue and chosen as a sample.
pub(crate) fn touch<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    hit: Hit,
    segment: Option<Segment>,
) {
    let event = cx.shared.table().touch(hit, segment, cx.now_ms);
    if event != Event::None {
        notice(cx, hit, event);
    }
    if cx.snapshot.admit == AdmissionPolicy::Heavy {
        remind(cx, hit.conn, cx.snapshot.sample);
    }
}

/// What the table looks at in a TCP header.
pub(crate) fn segment(headers: &Headers) -> Option<Segment> {
    (headers.proto == Transport::Tcp.number()).then_some(Segment {
        flags: headers.tcp_flags,
        sequence: headers.sequence,
        acknowledgement: headers.acknowledgement,
    })
}

/// Notes that the new connection `conn` waits for the first answer of `backend`, which is
/// seen.
#[inline(never)]
pub(crate) fn measure<O>(
    cx: &Context<'_, O>,
    conn: ConnId,
    backend: BackendId,
    first: FirstAnswer,
) {
    if let Some(generation) = cx.shared.table().generation(conn) {
        cx.shared.loads().asked((conn.raw(), generation), backend, cx.now_ms);
        cx.counts.asked(backend);
    }
    if first == FirstAnswer::Awaited {
        cx.shared.loads().waits(backend, cx.now_ms);
    }
}

/// Counts the first answer of a connection, if `event` of its connection is one.
fn first_answer<O>(cx: &Context<'_, O>, Hit { conn, direction }: Hit, event: Event) {
    let Some(generation) = cx.shared.table().generation(conn) else { return };
    let (loads, conn) = (cx.shared.loads(), (conn.raw(), generation));
    match (event, direction) {
        (Event::Answered | Event::Established, _) => {
            if let Some((backend, after_ms)) = loads.answered(conn, cx.now_ms) {
                cx.counts.answered(backend, after_ms);
            }
        }
        (Event::Reset, Direction::Reply) => {
            if let Some(backend) = loads.refused(conn) {
                cx.counts.refused(backend);
            }
        }
        _ => {}
    }
}

/// An event of a connection that may concern the offload side, with the packet that brought
/// it about.
#[cold]
pub(crate) fn notice<B: PacketBuf, O: Outbox<B>>(cx: &mut Context<'_, O>, hit: Hit, event: Event) {
    let conn = hit.conn;
    first_answer(cx, hit, event);
    let in_software = cx.shared.table().offloaded(conn) == Some(OffloadState::None);
    match event {
        Event::Established | Event::Restored if workers_ask(cx.snapshot.admit) => {
            want(cx, conn);
        }
        Event::Closing | Event::Reset if !in_software => {
            tell(cx, conn, Offload::Closing);
        }
        Event::ResetDoubted => cx.count(Counter::ResetDoubted),
        Event::Reopened => {
            cx.count(Counter::Reopened);
            if !in_software {
                tell(cx, conn, Offload::Reopened);
            } else if cx.snapshot.admit == AdmissionPolicy::FirstPacket {
                want(cx, conn);
            }
        }
        _ => {}
    }
}

/// Whether workers ask for rules as soon as they may.
const fn workers_ask(admit: AdmissionPolicy) -> bool {
    matches!(admit, AdmissionPolicy::All | AdmissionPolicy::FirstPacket)
}

/// Asks for rules, unless a request is pending.
pub(crate) fn want<B: PacketBuf, O: Outbox<B>>(cx: &mut Context<'_, O>, conn: ConnId) {
    let table = cx.shared.table();
    if table.change_offload(conn, OffloadState::None, OffloadState::Wanted)
        && !tell(cx, conn, Offload::Wanted)
    {
        // The connection can be asked for again.
        table.change_offload(conn, OffloadState::Wanted, OffloadState::None);
    }
}

pub(crate) fn tell<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    conn: ConnId,
    why: Offload,
) -> bool {
    let told = cx.out.offload(conn, why);
    cx.count(if told { Counter::OffloadRequests } else { Counter::OffloadRingFull });
    told
}

/// Reminds the offload side of connections that software still serves.
#[derive(Debug)]
pub(crate) struct Reminder(pub(crate) Sampler);

impl Reminder {
    /// Takes note of a packet of connection `hit`.
    #[inline]
    pub(crate) fn found<B: PacketBuf, O: Outbox<B>>(&mut self, cx: &mut Context<'_, O>, hit: Hit) {
        if self.0.takes(REMIND) {
            self.remind(cx, hit);
        }
    }

    /// The next place among `from` to `end` of a burst that is an occasion.
    #[inline]
    pub(crate) fn next(&mut self, from: usize, end: usize) -> Option<usize> {
        self.0.next(from, end, REMIND)
    }

    /// Takes a packet of connection `hit` as an occasion.
    pub(crate) fn remind<B: PacketBuf, O: Outbox<B>>(&self, cx: &mut Context<'_, O>, hit: Hit) {
        if cx.snapshot.admit != AdmissionPolicy::Off {
            remind(cx, hit.conn, REMIND);
        }
    }
}

#[cold]
fn remind<B: PacketBuf, O: Outbox<B>>(cx: &mut Context<'_, O>, conn: ConnId, packets: u32) {
    let worth_it = match cx.shared.table().state(conn) {
        Some(ConnState::Established | ConnState::Stream) => true,
        Some(ConnState::HalfClosed(Direction::Forward | Direction::Reply)) => true,
        Some(ConnState::Closing | ConnState::Reset | ConnState::Revoked) | None => false,
        Some(_) => cx.snapshot.admit == AdmissionPolicy::FirstPacket,
    };
    match (worth_it, cx.snapshot.admit) {
        (false, _) => {}
        (true, AdmissionPolicy::Heavy) => {
            tell(cx, conn, Offload::Seen(packets));
        }
        (true, _) => want(cx, conn),
    }
}
