//! The workers' cores: theirs alone, at full speed.
use config::{Config, Idle};

use crate::tree::list;
use crate::{Finding, Tree};

const CPU: &str = "sys/devices/system/cpu";

pub(crate) fn examine(tree: &Tree, config: &Config, findings: &mut Vec<Finding>) {
    count(tree, config, findings);
    let cores = &config.workers.cores;
    if cores.is_empty() {
        return;
    }
    isolated(tree, cores, findings);
    governors(tree, cores, findings);
    siblings(tree, cores, findings);
}

/// The cores of a machine whose workers are not known yet.
pub(crate) fn survey(tree: &Tree, findings: &mut Vec<Finding>) {
    let online = list(&tree.text(&format!("{CPU}/online")).unwrap_or_default());
    let isolated = list(&tree.text(&format!("{CPU}/isolated")).unwrap_or_default());
    let text = format!("{}, of which {} are isolated", online.len(), isolated.len());
    findings.push(Finding::good("cores", text));
}

/// A worker that spins needs a core of its own, and so does an emulated NIC.
fn count(tree: &Tree, config: &Config, findings: &mut Vec<Finding>) {
    let online = list(&tree.text(&format!("{CPU}/online")).unwrap_or_default());
    let emulated = config.ports.iter().filter(|port| port.nic.is_some()).count();
    let threads = usize::from(config.workers.count) + emulated;
    let missing: Vec<String> = config
        .workers
        .cores
        .iter()
        .filter(|core| !online.is_empty() && !online.contains(core))
        .map(u16::to_string)
        .collect();
    findings.push(if !missing.is_empty() {
        Finding::wrong(
            "cores",
            format!("workers.cores names {}, which this machine does not have", missing.join(", ")),
            format!("set workers.cores to some of {online:?}"),
        )
    } else if online.len() > threads || config.workers.idle == Idle::Yield {
        Finding::good("cores", format!("{} for {threads} polling threads", online.len()))
    } else {
        Finding::slow(
            "cores",
            format!("{} for {threads} polling threads and all other work", online.len()),
            "set workers.count lower, or workers.idle = \"yield\"",
        )
    });
}

fn isolated(tree: &Tree, cores: &[u16], findings: &mut Vec<Finding>) {
    let isolated = list(&tree.text(&format!("{CPU}/isolated")).unwrap_or_default());
    let shared = names(cores.iter().filter(|core| !isolated.contains(core)));
    findings.push(if shared.is_empty() {
        Finding::good("isolation", "the kernel keeps other programs off the workers' cores")
    } else {
        let all = names(cores.iter());
        Finding::slow(
            "isolation",
            format!("other programs may run on the workers' cores {shared}"),
            format!(
                "add isolcpus={all} nohz_full={all} rcu_nocbs={all} to the kernel's command line"
            ),
        )
    });
}

fn governors(tree: &Tree, cores: &[u16], findings: &mut Vec<Finding>) {
    let file = |core: &u16| format!("{CPU}/cpu{core}/cpufreq/scaling_governor");
    let known: Vec<(u16, String)> =
        cores.iter().filter_map(|core| Some((*core, tree.text(&file(core))?))).collect();
    let slow = names(known.iter().filter(|(_, own)| own != "performance").map(|(core, _)| core));
    if known.is_empty() {
        let text = "the kernel does not scale it here";
        findings.push(Finding::good("frequency", text));
    } else if slow.is_empty() {
        findings.push(Finding::good("frequency", "the governor is performance"));
    } else {
        findings.push(Finding::slow(
            "frequency",
            format!("the governor of the workers' cores {slow} is not performance"),
            format!(
                "for core in {}; do echo performance > /{CPU}/cpu$core/cpufreq/scaling_governor; done",
                slow.replace(',', " ")
            ),
        ));
    }
}

/// Two workers on one physical core share its execution units.
fn siblings(tree: &Tree, cores: &[u16], findings: &mut Vec<Finding>) {
    let of = |core: &u16| {
        list(
            &tree
                .text(&format!("{CPU}/cpu{core}/topology/thread_siblings_list"))
                .unwrap_or_default(),
        )
    };
    let pair = cores.iter().find_map(|core| {
        let other = of(core).into_iter().find(|own| own > core && cores.contains(own))?;
        Some((*core, other))
    });
    findings.push(match pair {
        None => Finding::good("SMT", "each worker has a physical core of its own"),
        Some((one, other)) => Finding::slow(
            "SMT",
            format!("the workers' cores {one} and {other} are one physical core"),
            "set workers.cores to one thread of each physical core (lscpu -e)",
        ),
    });
}

fn names<'a>(cores: impl Iterator<Item = &'a u16>) -> String {
    cores.map(u16::to_string).collect::<Vec<_>>().join(",")
}
