//! The states of a connection, as far as a load balancer sees them.
//!
//! Both directions pass here. The endpoints check sequence numbers and windows;
//! here only a client's RST is compared with what the server has acknowledged
//! (`Record::count`). The state serves two ends: how long the connection is kept
//! without packets, and when it is worth offloading.
use flow::Direction;
use service::Forwarding;
use wire::{TcpFlags, Transport};

/// A connection's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnState {
    /// Inserted, no packet counted yet: TCP, and UDP on one way only.
    New,
    /// TCP, the client has sent a SYN.
    Syn,
    /// TCP, the server has answered with SYN and ACK.
    SynAck,
    /// TCP, the handshake is done, or data came from both sides.
    Established,
    /// TCP, the first packet was no SYN, and the server hasn't sent any yet.
    PickedUp,
    /// TCP, the side that sends in this direction has sent a FIN.
    HalfClosed(Direction),
    /// TCP, both sides have sent a FIN.
    Closing,
    /// TCP, a RST was the last packet that changed the state.
    Reset,
    /// TCP, the backend has left the configuration, and the next packet of either
    /// side is answered by a RST to both.
    Revoked,
    /// UDP, only the client has sent.
    Unanswered,
    /// UDP, both sides have sent.
    Stream,
}

/// What a packet did to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Nothing that matters elsewhere.
    None,
    /// The TCP handshake is done now, or both sides have sent now for the
    /// first time (UDP, and TCP connections picked up midway). If only the
    /// client is heard: it goes on after its first packet.
    Established,
    /// The server has answered the client's SYN now.
    Answered,
    /// Both sides have sent a FIN now; if only the client is heard, it has.
    Closing,
    /// A RST came now.
    Reset,
    /// A packet of a connection that has been [revoked](ConnState::Revoked).
    Revoked,
    /// A RST came that the client can't have sent, by its sequence number: it
    /// changes nothing, and the server doesn't believe it either.
    ResetDoubted,
    /// A packet after a RST: the reset is not believed any more.
    Restored,
    /// A SYN for a connection that was closing or reset: it starts anew, with
    /// the same backend and rewrite.
    Reopened,
}

/// A state, and for [`ConnState::Reset`] also the state before.
///
/// A RST is only a hint, even with a likely sequence number: the endpoints check
/// it exactly. If any other packet follows, from either side, the endpoints have
/// not believed it, and the connection gets its former state back; otherwise a
/// single forged packet would cost a live connection its backend. An open
/// connection that is silent is kept for [`service::Timeouts::doubtful_ms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpState {
    now: ConnState,
    former: ConnState,
}

const CODES: [ConnState; 12] = [
    ConnState::New,
    ConnState::Syn,
    ConnState::SynAck,
    ConnState::Established,
    ConnState::PickedUp,
    ConnState::HalfClosed(Direction::Forward),
    ConnState::HalfClosed(Direction::Reply),
    ConnState::Closing,
    ConnState::Reset,
    ConnState::Unanswered,
    ConnState::Stream,
    ConnState::Revoked,
];

#[inline]
const fn code(state: ConnState) -> u8 {
    match state {
        ConnState::New => 0,
        ConnState::Syn => 1,
        ConnState::SynAck => 2,
        ConnState::Established => 3,
        ConnState::PickedUp => 4,
        ConnState::HalfClosed(Direction::Forward) => 5,
        ConnState::HalfClosed(Direction::Reply) => 6,
        ConnState::Closing => 7,
        ConnState::Reset => 8,
        ConnState::Unanswered => 9,
        ConnState::Stream => 10,
        ConnState::Revoked => 11,
    }
}

const fn decode(code: u8) -> ConnState {
    if (code as usize) < CODES.len() { CODES[code as usize] } else { ConnState::New }
}

impl TcpState {
    /// The state of a connection of `proto` before its first packet is counted.
    #[inline]
    pub(crate) const fn first(proto: Transport, forwarding: Forwarding) -> Self {
        Self::plain(match (proto, forwarding.is_one_way()) {
            (Transport::Tcp, _) | (_, true) => ConnState::New,
            (Transport::Udp, false) => ConnState::Unanswered,
        })
    }

