//! What requests and answers of the API carry that the load balancer itself does not know.
use std::path::PathBuf;

use config::ServerIds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::role::Role;

/// The body of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReloadBody {
    /// The file, with its whole path; by default the one that is in force.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// Whether nothing is to change.
    #[serde(default)]
    pub dry_run: bool,
}

/// Which backends a picture has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PictureQuery {
    /// Those of the service with this name; by default none.
    #[serde(default)]
    pub(crate) service: Option<String>,
}

/// What the client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Access {
    /// Its role.
    pub(crate) role: Role,
}

/// The body of a backend. What it leaves out stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackendBody {
    /// Its port; by default the port that the client asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// Its share of new connections compared with the others'; of a new backend by default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// Whether it gets new connections only while no other backend does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<bool>,
    /// The server ids that it writes into QUIC connection ids, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_ids: Option<ServerIds>,
}

/// The body of a weight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightBody {
    /// The share of new connections compared with the others'; 0: none.
    pub weight: u16,
}
