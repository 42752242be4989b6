//! Why the load balancer can't start.
use std::io;

use dpdk::{EalError, MempoolError, PortError};
use setup::SetupError;

/// Nothing starts half-way: whatever of this happens, everything that was
/// opened is closed again.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// DPDK does not start.
    #[error(transparent)]
    Eal(#[from] EalError),
    /// The status can't be served at DPDK's telemetry socket.
    #[error("[eal] telemetry: {0}")]
    Telemetry(#[source] dpdk::telemetry::TelemetryError),
    /// No memory for packets.
    #[error(
        "[eal] memory_mb = {given} is too little for {buffers} packet buffers of {bytes} bytes, one for each place that all queues have; set it to {needed} or more, or make rx_descriptors, tx_descriptors, queues or [fragments] datagrams fewer{reason}"
    )]
    Memory {
        /// Megabytes as configured.
        given: u32,
        /// Megabytes that are needed.
        needed: u64,
        /// Packet buffers that are needed.
        buffers: u32,
        /// Bytes of each.
        bytes: u64,
        /// What DPDK said, if it was asked.
        reason: String,
    },
    /// There is memory for packets, and yet no pool of buffers.
    #[error(
        "DPDK makes no pool of packet buffers, and memory is not what it lacks: {0}; if its driver of mempools is missing, install that (Debian: librte-mempool-ring), or let [eal] args load it (-d FILE)"
    )]
    Buffers(MempoolError),
    /// The access log can't be opened.
    #[error(
        "[access_log] file = \"{}\" cannot be opened: {error}; its directory must be there, and HNLB must be allowed to write in it",
        path.display()
    )]
    AccessLog {
        /// The path as configured.
        path: std::path::PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A service can't terminate TLS.
    #[error("{0}")]
    Tls(String),
    /// There is no pool of handshakes.
    #[error(transparent)]
    Handshakes(#[from] tls::PoolError),
    /// The machine has less memory than is asked for.
    #[error(
        "[eal] memory_mb = {given} is more than this machine has: {total} MB in all, {free} MB of them available"
    )]
    Machine {
        /// Megabytes as configured.
        given: u32,
        /// Megabytes of the machine.
        total: u64,
        /// Megabytes that no process uses.
        free: u64,
    },
    /// Another load balancer has the device.
    #[error(
        "port '{name}': another hnlb{process} has {device}; stop it, or give [[port]] device another"
    )]
    DeviceTaken {
        /// The port's name in the configuration.
        name: String,
        /// The interface or PCI address.
        device: String,
        /// The other's process id in brackets, if it is known.
        process: String,
    },
    /// The device can't be locked.
    #[error("port '{name}': the device can't be locked against other hnlb: {source}")]
    DeviceLock {
        /// The port's name in the configuration.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel's interface for announced VIPs can't be made.
    #[error(
        "[announce] device: the kernel does not make '{device}': {source}; it takes CAP_NET_ADMIN and the module tun (modprobe tun)"
    )]
    Announce {
        /// The interface's name.
        device: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The interface takes shorter packets than the configuration allows.
    #[error(
        "port '{name}': [[port]] mtu = {mtu} is more than the mtu {link} of {interface}; set it to {link}, or: ip link set dev {interface} mtu {mtu}"
    )]
    Mtu {
        /// The port's name in the configuration.
        name: String,
        /// The MTU of the configuration.
        mtu: u16,
        /// The kernel's interface.
        interface: String,
        /// Its MTU.
        link: u32,
    },
    /// A port can't be opened.
    #[error("port '{name}': {source}")]
    Port {
        /// Its name in the configuration.
        name: String,
        /// What is wrong.
        source: PortError,
    },
    /// An interface can't be used by XDP.
    #[error("port '{name}': {source}")]
    Xdp {
        /// Its name in the configuration.
        name: String,
        /// What is wrong.
        source: xdp::Error,
    },
    /// The emulated NICs of two ports can't be one switch.
    #[error("port '{name}': the ring to another port of its NIC's switch: {source}")]
    Ring {
        /// Its name in the configuration.
        name: String,
        /// What is wrong.
        source: dpdk::RingError,
    },
    /// The emulated NIC can't be as configured.
    #[error("port '{name}': [port.nic]: {source}")]
    Nic {
        /// The port's name in the configuration.
        name: String,
        /// What is wrong.
        source: nic::NicError,
    },
    /// A device gave no queue.
    #[error("port '{name}': the device gave no receive or send queue")]
    NoQueues {
        /// The port's name in the configuration.
        name: String,
    },
    /// More queues than the device has.
    #[error(
        "port '{name}' has {has} {direction} queues, and {wanted} are needed; set {key} to {has} or less"
    )]
    TooFewQueues {
        /// The port's name in the configuration.
        name: String,
        /// `receive` or `send`.
        direction: &'static str,
        /// What it has.
        has: u16,
        /// What is needed.
        wanted: u16,
        /// The key that asks for them.
        key: &'static str,
    },
    /// The shared state can't be built.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// More workers than the connection table admits.
    #[error(transparent)]
    Workers(#[from] conntrack::ReaderError),
    /// A core that this process may not use.
    #[error("{key}: there is no core {core} for this process; it may use {allowed:?}")]
    Core {
        /// The key that names it.
        key: String,
        /// The core.
        core: u16,
        /// Those that there are.
        allowed: Vec<u32>,
    },
    /// The kernel doesn't give an interface of its own in the place of one of ours.
    #[error(
        "interface {interface}: kernel = \"{name}\" can't be made: {source}; it takes /dev/net/tun (modprobe tun), the capability CAP_NET_ADMIN, and a name that no other interface has"
    )]
    Kernel {
        /// Our interface: its port and VLAN.
        interface: String,
        /// The kernel's name for its own.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A thread can't be started.
    #[error("thread '{name}' can't be started: {source}")]
    Thread {
        /// Its name.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}
