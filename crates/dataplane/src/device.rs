//! The ports of the configuration as devices: opened, with the emulated NIC in
//! front where one is wanted.
use std::sync::Arc;

use config::Config;
use dpdk::flow::FlowPort;
use dpdk::{
    Consumer, Mempool, Port, PortConfig, PortError, Producer, Rss, RxQueue, TxQueue, net_ring,
};
use flow::{Encoding, EncodingChoice};
use nic::{Nic, NicConfig, Reta};
use setup::PortFacts;
use state::{CounterSet, QueueEpochs};
use wire::Mac;

use crate::error::StartError;
use crate::kernel_interface;
use crate::nic_thread::NicCounter;
use crate::xdp_device::{self, XdpInterface};

/// A port as the workers and the keeper see it.
pub(crate) struct Device {
    /// Its name in the configuration.
    pub(crate) name: String,
    /// What the workers poll.
    pub(crate) port: Port,
    /// Further devices of the driver on the same interface, with the further queues.
    pub(crate) more: Vec<Port>,
    /// The emulated NIC in front of it.
    pub(crate) emulated: Option<Emulated>,
    /// The driver or emulation that takes its rules; `None`: it takes none.
    pub(crate) flows: Option<Box<dyn FlowPort + Send>>,
    /// The kernel's interface whose XDP program is the match table.
    pub(crate) xdp: Option<XdpInterface>,
    /// What was found out about the device, for the status.
    pub(crate) notes: Vec<String>,
    /// The wire's Ethernet address.
    pub(crate) mac: Mac,
    /// Receive queues that are polled.
    pub(crate) queues: u16,
    /// Descriptors of each.
    pub(crate) ring: u16,
    /// Whether packets that match no rule come to the first queues only, one
    /// for each worker; without that a queue number means nothing.
    pub(crate) misses_known: bool,
}

/// An emulated NIC and the wire behind it.
pub(crate) struct Emulated {
    pub(crate) nic: Nic,
    pub(crate) wire: Port,
    pub(crate) counters: Arc<CounterSet<NicCounter>>,
    pub(crate) core: Option<u16>,
    /// What its thread takes when it starts.
    pub(crate) ends: Option<Ends>,
}

/// The NIC's ends of all queues.
pub(crate) struct Ends {
    pub(crate) wire_rx: RxQueue,
    pub(crate) wire_tx: TxQueue,
    pub(crate) to_host: Vec<Producer>,
    pub(crate) from_host: Vec<Consumer>,
    /// How far `from_host` have been emptied.
    pub(crate) sent: Arc<QueueEpochs>,
    /// The other ports of the NIC's switch, by their numbers.
    pub(crate) to_ports: Vec<(u16, Producer)>,
    /// What the NICs of other ports send out of this one.
    pub(crate) from_ports: Vec<Consumer>,
}

