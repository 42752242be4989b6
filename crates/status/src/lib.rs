//! What a running load balancer tells of itself, as plain data: the control API
//! serves it as JSON, and `hnlb status` prints it.
#![forbid(unsafe_code)]

mod announce;
mod answers;
mod autoscaling;
mod capture;
mod loop_reading;
mod packet;
mod picture;
mod requests;
mod requests_picture;
mod traffic;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use announce::{AnnounceStatus, AnnouncedVip};
pub use answers::{AnswersBelow, FirstAnswers};
pub use autoscaling::AutoscalingStatus;
pub use capture::{CaptureBatch, CaptureStarted, CapturedFrame};
pub use loop_reading::LoopReading;
pub use packet::{
    CounterStory, DepartureStory, FieldChange, PacketStories, PacketStory, TableEntry,
};
pub use picture::{
    BackendPicture, BackendState, CounterPicture, Picture, PortPicture, ServicePicture, Totals,
    WorkerPicture,
};
pub use requests::{RequestsStatus, ResponseClasses};
pub use requests_picture::RequestsPicture;
pub use traffic::{TrafficPicture, TrafficStatus};

/// The whole report.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Status {
    /// The program's version.
    pub version: String,
    /// Every port runs and every backend's next hop has answered.
    pub ready: bool,
    /// What is still missing while `ready` is false.
    pub waiting_for: Vec<String>,
    /// Seconds since the workers started.
    pub uptime_seconds: f64,
    /// Which memory DPDK uses and what that costs.
    pub memory: String,
    /// The ports, in the order of the configuration.
    pub ports: Vec<PortStatus>,
    /// The emulated NICs and the rules of all ports, added up.
    pub nic: NicStatus,
    /// The workers.
    pub workers: Vec<WorkerStatus>,
    /// The load of the busiest worker, for an autoscaler.
    pub autoscaling: AutoscalingStatus,
    /// How packets that match no rule are spread over the workers.
    pub balance: BalanceStatus,
    /// Every counter of the data path, all workers added up.
    pub counters: BTreeMap<String, u64>,
    /// Those of the counters that count dropped packets, by reason, without the zeros.
    pub drops: BTreeMap<String, u64>,
    /// The rule life cycle's counters.
    pub offload: BTreeMap<String, u64>,
    /// For how many milliseconds a driver has kept the thread that makes rules
    /// in its present turn; the counters of rules are as old as that. 0: not at
    /// all.
    pub rules_busy_ms: u64,
    /// Who gets rules.
    pub admission: AdmissionStatus,
    /// The connection table.
    pub connections: ConnectionStatus,
    /// Which VIPs routers are told of; `None` without `[announce]`.
    pub announce: Option<AnnounceStatus>,
    /// The services and their backends.
    pub services: Vec<ServiceStatus>,
}

/// One port.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PortStatus {
    /// Its name in the configuration.
    pub name: String,
    /// The DPDK device.
    pub device: String,
    /// The driver, or the emulated NIC's profile in front of it.
    pub driver: String,
    /// Whether the link is up.
    pub link_up: bool,
    /// Its Ethernet address.
    pub mac: String,
    /// The longest IP packet, in bytes, as configured.
    pub mtu: u16,
    /// The MTU of the kernel's interface beneath the port, if there is one; longer
    /// packets are lost.
    pub link_mtu: Option<u32>,
    /// `off`, `queue`, `mark` or `rewrite`.
    pub encoding: String,
    /// Why this encoding, and what the card can't.
    pub reasons: Vec<String>,
    /// Device counters.
    pub counters: BTreeMap<String, u64>,
}

/// Match tables.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NicStatus {
    /// Rules in use; a NAT connection takes two, one per direction.
    pub rules: u64,
    /// Rules the tables can hold; 0 if the driver doesn't tell.
    pub capacity: u64,
    /// Packets that matched a rule; only an emulated NIC tells.
    pub matched: u64,
    /// Packets that matched none.
    pub missed: u64,
    /// Packets that the NIC sent out of a port itself, past the workers.
    pub forwarded: u64,
    /// Bytes of them.
    pub forwarded_bytes: u64,
    /// Packets the NIC dropped, by reason.
    pub drops: BTreeMap<String, u64>,
}

/// One worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerStatus {
    /// Its number.
    pub worker: usize,
    /// Receive queues it polls.
    pub queues: usize,
    /// The most packets it takes from one at once.
    pub burst: usize,
    /// Entries of the ports' redirection tables that name its queues; 0 if no port's table
    /// is balanced.
    pub buckets: u64,
    /// util over the last second.
    pub util: f64,
    /// util+ over the last second.
    pub util_plus: f64,
    /// REF, OPS, np, nb since the start.
    #[serde(rename = "loop")]
    pub totals: LoopReading,
    /// How often it has slept since the start because nothing came.
    pub naps: u64,
    /// Milliseconds that it has slept.
    pub slept_ms: u64,
    /// Packets that it dropped, for all reasons together.
    pub dropped: u64,
    /// Its counters.
    pub counters: BTreeMap<String, u64>,
}

