//! What tells an autoscaler whether another load balancer is needed.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The load of the busiest worker, in a form that an autoscaler can follow: it rises at
/// once and falls only when the load has been low for a minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AutoscalingStatus {
    /// util+ of the busiest worker over the last second.
    pub util_plus: f64,
    /// The highest of these in the last minute.
    pub peak: f64,
    /// 1 minus the peak: the load that can still come.
    pub headroom: f64,
    /// Set by a peak of 0.8, and taken back by one below 0.6.
    pub scale_out: bool,
}
