//! The settings of the measurement, and what can go wrong.

/// What is measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Measure fewer and shorter points.
    pub quick: bool,
    /// DPDK's memory has no huge pages, even if there are enough.
    pub ordinary_pages: bool,
}

impl Options {
    /// How often each point is measured; the engines take turns.
    pub(super) const fn repetitions(self) -> usize {
        if self.quick { 1 } else { 5 }
    }

    /// Milliseconds of one point.
    pub(super) const fn point_ms(self) -> u64 {
        if self.quick { 20 } else { 200 }
    }

    /// Milliseconds of one point of the split.
    pub(super) const fn split_ms(self) -> u64 {
        if self.quick { 150 } else { 2000 }
    }

    /// Handshakes of one point.
    pub(super) const fn handshakes(self) -> usize {
        if self.quick { 20 } else { 400 }
    }

    /// Text of the records.
    pub(super) const fn sizes(self) -> &'static [usize] {
        if self.quick { &[1024, 8192] } else { &[64, 256, 1024, 1500, 8192, 16384] }
    }

    /// Handshakes that arrive, as shares of those that a core can do.
    pub(super) const fn shares(self) -> &'static [f64] {
        if self.quick { &[0.0, 0.5] } else { &[0.0, 0.1, 0.25, 0.5, 0.75, 1.0] }
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum CryptoBenchError {
    /// DPDK did not start.
    #[error(transparent)]
    Eal(#[from] dpdk::EalError),
    /// No mbufs.
    #[error(transparent)]
    Mempool(#[from] dpdk::MempoolError),
    /// A crypto device failed in the middle of a measurement.
    #[error(transparent)]
    Device(#[from] dpdk::crypto::CryptoError),
    /// The certificate that the handshakes use could not be made.
    #[error("a certificate could not be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// rustls ended a handshake or a record.
    #[error("rustls: {0}")]
    Tls(#[from] rustls::Error),
    /// Bytes between both ends in memory.
    #[error("the connection in memory failed: {0}")]
    Memory(#[from] std::io::Error),
    /// A thread could not be pinned.
    #[error(transparent)]
    Thread(#[from] dpdk::ThreadError),
    /// aws-lc-rs refused a key or a record.
    #[error("aws-lc-rs refused a key or a record")]
    Inline,
    /// The pool's mbufs are too few or too small for the records of a burst.
    #[error("no mbuf has room for a record of {0} bytes")]
    Room(usize),
    /// The two measuring threads need a core each.
    #[error("two processors are needed, one for records and one for handshakes; there is {0}")]
    Cores(usize),
    /// No memory for the times.
    #[error("no histogram of times: {0}")]
    Histogram(#[from] hdrhistogram::CreationError),
    /// A measuring thread ended early.
    #[error("a measuring thread panicked")]
    Worker,
}
