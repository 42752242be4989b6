//! Time: how long what is kept, and the compact clock of the records.
use std::sync::atomic::{AtomicU32, Ordering};

use crate::state::{ConnState, TcpState};

/// How long a connection is kept without packets, by its state, in
/// milliseconds. Connections may be reported up to two ticks of 64 ms late,
/// never early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Unfinished TCP handshakes, and TCP connections picked up midway that
    /// the server hasn't confirmed.
    pub syn_ms: u32,
    /// Open TCP connections, half-closed ones included: the open half may
    /// still carry data for as long as it likes.
    pub established_ms: u32,
    /// TCP connections closed from both sides: retransmissions of the last
    /// FIN and ACK (TIME-WAIT, RFC 9293 section 3.6).
    pub closing_ms: u32,
    /// TCP connections after a RST.
    pub reset_ms: u32,
    /// TCP connections that one packet has ended, as far as one can tell: open
    /// ones after a RST, and those whose answers go past the load balancer after
    /// the client's FIN. The packet may have been forged, or the server may still
    /// be thinking. Applies while the table has room (see [`ConnTable::sweep`]).
    ///
    /// [`ConnTable::sweep`]: crate::ConnTable::sweep
    pub doubtful_ms: u32,
    /// UDP, as long as the server hasn't answered.
    pub udp_ms: u32,
    /// UDP, answered.
    pub udp_stream_ms: u32,
}

impl Default for Timeouts {
    /// 30 s for handshakes, 15 min for open connections, 60 s for closed ones,
    /// 10 s after a RST, 4 min if that or a single FIN may not have been the end
    /// (RFC 7857 section 2.2, RFC 5382 REQ-5), UDP 30 s and, answered, 120 s.
    fn default() -> Self {
        Self {
            syn_ms: 30_000,
            established_ms: 900_000,
            closing_ms: 60_000,
            reset_ms: 10_000,
            doubtful_ms: DOUBTFUL_MS,
            udp_ms: 30_000,
            udp_stream_ms: 120_000,
        }
    }
}

/// How long NATs are to keep a connection after a RST, or between FIN and FIN:
/// 4 min (RFC 7857 section 2.2, RFC 5382 REQ-5).
pub const DOUBTFUL_MS: u32 = 240_000;

impl Timeouts {
    /// The timeout of a connection in milliseconds.
    pub(crate) fn of(&self, state: TcpState, one_way: bool, pressure: Pressure) -> u32 {
        if pressure.has_room() && state.is_doubtful(one_way) {
            return self.doubtful_ms;
        }
        let calm_ms = self.of_state(state.now());
        if state.is_embryonic() { pressure.shorten(calm_ms) } else { calm_ms }
    }

    const fn of_state(&self, state: ConnState) -> u32 {
        match state {
            ConnState::New | ConnState::Syn | ConnState::SynAck | ConnState::PickedUp => {
                self.syn_ms
            }
            ConnState::Established | ConnState::HalfClosed(_) => self.established_ms,
            ConnState::Closing => self.closing_ms,
            ConnState::Reset | ConnState::Revoked => self.reset_ms,
            ConnState::Unanswered => self.udp_ms,
            ConnState::Stream => self.udp_stream_ms,
        }
    }
}

/// How full a family's table is: so often has the free half of it been halved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pressure(pub(crate) u32);

/// An embryonic connection is kept for at least so long: by then a SYN that was
/// lost has been sent again (RFC 6298 section 2).
const SHORTEST_MS: u32 = 1000;

impl Pressure {
    /// Whether an eighth of the records are free: then connections of whose end
    /// there is doubt are kept for longer.
    const fn has_room(self) -> bool {
        self.0 < 3
    }

    /// The timeout of an embryonic connection whose timeout in an empty table is
    /// `calm_ms`: halved with each halving of what is free. The oldest end first,
    /// without a list in order of age, and those that a server answers late
    /// are kept as long as there is room.
    fn shorten(self, calm_ms: u32) -> u32 {
        (calm_ms >> self.0).max(SHORTEST_MS.min(calm_ms))
    }
}

/// Timeouts that may change while they are read.
#[derive(Debug)]
pub(crate) struct PresentTimeouts([AtomicU32; 7]);

impl PresentTimeouts {
    pub(crate) fn new(timeouts: Timeouts) -> Self {
        let present = Self(std::array::from_fn(|_| AtomicU32::new(0)));
        present.set(timeouts);
        present
    }

    pub(crate) fn set(&self, timeouts: Timeouts) {
        let Timeouts {
            syn_ms,
            established_ms,
            closing_ms,
            reset_ms,
            doubtful_ms,
            udp_ms,
            udp_stream_ms,
        } = timeouts;
        let all =
            [syn_ms, established_ms, closing_ms, reset_ms, doubtful_ms, udp_ms, udp_stream_ms];
        self.0.iter().zip(all).for_each(|(own, value)| own.store(value, Ordering::Relaxed));
    }

    pub(crate) fn get(&self) -> Timeouts {
        let [syn_ms, established_ms, closing_ms, reset_ms, doubtful_ms, udp_ms, udp_stream_ms] =
            self.0.each_ref().map(|own| own.load(Ordering::Relaxed));
        Timeouts {
            syn_ms,
            established_ms,
            closing_ms,
            reset_ms,
            doubtful_ms,
            udp_ms,
            udp_stream_ms,
        }
    }
}

/// Milliseconds in a tick: a busy connection's record is written for ageing 16
/// times a second, not once a packet.
pub const TICK_MS: u64 = 64;

/// The tick of a time. The 32-bit clock wraps after 8.7 years; ages are told
/// right up to half of that.
pub(crate) const fn tick(now_ms: u64) -> u32 {
    (now_ms / TICK_MS) as u32
}

/// Ticks since `seen`. Workers' clocks may differ by a little: what seems to
/// lie in the future is now.
pub(crate) const fn age(now: u32, seen: u32) -> u32 {
    let age = now.wrapping_sub(seen);
    if age > u32::MAX / 2 { 0 } else { age }
}

/// Whether more than `timeout_ms` have passed in `age` ticks for certain: up
/// to one tick of the age is the rounding of its two ends.
pub(crate) const fn is_over(age: u32, timeout_ms: u32) -> bool {
    (age as u64).saturating_sub(1) * TICK_MS >= timeout_ms as u64 && age > 0
}