/// How packets that match no rule are spread over the workers.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BalanceStatus {
    /// `load`, or `off` if the configuration says so, there is one worker, or no port can.
    pub mode: String,
    /// What can be said of each port's redirection table.
    pub ports: Vec<String>,
    /// Moves since the start, by what became of them.
    pub counters: BTreeMap<String, u64>,
    /// The longest time in microseconds for which a worker left its queue alone.
    pub longest_wait_us: u64,
}

/// Who gets an entry of the NIC.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AdmissionStatus {
    /// `heavy`, `all` or `off`.
    pub policy: String,
    /// Connections with an entry, in line for one, or leaving it.
    pub held: u64,
    /// Connections that the NIC holds, as far as is known; `None`: it has never
    /// been full.
    pub entries: Option<u64>,
    /// Connections in software whose rate is known.
    pub tracked: u64,
    /// Packets per second that a newcomer needs at present; 0: there is room.
    pub threshold: f64,
    /// Of the sampled packets of the last second, the share of connections with
    /// an entry. Only the policy `heavy` samples.
    pub share_matched: f64,
    /// Rules that the slowest port may be asked to create in a second at present.
    pub budget: Option<u64>,
    /// Connections given an entry in the last second.
    pub budget_used: u64,
    /// What one creation takes on the slowest port, in nanoseconds.
    pub creation_ns: Option<u64>,
    /// Counts since the start: admitted, evicted, refused, and samples by what
    /// became of them.
    pub counters: BTreeMap<String, u64>,
}

/// The answer to a question about connections: those of one client address and port.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClientConnections {
    /// The connections.
    pub connections: Vec<Explanation>,
}

/// One connection, and why it is, or is not, in hardware.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Explanation {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The client's address and port.
    pub client: String,
    /// The service's.
    pub vip: String,
    /// The backend's.
    pub server: String,
    /// Its state in the connection table.
    pub state: String,
    /// Milliseconds since its last packet that a worker counted.
    pub idle_ms: u64,
    /// Where its packets from the client are served: `software`, `in line`,
    /// `hardware` or `leaving`.
    pub forward: String,
    /// Where its packets from the backend are served.
    pub reply: String,
    /// Why it is where it is.
    pub why: String,
    /// Seconds since it came there, as far as is remembered.
    pub since_seconds: Option<f64>,
    /// Packets per second, if measured.
    pub rate: Option<f64>,
    /// Packets that its rules have sent on and no worker has seen.
    pub hardware_packets: u64,
    /// Their bytes.
    pub hardware_bytes: u64,
}

/// Some of the connections in the table.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConnectionList {
    /// The connections, in the order of the table or by their rates.
    pub connections: Vec<Connection>,
    /// How many there are in all that were asked for.
    pub found: u64,
}

/// A connection in the table.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Connection {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The client's address and port.
    pub client: String,
    /// The service's name.
    pub service: String,
    /// The address and port that the client speaks to.
    pub vip: String,
    /// The backend's address and port.
    pub server: String,
    /// Its state in the connection table.
    pub state: String,
    /// Milliseconds since its last packet that a worker counted.
    pub idle_ms: u64,
    /// Whether rules of the NIC may match its packets.
    pub in_nic: bool,
    /// Where it is served, or why not in the NIC, in a word of [`OffloadCauses`];
    /// `unknown` while a driver keeps the thread that knows.
    pub cause: String,
    /// Packets per second of both directions together, by samples; `None`: it is not
    /// measured.
    pub rate: Option<f64>,
}

/// How many connections the NIC matches, and why it does not match the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OffloadCauses {
    /// Connections in the table.
    pub connections: u64,
    /// How many have each cause, the most frequent first.
    pub causes: Vec<CauseCount>,
}

/// Connections with one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CauseCount {
    /// The cause in a word.
    pub cause: String,
    /// How many connections have it.
    pub connections: u64,
    /// What the word means, and what could be done.
    pub help: String,
}

/// The connection table.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConnectionStatus {
    /// Connections in the table.
    pub active: u64,
    /// Connections ever installed.
    pub created: u64,
    /// IPv4 connections the table holds at most.
    pub capacity: u64,
    /// IPv6 connections the table holds at most.
    pub capacity_v6: u64,
    /// Bytes of the whole table.
    pub memory_bytes: u64,
}

