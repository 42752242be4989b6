//! What a run measures: one row for each repetition of each point.
use serde::{Deserialize, Serialize};

/// One repetition of one point of a figure. The fields are in the order of the
/// columns of `results.csv`; what was not measured is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The paper's figure it belongs to, 4 to 8.
    pub figure: u8,
    /// A [`crate::System`] by its name.
    pub system: String,
    /// Concurrent connections.
    pub connections: u64,
    /// Packet size in bytes.
    pub packet_size: u16,
    /// Throughput in million packets per second.
    pub mpps: Option<f64>,
    /// Busy time of the measured core per packet, in nanoseconds.
    pub ns_per_packet: Option<f64>,
    /// util of the paper's section IV, from 0 to 1.
    pub util: Option<f64>,
    /// util+ of the paper's section IV, from 0 to 1.
    pub util_plus: Option<f64>,
    /// Share of the offered packets that were lost, from 0 to 1.
    pub loss: f64,
    /// Offered rate in million packets per second; `None` for as fast as it
    /// goes.
    pub offered_mpps: Option<f64>,
    /// Share of the polls that found nothing, from 0 to 1.
    pub empty_polls: Option<f64>,
    /// Which repetition, from 0.
    pub repetition: u32,
    /// How the connections of the packets are drawn: `uniform`, or for instance
    /// `zipf-1.2`.
    pub traffic: String,
    /// Share of the packets that the NIC has matched, from 0 to 1.
    pub matched: f64,
    /// Share of the time that other processes had on the measured core; part
    /// of no other field.
    pub stolen: f64,
    /// Packets that entered the load balancer and did not leave it, of both
    /// directions.
    pub dropped: u64,
    /// Backends that the connections are spread over.
    pub backends: u16,
    /// Receive queues that are polled on each port where packets come in.
    pub queues: u16,
    /// Nanoseconds that a cache line took from the measured core to the
    /// source's and back, before or after, whichever was longer; `None`: not
    /// known, or both are one core.
    pub distance_ns: Option<f64>,
}

/// The traffic of the paper's figures.
pub(crate) const UNIFORM: &str = "uniform";
/// The same over IPv6.
pub(crate) const IPV6: &str = "ipv6";
/// Connections of that.
pub(crate) const IPV6_CONNECTIONS: u64 = 8000;

/// Others may have the measured core for such a share of the time.
const STOLEN: f64 = 0.2;

impl Row {
    /// Whether other processes had the measured core for too long: such a row
    /// decides no goal.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.stolen > STOLEN
    }

    /// Whether it is of figure 5 or 6 at as much as is taken.
    pub(crate) fn saturates(&self) -> bool {
        self.offered_mpps.is_none()
    }
}

/// The latency through the load balancer at one rate: from a packet's writing
/// into an mbuf to its return to the source, which polls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyRow {
    /// `latency`.
    pub figure: String,
    /// As in [`Row`].
    pub system: String,
    /// As in [`Row`].
    pub connections: u64,
    /// Offered rate in million packets per second, as it was.
    pub rate_mpps: f64,
    /// The rate that was wanted, as a part of the system's own maximum.
    pub share: f64,
    /// Half of the packets took at most so many microseconds.
    pub p50_us: f64,
    /// 90 % of the packets.
    pub p90_us: f64,
    /// 99 % of the packets.
    pub p99_us: f64,
    /// 99.9 % of the packets.
    pub p999_us: f64,
    /// 99.99 % of the packets.
    pub p9999_us: f64,
    /// Packets whose time was taken.
    pub packets: u64,
    /// As in [`Row`].
    pub loss: f64,
    /// As in [`Row`]. Packets that waited meanwhile are among those above.
    pub stolen: f64,
    /// Which repetition, from 0.
    pub repetition: u32,
}

/// What a new connection costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewFlowRow {
    /// `new`.
    pub figure: String,
    /// `software`: from the SYN to the connection in the table. `full`: a SYN
    /// that the full table has no room for. `hardware`: from the SYN to the rule
    /// in the NIC.
    pub path: String,
    /// Whose part of it: `worker` (all packets of the handshake), of this
    /// `syn`, `syn-ack` and `ack`, and `keeper`.
    pub part: String,
    /// Connections that the table has room for.
    pub table: u64,
    /// Share of them that were there at the start.
    pub fill: f64,
    /// Nanoseconds per new connection.
    pub ns: Option<f64>,
    /// New connections in a second, if nothing else is done.
    pub per_second: Option<f64>,
    /// New connections that were measured.
    pub connections: u64,
    /// Which repetition, from 0.
    pub repetition: u32,
}

