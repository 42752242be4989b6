//! The real thing on a small scale: shared state, one worker, an ager, an
//! offloader, and an emulated NIC on both ports.
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arrayvec::ArrayVec;
use conntrack::{ConnId, ConnTable, TableConfig};
use dpdk::flow::FlowPort;
use etherparse::PacketBuilder;
use flow::{AdmissionPolicy, CardProfile, Encoding, HopId, InterfaceId, PortId, Scheduler};
use keeper::{Ager, AgerSettings};
use l3::{Interface, Interfaces, NeighbourTable, Route, RouteTable};
use nic::{Disposition, Nic, NicConfig, NicFlows};
use offload::{OffloadConfig, Offloader, PortConfig};
use packet::{HeapPacket, PacketBuf};
use pipeline::{Outbox, Pipeline, Settings};
use service::{BackendSpec, ModeSpec, ServiceSpec, ServiceTable};
use state::{
    Gates, MarkTable, Offload, PortShared, QueueEpochs, QueueTable, Shared, Snapshot, Source,
    Tunnels,
};
use wire::{Headers, Mac, Transport};

pub const QUEUES: u16 = 6;
const RING: u32 = 64;
const POLL: usize = 32;
pub const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 0x10]), Mac([2, 0, 0, 0, 0, 0x11])];
const PEERS: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 0x20]), Mac([2, 0, 0, 0, 0, 0x21])];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[derive(Default)]
struct Out {
    sent: Vec<Vec<u8>>,
    offload: Vec<(ConnId, Offload)>,
    is_full: bool,
}

impl Outbox<HeapPacket> for Out {
    fn send(&mut self, _: PortId, packet: HeapPacket) {
        self.sent.push(packet.bytes().to_vec());
    }

    fn fresh(&mut self, len: usize) -> Option<HeapPacket> {
        Some(HeapPacket::new(&vec![0; len]))
    }

    fn offload(&mut self, conn: ConnId, reason: Offload) -> bool {
        if !self.is_full {
            self.offload.push((conn, reason));
        }
        !self.is_full
    }

    fn resolve(&mut self, _: HopId) {}

    fn hand_over(&mut self, _: usize, _: Source, _: HeapPacket) -> bool {
        false
    }

    fn to_kernel(&mut self, _: InterfaceId, _: HeapPacket) -> bool {
        false
    }
}

pub struct Lab {
    pub shared: Arc<Shared>,
    pub nics: [Nic; 2],
    pub offloader: Offloader,
    pub ager: Ager,
    pub worker: Pipeline<HeapPacket>,
    pub now_ms: u64,
    flows: [NicFlows; 2],
    rings: Vec<Vec<VecDeque<HeapPacket>>>,
    out: Out,
}

impl Lab {
    /// One worker; one in `sample` of the packets matched by queue is looked up.
    pub fn new(encoding: Encoding, sample: u32) -> Self {
        Self::with(encoding, sample, AdmissionPolicy::All)
    }

    /// Where `policy` says who gets rules.
    pub fn with(encoding: Encoding, sample: u32, policy: AdmissionPolicy) -> Self {
        let admit = if policy == AdmissionPolicy::Heavy {
            AdmissionPolicy::Heavy
        } else {
            AdmissionPolicy::All
        };
        let shared = Arc::new(shared(sample, admit));
        let nic = || Nic::new(&NicConfig::new(CardProfile::X550, QUEUES)).unwrap();
        let nics = [nic(), nic()];
        let port = PortConfig {
            encoding,
            queues: (1..QUEUES).collect(),
            shared_queues: Vec::new(),
            workers: 1,
            rewrite: None,
            mark_instead: false,
        };
        let admission = admission::Settings { policy, ..admission::Settings::default() };
        let config = OffloadConfig { ports: vec![port; 2], admission, ..OffloadConfig::default() };
        Self {
            flows: [nics[0].flows(), nics[1].flows()],
            nics,
            offloader: Offloader::new(config, Arc::clone(&shared)),
            ager: Ager::new(Arc::clone(&shared), AgerSettings::default()),
            worker: Pipeline::new(Arc::clone(&shared), 0, Settings::default()).unwrap(),
            shared,
            now_ms: 1000,
            rings: vec![vec![VecDeque::new(); usize::from(QUEUES)]; 2],
            out: Out::default(),
        }
    }

    /// A frame comes from the wire of `port`, as TCP from `src` to `dst`.
    pub fn arrive(&mut self, port: usize, src: SocketAddr, dst: SocketAddr, flags: &str) {
        let (IpAddr::V4(s), IpAddr::V4(d)) = (src.ip(), dst.ip()) else { panic!("IPv4 only") };
        let step = PacketBuilder::ethernet2(PEERS[port].0, MACS[port].0);
        let step = step.ipv4(s.octets(), d.octets(), 60);
        let mut step = step.tcp(src.port(), dst.port(), 7, 1024);
        for flag in flags.chars() {
            step = match flag {
                'S' => step.syn(),
                'F' => step.fin(),
                'R' => step.rst(),
                _ => step.ack(9),
            };
        }
        let mut frame = Vec::new();
        step.write(&mut frame, b"x").unwrap();
        let mut disposition = [Disposition::default()];
        self.nics[port].receive_burst(
            [frame.as_slice()],
            self.now_ms * 1_000_000,
            &mut disposition,
        );
        let packet = HeapPacket::new(&frame).with_mark(disposition[0].mark);
        self.rings[port][usize::from(disposition[0].queue)].push_back(packet);
    }