/// Whether every kernel interface beneath a port takes packets as long as its port's
/// MTU.
pub(crate) fn check_mtus(config: &Config) -> Result<(), StartError> {
    for port in &config.ports {
        let link = port
            .kernel_interface()
            .and_then(|interface| Some((interface, kernel_interface::mtu(interface)?)));
        match link {
            Some((interface, link)) if kernel_interface::is_short(Some(link), port.mtu) => {
                let (name, interface) = (port.name.clone(), interface.to_owned());
                return Err(StartError::Mtu { name, mtu: port.mtu, interface, link });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Opens and starts every port.
///
/// `seed` is a secret of the hash of the match tables in the kernel.
pub(crate) fn open_all(
    config: &Config,
    pool: &Mempool,
    seed: u64,
) -> Result<Vec<Device>, StartError> {
    let opened =
        config.ports.iter().enumerate().map(|(at, port)| match (&port.nic, port.xdp_interface()) {
            (Some(nic), _) => open_emulated(config, at, port, nic, pool),
            (None, Some(interface)) => xdp_device::open(config, port, interface, pool),
            (None, None) => open_real(config, port, pool),
        });
    let mut devices = opened.collect::<Result<Vec<_>, _>>()?;
    xdp_device::attach_programs(config, &mut devices, seed);
    connect_switches(config, &mut devices)?;
    Ok(devices)
}

/// The ports that are one switch with port `at`, itself included: those with
/// an emulated NIC of the same profile, if its rules can send packets out.
pub(crate) fn switch_of(config: &Config, at: usize) -> Vec<u16> {
    let of = |port: &config::Port| port.nic.as_ref().map(|nic| nic.profile);
    let Some(own) = config.ports.get(at).and_then(of) else { return Vec::new() };
    if !own.rewrites() {
        return Vec::new();
    }
    let ports = config.ports.iter().enumerate().filter(|(_, port)| of(port) == Some(own));
    ports.map(|(number, _)| number as u16).collect()
}

/// A ring from every port of a switch to every other: what the one's NIC sends
/// out, the other's thread puts on its wire.
fn connect_switches(config: &Config, devices: &mut [Device]) -> Result<(), StartError> {
    for at in 0..devices.len() {
        for to in switch_of(config, at).into_iter().filter(|to| usize::from(*to) != at) {
            let (producer, consumer) = dpdk::ring::spsc(&format!("hnlb{at}to{to}"), SWITCH_RING)
                .map_err(|source| StartError::Ring { name: port_name(config, at), source })?;
            if let Some(ends) = devices.get_mut(at).and_then(Device::ends) {
                ends.to_ports.push((to, producer));
            }
            if let Some(ends) = devices.get_mut(usize::from(to)).and_then(Device::ends) {
                ends.from_ports.push(consumer);
            }
        }
    }
    Ok(())
}

/// Frames on their way from one port of a switch to another.
pub(crate) const SWITCH_RING: u32 = 1024;

fn port_name(config: &Config, at: usize) -> String {
    config.ports.get(at).map(|port| port.name.clone()).unwrap_or_default()
}

/// Rings that [`open_all`] makes between the ports.
pub(crate) fn switch_rings(config: &Config) -> usize {
    (0..config.ports.len()).map(|at| switch_of(config, at).len().saturating_sub(1)).sum()
}

impl Device {
    fn ends(&mut self) -> Option<&mut Ends> {
        self.emulated.as_mut()?.ends.as_mut()
    }
}

/// What the shared state is made for.
pub(crate) fn facts(devices: &[Device]) -> Vec<PortFacts> {
    let facts = devices.iter().map(|device| PortFacts {
        mac: device.mac,
        queues: device.queues,
        ring: u32::from(device.ring),
    });
    facts.collect()
}

/// Receive queues that `port` is asked for.
pub(crate) fn receive_queues(config: &Config, port: &config::Port) -> u16 {
    let (workers, offload) = (config.workers.count, config.offload.encoding);
    match &port.nic {
        Some(nic) => nic.queues,
        None if let Some(interface) = port.xdp_interface() => {
            kernel_interface::receive_queues(interface).unwrap_or(1)
        }
        None if offload == EncodingChoice::Fixed(Encoding::Off) => workers,
        None if is_tap(port) => config.workers.queues.min(TAP_QUEUES).max(workers),
        None => config.workers.queues.max(workers),
    }
}

/// Send queues that `port` is asked for: one for each worker, but net_tap and net_af_xdp
/// want as many of the one kind as of the other.
pub(crate) fn send_queues(config: &Config, port: &config::Port) -> u16 {
    if (is_tap(port) || port.xdp_interface().is_some()) && port.nic.is_none() {
        receive_queues(config, port)
    } else {
        config.workers.count
    }
}

/// Says which key of the configuration asked for too much.
pub(crate) fn port_error(port: &config::Port) -> impl Fn(PortError) -> StartError + '_ {
    move |source| match source {
        PortError::Queues { direction, asked, most, .. } if asked > most => {
            let of_nic = port.nic.is_some() && direction == "receive";
            StartError::TooFewQueues {
                name: port.name.clone(),
                direction,
                has: most,
                wanted: asked,
                key: if of_nic { "[port.nic] queues" } else { "[workers] count" },
            }
        }
        source => StartError::Port { name: port.name.clone(), source },
    }
}

/// A wire, the emulated NIC, and a port of rings that the workers poll.
fn open_emulated(
    config: &Config,
    at: usize,
    port: &config::Port,
    nic: &config::Nic,
    pool: &Mempool,
) -> Result<Device, StartError> {
    let failed = port_error(port);
    let workers = config.workers.count;
    let emulated = Nic::new(&NicConfig {
        capacity: nic.capacity.map(|capacity| capacity as usize),
        reta: Reta::Queues(workers),
        switch: switch_of(config, at),
        ..NicConfig::new(nic.profile, nic.queues)
    })
    .map_err(|source| StartError::Nic { name: port.name.clone(), source })?;
    let wire_config = PortConfig {
        rx_desc: port.rx_descriptors,
        tx_desc: port.tx_descriptors,
        mtu: Some(port.mtu),
        ..PortConfig::default()
    };
    let mut wire = Port::open(&port.device, &wire_config, pool).map_err(&failed)?;
    wire.start().map_err(&failed)?;
    let (mut rx, mut tx) = wire.queues().map_err(&failed)?;
    let mac = wire.mac().map_err(&failed)?;
    let host_config = PortConfig { rx_queues: nic.queues, tx_queues: workers, ..wire_config };
    let mut ring = net_ring::create(&format!("hnlb{at}"), &host_config, pool).map_err(&failed)?;
    ring.port.start().map_err(&failed)?;
    let descriptors = ring.port.rx_ring().max(port.rx_descriptors);
    let ends = match (rx.pop(), tx.pop()) {
        (Some(wire_rx), Some(wire_tx)) => {
            let (to_ports, from_ports) = (Vec::new(), Vec::new());
            let (to_host, from_host) = (ring.to_port, ring.from_port);
            let longest = from_host.iter().map(Consumer::capacity).max().unwrap_or(0);
            let sent = Arc::new(QueueEpochs::new(from_host.len(), longest as u32));
            Ends { wire_rx, wire_tx, to_host, from_host, sent, to_ports, from_ports }
        }
        _ => return Err(StartError::NoQueues { name: port.name.clone() }),
    };
    Ok(Device {
        name: port.name.clone(),
        flows: Some(Box::new(emulated.flows())),
        port: ring.port,
        more: Vec::new(),
        emulated: Some(Emulated {
            nic: emulated,
            wire,
            counters: Arc::default(),
            core: nic.core,
            ends: Some(ends),
        }),
        xdp: None,
        notes: Vec::new(),
        mac,
        queues: nic.queues,
        ring: descriptors,
        misses_known: true,
    })
}

/// The most receive queues that net_tap bears: when it starts it puts the file
/// descriptors of all queues, receive and send, into a message with room for
/// 8 (`RTE_MP_MAX_FD_NUM`), and DPDK 22.11 doesn't check.
const TAP_QUEUES: u16 = 4;

pub(crate) fn is_tap(port: &config::Port) -> bool {
    port.device.starts_with("net_tap")
}

/// A real card, or any DPDK device, with its own rte_flow if it has one.
fn open_real(config: &Config, port: &config::Port, pool: &Mempool) -> Result<Device, StartError> {
    let failed = port_error(port);
    let workers = config.workers.count;
    let wanted = receive_queues(config, port);
    let mut opened = open_with_rss(port, workers, wanted, pool);
    if let Err(PortError::Queues { direction: "receive", most, .. }) = opened {
        if most >= workers && most < wanted {
            tracing::warn!(port = port.name, wanted, most, "the device has fewer receive queues");
            opened = open_with_rss(port, workers, most, pool);
        }
    }
    let (mut opened, queues, spread) = opened.map_err(&failed)?;
    let flows = opened.flows().map(|flows| Box::new(flows) as Box<dyn FlowPort + Send>);
    let mac = opened.mac().map_err(&failed)?;
    opened.start().map_err(&failed)?;
    let ring = opened.rx_ring();
    Ok(Device {
        name: port.name.clone(),
        port: opened,
        more: Vec::new(),
        emulated: None,
        flows,
        xdp: None,
        notes: Vec::new(),
        mac,
        queues,
        ring,
        misses_known: spread || queues == workers,
    })
}

/// Opens `port` with `queues` receive queues. Packets that match no rule are
/// spread over the first `workers`, where the device can: the last value says
/// whether it does.
fn open_with_rss(
    port: &config::Port,
    workers: u16,
    queues: u16,
    pool: &Mempool,
) -> Result<(Port, u16, bool), PortError> {
    // net_tap wants as many of the one kind as of the other.
    let plain = PortConfig {
        rx_queues: queues,
        tx_queues: if is_tap(port) { queues } else { workers },
        rx_desc: port.rx_descriptors,
        tx_desc: port.tx_descriptors,
        mtu: Some(port.mtu),
        ..PortConfig::default()
    };
    let rss = Some(Rss { queues: (0..workers).collect() });
    match Port::open(&port.device, &PortConfig { rss, ..plain.clone() }, pool) {
        Ok(opened) => Ok((opened, queues, true)),
        Err(PortError::Rss { .. }) if workers == 1 => {
            Port::open(&port.device, &plain, pool).map(|opened| (opened, queues, queues == 1))
        }
        Err(error) => Err(error),
    }
}
