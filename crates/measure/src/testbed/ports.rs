//! The two cores and the rings between them.
use dpdk::{Batch, Consumer, Mempool, Port, PortConfig, Producer, RxQueue, TxQueue, net_ring};

use crate::error::MeasureError;
use crate::machine::core_distance::CoreDistance;
use crate::machine::memory::Memory;
use crate::testbed::scenario::{QUEUES, RING};

/// Workers that are measured at a time, at most.
pub(crate) const WORKERS: usize = 2;
/// Megabytes for packets and for tables of DPDK.
const MEMORY_MB: u32 = 1024;
/// Mbufs in all.
const MBUFS: u32 = 1 << 14;
/// Mbufs that a thread keeps for itself.
const CACHE: u32 = 256;
/// Bytes of the longest frame, rounded up.
const ROOM: u16 = 2048;
/// Mbufs in a send ring: all there are.
const SEND_RING: u32 = MBUFS;

/// The two ports of one worker, and the rings between them and a source.
pub(crate) struct Lane {
    /// By port.
    pub(crate) rx: [Vec<RxQueue>; 2],
    pub(crate) tx: [TxQueue; 2],
    /// The rings of the clients' port, then those of the servers'.
    pub(crate) to_host: Vec<Producer>,
    /// By port.
    pub(crate) from_host: [Consumer; 2],
    _ports: [Port; 2],
}

/// DPDK, started, and the rings between source and load balancer. One per
/// process, for all figures.
pub struct Testbed {
    /// One for each worker that is measured at a time; all figures but
    /// `workers` use the first.
    pub(crate) lanes: [Lane; WORKERS],
    pub(crate) pool: Mempool,
    pub(crate) core_distance: CoreDistance,
    // Last: everything of DPDK's is gone before.
    memory: Memory,
}

impl Testbed {
    /// Starts DPDK and makes the ports. Huge pages are used for all tables and
    /// packets, or for none.
    ///
    /// # Errors
    /// DPDK ran in this process before, or has no memory; the machine has one
    /// processor only.
    pub fn start(ordinary_pages: bool) -> Result<Self, MeasureError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if cores < 2 {
            return Err(MeasureError::Cores(cores));
        }
        let memory = Memory::start(MEMORY_MB, ordinary_pages)?;
        let pool = Mempool::new("paper", MBUFS, CACHE, ROOM)?;
        let lanes = [Lane::new("", &pool)?, Lane::new("_2", &pool)?];
        Ok(Self { lanes, pool, core_distance: CoreDistance::new(), memory })
    }

    /// The memory that packets and tables are in, in one line.
    #[must_use]
    pub fn memory(&self) -> String {
        self.memory.to_string()
    }
}

impl Lane {
    fn new(suffix: &str, pool: &Mempool) -> Result<Self, MeasureError> {
        let (clients, mut to_host) = ring_port(&format!("clients{suffix}"), pool)?;
        let (servers, to_servers) = ring_port(&format!("servers{suffix}"), pool)?;
        to_host.extend(to_servers);
        Ok(Self {
            rx: [clients.rx, servers.rx],
            tx: [clients.tx, servers.tx],
            to_host,
            from_host: [clients.sent, servers.sent],
            _ports: [clients.port, servers.port],
        })
    }

    /// Empties all rings; how many packets there were on the way to the load
    /// balancer, and from it, by port.
    pub(crate) fn drain(&mut self) -> [[u64; 2]; 2] {
        let mut batch = Batch::<32>::new();
        let [mut before, mut behind] = [[0; 2]; 2];
        for (queues, before) in self.rx.iter_mut().zip(&mut before) {
            for queue in queues {
                while queue.rx_burst(&mut batch) > 0 {
                    *before += batch.len() as u64;
                    batch.clear();
                }
            }
        }
        for (ring, behind) in self.from_host.iter_mut().zip(&mut behind) {
            while ring.dequeue_burst(&mut batch) > 0 {
                *behind += batch.len() as u64;
                batch.clear();
            }
        }
        [before, behind]
    }
}

/// A port of rings as the load balancer has it, and what it has sent.
struct RingPort {
    rx: Vec<RxQueue>,
    tx: TxQueue,
    sent: Consumer,
    port: Port,
}

/// A port, and the rings in front of its receive queues.
fn ring_port(name: &str, pool: &Mempool) -> Result<(RingPort, Vec<Producer>), MeasureError> {
    let config = PortConfig { rx_queues: QUEUES, tx_queues: 1, ..PortConfig::default() };
    let ends = (0..QUEUES).map(|queue| dpdk::ring::spsc(&format!("{name}_r{queue}"), RING));
    let (to_host, rx) = ends.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    let (tx, sent) = dpdk::ring::spsc(&format!("{name}_t"), SEND_RING)?;
    let mut port = net_ring::from_rings(name, rx, vec![tx], &config, pool)?;
    port.start()?;
    let (rx, tx) = port.queues()?;
    let tx = tx.into_iter().next().ok_or(MeasureError::NoPackets("a port without a queue"))?;
    Ok((RingPort { rx, tx, sent, port }, to_host))
}
