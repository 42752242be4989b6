//! What is to be captured.
use std::net::IpAddr;

use flow::{CaptureSide, Transport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A capture of what workers receive and send. It ends by its bounds, or when nobody has
/// taken its frames for 10 seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaptureOrder {
    /// Which packets.
    #[serde(default)]
    pub filter: CaptureFilter,
    /// Which side of the load balancer.
    #[serde(default)]
    pub side: CaptureSide,
    /// The most packets, from 1.
    #[serde(default = "CaptureOrder::default_packets")]
    #[schemars(range(min = 1))]
    pub packets: u64,
    /// The most bytes of frames, from 1.
    #[serde(default = "CaptureOrder::default_bytes")]
    #[schemars(range(min = 1))]
    pub bytes: u64,
    /// The longest time in seconds, from 1 to 3600.
    #[serde(default = "CaptureOrder::default_seconds")]
    #[schemars(range(min = 1, max = 3600))]
    pub seconds: u32,
}

impl Default for CaptureOrder {
    fn default() -> Self {
        Self {
            filter: CaptureFilter::default(),
            side: CaptureSide::default(),
            packets: Self::default_packets(),
            bytes: Self::default_bytes(),
            seconds: Self::default_seconds(),
        }
    }
}

impl CaptureOrder {
    /// The longest time of a capture, in seconds.
    pub const LONGEST: u32 = 3600;

    const fn default_packets() -> u64 {
        10_000
    }

    const fn default_bytes() -> u64 {
        100_000_000
    }

    const fn default_seconds() -> u32 {
        60
    }
}

/// Which packets are captured: those that all given parts fit. With any part of a
/// 5-tuple only TCP and UDP packets are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaptureFilter {
    /// Only packets that come in on the port with this name.
    #[serde(default)]
    pub port: Option<String>,
    /// Only those of TCP, or of UDP.
    #[serde(default)]
    pub protocol: Option<Transport>,
    /// Only packets from or to this address, or of a connection of the client with it.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// Only packets from or to this TCP or UDP port.
    #[serde(default)]
    pub l4_port: Option<u16>,
    /// Only those of the service with this name.
    #[serde(default)]
    pub service: Option<String>,
}
