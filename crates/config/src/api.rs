//! `[api]`: the control API over TCP, and the names that it answers to.
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The control API over TCP with TLS, beside the Unix socket of `[status]`, and the names that it answers to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Api {
    /// The address and port at which HNLB serves the API and its web page with TLS, such as `"192.0.2.1:9443"` or `"[::]:9443"`; by default only the Unix socket serves them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "endpoint"))]
    pub listen: Option<SocketAddr>,
    /// The file with the API's certificate and its chain up to the root (PEM). Needed with `listen`. HNLB reads a changed file again within 10 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// The file with the certificate's private key (PEM), which only its owner and group may read. Needed with `listen`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The file with the clients' tokens, which only its owner may read: a role, `viewer` or `operator`, and a token of at least 32 characters on each line. Needed with `listen`. HNLB reads a changed file again within 10 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<PathBuf>,
    /// Host names under which clients may reach the API, in addition to `localhost` and all addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}
