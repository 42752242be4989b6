//! The two cores and the rings between them.
use dpdk::{
    Batch, Consumer, Eal, EalConfig, Mempool, Port, PortConfig, Producer, RxQueue, TxQueue,
    net_ring,
};

use crate::error::MeasureError;
use crate::machine::core_distance::CoreDistance;
use crate::testbed::scenario::{QUEUES, RING};

/// Mbufs in all.
const MBUFS: u32 = 1 << 14;
/// Mbufs that a thread keeps for itself.
const CACHE: u32 = 256;
/// Bytes of the longest frame, rounded up.
const ROOM: u16 = 2048;
/// Mbufs in a send ring: all there are.
const SEND_RING: u32 = MBUFS;

/// DPDK, started, and the rings between source and load balancer. One per
/// process, for all figures.
pub struct Testbed {
    /// By port.
    pub(crate) rx: [Vec<RxQueue>; 2],
    pub(crate) tx: [TxQueue; 2],
    /// The rings of the clients' port, then those of the servers'.
    pub(crate) to_host: Vec<Producer>,
    /// By port.
    pub(crate) from_host: [Consumer; 2],
    pub(crate) pool: Mempool,
    pub(crate) core_distance: CoreDistance,
    _ports: [Port; 2],
    // Last: everything of DPDK's is gone before.
    eal: Eal,
}

/// Both ends of all rings, for one thread.
pub(crate) struct Ends<'a> {
    pub(crate) rx: &'a mut [Vec<RxQueue>; 2],
    pub(crate) tx: &'a mut [TxQueue; 2],
    pub(crate) to_host: &'a mut [Producer],
    pub(crate) from_host: &'a mut [Consumer; 2],
    pub(crate) pool: &'a Mempool,
}

impl Testbed {
    /// What a thread may have of it.
    pub(crate) fn ends(&mut self) -> Ends<'_> {
        let Self { rx, tx, to_host, from_host, pool, .. } = self;
        Ends { rx, tx, to_host, from_host, pool }
    }

    /// Starts DPDK and makes the ports.
    ///
    /// # Errors
    /// DPDK ran in this process before, or has no memory; the machine has one
    /// processor only.
    pub fn start() -> Result<Self, MeasureError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if cores < 2 {
            return Err(MeasureError::Cores(cores));
        }
        let eal = Eal::init(&EalConfig { memory_mb: 1024, ..EalConfig::default() })?;
        let pool = Mempool::new("paper", MBUFS, CACHE, ROOM)?;
        let (clients, mut to_host) = ring_port("clients", &pool)?;
        let (servers, to_servers) = ring_port("servers", &pool)?;
        to_host.extend(to_servers);
        Ok(Self {
            rx: [clients.rx, servers.rx],
            tx: [clients.tx, servers.tx],
            to_host,
            from_host: [clients.sent, servers.sent],
            pool,
            core_distance: CoreDistance::new(),
            _ports: [clients.port, servers.port],
            eal,
        })
    }

    /// The memory that packets are in, in one line.
    #[must_use]
    pub fn memory(&self) -> String {
        self.eal.memory().to_string()
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
