//! The steady state: what a fast path needs to translate a connection's segments without
//! the machine, as long as no header can begin and nothing is replaced (message M8).
//!
//! ```text
//!   machine ── Agent::steady ──► entry ── Steady::to_backend, to_client ──► packets
//!      ▲                            │
//!      └────── Agent::resume ◄──────┘  a segment that leaves the steady state
//! ```
use std::net::SocketAddr;

use wire::Headers;

use crate::clocks::Clocks;
use crate::connection::{Conn, Reading, State};
use crate::edits::before;
use crate::options::Change;
use crate::segment::{ACK, ECN, FIN, Outline, RST, Received, SYN, is_plain};

/// Numbers of a spliced connection. Addresses and ports are the caller's: it has them in
/// its table of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steady {
    /// What is added to the client's sequence numbers.
    up: u32,
    /// What is added to the backend's sequence numbers.
    down: u32,
    clocks: Clocks,
    /// The first of the client's bytes that may not pass, in the client's numbers.
    limit: u32,
    /// What the client has acknowledged, and the backend of the client's bytes.
    acked: u32,
    received: u32,
    /// The client's last window field, and the last that it was told.
    window: u16,
    told: u16,
    /// Options and data of a segment that the backend takes, in bytes.
    longest: u16,
    /// The shift of the client's windows, and the backend's and the granted shift.
    shifts: [u8; 3],
    congestion: u8,
    may: Abilities,
}

/// What the two sides have agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Abilities {
    /// Bytes of another protocol: no header ever begins.
    all: bool,
    /// SACK, by the backend and by the client.
    sack: [bool; 2],
    timestamps: bool,
    ecn: bool,
}

const _: () = assert!(size_of::<Steady>() <= 64, "the entry of a plain splice");

/// Why a segment is the machine's. It was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// A SYN, FIN or RST, or no ACK.
    Control,
    /// The client's next header may begin in it.
    Header,
    /// It is longer than the backend takes.
    TooLong,
    /// It is no whole TCP segment.
    Malformed,
}

impl Steady {
    /// The entry of a connection, if nothing of it needs the machine.
    pub(crate) fn of(conn: &Conn) -> Option<Self> {
        let told = conn.server_window?;
        let quiet = conn.state == State::Open
            && conn.edits.open().is_empty()
            && conn.block.is_none()
            && conn.owned.is_none()
            && conn.body == 0
            && conn.reading != Reading::Upgrade
            && conn.ended == [false; 2];
        // What only one side knows takes more than adding numbers.
        let alike = conn.granted.timestamps == conn.server.timestamps
            && conn.granted.ecn == conn.server.ecn;
        if !quiet || !alike {
            return None;
        }
        let client_shift = match (conn.granted.scale, conn.server.scale, conn.offer.scale) {
            (Some(_), None, Some(shift)) => shift,
            _ => 0,
        };
        let [server, granted] = [conn.server.scale, conn.granted.scale];
        Some(Self {
            up: conn.edits.forward(0),
            down: conn.delta(),
            clocks: conn.clocks,
            limit: conn.limit(),
            acked: conn.acked,
            received: conn.received,
            window: conn.window,
            told,
            longest: conn.server.longest(),
            shifts: [client_shift, server.unwrap_or(0), granted.unwrap_or(0)],
            congestion: conn.congestion,
            may: Abilities {
                all: conn.reading == Reading::All,
                sack: [conn.server.sack, conn.granted.sack],
                timestamps: conn.server.timestamps,
                ecn: conn.server.ecn,
            },
        })
    }

    /// Tells the connection what the fast path has seen.
    pub(crate) fn give_back(&self, conn: &mut Conn, now_ms: u64) {
        (conn.acked, conn.received) = (self.acked, self.received);
        (conn.window, conn.server_window) = (self.window, Some(self.told));
        (conn.congestion, conn.clocks) = (self.congestion, self.clocks);
        conn.seen_ms = now_ms;
    }

