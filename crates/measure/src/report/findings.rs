//! Everything that a run has measured.

use serde::{Deserialize, Serialize};

use crate::report::Row;

/// The rows of a run, by kind. Every row is one repetition of one point, and
/// says by its `figure` what kind it is.
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
    /// `software`: from the SYN to the connection in the table. `parts`: what
    /// parts of that cost by themselves. `full`: a SYN that the full table has
    /// no room for. `hardware`: from the SYN to the rule in the NIC.
    pub path: String,
    /// Whose part of it: `worker` (all packets of the handshake), of this
    /// `syn`, `syn-ack` and `ack`, and `keeper`; of `parts` `parse`, `lookup`,
    /// `schedule`, `insert` and `rewrite`.
    pub part: String,
    /// Connections that the table has room for.
    pub table: u64,
    /// Share of them that were there at the start.
    pub fill: f64,
    /// Nanoseconds per new connection.
    pub ns: f64,
    /// New connections in a second, if nothing else is done.
    pub per_second: f64,
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
    pub ns_per_packet: f64,
    /// As in [`Row`].
    pub mpps: f64,
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
    #[serde(default)]
    pub removed_per_second: f64,
    /// Rules per second that were made in the NIC.
    #[serde(default)]
    pub rules_made_per_second: f64,
    /// Rules per second that were destroyed in the NIC.
    #[serde(default)]
    pub rules_undone_per_second: f64,
    /// Connections that are open on average.
    pub connections: u64,
    /// Packets per second offered by clients and backends, in millions.
    pub mpps: f64,
    /// As in [`Row`].
    pub ns_per_packet: f64,
    /// As in [`Row`].
    pub util: f64,
    /// Share of the clients' packets that the NIC has matched.
    pub matched: f64,
    /// As in [`Row`].
    pub loss: f64,
    /// Packets that the traffic had and the source had no time for, as a share.
    pub behind: f64,
    /// Whether this is the highest rate without loss, found by search.
    #[serde(default)]
    pub highest: bool,
    /// What was in the way of a higher one: `loss`, `the source` (its core had
    /// no time for more), `others` (processes that had a core), or `the search`
    /// (it went no further); `-` of rows that are not the highest.
    #[serde(default)]
    pub bound: String,
    /// Which repetition, from 0.
    pub repetition: u32,
}

impl Findings {
    /// Takes in what another part of the run has found.
    pub fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.latency.extend(other.latency);
        self.new_flows.extend(other.new_flows);
        self.installs.extend(other.installs);
        self.churn.extend(other.churn);
    }

    /// All rows as JSON, an object each.
    ///
    /// # Errors
    /// A row has no JSON form.
    pub fn json_rows(&self) -> Result<Vec<serde_json::Value>, serde_json::Error> {
        fn values<T: Serialize>(
            rows: &[T],
        ) -> impl Iterator<Item = Result<serde_json::Value, serde_json::Error>> {
            rows.iter().map(serde_json::to_value)
        }
        values(&self.rows)
            .chain(values(&self.latency))
            .chain(values(&self.new_flows))
            .chain(values(&self.installs))
            .chain(values(&self.churn))
            .collect()
    }
}
