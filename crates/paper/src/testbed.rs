//! The two cores and the rings between them.
use dpdk::{
    Batch, Consumer, Eal, EalConfig, Mempool, Port, PortConfig, Producer, RxQueue, TxQueue,
    net_ring,
};

use crate::error::PaperError;
use crate::world::{QUEUES, RING};

/// Mbufs in all.
const MBUFS: u32 = 1 << 15;
/// Mbufs that a thread keeps for itself.
const CACHE: u32 = 256;
/// Bytes of the longest frame, rounded up.
const ROOM: u16 = 2048;
/// Mbufs in a send ring: all there are.
const SEND_RING: u32 = MBUFS;

/// DPDK, started, and the rings between source and load balancer. One per
/// process, for all figures.
pub struct Testbed {
    pub(crate) rx: Vec<RxQueue>,
    pub(crate) tx: [TxQueue; 2],
    pub(crate) to_host: Vec<Producer>,
    pub(crate) from_host: Vec<Consumer>,
    pub(crate) pool: Mempool,
    _ports: [Port; 2],
    // Last: everything of DPDK's is gone before.
    eal: Eal,
}

impl Testbed {
    /// Starts DPDK and makes the ports.
    ///
    /// # Errors
    /// DPDK ran in this process before, or has no memory; the machine has one
    /// processor only.
    pub fn start() -> Result<Self, PaperError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if cores < 2 {
            return Err(PaperError::Cores(cores));
        }
        let eal = Eal::init(&EalConfig { memory_mb: 1024, ..EalConfig::default() })?;
        let pool = Mempool::new("paper", MBUFS, CACHE, ROOM)?;
        let (rx, tx, to_host, from_host, clients) = ring_port("clients", QUEUES, &pool)?;
        let (_, back, _, from_servers, servers) = ring_port("servers", 1, &pool)?;
        let missing = || PaperError::Cores(0);
        let first = tx.into_iter().next().ok_or_else(missing)?;
        let second = back.into_iter().next().ok_or_else(missing)?;
        let from_host = from_host.into_iter().chain(from_servers).collect();
        let ports = [clients, servers];
        Ok(Self { rx, tx: [first, second], to_host, from_host, pool, _ports: ports, eal })
    }

    /// The memory that packets are in, in one line.
    #[must_use]
    pub fn memory(&self) -> String {
        self.eal.memory().to_string()
    }

    /// Empties all rings; how many packets there were on the way to the load
    /// balancer, and from it.
    pub(crate) fn drain(&mut self) -> [u64; 2] {
        let mut batch = Batch::<32>::new();
        let (mut before, mut behind) = (0, 0);
        for queue in &mut self.rx {
            while queue.rx_burst(&mut batch) > 0 {
                before += batch.len() as u64;
                batch.clear();
            }
        }
        for ring in &mut self.from_host {
            while ring.dequeue_burst(&mut batch) > 0 {
                behind += batch.len() as u64;
                batch.clear();
            }
        }
        [before, behind]
    }
}

type Ends = (Vec<RxQueue>, Vec<TxQueue>, Vec<Producer>, Vec<Consumer>, Port);

fn ring_port(name: &str, queues: u16, pool: &Mempool) -> Result<Ends, PaperError> {
    let config = PortConfig { rx_queues: queues, tx_queues: 1, ..PortConfig::default() };
    let rings = |direction: &str, count: u16, size: u32| {
        (0..count)
            .map(|queue| dpdk::ring::spsc(&format!("{name}_{direction}{queue}"), size))
            .collect::<Result<Vec<_>, _>>()
            .map(|ends| ends.into_iter().unzip::<_, _, Vec<_>, Vec<_>>())
    };
    let (to_host, rx) = rings("r", queues, RING)?;
    let (tx, from_host) = rings("t", 1, SEND_RING)?;
    let mut port = net_ring::from_rings(name, rx, tx, &config, pool)?;
    port.start()?;
    let (rx, tx) = port.queues()?;
    Ok((rx, tx, to_host, from_host, port))
}
