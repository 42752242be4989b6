//! Time: how long what is kept, and the compact clock of the records.
use service::Timeouts;

use crate::state::{ConnState, TcpState};

/// The timeout of a connection in milliseconds.
pub(crate) fn timeout_of(
    timeouts: &Timeouts,
    state: TcpState,
    one_way: bool,
    pressure: Pressure,
) -> u32 {
    if pressure.has_room() && state.is_doubtful(one_way) {
        return timeouts.doubtful_ms;
    }
    let calm_ms = match state.now() {
        ConnState::New | ConnState::Syn | ConnState::SynAck | ConnState::PickedUp => {
            timeouts.syn_ms
        }
        ConnState::Established | ConnState::HalfClosed(_) => timeouts.established_ms,
        ConnState::Closing => timeouts.closing_ms,
        ConnState::Reset | ConnState::Revoked => timeouts.reset_ms,
        ConnState::Unanswered => timeouts.udp_ms,
        ConnState::Stream => timeouts.udp_stream_ms,
    };
    if state.is_embryonic() { pressure.shorten(calm_ms) } else { calm_ms }
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