/// What the worker pays while rules are installed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstallRow {
    /// `install`.
    pub figure: String,
    /// As in [`Row`].
    pub system: String,
    /// Rules installed in a second, of connections that send nothing
    /// meanwhile; 0: none.
    pub rules_per_second: f64,
    /// As in [`Row`].
    pub ns_per_packet: Option<f64>,
    /// As in [`Row`].
    pub mpps: Option<f64>,
    /// Which repetition, from 0.
    pub repetition: u32,
}

/// Connections that come and go, among others that stay long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChurnRow {
    /// `churn`.
    pub figure: String,
    /// As in [`Row`].
    pub system: String,
    /// New connections per second that the traffic has.
    pub arrivals_per_second: f64,
    /// New connections per second that were brought into the table.
    pub opened_per_second: f64,
    /// Connections per second that the ager took out of the table.
    pub removed_per_second: f64,
    /// Rules per second that were made in the NIC.
    pub rules_made_per_second: f64,
    /// Rules per second that were destroyed in the NIC.
    pub rules_undone_per_second: f64,
    /// Connections that are open on average.
    pub connections: u64,
    /// Packets per second offered by clients and backends, in millions.
    pub mpps: Option<f64>,
    /// As in [`Row`].
    pub ns_per_packet: Option<f64>,
    /// As in [`Row`].
    pub util: Option<f64>,
    /// Share of the clients' packets that the NIC has matched.
    pub matched: f64,
    /// As in [`Row`].
    pub loss: f64,
    /// Packets that the traffic had and the source had no time for, as a share.
    pub behind: f64,
    /// Whether this is the highest rate without loss, found by search.
    pub highest: bool,
    /// What was in the way of a higher one: `loss`, `the source` (its core had
    /// no time for more), `others` (processes that had a core), or `the search`
    /// (it went no further); `-` of rows that are not the highest.
    pub bound: String,
    /// Which repetition, from 0.
    pub repetition: u32,
}

/// The throughput of some workers that share the table of connections (figure 6
/// of the LB-NIC paper).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkersRow {
    /// `workers`.
    pub figure: String,
    /// As in [`Row`].
    pub system: String,
    /// Workers, each on a core of its own.
    pub workers: u32,
    /// As in [`Row`].
    pub connections: u64,
    /// As in [`Row`].
    pub packet_size: u16,
    /// Million packets per second of all workers together.
    pub mpps: Option<f64>,
    /// The same in Gbit/s of frames.
    pub gbit_per_second: Option<f64>,
    /// As in [`Row`], of the worker that was disturbed most.
    pub stolen: f64,
    /// Which repetition, from 0.
    pub repetition: u32,
}

/// The rows of a run, by kind. Every row says by its `figure` what kind it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// Of the paper's figures.
    pub rows: Vec<Row>,
    /// Of the latency.
    pub latency: Vec<LatencyRow>,
    /// Of new connections.
    pub new_flows: Vec<NewFlowRow>,
    /// Of the cost of rule installation for the worker.
    pub installs: Vec<InstallRow>,
    /// Of connections that come and go.
    pub churn: Vec<ChurnRow>,
    /// Of several workers.
    pub workers: Vec<WorkersRow>,
}

/// A kind of rows: the name of its CSV file, and the rows as JSON.
pub(crate) type Kind = (&'static str, Vec<serde_json::Value>);

impl Findings {
    /// Takes in what another part of the run has found.
    pub fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.latency.extend(other.latency);
        self.new_flows.extend(other.new_flows);
        self.installs.extend(other.installs);
        self.churn.extend(other.churn);
        self.workers.extend(other.workers);
    }

    pub(crate) fn kinds(&self) -> Result<[Kind; 6], serde_json::Error> {
        fn values<T: Serialize>(rows: &[T]) -> Result<Vec<serde_json::Value>, serde_json::Error> {
            rows.iter().map(serde_json::to_value).collect()
        }
        Ok([
            ("results", values(&self.rows)?),
            ("latency", values(&self.latency)?),
            ("new", values(&self.new_flows)?),
            ("install", values(&self.installs)?),
            ("churn", values(&self.churn)?),
            ("workers", values(&self.workers)?),
        ])
    }

    /// All rows as JSON, an object each.
    ///
    /// # Errors
    /// A row has no JSON form.
    pub fn json_rows(&self) -> Result<Vec<serde_json::Value>, serde_json::Error> {
        Ok(self.kinds()?.into_iter().flat_map(|(_, rows)| rows).collect())
    }
}
