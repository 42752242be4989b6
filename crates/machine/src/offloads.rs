//! What the kernel leaves to interfaces beneath ports: packets that it merges, and
//! checksums that it does not compute, as they reach HNLB.
use config::{Config, Port};

use crate::{Finding, Tree};

pub(crate) fn examine(tree: &Tree, config: &Config, findings: &mut Vec<Finding>) {
    for port in &config.ports {
        let Some(interface) = port.kernel_interface().or(port.xdp_interface()) else { continue };
        if !tree.is_here() || !tree.has(&format!("sys/class/net/{interface}")) {
            continue;
        }
        let features = |of: &str| tree.said(&["ethtool", "-k", of]);
        findings.push(merging(port, interface, features(interface).as_deref()));
        let peer = peer(tree, interface);
        findings.extend(peer.and_then(|peer| checksums(port, &peer, features(&peer).as_deref())));
    }
}

/// Whether the kernel merges packets before HNLB gets them: they would be longer than the
/// MTU. `features` is what `ethtool -k` says.
fn merging(port: &Port, interface: &str, features: Option<&str>) -> Finding {
    let subject = format!("port {}", port.name);
    let Some(features) = features else {
        let text =
            format!("it is not known whether {interface} merges packets: ethtool does not tell");
        return Finding::slow(subject, text, "apt-get install ethtool");
    };
    // XDP sees packets before GRO does.
    let merged = [("gro", "generic-receive-offload"), ("lro", "large-receive-offload")];
    let merged =
        merged.iter().filter(|(short, _)| *short == "lro" || port.xdp_interface().is_none());
    let on: Vec<&str> =
        merged.filter(|(_, name)| is_on(features, name)).map(|(short, _)| *short).collect();
    if on.is_empty() {
        return Finding::good(subject, format!("{interface} does not merge packets"));
    }
    let words: Vec<String> = on.iter().map(|short| format!("{short} off")).collect();
    let text = format!(
        "{interface} merges packets ({}), and those longer than the MTU are lost",
        on.join(", ")
    );
    Finding::wrong(subject, text, format!("ethtool -K {interface} {}", words.join(" ")))
}

/// The other end of a veth leaves checksums to a card, and there is none.
fn checksums(port: &Port, peer: &str, features: Option<&str>) -> Option<Finding> {
    let on = is_on(features?, "tx-checksumming");
    let subject = format!("port {}", port.name);
    on.then(|| {
        let text = format!("{peer}, the other end of its veth, sends packets without checksums");
        Finding::wrong(subject, text, format!("ethtool -K {peer} tx off"))
    })
}

fn is_on(features: &str, name: &str) -> bool {
    let mut lines = features.lines().map(str::trim);
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.is_some_and(|value| value.split_whitespace().next() == Some("on"))
}

/// The interface in this namespace that `interface` is linked with, as both ends of a veth
/// are with each other.
fn peer(tree: &Tree, interface: &str) -> Option<String> {
    let number = |of: &str, file: &str| tree.value::<u32>(&format!("sys/class/net/{of}/{file}"));
    let (own, link) = (number(interface, "ifindex")?, number(interface, "iflink")?);
    let mut names = tree.names("sys/class/net").into_iter();
    // The link of a VLAN's leads one way only; and numbers are of a namespace each.
    names.find(|name| {
        link != own && number(name, "ifindex") == Some(link) && number(name, "iflink") == Some(own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Grade;

    const FEATURES: &str = "Features for eth1:\nrx-checksumming: on\ntx-checksumming: off\n\
        \ttx-checksum-ipv4: off [fixed]\ngeneric-receive-offload: on\n\
        large-receive-offload: off [fixed]\n";

    fn port(device: &str) -> Port {
        let text = format!(
            "[[port]]\nname = \"a\"\ndevice = \"{device}\"\n[[interface]]\nport = \"a\"\n\
             addresses = [\"10.0.0.1/24\"]\n[[service]]\nname = \"s\"\nvip = \"10.0.0.100\"\n\
             port = 80\nprotocol = \"tcp\"\n[[service.backend]]\naddress = \"10.0.0.11\"\n"
        );
        Config::parse(&text, "test.toml").unwrap().ports.remove(0)
    }

    #[test]
    fn merged_packets_are_wrong_where_hnlb_would_get_them() {
        let packet = port("net_af_packet0,iface=eth1");
        let found = merging(&packet, "eth1", Some(FEATURES));
        assert_eq!(found.grade, Grade::Wrong);
        assert_eq!(found.remedy.as_deref(), Some("ethtool -K eth1 gro off"));
        assert_eq!(merging(&port("xdp:eth1"), "eth1", Some(FEATURES)).grade, Grade::Good);
        let both = FEATURES.replace("large-receive-offload: off", "large-receive-offload: on");
        let found = merging(&packet, "eth1", Some(&both));
        assert_eq!(found.remedy.as_deref(), Some("ethtool -K eth1 gro off lro off"));
        let none = FEATURES.replace("generic-receive-offload: on", "generic-receive-offload: off");
        assert_eq!(merging(&packet, "eth1", Some(&none)).grade, Grade::Good);
        assert_eq!(merging(&packet, "eth1", None).grade, Grade::Slow);
    }

    #[test]
    fn the_other_end_of_a_veth_computes_checksums() {
        let port = port("net_af_packet0,iface=eth1");
        assert_eq!(checksums(&port, "eth2", Some(FEATURES)), None);
        let on = FEATURES.replace("tx-checksumming: off", "tx-checksumming: on");
        let found = checksums(&port, "eth2", Some(&on)).unwrap();
        assert_eq!(found.remedy.as_deref(), Some("ethtool -K eth2 tx off"));
        assert_eq!(checksums(&port, "eth2", None), None);
    }

    #[test]
    fn both_ends_of_a_veth_name_each_other() {
        let dir = tempfile::tempdir().unwrap();
        for (name, own, link) in [("eth1", 5, 6), ("eth2", 6, 5), ("eth1.7", 7, 5), ("lo", 1, 1)] {
            let at = dir.path().join("sys/class/net").join(name);
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("ifindex"), format!("{own}\n")).unwrap();
            std::fs::write(at.join("iflink"), format!("{link}\n")).unwrap();
        }
        let tree = Tree::below(dir.path());
        assert_eq!(peer(&tree, "eth1").as_deref(), Some("eth2"));
        assert_eq!(peer(&tree, "eth1.7"), None, "a VLAN's link");
        assert_eq!(peer(&tree, "lo"), None);
    }
}
