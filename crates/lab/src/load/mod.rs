//! Load and spot checks from the lab's clients.

mod curl;
mod dig;
mod dnsperf;
mod wrk;

use std::collections::BTreeMap;

pub use curl::{download, get, get_keep_alive};
pub use dig::who;
pub use dnsperf::{DnsResult, dns, dns_from};
pub use wrk::{Connections, HttpErrors, HttpResult, http, http_at};

/// Requests by the backend that answered them.
pub type PerBackend = BTreeMap<String, u64>;
