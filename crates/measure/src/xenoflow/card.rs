//! The emulated BlueField-3 between two wires.
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use config::Config;
use flow::{BackendId, CardProfile, PortId};
use packet::PacketBuf;
use replay::{Options, Simulation, SimulationError};
use traffic::Rng;
use wire::Mac;

use super::wire::{Server, frame_len, tables_ns, wire_ns};

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// The configuration.
    #[error("the benchmark's own configuration: {0}")]
    Config(String),
    /// The load balancer.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A packet was not sent as the service's classes say.
    #[error(
        "a packet of {client} did not leave the NIC towards the backend that its address means"
    )]
    Misled {
        /// The client.
        client: Ipv4Addr,
    },
}

/// The VIP of the benchmark.
const VIP: &str = "10.71.0.100";

/// Network in, card, network out, in emulated time.
pub(super) struct Card {
    simulation: Simulation,
    rate: u64,
    tables: Server,
    out: Server,
    frame: Vec<u8>,
    /// The backends' Ethernet addresses.
    macs: Vec<(BackendId, Mac)>,
    pub(super) draw: Rng,
}

/// A packet that has left the card.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) at_ns: f64,
    pub(super) backend: BackendId,
}

impl Card {
    /// A card with a stateless service of `backends` backends of the same
    /// weight, for packets of `payload` bytes.
    pub(super) fn new(backends: u8, payload: usize) -> Result<Self, CardError> {
        let mut text = format!(
            "[[port]]\nname = \"p0\"\ndevice = \"net_null0\"\n\
             [[port]]\nname = \"p1\"\ndevice = \"net_null1\"\n\
             [[interface]]\nport = \"p0\"\naddresses = [\"10.71.0.1/24\"]\n\
             [[interface]]\nport = \"p1\"\naddresses = [\"10.72.0.1/24\"]\n\
             [[route]]\nprefix = \"0.0.0.0/0\"\nvia = \"10.71.0.254\"\n\
             [conntrack]\nconnections = 1024\n\
             [[service]]\nname = \"dns\"\nvip = \"{VIP}\"\nport = 53\nprotocol = \"udp\"\n\
             mode = \"dsr\"\nstateless = true\n"
        );
        for host in 11..11 + backends {
            text += &format!("[[service.backend]]\naddress = \"10.72.0.{host}\"\n");
        }
        let config = Config::parse(&text, "xenoflow")
            .map_err(|errors| CardError::Config(errors.to_string()))?;
        let profile = CardProfile::BlueField3;
        let options = Options { nic: Some(profile), ..Options::default() };
        let mut simulation = Simulation::new(&config, &options)?;
        simulation.keep(0);
        let macs = macs(&simulation);
        Ok(Self {
            simulation,
            rate: nic::rates(profile).packets_per_second.unwrap_or(u64::MAX),
            tables: Server::default(),
            out: Server::default(),
            frame: frame(payload),
            macs,
            draw: Rng::new(1),
        })
    }

    /// A client that the service gives to `backend`, or any.
    pub(super) fn client(&mut self, backend: Option<BackendId>) -> Ipv4Addr {
        loop {
            let client =
                Ipv4Addr::from_bits(0xc612_0000 | self.draw.next_u64() as u32 & 0x0001_ffff);
            if backend.is_none() || self.means(client) == backend {
                return client;
            }
        }
    }

    /// Which backend the service's classes give `client` to.
    fn means(&self, client: Ipv4Addr) -> Option<BackendId> {
        let snapshot = self.simulation.shared().snapshot();
        let service = snapshot.services.services().first()?;
        service.classes()?.backend(IpAddr::V4(client))
    }

    /// A packet of `client` comes off the wire at `at_ns`; when it is on the
    /// other wire, and towards whom. `None`: it is lost in a queue.
    pub(super) fn send(&mut self, client: Ipv4Addr, at_ns: f64) -> Result<Option<Left>, CardError> {
        let len = self.frame.len();
        let Some(done) = self.tables.serve(at_ns, tables_ns(len, self.rate)) else {
            return Ok(None);
        };
        if let Some(source) = self.frame.get_mut(26..30) {
            source.copy_from_slice(&client.octets());
        }
        self.simulation.arrive(PortId(0), &self.frame, done as u64);
        let misled = || CardError::Misled { client };
        let sent = self.simulation.take_sent();
        let [sent] = sent.as_slice() else { return Err(misled()) };
        let to = wire::ethernet::macs(sent.packet.bytes()).map(|(to, _)| to);
        let backend = self.macs.iter().find(|(_, mac)| Some(*mac) == to).map(|(id, _)| *id);
        let backend =
            backend.filter(|id| Some(*id) == self.means(client) && sent.port == PortId(1));
        let backend = backend.ok_or_else(misled)?;
        let left = self.out.serve(done, wire_ns(len));
        Ok(left.map(|at_ns| Left { at_ns, backend }))
    }

    /// Packets that workers had to look at.
    pub(super) fn in_software(&mut self) -> usize {
        self.simulation.poll_once(1)
    }
}

fn macs(simulation: &Simulation) -> Vec<(BackendId, Mac)> {
    let shared = simulation.shared();
    let snapshot = shared.snapshot();
    let backends = snapshot.services.backends().iter();
    let mac = |address| shared.neighbours().get(shared.hop_to(address, 0)?)?.mac;
    backends.filter_map(|backend| Some((backend.id, mac(backend.address)?))).collect()
}

/// A query of `payload` bytes; the source address is each packet's own.
fn frame(payload: usize) -> Vec<u8> {
    let vip: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 71, 0, 100)), 53);
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 9, 9, 0x08, 0x00];
    let length = (28 + payload) as u16;
    frame.extend([0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend([198, 18, 0, 0, 10, 71, 0, 100]);
    frame.extend(4000_u16.to_be_bytes());
    frame.extend(vip.port().to_be_bytes());
    frame.extend(((8 + payload) as u16).to_be_bytes());
    // No UDP checksum.
    frame.extend([0, 0]);
    frame.resize(14 + usize::from(length), 0x5a);
    frame.resize(frame_len(payload), 0);
    frame
}