    /// Translates a client's segment for the backend: `ends` are its new source and
    /// destination.
    ///
    /// # Errors
    /// The segment leaves the steady state.
    pub fn to_backend(
        &mut self,
        frame: &mut [u8],
        headers: &Headers,
        ends: [SocketAddr; 2],
    ) -> Result<(), Leave> {
        let got = parse(frame, headers)?;
        let Outline { sequence, acknowledgement, window, flags, .. } = got.outline;
        let end = sequence.wrapping_add((got.end - got.data) as u32);
        if !self.may.all && before(self.limit, end) {
            return Err(Leave::Header);
        }
        if got.end - got.options > self.longest.into() {
            return Err(Leave::TooLong);
        }
        if let Some(stamps) = got.stamps(frame).filter(|_| self.may.timestamps) {
            self.clocks.see_client(stamps);
        }
        self.congestion = flags & ECN;
        if !before(acknowledgement, self.acked) {
            (self.acked, self.window) = (acknowledgement, window);
        }
        let ([shift, ..], [src, dst]) = (self.shifts, ends);
        let new = Outline {
            src,
            dst,
            sequence: sequence.wrapping_add(self.up),
            acknowledgement: acknowledgement.wrapping_sub(self.down),
            flags: self.flags(flags),
            window: u16::try_from(u32::from(window) << shift).unwrap_or(u16::MAX),
        };
        let down = self.down;
        let map = move |edge: u32, _: bool| edge.wrapping_sub(down);
        let [sack, _] = self.may.sack;
        let stamps = self.may.timestamps.then(|| self.clocks.to_server());
        let change = Change { sack: if sack { Some(&map) } else { None }, stamps };
        got.rewrite(frame, &new, &change).ok_or(Leave::Malformed)
    }

    /// Translates a backend's segment for the client: `ends` are its new source and
    /// destination.
    ///
    /// # Errors
    /// The segment leaves the steady state.
    pub fn to_client(
        &mut self,
        frame: &mut [u8],
        headers: &Headers,
        ends: [SocketAddr; 2],
    ) -> Result<(), Leave> {
        let got = parse(frame, headers)?;
        let Outline { sequence, acknowledgement, window, flags, .. } = got.outline;
        if let Some(stamps) = got.stamps(frame).filter(|_| self.may.timestamps) {
            self.clocks.see_server(stamps);
        }
        let received = acknowledgement.wrapping_sub(self.up);
        if before(self.received, received) && !before(self.limit, received) {
            self.received = received;
        }
        let ([_, server, granted], [src, dst]) = (self.shifts, ends);
        let announced = u32::from(window) << server;
        // A window that is open stays open, however little of it is left by the scale.
        let scaled = (announced >> granted).max(u32::from(announced > 0));
        self.told = u16::try_from(scaled).unwrap_or(u16::MAX);
        let new = Outline {
            src,
            dst,
            sequence: sequence.wrapping_add(self.down),
            acknowledgement: received,
            flags: self.flags(flags),
            window: self.told,
        };
        let up = self.up;
        let map = move |edge: u32, _: bool| edge.wrapping_sub(up);
        let [_, sack] = self.may.sack;
        let stamps = self.may.timestamps.then(|| self.clocks.to_client());
        let change = Change { sack: if sack { Some(&map) } else { None }, stamps };
        got.rewrite(frame, &new, &change).ok_or(Leave::Malformed)
    }

    const fn flags(&self, flags: u8) -> u8 {
        if self.may.ecn { flags } else { flags & !ECN }
    }
}

fn parse(frame: &[u8], headers: &Headers) -> Result<Received, Leave> {
    let got = Received::parse(frame, headers).filter(|_| is_plain(headers));
    let got = got.ok_or(Leave::Malformed)?;
    if got.has(SYN | FIN | RST) || !got.has(ACK) {
        return Err(Leave::Control);
    }
    Ok(got)
}
