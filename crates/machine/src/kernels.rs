//! What the kernel must have to get interfaces of its own in the place of HNLB's.
use config::Config;

use crate::{Finding, Tree};

pub(crate) fn examine(tree: &Tree, config: &Config, findings: &mut Vec<Finding>) {
    for interface in &config.interfaces {
        let Some(name) = &interface.kernel else { continue };
        let subject = format!("kernel {name}");
        if !tree.has("dev/net/tun") {
            let text = format!("there is no /dev/net/tun, so HNLB can't make {name}");
            findings.push(Finding::wrong(&*subject, text, "modprobe tun"));
        } else {
            findings.push(Finding::good(&*subject, "/dev/net/tun is there"));
        }
        // HNLB's own is a TAP, which has these flags.
        let at = format!("sys/class/net/{name}");
        if tree.has(&at) && !tree.has(&format!("{at}/tun_flags")) {
            let text = format!("there is an interface {name} already, which is no TAP");
            findings.push(Finding::wrong(
                subject,
                text,
                format!("ip link set {name} down; ip link set {name} name {}", other(name)),
            ));
        }
    }
}

/// A name for an interface that stands in the way.
fn other(name: &str) -> String {
    let short: String = name.chars().take(11).collect();
    format!("{short}-old")
}
