//! The load balancer's state for one measurement: connections that are open,
//! and rules in the emulated NIC, made by the same code as in operation.
use std::sync::Arc;

use arrayvec::ArrayVec;
use config::Config;
use conntrack::{ConnId, Hit, OffloadState, Segment};
use flow::{CardProfile, Direction, Encoding, HopId, InterfaceId, Mode, PortId};
use nic::{Disposition, Nic, NicConfig};
use offload::{OffloadConfig, Offloader, PortConfig, ReceiveQueues, Rules};
use packet::HeapPacket;
use pipeline::{BURST, Outbox, Pipeline, Settings};
use setup::{PortFacts, Seed};
use state::{Offload, Shared, Source};
use wire::{FlowKey, TcpFlags, Transport};

use crate::error::MeasureError;
use crate::systems::action::Action;
use crate::testbed::configuration::configuration;
use crate::testbed::frames::{
    CLIENT_SIDE, DATA, Family, FrameSpec, HEADERS, SERVER_SIDE, Templates,
};

/// Receive queues of each port: one for packets that match nothing, and one
/// for each of the paper's 10 backends.
pub(crate) const QUEUES: u16 = 11;
/// Mbufs in a receive ring.
pub(crate) const RING: u32 = 1024;
/// Connections that the NIC takes: the X550's largest table.
pub(crate) const NIC_CAPACITY: usize = 8192;

/// The load balancer's clock when a measurement begins, in milliseconds.
pub(crate) const START_MS: u64 = 1000;

const SEED: Seed = Seed([7; 32]);
/// Turns of the offloader after which its rules must be in.
const TURNS: u64 = 64;
/// The NIC's clock when it is asked, in milliseconds: all is settled.
const ASKED_MS: u64 = TURNS;
/// Frames that the NIC is asked about at once.
const ASKED: usize = 32;

/// What is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Connections that the tables have room for.
    pub(crate) connections: u32,
    /// Those that are open.
    pub(crate) open: u32,
    /// Of these, those that are in the NIC, as far as it has room.
    pub(crate) in_nic: u32,
    pub(crate) backends: u8,
    pub(crate) encoding: Encoding,
    /// Receive queues of each port.
    pub(crate) queues: u16,
    /// Whether backends share the first queue: those for which no other is
    /// left have a mark.
    pub(crate) shares: bool,
    /// Whether the backends' packets have rules, too.
    pub(crate) both_ways: bool,
    /// Whether connections are forgotten after a fraction of a second: see
    /// `configuration`.
    pub(crate) brief: bool,
    /// How packets reach the backends: nat or dsr.
    pub(crate) mode: Mode,
    pub(crate) family: Family,
    pub(crate) proto: Transport,
}

impl Plan {
    /// `connections` of TCP, all open, and the clients' packets of as many in
    /// the NIC as it takes.
    pub(crate) const fn of(connections: u32, backends: u8, encoding: Encoding) -> Self {
        Self {
            connections,
            open: connections,
            in_nic: connections,
            backends,
            encoding,
            queues: QUEUES,
            shares: false,
            both_ways: false,
            brief: false,
            mode: Mode::Nat,
            family: Family::V4,
            proto: Transport::Tcp,
        }
    }
}

/// What the NIC does with the packets of one connection in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Steering {
    mark: Option<u32>,
    queue: u8,
    matched: bool,
}

/// State and NIC of one load balancer.
pub(crate) struct Scenario {
    pub(crate) shared: Arc<Shared>,
    pub(crate) templates: Templates,
    pub(crate) nics: [Nic; 2],
    pub(crate) rules: Rules,
    /// Requests for rules that the next turn takes.
    pub(crate) requests: Vec<(ConnId, Offload)>,
    plan: Plan,
    /// Connections that are open.
    opened: u64,
    config: Config,
    /// By connection: its backend's place.
    places: Vec<u8>,
    /// By direction and connection.
    steering: [Vec<Steering>; 2],
}

