//! Which encoding each port uses: probed at the start.
use config::Config;
use dpdk::flow::RuleHandle;
use offload::{Encoding, PortConfig, Wanted, probe};

use crate::default_queue::catch_all;
use crate::device::Device;

/// What was found out about a port.
pub(crate) struct Chosen {
    /// For the offloader.
    pub(crate) config: PortConfig,
    /// Why this encoding, line by line.
    pub(crate) reasons: Vec<String>,
    /// The probe's rules that the card would not destroy, and the rule behind
    /// all others: the offloader destroys them in the end.
    pub(crate) owned: Vec<RuleHandle>,
}

/// Probes all devices.
pub(crate) fn choose_all(config: &Config, devices: &mut [Device]) -> Vec<Chosen> {
    let wanted = wanted(config);
    let workers = config.workers.count;
    devices.iter_mut().map(|device| choose(device, wanted, workers)).collect()
}

/// Whether any port takes rules.
pub(crate) fn offloading(chosen: &[Chosen]) -> bool {
    chosen.iter().any(|chosen| chosen.config.encoding != Encoding::Off)
}

/// What the configuration asks for.
fn wanted(config: &Config) -> Wanted {
    match config.offload.encoding {
        config::Encoding::Auto => Wanted::Auto,
        config::Encoding::Mark => Wanted::Fixed(Encoding::Mark),
        config::Encoding::Queue => Wanted::Fixed(Encoding::Queue),
        config::Encoding::Off => Wanted::Fixed(Encoding::Off),
    }
}

/// Probes `device` and logs what was found.
fn choose(device: &mut Device, wanted: Wanted, workers: u16) -> Chosen {
    let mut chosen = Chosen {
        config: PortConfig { encoding: Encoding::Off, queues: Vec::new(), workers },
        reasons: Vec::new(),
        owned: Vec::new(),
    };
    match device.flows.as_deref_mut() {
        None => chosen.reasons.push("the device takes no rules".to_owned()),
        Some(flows) => {
            let probed = probe(flows, device.queues, wanted, None);
            chosen.config.encoding = probed.encoding;
            chosen.reasons = probed.reasons;
            chosen.owned = probed.left;
        }
    }
    if chosen.config.encoding == Encoding::Queue {
        make_queues_mean_something(device, &mut chosen);
    }
    chosen.config.queues = match chosen.config.encoding {
        Encoding::Queue => (workers..device.queues).collect(),
        Encoding::Mark | Encoding::Off => (0..workers).collect(),
    };
    for reason in &chosen.reasons {
        tracing::info!(port = device.name, encoding = %chosen.config.encoding, "{reason}");
    }
    if matches!(wanted, Wanted::Fixed(fixed) if fixed != chosen.config.encoding) {
        tracing::warn!(
            port = device.name,
            "the encoding is {} and not {wanted} as configured: connections stay in software",
            chosen.config.encoding
        );
    }
    chosen
}

/// A queue number names a backend only if queues are left beside those of the
/// workers, and if nothing else comes to them.
fn make_queues_mean_something(device: &mut Device, chosen: &mut Chosen) {
    let workers = chosen.config.workers;
    if device.queues <= workers {
        chosen.config.encoding = Encoding::Off;
        chosen.reasons.push(format!(
            "encoding off: {} receive queues for {workers} workers leave none to name a backend",
            device.queues
        ));
    } else if !device.misses_known {
        keep_misses_out(device, chosen);
    }
}

fn keep_misses_out(device: &mut Device, chosen: &mut Chosen) {
    let Some(flows) = device.flows.as_deref_mut() else { return };
    match catch_all(flows) {
        Ok(handle) => {
            chosen.owned.push(handle);
            chosen.reasons.push("a rule behind all others sends misses to queue 0".to_owned());
        }
        Err(error) => {
            chosen.config.encoding = Encoding::Off;
            chosen.reasons.push(format!(
                "encoding off: the device spreads misses over all queues and takes no rule against it: {error}"
            ));
        }
    }
}
