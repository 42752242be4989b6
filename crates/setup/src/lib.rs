//! From the configuration to the state that all threads share.
//!
//! The program and the replay tool start from the same configuration and must
//! come to the same data path: this is the one place where the one becomes the
//! other.
#![forbid(unsafe_code)]

mod error;

use std::net::IpAddr;

use config::Config;
use conntrack::{ConnTable, TableConfig};
use control::{Control, Plan, PortFact, Start};
use flow::AdmissionPolicy;
use l3::{Interfaces, NeighbourTable, RouteTable};
use pipeline::Settings;
use service::ServiceTable;
use state::{
    Gates, MarkTable, PortShared, QueueEpochs, QueueTable, SHARED_ACTIONS, Shared, Snapshot,
    Tunnels,
};
use wire::Mac;

pub use error::SetupError;

/// Marks of a port: the soft id of Flow Director has 16 bits.
const MARKS: usize = 1 << 16;

/// What is known of a port once it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// Its Ethernet address.
    pub mac: Mac,
    /// Receive queues that the workers poll.
    pub queues: u16,
    /// Descriptors of each.
    pub ring: u32,
}

/// Secrets that keep others from choosing colliding flows, addresses and
/// fragments: random when traffic is real, fixed when a run must repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub [u8; 32]);

impl Seed {
    /// A number of its own for each `purpose`.
    fn number(self, purpose: usize) -> u64 {
        self.0.iter().cycle().skip(purpose * 8).take(8).fold(0, |n, &b| (n << 8) | u64::from(b))
    }
}

/// The shared state for `config` on ports of which `facts` are known, in the
/// order of the configuration, and what changes it from then on. `offloading`:
/// whether connections are offered to a NIC at all.
///
/// # Errors
/// Something that [`Config::load`] lets pass can't be built, for instance for
/// lack of memory.
pub fn start(
    config: &Config,
    facts: &[PortFacts],
    offloading: bool,
    seed: Seed,
) -> Result<(Shared, Control), SetupError> {
    let table = ConnTable::new(&table_config(config, seed))?;
    let neighbours = NeighbourTable::new(config.neighbours.max as usize, seed.number(0));
    let nothing = Snapshot {
        services: ServiceTable::empty([seed.number(1), seed.number(2)], config.fleet.key),
        interfaces: Interfaces::default(),
        routes: RouteTable::default(),
        tunnels: Tunnels::default(),
        admit: if offloading { config.offload.admission } else { AdmissionPolicy::Off },
        sample: config.offload.sample,
        reply_bytes: config.offload.reply_bytes,
        fragment_timeout_ms: millis(config.fragments.timeout).into(),
        answers: control::answers(&config.answers),
    };
    let ports = config.ports.iter().zip(facts);
    let known = ports.clone().map(|(port, facts)| PortFact {
        name: port.name.clone(),
        mac: facts.mac,
        mtu: port.mtu,
    });
    let start = Start { ports: known.collect(), plan: Plan::of(config) };
    let ports = ports.map(|(port, facts)| PortShared {
        marks: MarkTable::new(MARKS),
        queues: QueueTable::new(usize::from(facts.queues), SHARED_ACTIONS),
        queue_epochs: QueueEpochs::new(usize::from(facts.queues), facts.ring),
        gates: Gates::new(facts.queues.into()),
        mac: facts.mac,
        mtu: port.mtu,
    });
    let shared = Shared::new(nothing, table, neighbours, ports.collect());
    let control = Control::start(&shared, start)?;
    Ok((shared, control))
}

/// [`start`], where nothing changes from then on.
///
/// # Errors
/// See [`start`].
pub fn shared(
    config: &Config,
    facts: &[PortFacts],
    offloading: bool,
    seed: Seed,
) -> Result<Shared, SetupError> {
    start(config, facts, offloading, seed).map(|(shared, _)| shared)
}

/// What a worker keeps for itself.
#[must_use]
pub fn settings(config: &Config, seed: Seed) -> Settings {
    Settings {
        fragment_datagrams: config.fragments.datagrams as usize,
        fragments_held: (config.fragments.datagrams as usize / 4).max(16),
        seed: seed.number(3),
        workers: config.workers.count.into(),
        log_sample: config.access_log.as_ref().map_or(0, |own| own.sample),
    }
}

/// The next hops that must answer before traffic can be served: one for each
/// backend.
#[must_use]
pub fn backend_addresses(config: &Config) -> Vec<IpAddr> {
    let backends = config.services.iter().flat_map(|service| &service.backends);
    let mut addresses: Vec<IpAddr> = backends.map(|backend| backend.address).collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// What the offload side does about it.
#[must_use]
pub fn admission(config: &Config) -> admission::Settings {
    let offload = &config.offload;
    admission::Settings {
        policy: offload.admission,
        insertions_per_second: Some(offload.insertions),
        reserve_percent: u8::try_from(offload.reserve).unwrap_or(u8::MAX),
        factor_percent: offload.factor,
        tracked: offload.tracked as usize,
        ..admission::Settings::default()
    }
}

/// How the connection table is made.
#[must_use]
pub fn table_config(config: &Config, seed: Seed) -> TableConfig {
    let conntrack = &config.conntrack;
    TableConfig {
        connections: conntrack.connections as usize,
        connections_v6: conntrack.connections_v6 as usize,
        seed: seed.0,
        timeouts: Plan::of(config).timeouts,
    }
}

fn millis(duration: std::time::Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
