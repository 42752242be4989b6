//! How many packet buffers there must be, and the memory for them.
//!
//! Every place that can hold a buffer is counted as full, so that no traffic
//! and no configuration empties the pool: a receive queue that finds none would
//! stand still until another part of the program lets go of some.
use config::{Config, Port};
use dpdk::{Memory, Mempool, MempoolError};

use crate::device::{SWITCH_RING, is_tap, receive_queues, send_queues, switch_rings};
use crate::error::StartError;
use crate::exception_thread::{FROM_KERNEL, TO_KERNEL};
use crate::keeper_thread::INJECTED;
use crate::terminator_thread::{FROM_TERMINATOR, TO_TERMINATOR};
use crate::{handover, nic_thread, outbox, worker};

/// Frame bytes around an IP packet: Ethernet header with a VLAN tag.
const ETHERNET: u16 = 18;
/// Packets a mempool cache is meant to hold for each thread.
const CACHE: u32 = 256;
/// A cache is emptied only when it is half as full again.
const CACHE_AT_MOST: u32 = CACHE + CACHE / 2;
/// What net_af_xdp keeps for one queue, whatever is asked for: its fill ring,
/// its send ring and its completion ring, of 2048 each.
const AF_XDP_QUEUE: u32 = 3 * 2048;
/// Bytes of a buffer beside its frame: `rte_mbuf`, headroom, the pool's header,
/// and what spreads buffers over the memory channels.
const BESIDE_FRAME: u64 = 384;
/// An ordinary page. No buffer may cross its end unless it is longer.
const PAGE: u64 = 4096;
/// Megabytes that EAL, the pool's own tables and the drivers take.
const OTHERS_MB: u64 = 16;

/// What is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Buffers.
    pub(crate) buffers: u32,
    /// Bytes of a frame in each.
    pub(crate) room: u16,
}

impl Needs {
    /// What `config` needs.
    pub(crate) fn of(config: &Config) -> Self {
        let workers = u32::from(config.workers.count);
        let nics = config.ports.iter().filter(|port| port.nic.is_some()).count() as u32;
        let ports = config.ports.len() as u32;
        let in_ports: u32 = config.ports.iter().map(|port| in_port(config, port)).sum();
        let fragments = setup::settings(config, setup::Seed([0; 32])).fragments_held as u32;
        // One burst received, one being processed, one handed over, one to send for each
        // port.
        let in_worker = (3 * worker::BURST + outbox::BURST * ports as usize) as u32;
        let in_nic = 3 * nic_thread::BURST as u32;
        let between = switch_rings(config) as u32 * SWITCH_RING;
        // The main thread has a cache, too.
        let caches = (workers + nics + 1) * CACHE_AT_MOST;
        let kernel = match config.interfaces.iter().any(|own| own.kernel.is_some()) {
            true => workers * TO_KERNEL as u32 + FROM_KERNEL as u32,
            false => 0,
        };
        let terminator = match config.services.iter().any(|own| own.tls.is_some()) {
            true => workers * TO_TERMINATOR as u32 + FROM_TERMINATOR as u32,
            false => 0,
        };
        let between_workers = handover::in_rings(config) as u32;
        let held = workers * (fragments + pipeline::WAITING as u32 + in_worker)
            + nics * in_nic
            + INJECTED as u32
            + kernel
            + terminator
            + between_workers;
        let buffers = (in_ports + between + held + caches).max(4096);
        let mtu = config.ports.iter().map(|port| port.mtu).max().unwrap_or(1500);
        let room = (ETHERNET + mtu).max(2048);
        Self { buffers, room }
    }

    /// Bytes of one buffer, with all that belongs to it.
    fn bytes(self, memory: &Memory) -> u64 {
        let bytes = u64::from(self.room) + BESIDE_FRAME;
        match memory {
            Memory::Ordinary { .. } if bytes <= PAGE => PAGE / (PAGE / bytes),
            _ => bytes,
        }
    }

    /// Megabytes for all of it.
    fn megabytes(self, memory: &Memory) -> u64 {
        // Each ring and the pool's own one have a pointer for each buffer, in
        // tables of a power of two.
        let each = self.bytes(memory) + 4 * size_of::<usize>() as u64;
        (u64::from(self.buffers) * each).div_ceil(1 << 20) + OTHERS_MB
    }

    /// The pool of all packet buffers.
    pub(crate) fn pool(self, config: &Config, memory: &Memory) -> Result<Mempool, StartError> {
        let too_small = |reason: String| StartError::Memory {
            given: config.eal.memory_mb,
            needed: self.megabytes(memory),
            buffers: self.buffers,
            bytes: self.bytes(memory),
            reason,
        };
        // Ordinary memory is all there at the start; of huge pages there may be
        // more to come.
        let fixed = matches!(memory, Memory::Ordinary { .. });
        if fixed && self.megabytes(memory) > u64::from(config.eal.memory_mb) {
            return Err(too_small(String::new()));
        }
        Mempool::new("hnlb", self.buffers, CACHE, self.room).map_err(|error| match error {
            MempoolError::Create { lacks_memory: true, .. } => too_small(format!(" ({error})")),
            other => StartError::Buffers(other),
        })
    }
}