impl Scenario {
    /// Builds the state of `plan`.
    pub(crate) fn build(plan: Plan) -> Result<Self, MeasureError> {
        let config = configuration(plan)?;
        let facts = [CLIENT_SIDE, SERVER_SIDE].map(|mac| PortFacts {
            mac,
            queues: plan.queues,
            ring: RING,
        });
        let offloading = plan.encoding != Encoding::Off;
        let shared = Arc::new(setup::shared(&config, &facts, offloading, SEED)?);
        let mut scenario = Self {
            rules: Rules::new(offloader(plan, &shared), Arc::clone(&shared)),
            requests: Vec::new(),
            shared,
            templates: Templates::new(plan.family, plan.proto),
            nics: [nic(plan)?, nic(plan)?],
            plan,
            opened: 0,
            config,
            places: Vec::new(),
            steering: [Vec::new(), Vec::new()],
        };
        scenario.open_up_to(plan.open.into())?;
        if plan.in_nic > 0 {
            if offloading {
                scenario.offload()?;
            }
            scenario.ask_nic(Direction::Forward);
            if plan.both_ways {
                scenario.ask_nic(Direction::Reply);
            }
        }
        Ok(scenario)
    }

    /// Of the pipeline.
    pub(crate) fn settings(&self) -> Settings {
        setup::settings(&self.config, SEED)
    }

    /// Connections that are open.
    pub(crate) const fn open(&self) -> u32 {
        self.plan.open
    }

    /// Brings connections in until `all` are open: the handshake's first packet
    /// through the pipeline, the others as the connection table sees them.
    pub(crate) fn open_up_to(&mut self, all: u64) -> Result<(), MeasureError> {
        let mut pipeline = Pipeline::new(Arc::clone(&self.shared), 0, self.settings())?;
        let from = Source { port: PortId(0), queue: 0 };
        let mut burst: ArrayVec<HeapPacket, BURST> = ArrayVec::new();
        let mut spare = Spare::default();
        for number in self.opened..all {
            let spec = self.templates.forward(number, 64, TcpFlags::SYN);
            burst.push(spare.packet(&self.templates, &spec));
            if burst.is_full() || number + 1 == all {
                pipeline.begin();
                pipeline.process(from, &mut burst, START_MS, &mut spare);
            }
        }
        self.places.reserve(all.saturating_sub(self.opened) as usize);
        let tcp = |flags| {
            (self.plan.proto == Transport::Tcp)
                .then(|| Segment { flags: TcpFlags(flags), ..Segment::default() })
        };
        for number in self.opened..all {
            let there = self.hit(number).ok_or(MeasureError::NotOpened(number, all))?;
            let back = Hit { direction: Direction::Reply, ..there };
            let table = self.shared.table();
            table.touch(back, tcp(TcpFlags::SYN | TcpFlags::ACK), START_MS);
            table.touch(there, tcp(TcpFlags::ACK), START_MS);
            let place = self.place(there.conn).ok_or(MeasureError::NotOpened(number, all))?;
            self.places.push(place);
        }
        self.opened = self.opened.max(all);
        Ok(())
    }

    /// Takes connections out of the table that came in since it was built; no
    /// worker may be about.
    pub(crate) fn close(&self, numbers: std::ops::Range<u64>) -> Result<(), MeasureError> {
        for number in numbers.clone() {
            let missing = || MeasureError::NotOpened(number, numbers.end);
            let hit = self.hit(number).ok_or_else(missing)?;
            let binding = self.shared.table().remove(hit.conn).ok_or_else(missing)?;
            self.shared.loads().closed(binding.backend);
        }
        self.shared.table().reclaim();
        Ok(())
    }

    /// The place of connection `number`'s backend.
    pub(crate) fn place_of(&self, number: u64) -> Option<u8> {
        self.place(self.hit(number)?.conn)
    }

    /// Rules for clients' packets that are in the NIC.
    pub(crate) fn installed(&self) -> usize {
        self.rules.report().connections.ports.first().map_or(0, |port| port.now.rules_forward)
    }

