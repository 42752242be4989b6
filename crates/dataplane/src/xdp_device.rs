//! Devices `xdp:NAME`: net_af_xdp, with HNLB's program in the kernel as the match table.
use std::collections::HashMap;

use config::Config;
use dpdk::{Mempool, Port, PortConfig, PortError};
use state::Shared;
use xdp::{
    Features, Gate, Interface, KernelFlows, Leftover, Leftovers, Mode, Output, Program, Settings,
    Sockets, Up,
};

use crate::clock;
use crate::device::{Device, port_error, receive_queues};
use crate::error::StartError;
use crate::takeover::{self, Waiting};

/// Entries of the match table: 131,072 connections with both directions in the kernel.
const CAPACITY: u32 = 262_144;

/// An interface that has, or is to have, HNLB's program.
pub(crate) struct XdpInterface {
    interface: Interface,
    /// Where packets go that the program doesn't forward.
    sockets: Sockets,
    /// Takes the program's place if the kernel refuses it.
    up: Up,
    /// What a load balancer that was killed has left there.
    leftovers: Leftovers,
    /// The connections among that.
    connections: Vec<Leftover>,
    /// Entries that the match table takes; 0 without a program.
    capacity: u32,
}

impl XdpInterface {
    /// Entries that the match table takes; 0 if there is none.
    pub(crate) const fn capacity(&self) -> u32 {
        self.capacity
    }
}

/// Opens the interface `name`. Its match table comes with [`attach_programs`]. Where
/// AF_XDP isn't to be had, the port works by net_af_packet, all in software.
pub(crate) fn open(
    config: &Config,
    port: &config::Port,
    name: &str,
    pool: &Mempool,
) -> Result<Device, StartError> {
    let (workers, queues) = (config.workers.count, receive_queues(config, port));
    if queues < workers {
        let key = "[workers] count";
        let (name, direction) = (port.name.clone(), "receive");
        return Err(StartError::TooFewQueues {
            name,
            direction,
            has: queues,
            wanted: workers,
            key,
        });
    }
    match open_af_xdp(port, name, queues, pool)? {
        Ok((opened, found)) => device(port, opened, Some(found), queues, workers),
        Err(reason) => {
            tracing::warn!(
                port = port.name,
                "{reason}; the port works by net_af_packet, and its connections stay in software"
            );
            let by_packet = format!("net_af_packet_{name},iface={name},qpairs={workers}");
            let opened = open_dpdk(port, &by_packet, workers, pool)?;
            device(port, vec![opened], None, workers, workers)
        }
    }
}

/// Gives every device that [`open`] opened its match table, from which packets can be sent
/// out of all of them. Without its program a port works in software.
pub(crate) fn attach_programs(config: &Config, devices: &mut [Device], seed: u64) {
    let ports = (0..).zip(devices.iter().zip(&config.ports));
    let outputs = ports.filter_map(|(number, (device, port))| {
        let interface = device.xdp.as_ref()?.interface.index();
        Some((number, Output { interface, mtu: port.mtu }))
    });
    let outputs: HashMap<u16, Output> = outputs.collect();
    for (number, device) in (0..).zip(devices) {
        let Some(xdp) = &mut device.xdp else { continue };
        let XdpInterface { interface, sockets, up, leftovers, connections, capacity } = xdp;
        let settings = Settings {
            mac: device.mac,
            capacity: CAPACITY,
            actions: CAPACITY,
            seed: seed ^ number,
            always_redirects: interface.is_virtual(),
        };
        let left = std::mem::take(leftovers);
        let attached = Program::attach(interface, sockets, &settings, left);
        let flows = attached.and_then(|(program, table, left)| {
            (*connections, *capacity) = (left, table.capacity());
            KernelFlows::new((program, table), outputs.clone(), clock::nanoseconds, connections)
        });
        match flows {
            Ok(flows) => {
                device.flows = Some(Box::new(flows));
                device.notes = describe(&device.name, interface);
            }
            Err(error) => {
                tracing::warn!(port = device.name, "{error}: connections stay in software");
                device.notes = vec![error.to_string()];
                if let Err(error) = up.attach(interface, sockets) {
                    tracing::error!(port = device.name, "packets of some queues are lost: {error}");
                    device.notes.push(error.to_string());
                }
            }
        }
    }
}

/// Puts the connections that a killed load balancer has left in the kernel into the table
/// of connections, and returns those whose backends are known by their Ethernet addresses
/// only.
pub(crate) fn take_over(shared: &Shared, devices: &mut [Device], now_ms: u64) -> Waiting {
    let mut waiting = Waiting::default();
    for device in devices {
        let Some(xdp) = &mut device.xdp else { continue };
        let directions = std::mem::take(&mut xdp.connections);
        if directions.is_empty() {
            continue;
        }
        let connections = takeover::take_over(shared, &directions, now_ms);
        let more = waiting.add(&directions, now_ms);
        tracing::info!(
            port = device.name,
            "{connections} connections of the hnlb that was killed are taken over, from {} entries; {more} wait for their backends' Ethernet addresses",
            directions.len()
        );
    }
    waiting.bar(shared);
    waiting
}

/// The driver's devices and the interface, or why there can be none.
type Opened = Result<(Vec<Port>, XdpInterface), String>;

