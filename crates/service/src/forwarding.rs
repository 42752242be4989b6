//! How packets get to the backend.
use flow::{BackendId, Direction};
use wire::Rewrite;

/// How packets of a connection get to its backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Forwarding {
    /// Their endpoints are rewritten, and those of the answers back, which
    /// pass here (modes `nat` and `fullnat`).
    #[default]
    Rewrite,
    /// As they are, to the backend's Ethernet address (mode `dsr`). The
    /// backend answers the client itself.
    Direct,
    /// As they are, in a tunnel to the backend (modes `ipip`, `gue`, `gre`).
    /// The backend answers the client itself.
    Tunnel,
}

impl Forwarding {
    /// Whether the answers need not pass here: all that is ever seen of the
    /// connection is what the client sends.
    #[must_use]
    pub const fn is_one_way(self) -> bool {
        !matches!(self, Self::Rewrite)
    }

    /// What is done to packets of `direction` of a connection with `backend`,
    /// the same for all connections; `None` if they are rewritten, each
    /// connection's in its own way.
    #[inline]
    #[must_use]
    pub const fn delivery(self, direction: Direction, backend: BackendId) -> Option<Delivery> {
        match (self, direction) {
            (Self::Rewrite, _) => None,
            (Self::Direct, Direction::Forward) => Some(Delivery::Direct(backend)),
            (Self::Tunnel, Direction::Forward) => Some(Delivery::Tunnel(backend)),
            (_, Direction::Reply) => Some(Delivery::Plain),
        }
    }
}

/// What is done to one packet before it gets the Ethernet header of its next
/// hop: the action of software, and what hardware must do to take its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Endpoints are replaced.
    Rewrite(Rewrite),
    /// Nothing; the packet goes to this backend's Ethernet address.
    Direct(BackendId),
    /// It gets the outer header of the tunnel to this backend.
    Tunnel(BackendId),
    /// Nothing; the packet goes to its own destination. So go answers of one
    /// way connections that pass here although they need not.
    Plain,
}
