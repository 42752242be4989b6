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
//!
//! [`ServiceTimes`] are what libndpi took on some machine (`hnlb-ndpi record`): the
//! distribution by application and by the packet's place in its flow. The simulation
//! scales them so that the average packet takes the 2.2 µs above, whatever the machine.
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use traffic::{Application, Rng};

/// Nanoseconds of a poll that finds packets.
pub const POLL_NS: u64 = 200;
/// Nanoseconds a packet that the software balancer adds.
pub(crate) const SLB_NS: u64 = 800;

/// Nanoseconds of an average packet with inspection.
const INSPECTION_NS: f64 = 2200.0;

/// What a real network function took for packets, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceTimes {
    /// Where it was recorded.
    pub machine: String,
    /// By application, in the order of [`Application::ALL`].
    pub applications: Vec<ApplicationTimes>,
}

/// The times of one application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationTimes {
    /// Its name.
    pub application: String,
    /// Quantiles at equal distances, ascending, for the first packet of a flow, the
    /// second, and so on; the last entry is for all that follow.
    pub packets: Vec<Vec<u32>>,
}

impl ServiceTimes {
    /// Whether every application is there and has times.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let names = self.applications.iter().map(|times| times.application.as_str());
        let whole = |times: &ApplicationTimes| {
            !times.packets.is_empty() && times.packets.iter().all(|place| !place.is_empty())
        };
        names.eq(Application::ALL.iter().map(|application| application.name()))
            && self.applications.iter().all(whole)
    }

    /// The time of a packet by chance: the place of the packet in its flow counts from 0.
    #[must_use]
    pub fn draw_ns(&self, application: Application, place: u32, rng: &mut Rng) -> u32 {
        let at = Application::ALL.iter().position(|one| *one == application);
        let times = at.and_then(|at| self.applications.get(at));
        let quantiles = times
            .and_then(|times| times.packets.get(place as usize).or_else(|| times.packets.last()));
        let Some(quantiles) = quantiles else { return 0 };
        quantiles.get(rng.below(quantiles.len() as u64) as usize).copied().unwrap_or(0)
    }
}

/// What the processors run.
#[derive(Clone, Debug)]
pub(crate) enum Function {
    /// Deep packet inspection.
    Inspection,
    /// Deep packet inspection as it was recorded.
    Recorded(Arc<ServiceTimes>),
    /// A plain forwarder.
    Forwarder,
}

impl Function {
    /// Nanoseconds for a packet, by chance; its place is that in its flow, as far as the
    /// flow's first packet was seen.
    pub(crate) fn draw_ns(
        &self,
        of: Option<(Application, u32)>,
        opens: bool,
        rng: &mut Rng,
    ) -> u32 {
        let (mean, open) = match self {
            Self::Recorded(times) => {
                // A probe is no flow, and costs what a known flow's packet costs.
                let (application, place) = of.unwrap_or((Application::WebSmall, u32::MAX));
                return times.draw_ns(application, place, rng);
            }
            Self::Inspection => (INSPECTION_NS, 4.0),
            Self::Forwarder => (300.0, 1.0),
        };
        // The sum of four exponential values, by one logarithm.
        let product: f64 = (0..4).map(|_| 1.0 - rng.unit()).product();
        let gamma = -product.ln() / 4.0;
        (mean * gamma * if opens { open } else { 1.0 }) as u32
    }

    /// What recorded times are multiplied by, so that their average is the model's.
    pub(crate) fn scale(&self, sum_ns: u64, packets: usize) -> Option<f64> {
        let recorded = matches!(self, Self::Recorded(_)) && sum_ns > 0;
        recorded.then(|| INSPECTION_NS * packets as f64 / sum_ns as f64)
    }

    /// Its name in rows.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Inspection => "model",
            Self::Recorded(_) => "recorded",
            Self::Forwarder => "forwarder",
        }
    }
}
