//! The load balancer's state for one measurement: connections that are open,
//! and rules in the emulated NIC, made by the same code as in operation.
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use arrayvec::ArrayVec;
use config::Config;
use conntrack::{ConnId, Hit, OffloadState};
use nic::{Delivery, Nic, NicConfig, ProfileKind};
use offload::{Encoding, OffloadConfig, Offloader, PortConfig};
use packet::HeapPacket;
use pipeline::{BURST, Offload, Outbox, Pipeline, PortId, Settings, Shared, Source};
use service::{Direction, HopId};
use setup::{PortFacts, Seed};
use wire::{Mac, TcpFlags};

use crate::error::PaperError;
use crate::flows::{self, CLIENT_SIDE, DATA, ROUTER, SERVER_SIDE, Shot, VIP};
use crate::limit::Action;

/// Receive queues of the port that faces the clients: one for packets that
/// match nothing, and one for each of the paper's 10 backends.
pub(crate) const QUEUES: u16 = 11;
/// Mbufs in a receive ring.
pub(crate) const RING: u32 = 1024;
/// Connections that the NIC takes: the X550's largest table.
pub(crate) const NIC_CAPACITY: usize = 8192;

const SEED: Seed = Seed([7; 32]);
/// Turns of the offloader after which its rules must be in.
const TURNS: u64 = 64;

/// What is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Connections that the tables have room for.
    pub(crate) connections: u32,
    /// Those that are open.
    pub(crate) open: u32,
    pub(crate) backends: u8,
    pub(crate) encoding: Encoding,
}

/// State and NIC of one load balancer.
pub(crate) struct World {
    pub(crate) shared: Arc<Shared>,
    config: Config,
    /// By connection: what the NIC says of its packets.
    pub(crate) shots: Vec<Shot>,
    /// Share of the connections that the NIC matches.
    pub(crate) matched: Vec<bool>,
}

impl World {
    /// Builds the state of `plan`.
    pub(crate) fn build(plan: Plan) -> Result<Self, PaperError> {
        let text = configuration(plan);
        let config = Config::parse(&text, Path::new("paper.toml"))
            .map_err(|errors| PaperError::Config(errors.to_string()))?;
        let facts = [(CLIENT_SIDE, QUEUES), (SERVER_SIDE, 1)].map(|(mac, queues)| PortFacts {
            mac,
            queues,
            ring: RING,
        });
        let offloading = plan.encoding != Encoding::Off;
        let shared = Arc::new(setup::shared(&config, &facts, offloading, SEED)?);
        let mut world = Self { shared, config, shots: Vec::new(), matched: Vec::new() };
        world.open(plan.open)?;
        let nic = nic(8192)?;
        if offloading {
            world.offload(plan, &nic)?;
        }
        world.aim(plan.connections, &nic);
        Ok(world)
    }

    /// Of the pipeline.
    pub(crate) fn settings(&self) -> Settings {
        setup::settings(&self.config, SEED)
    }

    /// Brings connections in: the handshake's first packet through the
    /// pipeline, the others as the connection table sees them.
    fn open(&mut self, connections: u32) -> Result<(), PaperError> {
        let mut pipeline = Pipeline::new(Arc::clone(&self.shared), 0, self.settings())?;
        let from = Source { port: PortId(0), queue: 0 };
        let mut burst: ArrayVec<HeapPacket, BURST> = ArrayVec::new();
        for number in 0..u64::from(connections) {
            burst.push(HeapPacket::new(&flows::frame(number, 64, TcpFlags::SYN)));
            if burst.is_full() {
                pipeline.begin();
                pipeline.process(from, &mut burst, 0, &mut Nowhere);
            }
        }
        pipeline.process(from, &mut burst, 0, &mut Nowhere);
        for number in 0..u64::from(connections) {
            let missing = PaperError::NotOpened(number, connections.into());
            let there = self.hit(number).ok_or(missing)?;
            let back = Hit { direction: Direction::Reply, ..there };
            let answer = TcpFlags(TcpFlags::SYN | TcpFlags::ACK);
            self.shared.table.touch(back, Some(answer), 0);
            self.shared.table.touch(there, Some(TcpFlags(TcpFlags::ACK)), 0);
        }
        Ok(())
    }

    fn hit(&self, number: u64) -> Option<Hit> {
        self.shared.table.lookup(&flows::key(number)?)
    }

    /// What is done to packets of connection `number`, and the place of its
    /// backend.
    pub(crate) fn action(&self, number: u64) -> Option<(u16, Action)> {
        let action = self.shared.table.action(self.hit(number)?)?;
        let (_, mac) = self.shared.neighbours.resolve(action.hop, 0)?;
        let service::Delivery::Rewrite(rewrite) = action.delivery else { return None };
        Some((action.backend.0, Action { rewrite, mac: mac? }))
    }