/// One service.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServiceStatus {
    /// The id by which rules and counters know it, the same in every configuration that
    /// has it.
    pub id: u16,
    /// How many services have had the id, this one included.
    pub generation: u32,
    /// Whether it has left the configuration, and still carries connections.
    pub removed: bool,
    /// Its name in the configuration.
    pub name: String,
    /// VIP, port and protocol, as in `10.0.0.1:80/tcp`.
    pub vip: String,
    /// Its connections that have not been answered by their server, or not gone on by
    /// their client: those that `[conntrack] embryonic_service` limits. May be too high
    /// by what was inserted a moment ago.
    pub embryonic: u32,
    /// What its backends have carried, those that are gone included.
    pub traffic: TrafficStatus,
    /// How soon its backends answered new connections.
    pub first_answers: FirstAnswers,
    /// What became of its requests, if its protocol is `http`.
    pub requests: Option<RequestsStatus>,
    /// Its backends.
    pub backends: Vec<BackendStatus>,
    /// Backends that have left the configuration, and still carry connections.
    pub departed: Vec<BackendStatus>,
    /// How its clients are divided, if it is stateless.
    pub stateless: Option<StatelessStatus>,
}

/// How a stateless service's clients are divided.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StatelessStatus {
    /// Low bits that decide.
    pub bits: u8,
    /// Whether they are a hash's, not the client's address's.
    pub by_hash: bool,
    /// The greatest deviation of a backend's share from what its weight says,
    /// as a part of that.
    pub deviation: f64,
    /// What each backend has.
    pub shares: Vec<ShareStatus>,
    /// The entries.
    pub entries: Vec<EntryStatus>,
    /// The ports whose NIC does all of it.
    pub in_hardware: Vec<usize>,
    /// Why a port leaves it to software, by the port's number.
    pub reasons: BTreeMap<usize, String>,
}

/// One backend's part of the clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ShareStatus {
    /// The backend's address.
    pub address: String,
    /// Its part by its weight, among those that aren't drained.
    pub wanted: f64,
    /// Its part of all client addresses.
    pub assigned: f64,
    /// Whether it has been drained.
    pub drained: bool,
    /// Packets that the NICs sent it.
    pub packets: u64,
    /// Bytes of those, from the Ethernet header on.
    pub bytes: u64,
    /// Its part of the packets that the NICs have sent to all backends.
    pub seen: f64,
}

/// One entry: all clients whose low address bits are these.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EntryStatus {
    /// The low bits.
    pub value: u32,
    /// Which bits of the address count.
    pub mask: u32,
    /// The backend's address.
    pub backend: String,
    /// Ports whose NIC has it.
    pub ports: usize,
    /// Packets since it has this backend.
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
}

/// One backend.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BackendStatus {
    /// The id by which records, rules and queues know it, the same in every
    /// configuration that has it.
    pub id: u16,
    /// How many backends have had the id, this one included.
    pub generation: u32,
    /// Address and port.
    pub address: String,
    /// Weight; 0 while it is drained.
    pub weight: u16,
    /// Whether it has been drained since the start.
    pub drained: bool,
    /// What its health checks say; `None`: it isn't checked.
    pub health: Option<HealthStatus>,
    /// Connections it serves now.
    pub active: u64,
    /// What it has carried.
    pub traffic: TrafficStatus,
    /// What it has answered to requests, if the service reads them.
    pub requests: Option<RequestsStatus>,
    /// Milliseconds from a connection's first packet to the backend's first answer, as a
    /// moving mean; `None` if none has passed the load balancer.
    pub first_answer_ms: Option<f64>,
    /// The next hop's Ethernet address, or why there is none.
    pub next_hop: String,
}

/// What health checks say of a backend.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HealthStatus {
    /// `unknown` before the first probe has ended, `up` or `down`.
    pub state: String,
    /// Its part of the configured weight, in percent: less than 100 while it is down and
    /// in its slow start.
    pub percent: u8,
    /// Probes that passed.
    pub passed: u64,
    /// Probes that failed.
    pub failed: u64,
    /// How often it has come up or gone down.
    pub transitions: u64,
    /// Why the backend is down, or why the last probe failed; empty otherwise.
    pub last_failure: String,
    /// What passive signals say; `None` if they don't count.
    pub passive: Option<PassiveStatus>,
}

/// What passive signals say of a backend.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PassiveStatus {
    /// `up` or `down`.
    pub state: String,
    /// How often they have taken the backend down or brought it up again.
    pub transitions: u64,
    /// What speaks against the backend, or did the last time; empty if nothing ever did.
    pub why: String,
    /// Whether they speak against the backend, which serves because as many of its service
    /// are down as may be.
    pub spared: bool,
}
