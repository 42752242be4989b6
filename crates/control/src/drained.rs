//! A backend that was drained by a command.
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A backend of a service, on all its ports, that gets no new connections since
/// `hnlb backend drain`. The configuration doesn't know of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drained {
    /// The service's name.
    pub service: String,
    /// The backend's address.
    pub backend: IpAddr,
}

impl fmt::Display for Drained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {}: backend {}", self.service, self.backend)
    }
}
