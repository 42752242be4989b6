//! A small network around pipelines: clients behind a gateway on port 0,
//! backends on port 1.
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arrayvec::ArrayVec;
use conntrack::{ConnId, ConnTable, TableConfig};
use etherparse::{PacketBuilder, PacketBuilderStep, TcpHeaderSlice};
use flow::{AdmissionPolicy, HopId, InterfaceId, PortId, Refuse, Scheduler};
use l3::{Interface, Interfaces, NeighbourTable, Route, RouteTable};
use packet::{HeapPacket, PacketBuf};
use pipeline::{Outbox, Pipeline, Settings};
use service::{
    BackendSpec, Failover, ModeSpec, PoolSpec, QuicIds, RoutesSpec, ServerId, ServiceSpec,
    ServiceTable, TunnelSpec,
};
use state::{
    Answers, Counter, Gates, MarkTable, Offload, PortShared, QueueEpochs, QueueTable, Shared,
    Snapshot, Source, Tunnels,
};
use wire::{Mac, Transport, Tunnel};

pub(crate) const OUTSIDE: PortId = PortId(0);
pub(crate) const INSIDE: PortId = PortId(1);
/// The load balancer's own Ethernet addresses.
pub(crate) const LB_OUT: Mac = Mac([2, 0, 0, 0, 0, 0x10]);
pub(crate) const LB_IN: Mac = Mac([2, 0, 0, 0, 0, 0x11]);
/// The gateway to the clients.
pub(crate) const GATEWAY: Mac = Mac([2, 0, 0, 0, 0, 0x20]);

/// How long fragments of a datagram belong together.
pub(crate) const FRAGMENT_TIMEOUT_MS: u64 = 2000;

/// Which of the interfaces are tagged, [`OUTSIDE`] and [`INSIDE`].
pub(crate) const TAGGED: [[Option<u16>; 2]; 4] =
    [[None, None], [Some(20), None], [None, Some(30)], [Some(20), Some(30)]];

pub(crate) fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Backend `n`'s Ethernet address.
pub(crate) fn backend_mac(n: u8) -> Mac {
    Mac([2, 0, 0, 0, 1, n])
}

/// What differs between worlds.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) vlans: [Option<u16>; 2],
    pub(crate) mtus: [u16; 2],
    pub(crate) connections: usize,
    pub(crate) scheduler: Scheduler,
    pub(crate) admit: AdmissionPolicy,
    pub(crate) sample: u32,
    pub(crate) icmp_errors: u32,
    pub(crate) echoes: u32,
    /// Of every service, and of ports that none has.
    pub(crate) refuse: Refuse,
    pub(crate) known_backends: bool,
    pub(crate) settings: Settings,
    pub(crate) pool_ports: u16,
    /// The first backend of every service takes no new connections.
    pub(crate) drained: bool,
    /// How packets of the service at 10.9.0.7 and fd09::7 travel.
    pub(crate) tunnel: TunnelSpec,
    /// Whether the kernel has an interface in the place of each.
    pub(crate) kernel: bool,
    pub(crate) to_kernel: u32,
    /// Whether there are services of requests, at 10.9.0.10 and fd09::10.
    pub(crate) http: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            vlans: [None, None],
            mtus: [1500, 1500],
            connections: 64,
            scheduler: Scheduler::RoundRobin,
            admit: AdmissionPolicy::Off,
            sample: 0,
            icmp_errors: 100,
            echoes: 1000,
            refuse: Refuse::Drop,
            known_backends: true,
            settings: Settings::default(),
            pool_ports: 4,
            drained: false,
            tunnel: TunnelSpec { tunnel: Tunnel::Ipip, source: None, ttl: 64 },
            kernel: false,
            to_kernel: 1000,
            http: false,
        }
    }
}

/// What pipelines gave out.
#[derive(Default)]
pub(crate) struct Out {
    pub(crate) sent: Vec<(PortId, Vec<u8>)>,
    pub(crate) offload: Vec<(ConnId, Offload)>,
    pub(crate) wanted: Vec<HopId>,
    pub(crate) ring_full: bool,
    /// What goes from one worker to another.
    pub(crate) handed: Vec<(usize, Source, HeapPacket)>,
    /// What the kernel got.
    pub(crate) kernel: Vec<(InterfaceId, Vec<u8>)>,
}