    /// The state after the first packet of a connection of `proto`: of TCP a SYN.
    #[inline]
    pub(crate) const fn opened(proto: Transport) -> Self {
        Self::plain(match proto {
            Transport::Tcp => ConnState::Syn,
            Transport::Udp => ConnState::Unanswered,
        })
    }

    /// Whether the state with this code is one that data doesn't change.
    pub(crate) const fn is_open(now: u8) -> bool {
        now == code(ConnState::Established) || now == code(ConnState::Stream)
    }

    /// The states, as bits by code, which a packet of `direction` without SYN,
    /// FIN and RST leaves as they are. Where only the client is heard (`one_way`),
    /// its second UDP packet is what opens the flow.
    pub(crate) const fn settled(direction: Direction, one_way: bool) -> u16 {
        const fn bit(state: ConnState) -> u16 {
            1 << code(state)
        }
        let both = bit(ConnState::Established)
            | bit(ConnState::Stream)
            | bit(ConnState::HalfClosed(Direction::Forward))
            | bit(ConnState::HalfClosed(Direction::Reply))
            | bit(ConnState::Closing);
        match direction {
            Direction::Forward if !one_way => both | bit(ConnState::Unanswered),
            Direction::Forward | Direction::Reply => both,
        }
    }

    /// The state of a connection whose ends are to be told that it has ended; `None`
    /// if there is nobody to tell: UDP, and TCP that has ended anyway.
    pub(crate) const fn revoked(self) -> Option<Self> {
        use ConnState as S;
        match self.now {
            S::Closing | S::Reset | S::Revoked | S::Unanswered | S::Stream => None,
            _ => Some(Self::plain(S::Revoked)),
        }
    }

    const fn plain(now: ConnState) -> Self {
        Self { now, former: ConnState::New }
    }

    pub(crate) const fn now(self) -> ConnState {
        self.now
    }

    /// Whether one packet alone says that the connection has ended: a RST when it
    /// was open, or a FIN when only the client is heard.
    pub(crate) const fn is_doubtful(self, one_way: bool) -> bool {
        match self.now {
            ConnState::Reset => {
                matches!(self.former, ConnState::Established | ConnState::HalfClosed(_))
            }
            ConnState::Closing => one_way,
            _ => false,
        }
    }

    /// Whether no handshake is done yet, or a new one may follow.
    pub(crate) const fn is_beginning(self) -> bool {
        const fn begins(state: ConnState) -> bool {
            use ConnState as S;
            matches!(state, S::New | S::Syn | S::SynAck | S::PickedUp)
        }
        begins(self.now) || matches!(self.now, ConnState::Reset) && begins(self.former)
    }

    /// Whether the server has not answered yet, or the client has not gone on
    /// since: anybody can open such a connection, from an invented address.
    pub(crate) const fn is_embryonic(self) -> bool {
        self.is_beginning() || matches!(self.now, ConnState::Unanswered)
    }

    /// Whether a handshake is done and neither side has ended the connection for
    /// both: what comes now may be long in coming.
    pub(crate) const fn is_lasting(self) -> bool {
        matches!(self.now, ConnState::Established | ConnState::HalfClosed(_))
    }

    #[inline]
    pub(crate) const fn parts(self) -> (u8, u8) {
        (code(self.now), code(self.former))
    }

    pub(crate) const fn from_parts(now: u8, former: u8) -> Self {
        Self { now: decode(now), former: decode(former) }
    }

    /// The state after a packet of `direction`, and what that means, of a
    /// connection of `proto` that is forwarded so. `flags` is `None` for packets
    /// without a TCP header in sight: they change nothing in a TCP connection.
    #[inline]
    pub(crate) const fn after(
        self,
        (proto, forwarding): (Transport, Forwarding),
        direction: Direction,
        flags: Option<TcpFlags>,
    ) -> (Self, Event) {
        if matches!(self.now, ConnState::Revoked) && flags.is_some() {
            return (self, Event::Revoked);
        }
        if forwarding.is_one_way() {
            self.after_one_way(proto, direction, flags)
        } else {
            self.after_two_way(direction, flags)
        }
    }

