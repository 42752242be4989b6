//! One measurement.

use serde::{Deserialize, Serialize};

use crate::report::ReportError;

/// Two cores are near each other if a cache line's way to the other and back
/// takes at most so many times the shortest of the run.
pub const NEAR: f64 = 2.0;

/// One repetition of one point of a figure. The fields are in the order of the
/// columns of `results.csv`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The paper's figure it belongs to, 4 to 8.
    pub figure: u8,
    /// `limit`, `slb-paper`, `slb`, `hnlb-queue`, `hnlb-mark` or `hnlb-shared`.
    pub system: String,
    /// Concurrent connections.
    pub connections: u64,
    /// Packet size in bytes.
    pub packet_size: u16,
    /// Throughput in million packets per second.
    pub mpps: f64,
    /// Busy time of the measured core per packet, in nanoseconds.
    pub ns_per_packet: f64,
    /// util of the paper's section IV, from 0 to 1.
    pub util: f64,
    /// util+ of the paper's section IV, from 0 to 1.
    pub util_plus: f64,
    /// Share of the offered packets that were lost, from 0 to 1.
    pub loss: f64,
    /// Offered rate in million packets per second; `None` for as fast as it
    /// goes.
    #[serde(default)]
    pub offered_mpps: Option<f64>,
    /// Share of the polls that found nothing, from 0 to 1.
    pub empty_polls: f64,
    /// Which repetition, from 0.
    pub repetition: u32,
    /// How the connections of the packets are drawn: `uniform` if not said,
    /// else for instance `zipf-1.2`.
    #[serde(default = "uniform")]
    pub traffic: String,
    /// Share of the packets that the NIC has matched, from 0 to 1.
    #[serde(default)]
    pub matched: f64,
    /// Share of the time that other processes had on the measured core; part
    /// of no other field.
    #[serde(default)]
    pub stolen: f64,
    /// Packets that entered the load balancer and did not leave it, of both
    /// directions.
    #[serde(default)]
    pub dropped: u64,
    /// Backends that the connections are spread over.
    #[serde(default)]
    pub backends: u16,
    /// Receive queues that are polled on each port where packets come in.
    #[serde(default)]
    pub queues: u16,
    /// Nanoseconds that a cache line took from the measured core to the
    /// source's and back, before or after, whichever was longer; 0: not known,
    /// or both are one core.
    #[serde(default)]
    pub distance_ns: f64,
}

fn uniform() -> String {
    UNIFORM.into()
}

/// The traffic of the paper's figures.
pub(crate) const UNIFORM: &str = "uniform";

/// The same over IPv6.
pub(crate) const IPV6: &str = "ipv6";

/// Connections of that.
pub(crate) const IPV6_CONNECTIONS: u64 = 8000;

impl Row {
    /// Takes a row from any value that serialises with these fields; others
    /// are passed over.
    ///
    /// # Errors
    /// [`ReportError::Row`] if a field is missing or of another type.
    pub fn of<T: Serialize>(value: &T) -> Result<Self, ReportError> {
        let value = serde_json::to_value(value).map_err(ReportError::Row)?;
        serde_json::from_value(value).map_err(ReportError::Row)
    }
}
