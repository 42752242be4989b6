//! What is known of a packet before it is acted on.
use conntrack::Hit;
use splice::Place;

use crate::pipeline::BURST;

/// The version of the Internet protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// What the stages have found out about one packet so far. The packet itself
/// stays in its burst, so that the burst keeps its order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    /// The stages know nothing of the packet: it is looked up, and then takes the
    /// slow path.
    Unknown,
    /// The NIC's mark names this connection. The mark may be stale, so the
    /// packet's key is compared with the connection's.
    Marked(Hit),
    /// The connection table has found this connection.
    Found(Hit),
    /// The receive queue stands for a backend.
    Queued,
    /// Several backends share the receive queue, and the mark carries this tag,
    /// which means one of them.
    Shared(u16),
    /// The packet is one of the L7 agent's connections, of this family.
    Passes(Place, Family),
    /// The packet is of the L7 agent of this worker.
    Handed(u16),
    /// The packet opens the new connection of the burst with this number.
    Opens(u8),
    /// The packet has been parsed for the slow path: it is the next of the
    /// burst's slow packets.
    Slow,
    /// The packet has been dropped and counted.
    Dropped,
}

/// The verdicts on all packets of a burst, in order; verdicts behind the burst's last
/// packet have no meaning.
pub(crate) type Verdicts = [Verdict; BURST];