    /// Of connections whose answers pass the load balancer.
    const fn after_two_way(self, direction: Direction, flags: Option<TcpFlags>) -> (Self, Event) {
        match (self.now, direction, flags) {
            (ConnState::Unanswered, Direction::Reply, _) => {
                (Self::plain(ConnState::Stream), Event::Established)
            }
            (ConnState::Unanswered | ConnState::Stream, _, _) | (_, _, None) => (self, Event::None),
            (_, _, Some(flags)) => self.after_tcp(direction, flags, false),
        }
    }

    /// Of connections whose answers go past the load balancer. Answers that pass
    /// all the same say nothing, so that the state doesn't depend on which of them
    /// do.
    const fn after_one_way(
        self,
        proto: Transport,
        direction: Direction,
        flags: Option<TcpFlags>,
    ) -> (Self, Event) {
        match (proto, direction, self.now, flags) {
            (_, Direction::Reply, ..) => (self, Event::None),
            (Transport::Udp, _, ConnState::New, _) => {
                (Self::plain(ConnState::Unanswered), Event::None)
            }
            // A client that goes on has been answered, as far as one can tell.
            (Transport::Udp, _, ConnState::Unanswered, _) => {
                (Self::plain(ConnState::Stream), Event::Established)
            }
            (Transport::Udp, ..) | (_, _, _, None) => (self, Event::None),
            (Transport::Tcp, _, _, Some(flags)) => self.after_tcp(direction, flags, true),
        }
    }

    const fn after_tcp(
        self,
        direction: Direction,
        flags: TcpFlags,
        one_way: bool,
    ) -> (Self, Event) {
        if flags.any(TcpFlags::RST) {
            return self.after_rst();
        }
        let syn = flags.any(TcpFlags::SYN) && !flags.any(TcpFlags::ACK);
        match (self.now, direction) {
            (ConnState::Closing | ConnState::Reset, Direction::Forward) if syn => {
                (Self::plain(ConnState::Syn), Event::Reopened)
            }
            (ConnState::Reset, _) => {
                let (state, event) = any_step(self.former, direction, flags, one_way);
                let is_less = matches!(event, Event::None | Event::Answered);
                let event = if is_less { Event::Restored } else { event };
                (Self::plain(state), event)
            }
            (now, _) => {
                let (state, event) = any_step(now, direction, flags, one_way);
                (Self::plain(state), event)
            }
        }
    }

    const fn after_rst(self) -> (Self, Event) {
        if matches!(self.now, ConnState::Reset) {
            (self, Event::None)
        } else {
            (Self { now: ConnState::Reset, former: self.now }, Event::Reset)
        }
    }
}

const fn any_step(
    now: ConnState,
    direction: Direction,
    flags: TcpFlags,
    one_way: bool,
) -> (ConnState, Event) {
    if one_way { one_way_step(now, flags) } else { step(now, direction, flags) }
}

/// As [`step`], of the client's packets when the server's are never seen. The
/// client's ACK after its SYN acknowledges the server's, and its FIN is the
/// last that is certain to be seen: what the server still sends is acknowledged,
/// which keeps the connection.
const fn one_way_step(now: ConnState, flags: TcpFlags) -> (ConnState, Event) {
    use ConnState as S;
    let (syn, ack) = (flags.any(TcpFlags::SYN), flags.any(TcpFlags::ACK));
    match now {
        S::New | S::PickedUp if syn && !ack => (S::Syn, Event::None),
        _ if syn => (now, Event::None),
        S::Closing => (now, Event::None),
        _ if flags.any(TcpFlags::FIN) => (S::Closing, Event::Closing),
        S::New => (S::PickedUp, Event::None),
        S::Syn | S::PickedUp if ack => (S::Established, Event::Established),
        _ => (now, Event::None),
    }
}

