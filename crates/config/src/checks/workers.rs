//! `[workers]`, and which thread has which core.
use std::collections::HashMap;

use crate::tree::Way;

use super::Findings;

pub(super) fn check(findings: &mut Findings<'_>) {
    let config = findings.config;
    let workers = &config.workers;
    let (way, count) = (Way::to("workers"), usize::from(workers.count));
    if !workers.cores.is_empty() && workers.cores.len() < count {
        let text = format!(
            "{} cores are too few for {count} workers; list at least {count}, or none",
            workers.cores.len()
        );
        findings.wrong(&way.key("cores"), text);
    }
    if workers.burst % 8 != 0 {
        let text = format!(
            "{} is no multiple of 8; drivers that receive by vector instructions round it down, so use {} or {}",
            workers.burst,
            workers.burst / 8 * 8,
            (workers.burst / 8 + 1) * 8
        );
        findings.wrong(&way.key("burst"), text);
    }
    let own_device = config.ports.iter().any(|port| port.nic.is_none());
    if own_device && usize::from(workers.queues) < count {
        let text = format!(
            "{} is too few for {count} workers; give each at least one queue of its own",
            workers.queues
        );
        findings.wrong(&way.key("queues"), text);
    }
    let pinned = workers.cores.iter().enumerate();
    let mut uses: Vec<(u16, Way)> =
        pinned.map(|(place, core)| (*core, way.key("cores").item(place))).collect();
    uses.extend(workers.main_core.map(|core| (core, way.key("main_core"))));
    for (place, port) in config.ports.iter().enumerate() {
        let way = Way::to("port").item(place).key("nic").key("core");
        uses.extend(port.nic.iter().filter_map(|nic| nic.core).map(|core| (core, way.clone())));
    }
    let mut taken = HashMap::new();
    for (core, way) in uses {
        if let Some(first) = taken.get(&core) {
            let line = findings.line(first);
            findings.wrong(
                &way,
                format!(
                    "core {core} is already taken (line {line}); give each thread a core of its own"
                ),
            );
        } else {
            taken.insert(core, way);
        }
    }
}