    /// The place of a connection's backend: they are numbered as configured.
    fn place(&self, conn: ConnId) -> Option<u8> {
        u8::try_from(self.shared.table().binding(conn)?.backend.0).ok()
    }

    /// The 5-tuple of connection `number` as packets of `direction` carry it.
    pub(crate) fn key(&self, number: u64, direction: Direction) -> Option<FlowKey> {
        match direction {
            Direction::Forward => self.templates.key(number),
            Direction::Reply => {
                let place = *self.places.get(usize::try_from(number).ok()?)?;
                let (server, client) =
                    (self.templates.backend(place), self.templates.client(number));
                FlowKey::new(self.plan.proto, server, client)
            }
        }
    }

    /// Connection `number` in the table.
    pub(crate) fn hit(&self, number: u64) -> Option<Hit> {
        self.shared.table().lookup(&self.templates.key(number)?)
    }

    /// The place of connection `number`'s backend, and what is done to packets
    /// of `direction`.
    pub(crate) fn action(&self, number: u64, direction: Direction) -> Option<(u8, Action)> {
        let hit = Hit { direction, ..self.hit(number)? };
        let action = self.shared.table().action(hit)?;
        let (_, mac) = self.shared.neighbours().resolve(action.hop, 0)?;
        let (port, own) = match direction {
            Direction::Forward => (PortId(1), SERVER_SIDE),
            Direction::Reply => (PortId(0), CLIENT_SIDE),
        };
        let place = *self.places.get(usize::try_from(number).ok()?)?;
        let rewrite = match action.delivery {
            service::Delivery::Rewrite(rewrite) => Some(rewrite),
            service::Delivery::Direct(_) => None,
            service::Delivery::Tunnel(_) | service::Delivery::Plain => return None,
        };
        Some((place, Action { rewrite, port, macs: [mac?, own] }))
    }

    /// Puts the first connections into the NIC, as many as fit.
    fn offload(&mut self) -> Result<(), MeasureError> {
        let wanted = (self.plan.in_nic.min(self.plan.open) as usize).min(NIC_CAPACITY);
        for number in 0..wanted as u64 {
            self.request(number);
        }
        for now_ms in 0..TURNS {
            self.tick(now_ms);
        }
        let stats = self.rules.report().connections;
        let replies = stats.ports.get(1).map_or(0, |port| port.now.rules_reply);
        let installed = self.installed().min(if self.plan.both_ways { replies } else { wanted });
        if installed < wanted {
            return Err(MeasureError::NotOffloaded { installed, wanted });
        }
        Ok(())
    }

    /// Asks for rules for connection `number`, as a worker would.
    pub(crate) fn request(&mut self, number: u64) {
        if let Some(Hit { conn, .. }) = self.hit(number) {
            let table = self.shared.table();
            table.change_offload(conn, OffloadState::None, OffloadState::Wanted);
            self.requests.push((conn, Offload::Wanted));
        }
    }

    /// One turn of NICs and rules.
    pub(crate) fn tick(&mut self, now_ms: u64) {
        let [clients, servers] = &self.nics;
        clients.advance(now_ms * 1_000_000);
        servers.advance(now_ms * 1_000_000);
        let (mut here, mut there) = (clients.flows(), servers.flows());
        self.rules.turn(now_ms, self.requests.drain(..), &mut [&mut here, &mut there]);
    }

