//! Which VIPs routers are told of.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which VIPs routers are told of, with `[announce]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AnnounceStatus {
    /// The kernel's interface that the routes of announced VIPs lead over.
    pub device: String,
    /// The kernel's routing table that has them.
    pub table: u32,
    /// Whether all VIPs are withdrawn, as `hnlb drain --all` does it.
    pub withdrawn: bool,
    /// The VIPs.
    pub vips: Vec<AnnouncedVip>,
    /// What the kernel refused at the last attempt; empty if nothing.
    pub error: String,
}

/// One VIP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AnnouncedVip {
    /// Its address.
    pub vip: String,
    /// Whether routers are told of it.
    pub announced: bool,
    /// `announced`, or why it is not: `withdrawn`, `no backend`, `not probed` (health
    /// checks have not looked at all its backends yet) or `settling`.
    pub state: String,
}