    /// The worker polls every queue once; where its packets went, and whence.
    pub fn poll(&mut self) -> Vec<(SocketAddr, SocketAddr)> {
        self.worker.begin();
        for (at, rings) in self.rings.iter_mut().enumerate() {
            for (queue, ring) in rings.iter_mut().enumerate() {
                let port = PortId(at as u16);
                let mut burst: ArrayVec<HeapPacket, 64> =
                    ring.drain(..ring.len().min(POLL)).collect();
                let got = burst.len();
                let from = Source { port, queue: queue as u16 };
                self.worker.process(from, &mut burst, self.now_ms, &mut self.out);
                self.shared.ports()[at].queue_epochs.polled(queue as u16, got);
            }
        }
        let ends = |frame: Vec<u8>| {
            let flow = Headers::parse(&frame).unwrap().flow(&frame).unwrap();
            (flow.src(), flow.dst())
        };
        std::mem::take(&mut self.out.sent).into_iter().map(ends).collect()
    }

    /// Whether the ring of the worker's messages has no room from now on.
    pub fn fill_ring(&mut self, is_full: bool) {
        self.out.is_full = is_full;
    }

    /// Time goes by; the keeper has a turn.
    pub fn keep(&mut self, ms: u64) {
        self.now_ms += ms;
        self.nics.iter().for_each(|nic| nic.advance(self.now_ms * 1_000_000));
        for (conn, reason) in self.out.offload.drain(..) {
            self.offloader.request(conn, reason);
        }
        let Self { ager, offloader, flows: [a, b], .. } = self;
        ager.tick(self.now_ms, &mut |conn, reason| offloader.request(conn, reason));
        let mut flows: [&mut dyn FlowPort; 2] = [a, b];
        offloader.tick(self.now_ms, &mut flows);
    }

    pub fn rules(&self) -> usize {
        self.nics.iter().map(|nic| nic.stats().rules).sum()
    }

    pub fn matched(&self) -> u64 {
        self.nics.iter().map(|nic| nic.stats().matched).sum()
    }
}

fn shared(sample: u32, admit: AdmissionPolicy) -> Shared {
    let table = ConnTable::new(&TableConfig {
        connections: 1024,
        connections_v6: 0,
        seed: [7; 32],
        timeouts: service::Timeouts::default(),
    });
    let interface = |port: usize, net: &str| Interface {
        name: net.to_owned(),
        port: PortId(port as u16),
        vlan: None,
        mac: MACS[port],
        mtu: 1500,
        addresses: vec![net.parse().unwrap()],
        kernel: None,
    };
    let interfaces =
        Interfaces::new(vec![interface(0, "10.0.0.1/24"), interface(1, "10.1.0.1/24")]);
    let backend = |n: u8| BackendSpec {
        address: ip(&format!("10.1.0.1{n}")),
        port: Some(8080),
        weight: 1,
        backup: false,
        server_ids: Vec::new(),
        group: None,
    };
    let web = ServiceSpec {
        name: "web".to_owned(),
        vip: ip("10.9.0.1"),
        port: Some(80),
        proto: Transport::Tcp,
        mode: ModeSpec::Nat,
        scheduler: Scheduler::RoundRobin,
        maglev_size: 1009,
        on_remove: flow::OnRemove::Keep,
        failover: service::Failover::default(),
        refuse: flow::Refuse::Reset,
        timeouts: None,
        quic: Vec::new(),
        routes: None,
        backends: vec![backend(1), backend(2)],
    };
    let route = Route {
        to: "0.0.0.0/0".parse().unwrap(),
        interface: InterfaceId(0),
        via: Some(ip("10.0.0.254")),
    };
    let neighbours = NeighbourTable::new(64, 1);
    neighbours.set_static(InterfaceId(0), ip("10.0.0.254"), PEERS[0]);
    neighbours.set_static(InterfaceId(1), ip("10.1.0.11"), PEERS[1]);
    neighbours.set_static(InterfaceId(1), ip("10.1.0.12"), PEERS[1]);
    let snapshot = Snapshot {
        services: ServiceTable::compile(&[web], [1, 2]).unwrap(),
        routes: RouteTable::new(&[route], &interfaces),
        interfaces,
        tunnels: Tunnels::default(),
        admit,
        sample,
        reply_bytes: 65_536,
        fragment_timeout_ms: 1000,
        answers: state::Answers {
            closed_ports: flow::Refuse::Reset,
            per_second: 10,
            echoes_per_second: 10,
            to_kernel_per_second: 10,
            from_kernel_per_second: 10,
        },
    };
    let port = |mac| PortShared {
        marks: MarkTable::new(256),
        queues: QueueTable::new(usize::from(QUEUES), 64),
        queue_epochs: QueueEpochs::new(usize::from(QUEUES), RING),
        gates: Gates::new(usize::from(QUEUES)),
        mac,
        mtu: 1500,
    };
    Shared::new(snapshot, table.unwrap(), neighbours, MACS.map(port).into())
}
