//! Why the shared state can't be built.
use std::net::IpAddr;

/// Something is wrong that the configuration's own check can't see, or that
/// was passed over.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A name that nothing has.
    #[error("{what} '{name}' does not exist; define it or name another")]
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// No interface leads there.
    #[error(
        "{what} {addr} is on no interface's network; give an [[interface]] an address in its network"
    )]
    Unreachable {
        /// What the address is for.
        what: &'static str,
        /// The address.
        addr: IpAddr,
    },
    /// The neighbour table has no room for the static ones.
    #[error("there are more [[neighbour]] entries than [neighbours] max")]
    NeighboursFull,
    /// The services can't be compiled.
    #[error(transparent)]
    Services(#[from] service::TableError),
    /// The connection table can't be made.
    #[error(transparent)]
    Connections(#[from] conntrack::TableError),
}
