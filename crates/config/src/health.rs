//! `[service.health]`: how it is found out which backends are up.
use std::ops::RangeInclusive;
use std::time::Duration;

use flow::{AllDown, Check, OnRemove};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// Health checks of a service's backends. They are sent by the kernel, from the network that its routes lead to, to each backend's own address. A backend that is down gets no new connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// What a probe sends.
    pub check: Check,
    /// The port that probes go to; by default the backend's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
    /// The time from the end of a probe to the start of the next.
    #[serde(default = "interval", with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "50ms", "x-maximum" = "1h"))]
    pub interval: Duration,
    /// The time after which a probe without an answer has failed.
    #[serde(default = "timeout", with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "10ms", "x-maximum" = "10m"))]
    pub timeout: Duration,
    /// The number of probes in a row that must pass before a backend that is down counts as up.
    #[serde(default = "rise")]
    #[schemars(range(min = 1, max = 1000))]
    pub rise: u32,
    /// The number of probes in a row that must fail before a backend that is up counts as down. The first probe after start-up decides alone. The longest time from a failure to that point is `fall` times the sum of `timeout` and `interval` with its jitter.
    #[serde(default = "fall")]
    #[schemars(range(min = 1, max = 1000))]
    pub fall: u32,
    /// The largest random deviation of an interval from `interval`, in percent.
    #[serde(default = "jitter")]
    #[schemars(range(min = 0, max = 100))]
    pub jitter: u8,
    /// The time over which the weight of a backend that has come up rises to the configured one, in ten steps. Not for stateless services.
    #[serde(default, with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "0s", "x-maximum" = "24h"))]
    pub slow_start: Duration,
    /// What happens to the connections of a backend that goes down.
    #[serde(default = "on_down")]
    pub on_down: OnRemove,
    /// What happens to new connections while every backend is down.
    #[serde(default)]
    pub all_down: AllDown,
    /// The path and query of the request, by default `/`. Only with the checks `http` and `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The header `Host` of the request, and the server's name in TLS; by default the backend's address and port. Only with the checks `http` and `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Further headers of the request, such as `["x-probe: hnlb"]`. Only with the checks `http` and `https`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// The status codes that pass, such as `"200"` or `"200-299"`; by default `"200-399"`. Only with the checks `http` and `https`.
    #[serde(default, with = "text::status_range", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "status-range"))]
    pub status: Option<RangeInclusive<u16>>,
    /// Text that the first 64 KiB of the response body must contain. Only with the checks `http` and `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The name in the query; needed with the check `dns`, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The service named in the request, at most 127 bytes; by default the whole server. Only with the check `grpc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc_service: Option<String>,
    /// Signals that workers see in the packets of clients' connections, in addition to probes. Without this table they count only with the check `passive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passive: Option<Passive>,
    /// The program and its arguments; needed with the check `command`, and only then. `HNLB_SERVICE`, `HNLB_ADDRESS` and `HNLB_PORT` in its environment name the backend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// What takes a backend down without a probe. Resets and timeouts are seen only in modes in which answers pass HNLB; a threshold of 0 switches its signal off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Passive {
    /// The number of new connections in a row whose first answer was a RST. By default 5 with TCP and a port, and otherwise 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub resets: Option<u32>,
    /// The number of new connections in a row that got no answer within `timeout`, with none answered in between. By default 5 with TCP and 0 with UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub timeouts: Option<u32>,
    /// How long a new connection may wait for its first answer, and how long a next hop may be unknown.
    #[serde(default = "timeout", with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "200ms", "x-maximum" = "1m"))]
    pub timeout: Duration,
    /// Whether a backend is down while its next hop, itself or a gateway, does not answer.
    #[serde(default = "next_hop")]
    pub next_hop: bool,
    /// How long a backend stays down at first after resets or timeouts. Each further period is twice as long as the last, up to 64 times the first, until the backend has served for as long as it was down.
    #[serde(default = "hold", with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "1s", "x-maximum" = "1h"))]
    pub hold: Duration,
    /// The share of the service's backends that resets and timeouts may take down at a time, in percent, rounded down to whole backends.
    #[serde(default = "most")]
    #[schemars(range(min = 0, max = 100))]
    pub most: u8,
}

impl Default for Passive {
    fn default() -> Self {
        Self {
            resets: None,
            timeouts: None,
            timeout: timeout(),
            next_hop: next_hop(),
            hold: hold(),
            most: most(),
        }
    }
}

const fn next_hop() -> bool {
    true
}

const fn hold() -> Duration {
    Duration::from_secs(10)
}

const fn most() -> u8 {
    50
}

const fn interval() -> Duration {
    Duration::from_secs(2)
}

const fn timeout() -> Duration {
    Duration::from_secs(1)
}

const fn rise() -> u32 {
    2
}

const fn fall() -> u32 {
    3
}

const fn jitter() -> u8 {
    10
}

const fn on_down() -> OnRemove {
    OnRemove::Reset
}

impl Health {
    /// Names and values of [`Self::headers`]. Of a configuration that
    /// [`Config::load`](crate::Config::load) gave none is left out.
    pub fn header_fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().filter_map(|header| field(header))
    }
}

/// The name and value of an HTTP header (RFC 9110, section 5).
pub(crate) fn field(header: &str) -> Option<(&str, &str)> {
    let (name, value) = header.split_once(':')?;
    let value = value.trim_matches(' ');
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let printable = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    (!name.is_empty() && name.bytes().all(token) && printable).then_some((name, value))
}
