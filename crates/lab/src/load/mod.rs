//! Load and spot checks from the lab's clients.

mod curl;
mod dig;
mod dnsperf;
mod wrk;

use std::collections::BTreeMap;

use crate::Stop;

pub use curl::{download, get, get_keep_alive};
pub(crate) use curl::{downloads, try_many};
pub use dig::who;
pub use dnsperf::{DnsResult, dns, dns_at, dns_from};
pub(crate) use wrk::url;
pub use wrk::{Connections, HttpErrors, HttpLoad, HttpResult};

/// Requests by the backend that answered them.
pub type PerBackend = BTreeMap<String, u64>;

/// How long a load lasts.
#[derive(Debug, Clone, Copy)]
pub enum Length<'a> {
    /// So many seconds.
    Seconds(u64),
    /// Until the flag is set, at most an hour.
    Until(&'a Stop),
}

impl<'a> Length<'a> {
    /// The most seconds that the load may last.
    pub(crate) const fn seconds(self) -> u64 {
        match self {
            Self::Seconds(seconds) => seconds,
            Self::Until(_) => 3600,
        }
    }

    /// The flag that ends it.
    pub(crate) const fn until(self) -> Option<&'a Stop> {
        match self {
            Self::Seconds(_) => None,
            Self::Until(stop) => Some(stop),
        }
    }
}
