//! A backend that is checked.
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::{Check, Settings};

/// What makes a backend the same one in another configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetKey {
    /// The service's name.
    pub service: String,
    /// The backend's address.
    pub address: IpAddr,
    /// Its port; `None`: the one that the client asks for.
    pub port: Option<u16>,
}

impl fmt::Display for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, address, port } = self;
        match port {
            Some(port) => {
                write!(f, "service {service}: backend {}", SocketAddr::new(*address, *port))
            }
            None => write!(f, "service {service}: backend {address}"),
        }
    }
}

/// A backend that is checked, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Which backend.
    pub key: TargetKey,
    /// Where probes go to; checks without ports ignore its port.
    pub at: SocketAddr,
    /// What a probe sends.
    pub check: Check,
    /// When it is probed.
    pub settings: Settings,
}

impl Target {
    /// Whether a probe of `other` says as much of this one.
    pub(crate) fn asks_the_same(&self, other: &Self) -> bool {
        (&self.key, self.at, &self.check) == (&other.key, other.at, &other.check)
    }
}