impl Outbox<HeapPacket> for Out {
    fn send(&mut self, port: PortId, packet: HeapPacket) {
        self.sent.push((port, packet.bytes().to_vec()));
    }

    fn fresh(&mut self, len: usize) -> Option<HeapPacket> {
        Some(HeapPacket::new(&vec![0; len]))
    }

    fn offload(&mut self, conn: ConnId, reason: Offload) -> bool {
        if !self.ring_full {
            self.offload.push((conn, reason));
        }
        !self.ring_full
    }

    fn resolve(&mut self, hop: HopId) {
        self.wanted.push(hop);
    }

    fn hand_over(&mut self, worker: usize, from: Source, packet: HeapPacket) -> bool {
        if !self.ring_full {
            self.handed.push((worker, from, packet));
        }
        !self.ring_full
    }

    fn to_kernel(&mut self, interface: InterfaceId, packet: HeapPacket) -> bool {
        if !self.ring_full {
            self.kernel.push((interface, packet.bytes().to_vec()));
        }
        !self.ring_full
    }
}

/// Shared state, workers, and what came out.
pub(crate) struct World {
    pub(crate) shared: Arc<Shared>,
    pub(crate) workers: Vec<Pipeline<HeapPacket>>,
    pub(crate) out: Out,
    pub(crate) now_ms: u64,
}

impl World {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self::with_workers(plan, 1)
    }

    pub(crate) fn with_workers(plan: &Plan, workers: usize) -> Self {
        let table = ConnTable::new(&TableConfig {
            connections: plan.connections,
            connections_v6: plan.connections,
            seed: [7; 32],
            timeouts: service::Timeouts::default(),
        });
        let neighbours = NeighbourTable::new(256, 1);
        let snapshot = snapshot(plan);
        fill(&neighbours, plan.known_backends);
        let ports = [LB_OUT, LB_IN].iter().zip(plan.mtus).map(|(&mac, mtu)| PortShared {
            marks: MarkTable::new(64),
            queues: QueueTable::new(16, 2048),
            queue_epochs: QueueEpochs::new(16, 64),
            gates: Gates::new(16),
            mac,
            mtu,
        });
        let shared = Shared::new(snapshot, table.unwrap(), neighbours, ports.collect());
        let shared = Arc::new(shared);
        let settings = Settings { workers, ..plan.settings };
        let new = |worker| Pipeline::new(Arc::clone(&shared), worker, settings).unwrap();
        let workers = (0..workers).map(new).collect();
        Self { shared, workers, out: Out::default(), now_ms: 1000 }
    }

    /// One burst to worker 0; what came out for it.
    pub(crate) fn burst(
        &mut self,
        port: PortId,
        frames: Vec<HeapPacket>,
    ) -> Vec<(PortId, Vec<u8>)> {
        self.burst_at(0, port, 0, frames)
    }

    pub(crate) fn burst_at(
        &mut self,
        worker: usize,
        port: PortId,
        queue: u16,
        frames: Vec<HeapPacket>,
    ) -> Vec<(PortId, Vec<u8>)> {
        let mut burst: ArrayVec<HeapPacket, 64> = frames.into_iter().collect();
        let pipeline = &mut self.workers[worker];
        pipeline.begin();
        pipeline.process(Source { port, queue }, &mut burst, self.now_ms, &mut self.out);
        assert!(burst.is_empty());
        for (worker, from, packet) in std::mem::take(&mut self.out.handed) {
            let mut burst: ArrayVec<HeapPacket, 64> = [packet].into_iter().collect();
            let pipeline = &mut self.workers[worker];
            pipeline.begin();
            pipeline.process_handed_over(from, &mut burst, self.now_ms, &mut self.out);
        }
        assert!(self.out.handed.is_empty(), "a packet is handed over once");
        self.check_balance();
        std::mem::take(&mut self.out.sent)
    }

    /// One packet to worker 0; the one that came out, if any.
    pub(crate) fn one(&mut self, port: PortId, frame: &[u8]) -> Option<(PortId, Vec<u8>)> {
        let mut sent = self.burst(port, vec![HeapPacket::new(frame)]);
        assert!(sent.len() <= 1);
        sent.pop()
    }

    /// Asserts that `frame` is dropped and counted by `counter`.
    pub(crate) fn drops(&mut self, port: PortId, frame: &[u8], counter: Counter) {
        let before = self.count(counter);
        assert_eq!(self.one(port, frame), None);
        assert_eq!(self.count(counter), before + 1, "not counted as {}", counter.name());
    }

    pub(crate) fn tick(&mut self) {
        for worker in &mut self.workers {
            worker.tick(self.now_ms, &mut self.out);
        }
        self.check_balance();
    }

    pub(crate) fn count(&self, counter: Counter) -> u64 {
        self.workers.iter().map(|worker| worker.counters().get(counter)).sum()
    }

    fn check_balance(&self) {
        for worker in &self.workers {
            let (came, went) = worker.counters().balance();
            assert_eq!(came, went, "{:?}", worker.counters());
        }
    }
}

