//! Two emulated NICs and the offloader that rewrites with them.
use std::net::IpAddr;

use conntrack::ConnId;
use dpdk::flow::FlowPort;
use etherparse::PacketBuilder;
use flow::{CardProfile, Direction, Encoding, EncodingChoice};
use nic::{Disposition, Nic, NicConfig, NicFlows};
use offload::{OffloadConfig, Offloader, PortConfig, Probe, ProbeInput, probe_card};
use state::Offload;
use wire::Transport;

use super::world::{Ours, STATION, State, World, binding};

/// Entry and guards of a port.
pub const FRAME: usize = 4;
pub const OUTPUTS: [Option<u16>; 2] = [Some(0), Some(1)];

pub fn nic(profile: CardProfile, switch: &[u16]) -> Nic {
    Nic::new(&NicConfig { switch: switch.to_vec(), ..NicConfig::new(profile, 4) }).unwrap()
}

pub fn ask(nic: &Nic, wanted: EncodingChoice) -> Probe {
    let card = ProbeInput { queues: 4, mark_arrives: None, outputs: &OUTPUTS };
    probe_card(&mut nic.flows(), &card, wanted)
}

pub struct Run {
    pub world: Ours,
    pub nics: [Nic; 2],
    pub flows: [NicFlows; 2],
    pub offloader: Offloader<Ours>,
    pub now_ms: u64,
}

impl Run {
    pub fn new(profile: CardProfile) -> Self {
        let world = World::ours(16, 4);
        let nics = [nic(profile, &[0, 1]), nic(profile, &[0, 1])];
        let flows = [nics[0].flows(), nics[1].flows()];
        let offloader = Self::offloader(&world, &nics);
        Self { world, nics, flows, offloader, now_ms: 1000 }
    }

    pub fn offloader(world: &Ours, nics: &[Nic; 2]) -> Offloader<Ours> {
        let ports = nics.iter().map(|nic| PortConfig {
            encoding: Encoding::Rewrite,
            queues: vec![0],
            shared_queues: Vec::new(),
            workers: 1,
            rewrite: ask(nic, EncodingChoice::Fixed(Encoding::Rewrite)).rewrite,
            mark_instead: true,
        });
        let config = OffloadConfig {
            ports: ports.collect(),
            creations_per_tick: 1024,
            destroys_per_tick: 1024,
            counted_per_tick: 1024,
            admission: admission::Settings {
                policy: flow::AdmissionPolicy::All,
                insertions_per_second: None,
                ..admission::Settings::default()
            },
            ..OffloadConfig::default()
        };
        Offloader::new(config, world.clone())
    }

    pub fn tick(&mut self, ms: u64) {
        self.now_ms += ms;
        self.nics.iter().for_each(|nic| nic.advance(self.now_ms * 1_000_000));
        let [a, b] = &mut self.flows;
        let mut flows: [&mut dyn FlowPort; 2] = [a, b];
        self.offloader.tick(self.now_ms, &mut flows);
        for port in &self.world.ports {
            (0..4).for_each(|queue| port.queue_epochs.polled(queue, 0));
        }
        self.check();
    }

    pub fn pass(&mut self, ms: u64) {
        (0..ms).for_each(|_| self.tick(1));
    }

    pub fn open(&mut self, n: u32) {
        self.world.open(n, binding(n, (n % 3) as u16, 0, n % 7 == 0, n % 5 == 0));
        self.world.conns.borrow_mut().get_mut(&n).unwrap().seen_ms = self.now_ms;
        self.world.set_state(n, State::Wanted);
        self.offloader.request(ConnId::from_raw(n), Offload::Wanted);
    }

    /// Of TCP over IPv4, through the tunnel to backend 0.
    pub fn open_tunnel(&mut self, n: u32) {
        let binding = binding(3 * n + 1, 0, 0, false, false);
        let binding = service::Binding { forwarding: service::Forwarding::Tunnel, ..binding };
        self.world.open(n, binding);
        self.world.conns.borrow_mut().get_mut(&n).unwrap().seen_ms = self.now_ms;
        self.world.set_state(n, State::Wanted);
        self.offloader.request(ConnId::from_raw(n), Offload::Wanted);
    }

    /// A packet of connection `n`; whether the card sends it on.
    pub fn packet(&mut self, n: u32, direction: Direction) -> bool {
        self.deliver(n, direction).forward.is_some()
    }

    /// The mark that a client's packet of connection `n` gets.
    pub fn mark_of(&mut self, n: u32) -> Option<u32> {
        self.deliver(n, Direction::Forward).mark
    }

    pub fn deliver(&mut self, n: u32, direction: Direction) -> Disposition {
        let key = self.world.conns.borrow()[&n].binding.key(direction).unwrap();
        let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 9, 9], STATION.0);
        let ip = match (key.src().ip(), key.dst().ip()) {
            (IpAddr::V4(s), IpAddr::V4(d)) => ethernet.ipv4(s.octets(), d.octets(), 64),
            (IpAddr::V6(s), IpAddr::V6(d)) => ethernet.ipv6(s.octets(), d.octets(), 64),
            _ => panic!("families"),
        };
        let (sport, dport) = (key.src().port(), key.dst().port());
        let mut frame = Vec::new();
        match key.proto() {
            Transport::Tcp => {
                ip.tcp(sport, dport, 1, 1).ack(1).write(&mut frame, b"hello").unwrap();
            }
            Transport::Udp => ip.udp(sport, dport).write(&mut frame, b"hello").unwrap(),
        }
        let mut out = [Disposition::default()];
        let now_ns = self.now_ms * 1_000_000;
        self.nics[direction.index()].receive_burst([frame.as_slice()], now_ns, &mut out);
        let [disposition] = out;
        assert_eq!(disposition.dropped, None);
        if disposition.forward.is_none() {
            // Software sees it.
            self.world.conns.borrow_mut().get_mut(&n).unwrap().seen_ms = self.now_ms;
        }
        disposition
    }

    pub fn in_cards(&self) -> usize {
        self.nics.iter().map(|nic| nic.stats().rules).sum()
    }

    /// Rules in the cards are the rules believed, and the books are right.
    pub fn check(&self) {
        let stats = self.offloader.stats();
        for (port, nic) in stats.ports.iter().zip(&self.nics) {
            let (now, done) = (port.now, port.done);
            assert_eq!(done.created - done.destroyed, now.rules as u64, "{port:#?}");
            let parts = now.rules_forward + now.rules_reply + now.doomed + now.adopted;
            assert_eq!(now.rules, parts, "{port:#?}");
            assert_eq!(nic.stats().rules, now.rules, "{port:#?}");
        }
    }
}
