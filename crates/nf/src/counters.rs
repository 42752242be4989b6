//! What is counted, so that it adds up (section 4.1.3): what ports receive is what
//! functions get, passes by, waits or is dropped; what functions return is what ports
//! send or is dropped.
use serde::{Deserialize, Serialize};

/// Frames of a physical port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters {
    /// Received.
    pub in_packets: u64,
    /// Bytes received.
    pub in_bytes: u64,
    /// Sent, those that passed by the functions included.
    pub out_packets: u64,
    /// Bytes sent.
    pub out_bytes: u64,
    /// Of the received: went straight to the paired port.
    pub passed: u64,
}

/// Frames of a network function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCounters {
    /// Sent to it.
    pub to_packets: u64,
    /// Bytes sent to it, without the tag.
    pub to_bytes: u64,
    /// Received from it.
    pub from_packets: u64,
    /// Bytes received from it, without the tag.
    pub from_bytes: u64,
    /// Of the received: answers to the sender.
    pub answers: u64,
    /// Of the received: further frames with the tag of one that was back already.
    pub copies: u64,
    /// Frames that it had when it failed.
    pub lost: u64,
    /// How often it failed.
    pub failures: u64,
}

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Drop {
    /// It came from a port that isn't there.
    NoPort,
    /// It isn't IP, and the configuration drops that.
    NotIp,
    /// Its headers can't be.
    Malformed,
    /// It has a VLAN tag, and the configuration drops that.
    Tagged,
    /// It is a fragment, and the configuration drops those.
    Fragment,
    /// Its IP protocol is none of TCP, UDP and ICMP, and the configuration drops that.
    Protocol,
    /// Its buffer has no headroom for the tag.
    NoHeadroom,
    /// Every function is down, and the configuration drops then.
    AllDown,
    /// The function's queue was full.
    FunctionQueueFull,
    /// The port's send queue was full.
    PortQueueFull,
    /// It came from an attachment that isn't there.
    NoFunction,
    /// The function returned it without a tag: it is the function's own.
    Unmarked,
    /// The function returned it with a tag that no frame has had of late.
    Foreign,
    /// The function's attachment says of it what can't be, so that it can't be read.
    Garbled,
}

impl Drop {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::NoPort,
        Self::NotIp,
        Self::Malformed,
        Self::Tagged,
        Self::Fragment,
        Self::Protocol,
        Self::NoHeadroom,
        Self::AllDown,
        Self::FunctionQueueFull,
        Self::PortQueueFull,
        Self::NoFunction,
        Self::Unmarked,
        Self::Foreign,
        Self::Garbled,
    ];

    /// Its name in counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoPort => "no_port",
            Self::NotIp => "not_ip",
            Self::Malformed => "malformed",
            Self::Tagged => "tagged",
            Self::Fragment => "fragment",
            Self::Protocol => "protocol",
            Self::NoHeadroom => "no_headroom",
            Self::AllDown => "all_down",
            Self::FunctionQueueFull => "function_queue_full",
            Self::PortQueueFull => "port_queue_full",
            Self::NoFunction => "no_function",
            Self::Unmarked => "unmarked",
            Self::Foreign => "foreign",
            Self::Garbled => "garbled",
        }
    }

    /// Whether the frame came from a port rather than from a function.
    #[must_use]
    pub const fn is_before_function(self) -> bool {
        !matches!(
            self,
            Self::PortQueueFull | Self::NoFunction | Self::Unmarked | Self::Foreign | Self::Garbled
        )
    }
}
