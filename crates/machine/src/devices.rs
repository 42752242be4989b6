//! The cards that the configuration names.
use config::{Config, Port};

use crate::{Finding, Nic, Tree, iommu, nics, traffic};

pub(crate) fn examine(tree: &Tree, config: &Config, findings: &mut Vec<Finding>) {
    let all = nics(tree);
    let ports = config.ports.iter().filter_map(|port| Some((port, pci_address(&port.device)?)));
    let mut by_vfio = false;
    for (port, address) in ports {
        match all.iter().find(|nic| nic.address.eq_ignore_ascii_case(&address)) {
            Some(nic) => {
                // The others work without it.
                let other = ["mlx5_core", "uio_pci_generic", "igb_uio"];
                by_vfio |= nic.driver.as_deref().is_none_or(|own| !other.contains(&own));
                findings.push(bound(tree, subject(port), nic));
                numa(tree, config, port, nic, findings);
            }
            None => findings.push(Finding::wrong(
                subject(port),
                format!("there is no network card {address}"),
                "hnlb nic list",
            )),
        }
    }
    if by_vfio {
        iommu::examine(tree, findings);
    }
}

/// A card that no port names yet.
pub(crate) fn survey(tree: &Tree, nic: &Nic, findings: &mut Vec<Finding>) {
    let name = nic.card.unwrap_or("card");
    findings.push(bound(tree, format!("{name} {}", nic.id), nic).not_yet_wrong());
}

/// Which driver has the card, whether DPDK can have it, and what the kernel would lose.
fn bound(tree: &Tree, subject: String, nic: &Nic) -> Finding {
    let driver = nic.driver.as_deref().unwrap_or("no driver");
    if nic.is_ready() {
        return Finding::good(subject, format!("{} is bound to {driver}", nic.address));
    }
    let mut text = format!("{} is bound to {driver}, not to vfio-pci", nic.address);
    if !nic.interfaces.is_empty() {
        text += &format!("; the kernel uses it as {}", nic.interfaces.join(", "));
    }
    let bind = format!("modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci {}", nic.address);
    let in_use = |name: &String| Some((name.clone(), traffic::over(tree, name)?));
    match nic.interfaces.iter().find_map(in_use) {
        None => Finding::wrong(subject, text, bind),
        // The command alone would cut the machine off.
        Some((name, traffic)) => Finding::wrong(
            subject,
            format!("{text}, and {name} has {traffic}, which the machine loses with the card"),
            format!(
                "give {name}'s addresses and routes to another interface (ip addr, ip route); then {bind}"
            ),
        ),
    }
}

/// Workers on another node than the card's reach its memory across the machine.
fn numa(tree: &Tree, config: &Config, port: &Port, nic: &Nic, findings: &mut Vec<Finding>) {
    let Some(node) = nic.numa_node else { return };
    let here = |core: &u16| tree.has(&format!("sys/devices/system/cpu/cpu{core}/node{node}"));
    let far: Vec<String> =
        config.workers.cores.iter().filter(|core| !here(core)).map(u16::to_string).collect();
    if far.is_empty() {
        return;
    }
    let local = tree.text(&format!("sys/devices/system/node/node{node}/cpulist"));
    findings.push(Finding::slow(
        subject(port),
        format!(
            "the card is on NUMA node {node}, and the workers' cores {} are not",
            far.join(", ")
        ),
        format!("set workers.cores to some of {}", local.unwrap_or_default()),
    ));
}

fn subject(port: &Port) -> String {
    format!("port {}", port.name)
}

/// The PCI address in `device`, with its domain; `None` for a virtual device.
fn pci_address(device: &str) -> Option<String> {
    let address = device.split(',').next()?;
    let digits = address.split([':', '.']).all(|part| u32::from_str_radix(part, 16).is_ok());
    match address.matches(':').count() {
        1 if digits => Some(format!("0000:{address}")),
        2 if digits => Some(address.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_have_a_domain() {
        for (device, address) in [
            ("0000:3b:00.0", Some("0000:3b:00.0")),
            ("3b:00.1,dv_flow_en=2", Some("0000:3b:00.1")),
            ("net_af_packet0,iface=a:b", None),
            ("net_tap0", None),
        ] {
            assert_eq!(pci_address(device).as_deref(), address, "{device}");
        }
    }
}
