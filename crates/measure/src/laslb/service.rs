//! How long a network function takes for a packet.
//!
//! | number | source |
//! |---|---|
//! | 2.2 µs on average with inspection | figures of 6.3 and 6.4: LOW2 at 13.6 Gbit/s of 707 bytes loads 8 CPUs to about 75 %, 16 to 18 Gbit/s in all |
//! | gamma distribution of shape 4 | an assumption: what is left of the cost's spread once caches are warm |
//! | the first packet of a flow takes 4 times as long | an assumption: deep inspection works on the first packets of a flow |
//! | 0.8 µs more a packet for the software balancer | figure 6.3.1: SLB uses 1.2 to 1.4 times the CPU |
//! | 0.3 µs for a plain forwarder | 6.7: eight processors forward 38 Gbit/s of 700 bytes |
//! | 0.2 µs a poll that finds packets | an assumption |
use traffic::Rng;

/// Nanoseconds of a poll that finds packets.
pub(crate) const POLL_NS: u64 = 200;
/// Nanoseconds a packet that the software balancer adds.
pub(crate) const SLB_NS: u64 = 800;

/// What the processors run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// Deep packet inspection.
    Inspection,
    /// A plain forwarder.
    Forwarder,
}

impl Function {
    /// Nanoseconds for a packet, by chance.
    pub(crate) fn draw_ns(self, opens: bool, rng: &mut Rng) -> u32 {
        let (mean, open) = match self {
            Self::Inspection => (2200.0, 4.0),
            Self::Forwarder => (300.0, 1.0),
        };
        // The sum of four exponential values, by one logarithm.
        let product: f64 = (0..4).map(|_| 1.0 - rng.unit()).product();
        let gamma = -product.ln() / 4.0;
        (mean * gamma * if opens { open } else { 1.0 }) as u32
    }
}