fn open_af_xdp(
    port: &config::Port,
    name: &str,
    queues: u16,
    pool: &Mempool,
) -> Result<Opened, StartError> {
    let failed = |source| StartError::Xdp { name: port.name.clone(), source };
    let interface = Interface::named(name).map_err(failed)?;
    let leftovers = match interface.clear() {
        Ok(None) => Leftovers::default(),
        Ok(Some(leftovers)) => {
            tracing::info!(
                port = port.name,
                "an hnlb that was killed had left its XDP program at {name}: it is detached"
            );
            leftovers
        }
        Err(error @ xdp::Error::Taken { .. }) => return Ok(Err(error.to_string())),
        Err(error) => return Err(failed(error)),
    };
    // Before there are sockets: a kernel that takes not even this one is left alone.
    let up = match Up::load() {
        Ok(up) => up,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let gate = Gate::new().map_err(|source| failed(xdp::Error::File { source }))?;
    let opening = Opening { port, name, interface: &interface, gate: &gate, pool };
    // net_af_xdp takes all queues together only of drivers that count receive and send
    // queues together, and of others a single one.
    let mut opened = opening.open(1, queues)?;
    if opened.is_err() && queues > 1 {
        opened = opening.open(queues, 1)?;
    }
    Ok(opened.map(|(ports, sockets)| {
        let (connections, capacity) = (Vec::new(), 0);
        (ports, XdpInterface { interface, sockets, up, leftovers, connections, capacity })
    }))
}

/// An interface whose devices are opened.
struct Opening<'a> {
    port: &'a config::Port,
    name: &'a str,
    interface: &'a Interface,
    gate: &'a Gate,
    pool: &'a Mempool,
}

impl Opening<'_> {
    /// Opens so many devices with so many queues each; or says why there can be none, and
    /// leaves no program at the interface then.
    fn open(
        &self,
        devices: u16,
        queues: u16,
    ) -> Result<Result<(Vec<Port>, Sockets), String>, StartError> {
        let Self { port, name, interface, gate, pool } = self;
        let failed = |source| StartError::Xdp { name: port.name.clone(), source };
        let (mut ports, mut sockets) = (Vec::new(), Sockets::default());
        for number in 0..devices {
            if number > 0 {
                // The driver attaches a gate for each device, where there is none.
                interface.clear().map_err(failed)?;
            }
            let first = number * queues;
            let device = format!(
                "net_af_xdp_{name}_{first},iface={name},start_queue={first},queue_count={queues},busy_budget=0,xdp_prog={}",
                gate.path()
            );
            match open_dpdk(port, &device, queues, pool) {
                Ok(opened) => ports.push(opened),
                Err(error) => {
                    // The driver may have attached the gate before it failed.
                    drop(ports);
                    interface.clear().map_err(failed)?;
                    return Ok(Err(error.to_string()));
                }
            }
            sockets.add(interface, queues).map_err(failed)?;
        }
        Ok(Ok((ports, sockets)))
    }
}

/// Opens a device of the kernel, which spreads packets over the queues by itself.
fn open_dpdk(
    port: &config::Port,
    device: &str,
    queues: u16,
    pool: &Mempool,
) -> Result<Port, StartError> {
    let wanted = PortConfig {
        rx_queues: queues,
        tx_queues: queues,
        rx_desc: port.rx_descriptors,
        tx_desc: port.tx_descriptors,
        mtu: Some(port.mtu),
        ..PortConfig::default()
    };
    let start = || -> Result<Port, PortError> {
        let mut opened = Port::open(device, &wanted, pool)?;
        opened.start()?;
        Ok(opened)
    };
    start().map_err(port_error(port))
}

fn device(
    port: &config::Port,
    mut opened: Vec<Port>,
    xdp: Option<XdpInterface>,
    queues: u16,
    workers: u16,
) -> Result<Device, StartError> {
    let more = opened.split_off(1.min(opened.len()));
    let no_queues = || StartError::NoQueues { name: port.name.clone() };
    let first = opened.pop().ok_or_else(no_queues)?;
    let (mac, ring) = (first.mac().map_err(port_error(port))?, first.rx_ring());
    Ok(Device {
        name: port.name.clone(),
        port: first,
        more,
        emulated: None,
        flows: None,
        xdp,
        notes: Vec::new(),
        mac,
        queues,
        ring,
        misses_known: queues == workers,
    })
}

/// What the interface can, as lines for the status; logs what makes it slow.
fn describe(port: &str, interface: &Interface) -> Vec<String> {
    let name = interface.name();
    let beneath = interface.driver().map_or_else(
        || "has no card beneath it".to_owned(),
        |driver| format!("is a card of the driver {driver}"),
    );
    let mut notes = vec![format!("XDP: {name} {beneath}")];
    match interface.mode() {
        Ok(Some(mode)) => {
            notes.push(format!("XDP: the program at {name} runs in mode {mode}"));
            if mode == Mode::Generic {
                tracing::warn!(
                    port,
                    "the driver of {name} has no XDP: the program runs in generic mode, behind the kernel's allocation and copy of each packet"
                );
            }
        }
        Ok(None) => notes.push(format!("XDP: the program at {name} has been detached")),
        Err(error) => notes.push(error.to_string()),
    }
    if let Ok(Some(Features { redirects, is_target, zero_copy })) = interface.features() {
        let can = |can: bool| if can { "can" } else { "can't" };
        notes.push(format!(
            "XDP: {name} {} send to other interfaces, {} be sent to by others' programs, and {} be read without copies",
            can(redirects), can(is_target), can(zero_copy)
        ));
    }
    for note in &notes {
        tracing::info!(port, "{note}");
    }
    notes
}
