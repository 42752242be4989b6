//! `[fleet]`: what several load balancers have in common.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::Key128;

use crate::text;

/// Settings that load balancers serving the same VIPs share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fleet {
    /// The key of the hash by which Maglev and `source-hash` choose backends: 32 hexadecimal digits, the same on all load balancers of the VIPs. By default it is a constant that is public, so that a client can choose its backend by its source port.
    #[serde(with = "text::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "key"), with = "Option<String>")]
    pub key: Option<Key128>,
}