/// Whether the machine has the memory that `config` asks for.
pub(crate) fn check_machine(config: &Config) -> Result<(), StartError> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    within(config.eal.memory_mb, &text)
}

/// The same by `meminfo`, the text of /proc/meminfo.
fn within(given: u32, meminfo: &str) -> Result<(), StartError> {
    let megabytes = |key: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
        let kilobytes: u64 =
            line.trim_start_matches(':').split_whitespace().next()?.parse().ok()?;
        Some(kilobytes / 1024)
    };
    match megabytes("MemTotal") {
        Some(total) if u64::from(given) > total => {
            let free = megabytes("MemAvailable").unwrap_or_default();
            Err(StartError::Machine { given, total, free })
        }
        _ => Ok(()),
    }
}

/// Buffers that the queues of `port` hold when all are full.
fn in_port(config: &Config, port: &Port) -> u32 {
    let (receive, send) = (receive_queues(config, port), send_queues(config, port));
    let (rx, tx) = (u32::from(port.rx_descriptors), u32::from(port.tx_descriptors));
    let queues = u32::from(receive) * rx + u32::from(send) * tx;
    let wire = if port.nic.is_some() { rx + tx } else { 0 };
    let pairs = if port.nic.is_some() { 1 } else { u32::from(receive.max(send)) };
    let af_xdp = port.device.starts_with("net_af_xdp") || port.xdp_interface().is_some();
    let driver = if af_xdp { pairs * AF_XDP_QUEUE } else { 0 };
    // net_tap fills its queues with a buffer for each segment, as others do,
    // and one more that it swaps in.
    let swapped = if is_tap(port) { pairs } else { 0 };
    queues + wire + driver + swapped
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDINARY: Memory = Memory::Ordinary { megabytes: 512, free: None };

    fn config(port: &str, more: &str) -> Config {
        let text = format!(
            "[[port]]\nname = \"a\"\n{port}\n[[interface]]\nport = \"a\"\n\
             addresses = [\"10.0.0.1/24\"]\n{more}\n[[service]]\nname = \"s\"\n\
             vip = \"10.0.0.100\"\nport = 80\nprotocol = \"tcp\"\n\
             [[service.backend]]\naddress = \"10.0.0.11\"\nport = 80\n"
        );
        Config::parse(&text, "test.toml").unwrap()
    }

    #[test]
    fn memory_beyond_the_machine_is_refused() {
        let machine = "MemTotal:        2048000 kB\nMemFree: 5 kB\nMemAvailable:  1024000 kB\n";
        assert!(within(2000, machine).is_ok());
        let error = within(2001, machine).unwrap_err().to_string();
        assert!(error.contains("2001") && error.contains("2000 MB in all, 1000 MB"), "{error}");
        assert!(within(u32::MAX, "").is_ok(), "where it cannot be told");
    }

    #[test]
    fn every_queue_counts_as_full() {
        let small = Needs::of(&config("device = \"net_null0\"", "[offload]\nencoding = \"off\""));
        let nic = "device = \"net_null0\"\nrx_descriptors = 4096\ntx_descriptors = 64\n\
                   [port.nic]\nprofile = \"x550\"\nqueues = 16";
        let large = Needs::of(&config(nic, "[workers]\ncount = 4"));
        let rings = 16 * 4096 + 4 * 64;
        let wire = 4096 + 64;
        assert!(large.buffers > rings + wire, "{large:?}");
        assert!(large.buffers < rings + wire + 16_384, "{large:?}");
        // A page for each, or as close as they get.
        assert_eq!(large.bytes(&ORDINARY), 4096);
        assert_eq!(large.bytes(&Memory::Huge { megabytes: 1 }), 2432);
        assert!(large.megabytes(&ORDINARY) > u64::from(large.buffers) / 256, "{large:?}");
        assert!(small.buffers >= 4096 && small.megabytes(&ORDINARY) < 64, "{small:?}");
        assert_eq!(small.room, 2048);
    }

    #[test]
    fn what_drivers_keep_for_themselves_counts_too() {
        let off = "[offload]\nencoding = \"off\"\n[workers]\ncount = 2";
        let plain = Needs::of(&config("device = \"net_null0\"", off));
        let xdp = Needs::of(&config("device = \"net_af_xdp0,iface=x\"", off));
        assert_eq!(xdp.buffers - plain.buffers, 2 * AF_XDP_QUEUE);
        let jumbo = Needs::of(&config("device = \"net_null0\"\nmtu = 9000", off));
        assert_eq!(jumbo.room, 9018);
        assert!(jumbo.megabytes(&ORDINARY) > 2 * (plain.megabytes(&ORDINARY) - OTHERS_MB));
    }
}