pub(crate) fn snapshot(plan: &Plan) -> Snapshot {
    let interface = |n: usize, name: &str, nets: &[&str]| Interface {
        name: name.to_owned(),
        port: PortId(n as u16),
        vlan: plan.vlans[n],
        mac: [LB_OUT, LB_IN][n],
        mtu: plan.mtus[n],
        addresses: nets.iter().map(|net| net.parse().unwrap()).collect(),
        kernel: plan.kernel.then(|| format!("hnlb{n}")),
    };
    let interfaces = Interfaces::new(vec![
        interface(0, "outside", &["10.0.0.1/24", "fd00::1/64"]),
        interface(1, "inside", &["10.1.0.1/24", "fd01::1/64"]),
    ]);
    let default = |to: &str, via: &str| Route {
        to: to.parse().unwrap(),
        interface: InterfaceId(0),
        via: Some(ip(via)),
    };
    let routes = [default("0.0.0.0/0", "10.0.0.254"), default("::/0", "fd00::fe")];
    let services = ServiceTable::compile(&services(plan), [1, 2]).unwrap();
    let routes = RouteTable::new(&routes, &interfaces);
    Snapshot {
        tunnels: Tunnels::new(&services, &interfaces, &routes),
        services,
        routes,
        interfaces,
        admit: plan.admit,
        sample: plan.sample,
        reply_bytes: 65_536,
        fragment_timeout_ms: FRAGMENT_TIMEOUT_MS,
        answers: Answers {
            closed_ports: plan.refuse,
            per_second: plan.icmp_errors,
            echoes_per_second: plan.echoes,
            to_kernel_per_second: plan.to_kernel,
            from_kernel_per_second: 0,
        },
    }
}

