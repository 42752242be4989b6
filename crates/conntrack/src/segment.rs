//! What a TCP header says about its connection's state, and whether a RST is to
//! be believed.
use flow::Direction;
use wire::TcpFlags;

use crate::sync::{AtomicU32, Ordering};

/// What the table looks at in a TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The control bits.
    pub flags: TcpFlags,
    /// The sequence number.
    pub sequence: u32,
    /// The acknowledgement number; means something if the flags have ACK and it is
    /// not 0, as where only the flags were read.
    pub acknowledgement: u32,
}

/// How far a client's RST may be ahead of what the server acknowledged when the
/// connection began: what the client may have sent since. A forger that doesn't
/// see the connection's packets hits that once in 1024 tries at the right ports.
const SENT: u32 = 1 << 22;

/// A client's sequence number when its connection began.
///
/// The server's acknowledgement says it, which a forger on the clients' side
/// can't send (packets of the wrong side never change a state). A server's RST
/// needs no such check for the same reason.
#[derive(Debug)]
pub(crate) struct Began(AtomicU32);

impl Began {
    /// Not known. Equal to zero bytes.
    #[cfg(loom)]
    pub(crate) fn unknown() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Notes what a segment of `direction` says, which has changed the state of a
    /// connection that was not open yet. The client's own word counts where the
    /// server is not heard. An acknowledgement of 0 is one that was not read.
    pub(crate) fn note(&self, direction: Direction, segment: &Segment, heard: bool) {
        let acknowledges = segment.flags.any(TcpFlags::ACK) && segment.acknowledgement != 0;
        match direction {
            Direction::Reply if acknowledges => self.store(segment.acknowledgement),
            Direction::Forward if !heard => self.store(segment.sequence),
            _ => {}
        }
    }

    fn store(&self, number: u32) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// Whether the client can have sent a segment with this sequence number.
    pub(crate) fn allows(&self, segment: &Segment) -> bool {
        segment.sequence.wrapping_sub(self.0.load(Ordering::Relaxed)) < SENT
    }
}
