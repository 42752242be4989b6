//! What a capture has caught.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A capture that has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CaptureStarted {
    /// Its number, by which its frames are taken and it is ended.
    pub id: u64,
    /// The names of the ports, by the numbers that frames have.
    pub ports: Vec<String>,
}

/// Frames that were captured since they were last taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CaptureBatch {
    /// The frames, in the order in which each worker caught them.
    pub frames: Vec<CapturedFrame>,
    /// Packets that fit the filter and were lost, all in all, because the ring between a
    /// worker and the control thread was full.
    pub lost: u64,
    /// Why the capture has ended; `None` while it goes on or frames are left.
    pub ended: Option<String>,
}

/// A frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CapturedFrame {
    /// Nanoseconds since the epoch.
    pub time_ns: u64,
    /// The number of the port on which it came in or leaves.
    pub port: u16,
    /// Whether it leaves.
    pub leaves: bool,
    /// Its length; its bytes may be fewer.
    pub length: u32,
    /// Its bytes from the Ethernet header on, in hexadecimal.
    pub bytes: String,
    /// What became of it, the service, the backend and why; of a frame that leaves, to
    /// which packet it belongs.
    pub comment: String,
}