/// The step of packets without RST, from states other than `Reset`.
const fn step(now: ConnState, direction: Direction, flags: TcpFlags) -> (ConnState, Event) {
    use ConnState as S;
    use Direction::{Forward, Reply};
    let (syn, ack) = (flags.any(TcpFlags::SYN), flags.any(TcpFlags::ACK));
    let next = match (now, direction) {
        // Only the client has been heard so far: its SYN is the better beginning.
        (S::New | S::PickedUp, Forward) if syn && !ack => S::Syn,
        (S::New | S::PickedUp | S::Syn, Reply) if syn && ack => {
            return (S::SynAck, Event::Answered);
        }
        // No other SYN changes anything: in an open connection it may be
        // forged or late; the server answers it with a challenge ACK (RFC 5961).
        _ if syn => now,
        (S::HalfClosed(Forward), Reply) | (S::HalfClosed(Reply), Forward)
            if flags.any(TcpFlags::FIN) =>
        {
            return (S::Closing, Event::Closing);
        }
        (S::Closing | S::HalfClosed(_), _) => now,
        (_, direction) if flags.any(TcpFlags::FIN) => S::HalfClosed(direction),
        (S::New, Forward) => S::PickedUp,
        // The client's ACK of the server's SYN; or the server speaks on as in
        // an open connection, which it does only if it has one.
        (S::SynAck, Forward) | (S::New | S::PickedUp | S::Syn, Reply) if ack => {
            return (S::Established, Event::Established);
        }
        _ => now,
    };
    (next, Event::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::Life;

    #[test]
    fn an_opened_connection_is_one_whose_first_packet_has_come() {
        let syn = Some(TcpFlags(TcpFlags::SYN));
        for proto in [Transport::Tcp, Transport::Udp] {
            for forwarding in [Forwarding::Rewrite, Forwarding::Direct, Forwarding::Tunnel] {
                let first = TcpState::first(proto, forwarding);
                let after = first.after((proto, forwarding), Direction::Forward, syn);
                assert_eq!(after, (TcpState::opened(proto), Event::None));
            }
        }
    }

    /// A state is settled if no such packet changes it or means anything.
    #[test]
    fn settled_states_are_those_that_plain_packets_leave_alone() {
        for forwarding in [Forwarding::Rewrite, Forwarding::Direct, Forwarding::Tunnel] {
            for (state, direction) in CODES.iter().flat_map(|s| Direction::BOTH.map(|d| (*s, d))) {
                check(state, direction, forwarding);
            }
        }
    }

    fn check(state: ConnState, direction: Direction, forwarding: Forwarding) {
        let one_way = forwarding.is_one_way();
        let says = format!("{state:?} {direction:?} {forwarding:?}");
        let settled = TcpState::settled(direction, one_way) >> code(state) & 1 == 1;
        let is_udp = matches!(state, ConnState::Unanswered | ConnState::Stream);
        let proto = if is_udp { Transport::Udp } else { Transport::Tcp };
        let state = TcpState::plain(state);
        let born = Life::from_raw(0).next(TcpState::plain(ConnState::Stream), one_way);
        let life = born.with_state(state, one_way);
        assert_eq!(life.is_settled(direction), settled, "{says}");
        assert!(!life.ended().is_settled(direction), "{says}");
        let after = |flags| state.after((proto, forwarding), direction, Some(TcpFlags(flags)));
        let unchanged = [0, TcpFlags::ACK].map(after) == [(state, Event::None); 2];
        let reset = state.now() == ConnState::Reset;
        assert!(!settled || (unchanged && !reset), "{says}");
        let is_early = matches!(
            state.now(),
            ConnState::New | ConnState::Syn | ConnState::SynAck | ConnState::PickedUp
        );
        // Answers of one way connections have no key in the index.
        let is_asked = !one_way || direction == Direction::Forward;
        let worth = unchanged && is_asked && !reset && !is_early;
        assert!(settled || !worth, "{says} could be");
    }
}