fn services(plan: &Plan) -> Vec<ServiceSpec> {
    let spec = |name: &str, vip: &str, port, proto, backends: &[(&str, Option<u16>)]| ServiceSpec {
        name: name.to_owned(),
        vip: ip(vip),
        port,
        proto,
        mode: ModeSpec::Nat,
        scheduler: plan.scheduler,
        maglev_size: 1009,
        on_remove: flow::OnRemove::Keep,
        failover: Failover::default(),
        refuse: plan.refuse,
        timeouts: None,
        quic: Vec::new(),
        routes: None,
        backends: backends
            .iter()
            .zip(std::iter::once(u16::from(!plan.drained)).chain(std::iter::repeat(1)))
            .map(|(&(address, port), weight)| BackendSpec {
                address: ip(address),
                port,
                weight,
                backup: false,
                server_ids: Vec::new(),
                group: None,
            })
            .collect(),
    };
    let pool = PoolSpec {
        name: "pool".to_owned(),
        addresses: vec![ip("10.1.0.100"), ip("fd01::100")],
        ports: 40_000..=40_000 + plan.pool_ports - 1,
    };
    let full =
        |spec: ServiceSpec| ServiceSpec { mode: ModeSpec::FullNat { pool: pool.clone() }, ..spec };
    let tunnel = ModeSpec::Tunnel(plan.tunnel);
    // A given source is an IPv4 address.
    let across = ModeSpec::Tunnel(TunnelSpec { source: None, ..plan.tunnel });
    let as_it_is = |spec: ServiceSpec, mode: &ModeSpec| ServiceSpec { mode: mode.clone(), ..spec };
    let quic = |mut spec: ServiceSpec| {
        let ids = QuicIds { rotation: 0, server_id_length: 2, nonce_length: 4, key: None };
        spec.quic.push(ids);
        for (own, n) in spec.backends.iter_mut().zip(1..) {
            own.server_ids.extend(ServerId::new(&[n, n]));
        }
        spec
    };
    let (b1, b2) = ("10.1.0.11", "10.1.0.12");
    let (s1, s2) = ("fd01::11", "fd01::12");
    use Transport::{Tcp, Udp};
    let requests = |spec: ServiceSpec| ServiceSpec { routes: Some(RoutesSpec::default()), ..spec };
    let mut all = vec![
        spec("web", "10.9.0.1", Some(80), Tcp, &[(b1, Some(8080)), (b2, Some(8080))]),
        spec("dns", "10.9.0.1", Some(53), Udp, &[(b1, Some(5353)), (b2, Some(5353))]),
        spec("web6", "fd09::1", Some(80), Tcp, &[(s1, Some(8080)), (s2, Some(8080))]),
        spec("dns6", "fd09::1", Some(53), Udp, &[(s1, Some(5353)), (s2, Some(5353))]),
        spec("any", "10.9.0.2", None, Tcp, &[("10.1.0.13", None)]),
        full(spec("full", "10.9.0.3", Some(80), Tcp, &[(b1, Some(8081)), (b2, Some(8081))])),
        full(spec("full6", "fd09::3", Some(80), Tcp, &[(s1, Some(8081))])),
        // The same backends again, so that their answers are ambiguous.
        spec("twin", "10.9.0.4", Some(80), Tcp, &[("10.1.0.14", Some(8080))]),
        spec("twin2", "10.9.0.5", Some(80), Tcp, &[("10.1.0.14", Some(8080))]),
        as_it_is(spec("dsr", "10.9.0.6", Some(80), Tcp, &[(b1, None), (b2, None)]), &ModeSpec::Dsr),
        as_it_is(spec("dsr-u", "10.9.0.6", Some(53), Udp, &[(b1, None)]), &ModeSpec::Dsr),
        as_it_is(spec("dsr6", "fd09::6", None, Tcp, &[(s1, None), (s2, None)]), &ModeSpec::Dsr),
        as_it_is(spec("tun", "10.9.0.7", Some(80), Tcp, &[(b1, None), (b2, None)]), &tunnel),
        as_it_is(spec("tun-u", "10.9.0.7", Some(53), Udp, &[(b1, None)]), &tunnel),
        as_it_is(spec("tun6", "fd09::7", Some(80), Tcp, &[(s1, None), (s2, None)]), &across),
        // The other family outside.
        as_it_is(spec("tun46", "10.9.0.8", Some(80), Tcp, &[(s1, None)]), &across),
        as_it_is(spec("tun64", "fd09::8", Some(80), Tcp, &[(b1, None)]), &across),
        quic(spec("quic", "10.9.0.9", Some(443), Udp, &[(b1, None), (b2, None)])),
    ];
    if plan.http {
        let b = [(b1, Some(8000)), (b2, Some(8000))];
        let s = [(s1, Some(8000)), (s2, Some(8000))];
        all.push(requests(spec("http", "10.9.0.10", Some(80), Tcp, &b)));
        all.push(requests(spec("http6", "fd09::10", Some(80), Tcp, &s)));
    }
    all
}

fn fill(neighbours: &NeighbourTable, known_backends: bool) {
    neighbours.set_static(InterfaceId(0), ip("10.0.0.254"), GATEWAY);
    neighbours.set_static(InterfaceId(0), ip("fd00::fe"), GATEWAY);
    if known_backends {
        for n in 1..=4 {
            neighbours.set_static(InterfaceId(1), ip(&format!("10.1.0.1{n}")), backend_mac(n));
            neighbours.set_static(InterfaceId(1), ip(&format!("fd01::1{n}")), backend_mac(n));
        }
    }
}

/// The hops of one packet: Ethernet source and destination, VLAN, TTL.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    pub(crate) src: Mac,
    pub(crate) dst: Mac,
    pub(crate) vlan: Option<u16>,
    pub(crate) ttl: u8,
}

