//! For whom packets count.
use crate::{BackendId, Direction};

/// For which backend a packet counts, and which way it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    /// The backend.
    pub backend: BackendId,
    /// To the backend, or from it.
    pub direction: Direction,
}
