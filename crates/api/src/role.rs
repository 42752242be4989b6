//! What a client may do.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a client may do.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Ask.
    Viewer,
    /// Ask and change.
    Operator,
}