impl Link {
    /// As clients' packets come from the gateway.
    pub(crate) const CLIENT: Self = Self::new(GATEWAY, LB_OUT, 60);
    /// As they go to the clients.
    pub(crate) const TO_CLIENT: Self = Self::new(LB_OUT, GATEWAY, 63);

    pub(crate) const fn new(src: Mac, dst: Mac, ttl: u8) -> Self {
        Self { src, dst, vlan: None, ttl }
    }

    pub(crate) fn from_backend(n: u8) -> Self {
        Self::new(backend_mac(n), LB_IN, 64)
    }

    pub(crate) fn to_backend(n: u8) -> Self {
        Self::new(LB_IN, backend_mac(n), 59)
    }

    pub(crate) const fn vlan(self, id: u16) -> Self {
        self.tagged(Some(id))
    }

    pub(crate) const fn tagged(self, vlan: Option<u16>) -> Self {
        Self { vlan, ..self }
    }

    pub(crate) const fn ttl(self, ttl: u8) -> Self {
        Self { ttl, ..self }
    }

    /// Ethernet, tag and IP.
    pub(crate) fn network(
        self,
        src: IpAddr,
        dst: IpAddr,
    ) -> PacketBuilderStep<etherparse::IpHeaders> {
        let step = PacketBuilder::ethernet2(self.src.0, self.dst.0);
        match (self.vlan, src, dst) {
            (None, IpAddr::V4(s), IpAddr::V4(d)) => step.ipv4(s.octets(), d.octets(), self.ttl),
            (None, IpAddr::V6(s), IpAddr::V6(d)) => step.ipv6(s.octets(), d.octets(), self.ttl),
            (Some(id), IpAddr::V4(s), IpAddr::V4(d)) => {
                let step = step.single_vlan(id.try_into().unwrap());
                step.ipv4(s.octets(), d.octets(), self.ttl)
            }
            (Some(id), IpAddr::V6(s), IpAddr::V6(d)) => {
                let step = step.single_vlan(id.try_into().unwrap());
                step.ipv6(s.octets(), d.octets(), self.ttl)
            }
            _ => panic!("mixed families"),
        }
    }
}

/// A UDP frame.
pub(crate) fn udp(link: Link, src: &str, dst: &str, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (at(src), at(dst));
    let mut frame = Vec::new();
    let step = link.network(src.ip(), dst.ip()).udp(src.port(), dst.port());
    step.write(&mut frame, payload).unwrap();
    frame
}

/// A TCP frame; `flags` are the letters S, A, F, R, P.
pub(crate) fn tcp(link: Link, src: &str, dst: &str, flags: &str, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (at(src), at(dst));
    let mut step = link.network(src.ip(), dst.ip()).tcp(src.port(), dst.port(), 7, 1024);
    for flag in flags.chars() {
        step = match flag {
            'S' => step.syn(),
            'A' => step.ack(99),
            'F' => step.fin(),
            'R' => step.rst(),
            _ => step.psh(),
        };
    }
    let mut frame = Vec::new();
    step.write(&mut frame, payload).unwrap();
    frame
}

/// The destination of a sent IPv4 or IPv6 frame without a tag.
pub(crate) fn destination(frame: &[u8]) -> SocketAddr {
    let headers = wire::Headers::parse(frame).unwrap();
    headers.flow(frame).unwrap().dst()
}

/// Its source.
pub(crate) fn source(frame: &[u8]) -> SocketAddr {
    let headers = wire::Headers::parse(frame).unwrap();
    headers.flow(frame).unwrap().src()
}

/// Whether etherparse finds the TCP checksum of an untagged IPv4 frame right.
pub(crate) fn tcp_checksum_is_right(frame: &[u8]) -> bool {
    let ip = etherparse::Ipv4HeaderSlice::from_slice(&frame[14..]).unwrap();
    let tcp = TcpHeaderSlice::from_slice(&frame[34..]).unwrap();
    let len = usize::from(ip.total_len()) - 20;
    let payload = &frame[34 + usize::from(tcp.data_offset()) * 4..34 + len];
    tcp.calc_checksum_ipv4(&ip, payload).unwrap() == tcp.checksum()
}
