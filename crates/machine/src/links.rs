//! The kernel's interfaces beneath ports: net_af_packet, net_af_xdp, xdp.
use config::{Config, Port};

use crate::{Finding, Tree, traffic};

pub(crate) fn examine(tree: &Tree, config: &Config, findings: &mut Vec<Finding>) {
    for port in &config.ports {
        if let Some(interface) = port.kernel_interface() {
            link(tree, port, interface, findings);
        }
        if let Some(interface) = port.xdp_interface() {
            taken(tree, port, interface, findings);
        }
    }
}

fn link(tree: &Tree, port: &Port, interface: &str, findings: &mut Vec<Finding>) {
    let (subject, at) = (format!("port {}", port.name), format!("sys/class/net/{interface}"));
    let Some(mtu) = tree.value::<u32>(&format!("{at}/mtu")) else {
        let text = format!("there is no interface {interface}");
        findings.push(Finding::wrong(subject, text, "ip link show"));
        return;
    };
    if mtu < u32::from(port.mtu) {
        findings.push(Finding::wrong(
            &*subject,
            format!(
                "the MTU of {interface} is {mtu}, that of the port {}: longer packets are lost",
                port.mtu
            ),
            format!("ip link set {interface} mtu {}", port.mtu),
        ));
    } else {
        findings.push(Finding::good(&*subject, format!("the MTU of {interface} is {mtu}")));
    }
    if tree.text(&format!("{at}/operstate")).as_deref() == Some("down") {
        let text = format!("{interface} is down");
        findings.push(Finding::wrong(subject, text, format!("ip link set {interface} up")));
    }
}

/// With a port `xdp:NAME` the kernel gets no packets of the interface any more.
fn taken(tree: &Tree, port: &Port, interface: &str, findings: &mut Vec<Finding>) {
    if let Some(traffic) = traffic::over(tree, interface) {
        findings.push(Finding::wrong(
            format!("port {}", port.name),
            format!("{interface} has {traffic}, which the machine loses: HNLB takes all packets of {interface}"),
            format!("give {interface}'s addresses and routes to another interface (ip addr, ip route), or let HNLB hand them on ([[interface]] kernel = \"NAME\")"),
        ));
    }
}
