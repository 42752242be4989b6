//! Why a measurement can't be made.

/// Something needed for the measurement is missing or failed.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// DPDK's environment.
    #[error(transparent)]
    Eal(#[from] dpdk::EalError),
    /// The packet buffers.
    #[error(transparent)]
    Mempool(#[from] dpdk::MempoolError),
    /// The rings.
    #[error(transparent)]
    Ring(#[from] dpdk::RingError),
    /// The ports of rings.
    #[error(transparent)]
    Port(#[from] dpdk::PortError),
    /// The measuring threads.
    #[error(transparent)]
    Thread(#[from] dpdk::ThreadError),
    /// The generated configuration.
    #[error("the generated configuration is refused: {0}")]
    Config(String),
    /// The load balancer's state.
    #[error(transparent)]
    Setup(#[from] setup::SetupError),
    /// The connection table.
    #[error(transparent)]
    Table(#[from] conntrack::TableError),
    /// The pipeline.
    #[error(transparent)]
    Readers(#[from] conntrack::ReaderError),
    /// The traffic generators.
    #[error(transparent)]
    Traffic(#[from] traffic::TrafficError),
    /// The settings of a simulated balancer.
    #[error(transparent)]
    Balance(#[from] balance::SettingsError),
    /// A histogram of latencies.
    #[error("latencies: {0}")]
    Histogram(String),
    /// The emulated NIC.
    #[error(transparent)]
    Nic(#[from] nic::NicError),
    /// Fewer than two processors.
    #[error(
        "two processors are needed, one for the source and one that is measured; there are {0}"
    )]
    Cores(usize),
    /// A connection did not come into the table.
    #[error("connection {0} of {1} could not be opened")]
    NotOpened(u64, u64),
    /// The NIC has fewer rules than it should.
    #[error("{installed} of {wanted} connections are in the emulated NIC's table")]
    NotOffloaded {
        /// Rules there are.
        installed: usize,
        /// Rules wanted.
        wanted: usize,
    },
    /// A thread panicked.
    #[error("the {0} thread failed")]
    ThreadFailed(&'static str),
    /// DPDK's hash table.
    #[error("rte_hash: {0}")]
    Hash(String),
    /// The measured core saw no packets.
    #[error("{0} received no packets")]
    NoPackets(&'static str),
    /// Packets whose connection is in the table were not sent on.
    #[error("a worker sent {0} of {1} packets on")]
    NotForwarded(usize, usize),
}