    /// Asks the NIC once where each connection's packets go.
    fn ask_nic(&mut self, direction: Direction) {
        let (all, length) = (u64::from(self.plan.open), self.templates.shortest());
        let (nic, steering) = match direction {
            Direction::Forward => (&self.nics[0], &mut self.steering[0]),
            Direction::Reply => (&self.nics[1], &mut self.steering[1]),
        };
        steering.reserve(all as usize);
        let mut frames: ArrayVec<[u8; HEADERS], ASKED> = ArrayVec::new();
        for number in 0..all {
            let spec = match direction {
                Direction::Forward => self.templates.forward(number, 64, DATA),
                Direction::Reply => {
                    let place = self.places.get(number as usize).copied().unwrap_or(0);
                    self.templates.reply(number, place, 64, DATA)
                }
            };
            let mut frame = [0; HEADERS];
            self.templates.write(&spec, &mut frame);
            frames.push(frame);
            if frames.is_full() || number + 1 == all {
                let mut told: [Disposition; ASKED] =
                    std::array::from_fn(|_| Disposition::default());
                let asked = frames.iter().map(|frame| frame.get(..length).unwrap_or_default());
                nic.receive_burst(asked, ASKED_MS * 1_000_000, &mut told);
                let aim = |told: &Disposition| Steering {
                    mark: told.mark,
                    queue: told.queue as u8,
                    matched: told.matched,
                };
                steering.extend(told.iter().take(frames.len()).map(aim));
                frames.clear();
            }
        }
    }

    /// A frame of connection `number`, and whether the NIC has matched it.
    pub(crate) fn spec(
        &self,
        number: u32,
        direction: Direction,
        size: u16,
    ) -> Option<(FrameSpec, bool)> {
        let at = number as usize;
        let place = *self.places.get(at)?;
        let (steering, first, spec) = match direction {
            Direction::Forward => {
                (&self.steering[0], 0, self.templates.forward(number.into(), size, DATA))
            }
            Direction::Reply => {
                (&self.steering[1], QUEUES, self.templates.reply(number.into(), place, size, DATA))
            }
        };
        let Steering { mark, queue, matched } = *steering.get(at)?;
        Some((spec.steered(first as u8 + queue, mark), matched))
    }
}

fn offloader(plan: Plan, shared: &Arc<Shared>) -> Offloader {
    let receive = ReceiveQueues { count: plan.queues, workers: 1, marks_repeat: plan.shares };
    let port = |encoding| PortConfig::new(encoding, receive);
    let servers = if plan.both_ways { plan.encoding } else { Encoding::Off };
    let config = OffloadConfig {
        ports: vec![port(plan.encoding), port(servers)],
        creations_per_tick: NIC_CAPACITY,
        ..OffloadConfig::default()
    };
    Offloader::new(config, Arc::clone(shared))
}

/// The paper's card; where several rules have one mark, one that bears that,
/// and for IPv6 one that matches it.
fn nic(plan: Plan) -> Result<Nic, MeasureError> {
    let profile = match plan.family {
        _ if plan.shares => CardProfile::ConnectX,
        Family::V4 => CardProfile::X550,
        Family::V6 => CardProfile::E810,
    };
    let config = NicConfig { capacity: Some(NIC_CAPACITY), ..NicConfig::new(profile, plan.queues) };
    Ok(Nic::new(&config)?)
}

/// Takes whatever the pipeline gives out while connections are opened, and
/// gives its packets out again.
#[derive(Default)]
pub(crate) struct Spare {
    packets: Vec<HeapPacket>,
}

impl Spare {
    pub(crate) fn packet(&mut self, templates: &Templates, spec: &FrameSpec) -> HeapPacket {
        use packet::PacketBuf;
        let fresh = || HeapPacket::new(&vec![0; spec.len()]);
        let mut packet = self.packets.pop().unwrap_or_else(fresh);
        templates.write(spec, packet.bytes_mut());
        packet
    }
}

impl Spare {
    /// Packets that were given out and not taken again.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }
}

impl Outbox<HeapPacket> for Spare {
    fn send(&mut self, _: PortId, packet: HeapPacket) {
        self.packets.push(packet);
    }

    fn fresh(&mut self, len: usize) -> Option<HeapPacket> {
        Some(HeapPacket::new(&vec![0; len]))
    }

    fn offload(&mut self, _: ConnId, _: Offload) -> bool {
        true
    }

    fn resolve(&mut self, _: HopId) {}

    fn hand_over(&mut self, _: usize, _: Source, _: HeapPacket) -> bool {
        false
    }

    fn to_kernel(&mut self, _: InterfaceId, _: HeapPacket) -> bool {
        false
    }
}