    /// Puts the first connections into the NIC, as many as fit.
    fn offload(&self, plan: Plan, nic: &Nic) -> Result<(), PaperError> {
        let queues = match plan.encoding {
            Encoding::Queue => (1..QUEUES).collect(),
            _ => vec![0],
        };
        let clients =
            PortConfig { encoding: plan.encoding, queues, shared_queues: Vec::new(), workers: 1 };
        let servers = PortConfig {
            encoding: Encoding::Off,
            queues: Vec::new(),
            shared_queues: Vec::new(),
            workers: 1,
        };
        let config = OffloadConfig {
            ports: vec![clients, servers],
            creations_per_tick: NIC_CAPACITY,
            ..OffloadConfig::default()
        };
        let mut offloader = Offloader::new(config, Arc::clone(&self.shared));
        let wanted = (plan.open as usize).min(NIC_CAPACITY);
        for number in 0..wanted as u64 {
            if let Some(Hit { conn, .. }) = self.hit(number) {
                let table = &self.shared.table;
                table.change_offload(conn, OffloadState::None, OffloadState::Wanted);
                offloader.request(conn, Offload::Wanted);
            }
        }
        let (mut here, mut there) = (nic.flows(), self::nic(2048)?.flows());
        for now_ms in 0..TURNS {
            nic.advance(now_ms * 1_000_000);
            offloader.tick(now_ms, &mut [&mut here, &mut there]);
        }
        let installed = offloader.stats().ports.first().map_or(0, |port| port.now.rules_forward);
        if installed < wanted {
            return Err(PaperError::NotOffloaded { installed, wanted });
        }
        Ok(())
    }

    /// Asks the NIC once where each connection's packets go.
    fn aim(&mut self, connections: u32, nic: &Nic) {
        self.shots.reserve(connections as usize);
        self.matched.reserve(connections as usize);
        for number in 0..u64::from(connections) {
            let frame = flows::frame(number, 64, DATA);
            let mut delivery = [Delivery::default()];
            nic.receive_burst([frame.as_slice()], TURNS * 1_000_000, &mut delivery);
            let [Delivery { queue, mark, matched, .. }] = delivery;
            self.shots.push(Shot::of(&frame, queue, mark));
            self.matched.push(matched);
        }
    }
}

fn nic(capacity: usize) -> Result<Nic, PaperError> {
    let config =
        NicConfig { capacity: Some(capacity), ..NicConfig::new(ProfileKind::X550, QUEUES) };
    Ok(Nic::new(&config)?)
}

/// The backend's place, 0 to 9, as an address.
fn backend(place: u8) -> (IpAddr, Mac) {
    (IpAddr::from([10, 0, 0, 11 + place]), Mac([2, 0, 0, 0, 2, place]))
}

fn configuration(plan: Plan) -> String {
    let connections = plan.connections.max(1 << 16);
    let mut text = format!(
        r#"
[[port]]
name = "clients"
device = "net_ring_clients"
[[port]]
name = "servers"
device = "net_ring_servers"
[[interface]]
port = "clients"
addresses = ["192.0.2.1/24"]
[[interface]]
port = "servers"
addresses = ["10.0.0.1/24"]
[[route]]
prefix = "0.0.0.0/0"
via = "192.0.2.254"
[[neighbour]]
address = "192.0.2.254"
mac = "{ROUTER}"
[offload]
admission = "all"
[conntrack]
connections = {connections}
connections_v6 = 1024
[[service]]
name = "paper"
vip = "{}"
port = {}
protocol = "tcp"
scheduler = "round-robin"
"#,
        VIP.ip(),
        VIP.port()
    );
    for place in 0..plan.backends {
        let (address, mac) = backend(place);
        text += &format!("[[service.backend]]\naddress = \"{address}\"\nport = 8080\n");
        text += &format!("[[neighbour]]\naddress = \"{address}\"\nmac = \"{mac}\"\n");
    }
    text
}

/// Takes whatever the pipeline gives out while connections are opened.
struct Nowhere;

impl Outbox<HeapPacket> for Nowhere {
    fn send(&mut self, _: PortId, packet: HeapPacket) {
        drop(packet);
    }

    fn fresh(&mut self, len: usize) -> Option<HeapPacket> {
        Some(HeapPacket::new(&vec![0; len]))
    }

    fn offload(&mut self, _: ConnId, _: Offload) -> bool {
        true
    }

    fn resolve(&mut self, _: HopId) {}
}
